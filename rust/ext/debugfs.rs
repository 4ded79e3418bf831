// SPDX-License-Identifier: GPL-2.0
//! Files in debugfs whose text is made when they are opened.
//!
//! The kernel crate's files differ in three ways that matter here: their operations have no owner,
//! so a file that is open when the module is removed is closed through freed memory; a text that
//! does not fit is made again with a larger buffer; and an error cannot be told to the reader.
//!
//! # Locking and lifetime
//!
//! Dropping a [`File`] waits until no [`Contents`] function of it runs, and nobody gets in later.
//! A file that is still open then keeps the text it has; the module stays until it is closed.
//!
//! C header: [`include/linux/debugfs.h`](srctree/include/linux/debugfs.h)

use core::{fmt, ptr};

use kernel::{
    prelude::*,
    str::CStrExt,
    sync::Arc,
    uaccess::{UserPtr, UserSlice},
    ModuleMetadata,
};
use rmlx5_bindings as bindings;

/// The longest text a file may have, in bytes.
const TEXT_MAX: usize = 4 << 20;

/// The longest write that is accepted, in bytes.
const WRITE_MAX: usize = 64 << 10;

/// What a file shows and accepts.
pub trait Contents: Send + Sync + 'static {
    /// The module that implements this; it cannot go away while a file is open.
    type Module: ModuleMetadata;

    /// Permission bits of the file, for example `0o600`.
    const MODE: u16;

    /// Makes the text. Runs once each time the file is opened for reading, several at a time; may
    /// sleep. An error fails the open.
    fn read(&self, text: &mut Text) -> Result {
        let _ = text;
        Ok(())
    }

    /// Accepts the text of one `write`, as it is, without regard to the file position; several at a
    /// time. Texts longer than 64 KiB are refused with `EFBIG` before, what is not UTF-8 with
    /// `EINVAL`. An error fails the write.
    fn write(&self, text: &str) -> Result {
        let _ = text;
        Err(EINVAL)
    }
}

/// Text that grows up to 4 MiB; more is an error.
pub struct Text(KVVec<u8>);

impl fmt::Write for Text {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.0.len().saturating_add(text.len()) > TEXT_MAX {
            return Err(fmt::Error);
        }
        self.0
            .extend_from_slice(text.as_bytes(), GFP_KERNEL)
            .map_err(|_| fmt::Error)
    }
}

/// A directory. It goes away when the last of its files, subdirectories and references is dropped.
///
/// A directory that could not be made (debugfs is off, the name exists) is no error: its files are
/// not there either.
///
/// # Invariants
///
/// `entry` is what `debugfs_create_dir` returned, and is removed in drop only.
pub struct Dir {
    entry: *mut bindings::dentry,
    _parent: Option<Arc<Dir>>,
}

// SAFETY: Entries may be used by any thread.
unsafe impl Send for Dir {}
// SAFETY: debugfs has its own locks.
unsafe impl Sync for Dir {}

impl Dir {
    /// Makes a directory in the root of debugfs. Sleeps. Fails with `ENOMEM` only.
    pub fn new(name: &CStr) -> Result<Arc<Self>> {
        Self::create(name, None)
    }

    /// Makes a directory in `parent`. Sleeps. Fails with `ENOMEM` only.
    pub fn new_in(parent: &Arc<Self>, name: &CStr) -> Result<Arc<Self>> {
        Self::create(name, Some(parent.clone()))
    }

    fn create(name: &CStr, parent: Option<Arc<Self>>) -> Result<Arc<Self>> {
        let above = parent.as_ref().map_or(ptr::null_mut(), |dir| dir.entry);
        // SAFETY: `name` is a string, and `above` is null, an error or a directory that lives as
        // long as `parent`.
        let entry = unsafe { bindings::debugfs_create_dir(name.as_char_ptr(), above) };
        // INVARIANT: Made above.
        let dir = Self {
            entry,
            _parent: parent,
        };
        Ok(Arc::new(dir, GFP_KERNEL)?)
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        // SAFETY: The function accepts errors too. Files and directories in here hold a reference,
        // so the directory is empty.
        unsafe { bindings::debugfs_remove(self.entry) }
    }
}

/// A file, there until drop.
///
/// # Invariants
///
/// `entry` is what `debugfs_create_file` returned for `contents`.
pub struct File<T: Contents> {
    entry: *mut bindings::dentry,
    contents: Arc<T>,
    _dir: Arc<Dir>,
}

