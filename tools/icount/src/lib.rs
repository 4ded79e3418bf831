// SPDX-License-Identifier: Apache-2.0 OR MIT
//! QEMU TCG plugin that counts executed guest instructions by page of module text.
//!
//! "What does a bind cost in the driver's own text" is an exact number under TCG: it depends
//! neither on the clock nor on the load of the host. The plugin adds one inline counter to each
//! translated instruction: user space, kernel core, and one counter for each 4 KiB page of the
//! module area. A client of the socket asks for the counts:
//!
//! ```text
//! qemu-system-x86_64 ... -plugin libicount.so,socket=/run/icount.sock
//! ```
//!
//! Each line the client sends is answered by one line of JSON:
//! `{"user": n, "kernel": n, "pages": {"ffffffffc0312000": n, ...}}`, totals since the start. The
//! guest's own wait for the answer runs in no driver's text, so a mark does not disturb the count.
//!
//! This is the one host crate with unsafe code: a plugin is a C interface.

#![expect(unsafe_code, reason = "QEMU's plugin interface is C")]

mod qemu;

use std::ffi::{c_char, c_int, c_void};
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::OnceLock;

/// Start of the module area of an x86-64 kernel with KASLR built in (`MODULES_VADDR`).
const MODULES: u64 = 0xffff_ffff_c000_0000;
/// Pages from there to `MODULES_END`.
const PAGES: usize = (0xff00_0000 - 0xc000_0000) >> 12;
/// Counter slots in front of the pages: user space and the rest of the kernel.
const USER: usize = 0;
const KERNEL: usize = 1;
const FIRST_PAGE: usize = 2;

/// The scoreboard, made once at install.
struct Board(*mut c_void);

// SAFETY: QEMU's scoreboard functions are thread safe; the pointer is only handed back to them.
unsafe impl Send for Board {}
// SAFETY: as above.
unsafe impl Sync for Board {}

static BOARD: OnceLock<Board> = OnceLock::new();

fn entry(slot: usize) -> Option<qemu::Entry> {
    BOARD.get().map(|board| qemu::Entry {
        score: board.0,
        offset: slot * 8,
    })
}

/// Counter slot of an instruction at `vaddr`.
fn slot(vaddr: u64) -> usize {
    if vaddr >> 63 == 0 {
        return USER;
    }
    match vaddr.checked_sub(MODULES).map(|offset| offset >> 12) {
        Some(page) if page < PAGES as u64 => FIRST_PAGE + page as usize,
        _ => KERNEL,
    }
}

extern "C" fn translated(tb: *mut c_void, _data: *mut c_void) {
    // SAFETY: QEMU passes a translation block that is valid during this call.
    for index in 0..unsafe { qemu::qemu_plugin_tb_n_insns(tb) } {
        // SAFETY: `index` is below the number of instructions of the block.
        let insn = unsafe { qemu::qemu_plugin_tb_get_insn(tb, index) };
        // SAFETY: `insn` belongs to the block.
        let vaddr = unsafe { qemu::qemu_plugin_insn_vaddr(insn) };
        if let Some(entry) = entry(slot(vaddr)) {
            // SAFETY: the entry lies inside the scoreboard, which lives as long as QEMU.
            unsafe {
                qemu::qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(
                    insn,
                    qemu::INLINE_ADD_U64,
                    entry,
                    1,
                );
            }
        }
    }
}

fn count(slot: usize) -> u64 {
    // SAFETY: the entry lies inside the scoreboard.
    entry(slot).map_or(0, |entry| unsafe { qemu::qemu_plugin_u64_sum(entry) })
}

fn report() -> String {
    let mut line = format!(
        "{{\"user\": {}, \"kernel\": {}, \"pages\": {{",
        count(USER),
        count(KERNEL)
    );
    let mut separator = "";
    for page in 0..PAGES {
        let executed = count(FIRST_PAGE + page);
        if executed > 0 {
            let address = MODULES + ((page as u64) << 12);
            let _ = write!(line, "{separator}\"{address:x}\": {executed}");
            separator = ", ";
        }
    }
    line.push_str("}}\n");
    line
}

fn serve(stream: UnixStream) -> std::io::Result<()> {
    let mut answers = stream.try_clone()?;
    for line in BufReader::new(stream).lines() {
        line?;
        answers.write_all(report().as_bytes())?;
    }
    Ok(())
}

/// Entry point of the plugin. Option: `socket=PATH`.
///
/// # Safety
///
/// Called by QEMU with its own argument vector.
#[no_mangle]
pub unsafe extern "C" fn qemu_plugin_install(
    id: u64,
    _info: *const c_void,
    argc: c_int,
    argv: *const *const c_char,
) -> c_int {
    // SAFETY: QEMU passes `argc` strings.
    let options = unsafe { qemu::options(argc, argv) };
    let Some(path) = options
        .iter()
        .find_map(|option| option.strip_prefix("socket="))
    else {
        eprintln!("icount: needs socket=PATH");
        return -1;
    };
    let _ = std::fs::remove_file(path);
    let listener = match UnixListener::bind(path) {
        Ok(listener) => listener,
        Err(error) => {
            eprintln!("icount: {path}: {error}");
            return -1;
        }
    };
    // SAFETY: the install function is where scoreboards are made.
    let board = unsafe { qemu::qemu_plugin_scoreboard_new((FIRST_PAGE + PAGES) * 8) };
    if BOARD.set(Board(board)).is_err() {
        return -1;
    }
    // SAFETY: `translated` has the signature QEMU expects and lives as long as the plugin.
    unsafe {
        qemu::qemu_plugin_register_vcpu_tb_trans_cb(id, translated, std::ptr::null_mut());
    }
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // A client that went away is not an error of the plugin.
            let _ = serve(stream);
        }
    });
    0
}
