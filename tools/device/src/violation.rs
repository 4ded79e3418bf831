// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a work request or doorbell can do wrong: the number that tells the violations apart, and what the card does.
//! One table for the verbs face, one for what only requests of Ethernet queues can do wrong.
//!
//! The number stands in `vendor_err_synd` of the error CQE, whose values the interface leaves to
//! the vendor; libmlx5 hands it through as `vendor_err`. A failure that the card is not to blame the
//! request for (flushed, retries exceeded, refused by the other side) has number 0. The test
//! `rdma/violations` commits each violation and compares, `eth/tests/violations` those of Ethernet queues.

use mlx5_hw::status::Syndrome;

/// What the card does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// An error completion with this syndrome; nothing behind the request is executed.
    Completion(Syndrome),
    /// A catastrophic error event of the QP, which goes to ERROR.
    Catastrophe,
    /// A line in the log and a counter of this name; nothing else.
    Counted(&'static str),
}

/// Why a request completes with an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What everybody understands.
    pub syndrome: Syndrome,
    /// Which violation it was; 0 for none.
    pub vendor: u8,
}

impl From<Syndrome> for Failure {
    fn from(syndrome: Syndrome) -> Self {
        Self {
            syndrome,
            vendor: 0,
        }
    }
}

macro_rules! violations {
    ($(#[$doc:meta])* $table:ident: $($name:ident = $code:literal, $effect:expr, $text:literal;)*) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum $table {
            $(#[doc = $text] $name = $code,)*
        }

        impl From<$table> for Failure {
            fn from(violation: $table) -> Self {
                let syndrome = match violation.effect() {
                    Effect::Completion(syndrome) => syndrome,
                    // These end in no completion; who asks for one all the same gets the general one.
                    Effect::Catastrophe | Effect::Counted(_) => Syndrome::LocalQpOp,
                };
                Self {
                    syndrome,
                    // CAST: the numbers of the tables have eight bits.
                    vendor: violation as u8,
                }
            }
        }

        impl $table {
            /// All of them, in the order of their numbers.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// What the card does about it.
            pub const fn effect(self) -> Effect {
                match self { $(Self::$name => $effect,)* }
            }

            /// In words.
            pub const fn text(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }
        }
    };
}

use Effect::{Catastrophe, Completion, Counted};
use Syndrome::{LocalLength, LocalProtection, LocalQpOp, MwBind};

violations! {
    /// One way to break the rules.
    Violation:
    Size = 0x01, Completion(LocalQpOp), "size of 0, or beyond what is posted";
    Opcode = 0x02, Completion(LocalQpOp), "opcode that is not known on this type of queue";
    Short = 0x03, Completion(LocalQpOp), "ends inside a segment that its opcode asks for";
    InlineLength = 0x04, Completion(LocalQpOp), "inline data longer than the request";
    Index = 0x05, Completion(LocalQpOp), "index in the control segment is not its place";
    Number = 0x06, Completion(LocalQpOp), "QP number in the control segment is another one";
    Report = 0x07, Completion(LocalQpOp), "reserved completion code";
    AtomicSize = 0x08, Completion(LocalQpOp), "result of an atomic is not of 8 bytes";
    InlineResponse = 0x09, Completion(LocalQpOp), "inline data where data is to be received";
    MessageLength = 0x0a, Completion(LocalLength), "message longer than the QP sends";
    ReceiveLength = 0x0b, Completion(LocalLength), "receive request shorter than the message";

    KeyUnknown = 0x10, Completion(LocalProtection), "no such key, or another variant of it";
    KeyFree = 0x11, Completion(LocalProtection), "key that is free";
    KeyDomain = 0x12, Completion(LocalProtection), "key of another PD";
    KeyQueue = 0x13, Completion(LocalProtection), "key of another QP";
    KeyRights = 0x14, Completion(LocalProtection), "key without the right";
    KeyBounds = 0x15, Completion(LocalProtection), "range that leaves the key";
    KeyUnmapped = 0x16, Completion(LocalProtection), "key without translation for the address";
    KeyDepth = 0x17, Completion(LocalProtection), "indirect keys nested too deep";
    KeyDma = 0x18, Completion(LocalProtection), "memory that is not there";

    UmrShort = 0x20, Completion(LocalQpOp), "UMR without its segments";
    UmrInline = 0x21, Completion(LocalQpOp), "fewer inline translations than announced";
    UmrList = 0x22, Completion(LocalLength), "fewer translations in memory than announced";
    UmrKey = 0x23, Completion(MwBind), "UMR of a key that is not there";
    UmrNoDomain = 0x24, Completion(MwBind), "UMR to a PD that is not there";
    UmrFlags = 0x25, Completion(MwBind), "UMR with reserved flags";
    UmrMask = 0x26, Completion(MwBind), "UMR of fields that may not be changed";
    UmrDisabled = 0x27, Completion(MwBind), "UMR of a key not made for it";
    UmrVariant = 0x28, Completion(MwBind), "UMR of another variant of the key";
    UmrDomain = 0x29, Completion(MwBind), "UMR of a key of another PD";
    UmrFree = 0x2a, Completion(MwBind), "the key is free and must not be";
    UmrNotFree = 0x2b, Completion(MwBind), "the key is not free and must be";
    UmrCapacity = 0x2c, Completion(MwBind), "more translations than the key holds";
    UmrContext = 0x2d, Completion(MwBind), "new context that is none";
    UmrQueue = 0x2e, Completion(MwBind), "UMR of a key of another QP";

    Overposted = 0x30, Catastrophe, "record more than a queue ahead";
    Unreadable = 0x31, Catastrophe, "queue or record that cannot be read";
    RecordLags = 0x32, Counted("doorbell_record_lags"), "doorbell before its record";
    ForeignUar = 0x33, Counted("doorbell_foreign_uar"), "doorbell through the UAR of another";
    ArmRecordLags = 0x34, Counted("cq_arm_record_lags"), "CQ armed before its record";
    ArmForeignUar = 0x35, Counted("cq_arm_foreign_uar"), "CQ armed through the UAR of another";
}

violations! {
    /// One way to break the rules of an Ethernet queue.
    EthernetViolation:
    NoSegment = 0x40, Completion(LocalQpOp), "request without an Ethernet segment";
    HeaderLength = 0x41, Completion(LocalQpOp), "more inlined header bytes than there is request";
    HeaderMissing = 0x42, Completion(LocalQpOp), "fewer header bytes inlined than the card wants";
    Unsupported = 0x43, Completion(LocalQpOp), "Ethernet segment that asks for what is not offered";
    NoTis = 0x44, Completion(LocalQpOp), "send on a queue without TIS";
    LsoHeaders = 0x45, Completion(LocalQpOp), "large send whose inlined bytes are not its headers";
    LsoSegment = 0x46, Completion(LocalQpOp), "large send with an impossible segment size";
    LsoEmpty = 0x47, Completion(LocalQpOp), "large send without payload";
}
