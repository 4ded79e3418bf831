// SPDX-License-Identifier: GPL-2.0
//! Memory windows of users. Binding and invalidating are requests between the library and the device.

use kernel::prelude::*;
use kernel_ext::rdma::{
    NewWindow,
    Udata,
    WindowKind, //
};

use super::{
    abi,
    mr::next_byte,
    Data,
    Verbs, //
};
use crate::{
    home::Home,
    mr::Mr, //
};

/// The driver's part of a memory window.
pub(crate) struct Window {
    home: Home,
    key: Option<Mr>,
}

impl Drop for Window {
    fn drop(&mut self) {
        let Some(key) = self.key.take() else {
            return;
        };
        // A key of an earlier generation is gone already; no memory is behind it.
        if self.home.is_current() {
            let _ = key.destroy(self.home.cmd());
        }
    }
}

/// Makes a window.
pub(super) fn create(
    data: &Data,
    new: &mut NewWindow<'_, Verbs>,
    udata: &mut Udata<'_>,
) -> Result<Window> {
    let home = new.context().payload().home()?.clone();
    if !data.device.caps()?.memory_windows {
        return Err(EOPNOTSUPP);
    }
    let kind = new.kind().ok_or(EINVAL)?;
    let pieces = abi::parse_alloc_mw(udata)?;
    let pd = new.pd().payload().number()?;
    let type2 = kind == WindowKind::Type2;
    let key = Mr::window(home.cmd(), pd, pieces, type2, next_byte())?;
    let number = key.key();
    // From here on an error destroys it.
    let window = Window {
        home,
        key: Some(key),
    };
    abi::answer_alloc_mw(udata)?;
    new.set_key(number);
    Ok(window)
}
