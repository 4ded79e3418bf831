// SPDX-License-Identifier: GPL-2.0
//! How many objects a card has room for, for the line that says that there are no more.

use kernel::{
    fmt,
    sync::atomic::{
        ordering::Relaxed,
        Atomic, //
    }, //
};
use mlx5_hw::raw;

/// What a card has a number of that users can reach.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Object {
    /// A protection domain.
    Pd,
    /// A page of BAR0 with doorbells.
    Uar,
    /// A memory key: of a region or of a window.
    Mkey,
    /// A completion queue.
    Cq,
    /// A queue pair.
    Qp,
    /// A shared receive queue; an XRC SRQ is one, too.
    Srq,
    /// An XRC domain.
    Xrcd,
    /// A multicast group.
    Group,
    /// A QP in a multicast group.
    Member,
}

/// Kinds of [`Object`].
const KINDS: usize = Object::Member as usize + 1;

impl Object {
    /// What command `opcode` makes.
    fn made_by(opcode: u16) -> Option<Self> {
        match u32::from(opcode) {
            raw::MLX5_CMD_OP_ALLOC_PD => Some(Self::Pd),
            raw::MLX5_CMD_OP_ALLOC_UAR => Some(Self::Uar),
            raw::MLX5_CMD_OP_CREATE_MKEY => Some(Self::Mkey),
            raw::MLX5_CMD_OP_CREATE_CQ => Some(Self::Cq),
            raw::MLX5_CMD_OP_CREATE_QP => Some(Self::Qp),
            raw::MLX5_CMD_OP_CREATE_RMP | raw::MLX5_CMD_OP_CREATE_XRC_SRQ => Some(Self::Srq),
            raw::MLX5_CMD_OP_ALLOC_XRCD => Some(Self::Xrcd),
            raw::MLX5_CMD_OP_ATTACH_TO_MCG => Some(Self::Group),
            _ => None,
        }
    }

    /// What users call it.
    const fn name(self) -> &'static str {
        match self {
            Self::Pd => "PD",
            Self::Uar => "UAR",
            Self::Mkey => "MR or MW",
            Self::Cq => "CQ",
            Self::Qp => "QP",
            Self::Srq => "SRQ",
            Self::Xrcd => "XRCD",
            Self::Group | Self::Member => "multicast",
        }
    }
}

/// How many of each kind there may be at a time; 0 as long as nobody knows.
#[derive(Default)]
pub(crate) struct Rooms([Room; KINDS]);

struct Room(Atomic<u32>);

impl Default for Room {
    fn default() -> Self {
        Self(Atomic::new(0))
    }
}

impl Rooms {
    /// The card says that it has room for `count` of a kind.
    pub(crate) fn set(&self, object: Object, count: u32) {
        if let Some(room) = self.0.get(object as usize) {
            room.0.store(count, Relaxed);
        }
    }

    fn get(&self, object: Object) -> u32 {
        self.0
            .get(object as usize)
            .map_or(0, |room| room.0.load(Relaxed))
    }

    /// What is full when the card has no more of what command `opcode` makes.
    pub(super) fn full(&self, opcode: u16) -> Option<Full> {
        let object = Object::made_by(opcode)?;
        let most = self.get(object);
        (most != 0).then_some(Full {
            object,
            most,
            members: self.get(Object::Member),
        })
    }
}

/// That there are no more of an object.
pub(super) struct Full {
    object: Object,
    most: u32,
    members: u32,
}

impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.object.name();
        let most = self.most;
        match self.object {
            Object::Uar => write!(f, "{name}: all that BAR0 of {most} pages has are in use"),
            Object::Group | Object::Member => write!(
                f,
                "{name}: all {most} groups of the card, or {} QPs of one, are in use",
                self.members
            ),
            _ => write!(f, "{name}: all {most} of the card are in use"),
        }
    }
}