// SAFETY: Entries may be used by any thread, and the contents are `Send` and `Sync`.
unsafe impl<T: Contents> Send for File<T> {}
// SAFETY: debugfs has its own locks, and the contents are `Sync`.
unsafe impl<T: Contents> Sync for File<T> {}

impl<T: Contents> File<T> {
    const OPERATIONS: &'static bindings::file_operations = &bindings::file_operations {
        owner: T::Module::THIS_MODULE.as_ptr(),
        open: Some(Self::open),
        read: Some(Self::read),
        write: Some(Self::write),
        llseek: Some(bindings::default_llseek),
        release: Some(Self::release),
        ..pin_init::zeroed()
    };

    /// Makes a file. Sleeps. As for [`Dir`], a file that cannot be made is no error.
    pub fn new(dir: &Arc<Dir>, name: &CStr, contents: Arc<T>) -> Self {
        // SAFETY: `name` is a string, the directory lives as long as the file, the contents too:
        // they are dropped after the entry is removed, which waits for their users.
        let entry = unsafe {
            bindings::debugfs_create_file_full(
                name.as_char_ptr(),
                T::MODE,
                dir.entry,
                Arc::as_ptr(&contents).cast_mut().cast(),
                ptr::null(),
                Self::OPERATIONS,
            )
        };
        // INVARIANT: Made above.
        Self {
            entry,
            contents,
            _dir: dir.clone(),
        }
    }

    /// What the file shows.
    pub fn contents(&self) -> &Arc<T> {
        &self.contents
    }

    extern "C" fn open(inode: *mut bindings::inode, file: *mut bindings::file) -> c_int {
        // SAFETY: debugfs keeps the file from being removed while this runs, and then `i_private`
        // is what `new` gave.
        let contents = unsafe { &*(*inode).i_private.cast::<T>() };
        // SAFETY: `file` is being opened, its flags are set.
        let wants_text = unsafe { (*file).f_flags } & bindings::O_ACCMODE != bindings::O_WRONLY;

        kernel::error::from_result(|| {
            let mut text = Text(KVVec::new());
            if wants_text {
                contents.read(&mut text)?;
            }
            let text = KBox::new(text, GFP_KERNEL)?;
            // SAFETY: As above; `release` takes it back.
            unsafe { (*file).private_data = KBox::into_raw(text).cast() };
            Ok(0)
        })
    }

    extern "C" fn read(
        file: *mut bindings::file,
        buffer: *mut c_char,
        count: usize,
        position: *mut bindings::loff_t,
    ) -> isize {
        // SAFETY: Set in `open`, and nobody changes it.
        let text = unsafe { &*(*file).private_data.cast::<Text>() };
        // SAFETY: The text has this many bytes; the function checks the user's buffer.
        unsafe {
            bindings::simple_read_from_buffer(
                buffer.cast(),
                count,
                position,
                text.0.as_ptr().cast(),
                text.0.len(),
            )
        }
    }

    extern "C" fn write(
        file: *mut bindings::file,
        buffer: *const c_char,
        count: usize,
        _position: *mut bindings::loff_t,
    ) -> isize {
        // SAFETY: debugfs keeps the file from being removed while this runs, and then `i_private`
        // is what `new` gave.
        let contents = unsafe { &*(*(*file).f_inode).i_private.cast::<T>() };

        let written = (|| {
            if count > WRITE_MAX {
                return Err(EFBIG);
            }
            let mut bytes = KVVec::new();
            UserSlice::new(UserPtr::from_ptr(buffer.cast_mut().cast()), count)
                .read_all(&mut bytes, GFP_KERNEL)?;
            contents.write(core::str::from_utf8(&bytes).map_err(|_| EINVAL)?)
        })();
        // CAST: At most `WRITE_MAX`, or an errno.
        written.map_or_else(|error| error.to_errno() as isize, |()| count as isize)
    }

    extern "C" fn release(_inode: *mut bindings::inode, file: *mut bindings::file) -> c_int {
        // SAFETY: Set in `open`; this is the last use of the file.
        drop(unsafe { KBox::from_raw((*file).private_data.cast::<Text>()) });
        0
    }
}

impl<T: Contents> Drop for File<T> {
    fn drop(&mut self) {
        // SAFETY: By the type invariant; the function accepts errors too.
        unsafe { bindings::debugfs_remove(self.entry) }
    }
}
