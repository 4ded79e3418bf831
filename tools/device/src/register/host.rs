// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Registers of the host interface: byte order of the host, description of the node.

use super::Register;
use crate::{cmd::Refused, hca::Hca, refuse};

/// HOST_ENDIANNESS: `struct mlx5_reg_host_endianness` in core/main.c, byte 0 is 0 for little endian.
pub const HOST_ENDIANNESS: Register = Register {
    id: 0x7004,
    name: "HOST_ENDIANNESS",
    len: 16,
    tail: 0,
    layout: None,
    read: |hca, _, output| {
        output.fill(0);
        if let Some(first) = output.first_mut() {
            *first = hca.host_endianness;
        }
        Ok(())
    },
    write: Some(set_endianness),
};

fn set_endianness(hca: &mut Hca, data: &[u8]) -> Result<(), Refused> {
    match data {
        // A big endian host would need its memory seen otherwise: atomics are the only user.
        [0, rest @ ..] if rest.iter().all(|byte| *byte == 0) => {
            hca.host_endianness = 0;
            Ok(())
        }
        _ => refuse!(BadParam, 0x10, "HOST_ENDIANNESS: only little endian hosts"),
    }
}

/// NODE_DESC: 64 bytes of text.
pub const NODE_DESC: Register = Register {
    id: 0x6001,
    name: "NODE_DESC",
    len: 64,
    tail: 0,
    layout: None,
    read: |hca, _, output| {
        output.copy_from_slice(&hca.vport.node_description);
        Ok(())
    },
    write: Some(|hca, data| {
        hca.vport.node_description.copy_from_slice(data);
        Ok(())
    }),
};
