// SPDX-License-Identifier: GPL-2.0
//! Address handles of users: nothing on the device. The library makes the address vector of each
//! datagram; the kernel finds the Ethernet address for it.

use kernel::prelude::*;
use kernel_ext::rdma::{
    AddressVector,
    Udata, //
};

use super::{
    abi,
    Data, //
};

/// Checks the path and answers the library.
pub(super) fn create(data: &Data, path: &AddressVector<'_>, udata: &mut Udata<'_>) -> Result {
    if !path.is_global() {
        data.complain(fmt!("address handle: RoCE needs a GID"));
        return Err(EINVAL);
    }
    abi::answer_create_ah(path.mac(), udata)
}
