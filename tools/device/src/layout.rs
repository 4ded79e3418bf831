// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The ifc layouts as tables: which bits of a command are reserved, and what its fields are called.
//!
//! `build.rs` makes one [`Layout`] of each `mlx5_ifc_*_bits`, so nothing here is written by hand.

/// Elements of a list that a trace line shows.
const LIST_SHOWN: usize = 4;
/// Bytes of a long field that a trace line shows.
const BYTES_SHOWN: usize = 32;

/// One `mlx5_ifc_*_bits`.
#[derive(Debug)]
pub struct Layout {
    /// Short name: `create_cq_in` for `mlx5_ifc_create_cq_in_bits`.
    pub name: &'static str,
    /// Length of the fixed part, in bits.
    pub bits: u32,
    /// Whether the members lie over each other.
    pub union: bool,
    /// In the order of the header.
    pub members: &'static [Member],
}

/// One member of a [`Layout`].
#[derive(Debug)]
pub struct Member {
    /// Name in the header.
    pub name: &'static str,
    /// First bit, from the start of the layout.
    pub at: u32,
    /// Whether it is one of the `reserved_at_*`.
    pub reserved: bool,
    /// What it is made of.
    pub shape: Shape,
}

/// What a member is made of.
#[derive(Debug)]
pub enum Shape {
    /// This many plain bits.
    Bits(u32),
    /// Another layout.
    Layout(&'static Layout),
    /// Several of one shape, one after the other.
    Array(&'static Shape, u32),
    /// A list behind the fixed part, as long as the command is.
    List(&'static Shape),
}

impl Shape {
    /// Width in bits; 0 for a list.
    pub const fn bits(&self) -> u32 {
        match self {
            Self::Bits(bits) => *bits,
            Self::Layout(layout) => layout.bits,
            Self::Array(inner, count) => inner.bits() * *count,
            Self::List(_) => 0,
        }
    }
}

impl Shape {
    /// Length of one element of a list in bytes, at least 1. The elements of a list of unions are
    /// as long as the shortest member (SET_FLOW_TABLE_ENTRY: plain destinations have 8 bytes,
    /// extended ones 16).
    pub fn step(&self) -> usize {
        let bits = match self {
            Self::Layout(inner) if inner.union => {
                inner.members.iter().map(|member| member.shape.bits()).min()
            }
            shape => Some(shape.bits()),
        };
        (bits.unwrap_or(0) as usize / 8).max(1)
    }
}

/// Tells the tables of a layout type of [`mlx5_hw::ifc`].
pub trait Described {
    /// Its table.
    const LAYOUT: &'static Layout;
}

/// The first byte that has a bit of `mask` set.
pub fn first_set(bytes: &[u8], mask: &[u8]) -> Option<usize> {
    let mut pairs = bytes.iter().zip(mask);
    pairs.position(|(byte, mask)| byte & mask != 0)
}

impl Layout {
    /// Length of the fixed part, in bytes.
    pub const fn bytes(&self) -> usize {
        self.bits as usize / 8
    }

    /// Offset in bytes and shape of one element of the list behind the fixed part. Of a union, the
    /// first member that has one.
    pub fn list(&self) -> Option<(usize, &'static Shape)> {
        if self.union {
            return self.members.iter().find_map(|member| match &member.shape {
                Shape::Layout(inner) => inner.list(),
                _ => None,
            });
        }
        let last = self.members.last()?;
        match &last.shape {
            Shape::List(element) => Some((last.at as usize / 8, element)),
            Shape::Layout(inner) => inner
                .list()
                .map(|(at, element)| (at + last.at as usize / 8, element)),
            _ => None,
        }
    }

    /// A member by path (`wq.log_wq_sz`): first bit and width. Array elements are not reached.
    pub fn find(&self, path: &str) -> Option<(u32, u32)> {
        let (name, rest) = match path.split_once('.') {
            Some((name, rest)) => (name, Some(rest)),
            None => (path, None),
        };
        let member = self.members.iter().find(|member| member.name == name)?;
        match (rest, &member.shape) {
            (None, shape) => Some((member.at, shape.bits())),
            (Some(rest), Shape::Layout(inner)) => {
                inner.find(rest).map(|(at, bits)| (member.at + at, bits))
            }
            _ => None,
        }
    }

    /// All plain fields that are not reserved: path, first bit, width. Unions are left out.
    pub fn leaves(&self) -> Vec<(String, u32, u32)> {
        let mut leaves = Vec::new();
        self.collect_leaves("", 0, &mut leaves);
        leaves
    }

    fn collect_leaves(&self, prefix: &str, base: u32, leaves: &mut Vec<(String, u32, u32)>) {
        if self.union {
            return;
        }
        for member in self.members.iter().filter(|member| !member.reserved) {
            let name = match prefix {
                "" => member.name.to_owned(),
                _ => format!("{prefix}.{}", member.name),
            };
            collect_shape(&member.shape, &name, base + member.at, leaves);
        }
    }

    /// Mask of the reserved bits of `len` bytes laid out so, the list included. Bits behind the
    /// layout and its list count as reserved. In a union a bit is reserved when no member uses it.
    pub fn reserved_mask(&self, len: usize) -> Vec<u8> {
        let mut used = vec![0u8; len];
        self.mark_used(0, &mut used);
        if let Some((at, element)) = self.list() {
            let step = element.step();
            let mut at = at;
            while at + step <= len {
                mark_shape(element, at as u32 * 8, &mut used);
                at += step;
            }
        }
        used.iter().map(|byte| !byte).collect()
    }

    fn mark_used(&self, base: u32, used: &mut [u8]) {
        for member in self.members.iter().filter(|member| !member.reserved) {
            mark_shape(&member.shape, base + member.at, used);
        }
    }

    /// The fields that are not zero, as `name=0x..` words; nested names are joined with dots.
    pub fn decode(&self, bytes: &[u8]) -> String {
        let mut words = Vec::new();
        self.decode_into("", 0, bytes, &mut words);
        if let Some((at, element)) = self.list() {
            let step = element.step();
            let list = bytes.get(at..).unwrap_or_default();
            let count = list.len() / step;
            if count > 0 {
                let shown = list.chunks_exact(step).take(LIST_SHOWN).map(hex);
                let more = if count > LIST_SHOWN { ",.." } else { "" };
                let shown: Vec<String> = shown.collect();
                words.push(format!("list[{count}]={}{more}", shown.join(",")));
            }
        }
        words.join(" ")
    }

    fn decode_into(&self, prefix: &str, base: u32, bytes: &[u8], words: &mut Vec<String>) {
        // Which member of a union is meant is not known here: show it as a whole.
        if self.union {
            let widest = self.members.iter().max_by_key(|member| member.shape.bits());
            if let Some(member) = widest {
                decode_shape(
                    &Shape::Bits(member.shape.bits()),
                    prefix,
                    base,
                    bytes,
                    words,
                );
            }
            return;
        }
        for member in self.members {
            let name = match prefix {
                "" => member.name.to_owned(),
                _ => format!("{prefix}.{}", member.name),
            };
            decode_shape(&member.shape, &name, base + member.at, bytes, words);
        }
    }
}

fn collect_shape(shape: &Shape, name: &str, at: u32, leaves: &mut Vec<(String, u32, u32)>) {
    match shape {
        Shape::Bits(bits) => leaves.push((name.to_owned(), at, *bits)),
        Shape::Layout(layout) => layout.collect_leaves(name, at, leaves),
        Shape::Array(inner, count) => {
            for index in 0..*count {
                let name = format!("{name}[{index}]");
                collect_shape(inner, &name, at + index * inner.bits(), leaves);
            }
        }
        Shape::List(_) => {}
    }
}

fn mark_shape(shape: &Shape, at: u32, used: &mut [u8]) {
    match shape {
        Shape::Bits(bits) => {
            for bit in at..at + bits {
                if let Some(byte) = used.get_mut(bit as usize / 8) {
                    *byte |= 0x80 >> (bit % 8);
                }
            }
        }
        Shape::Layout(layout) => layout.mark_used(at, used),
        Shape::Array(inner, count) => {
            for index in 0..*count {
                mark_shape(inner, at + index * inner.bits(), used);
            }
        }
        Shape::List(_) => {}
    }
}

fn decode_shape(shape: &Shape, name: &str, at: u32, bytes: &[u8], words: &mut Vec<String>) {
    match shape {
        Shape::Bits(bits) if *bits <= 64 => {
            let value = bits_at(bytes, at, *bits);
            if value != 0 {
                words.push(format!("{name}={value:#x}"));
            }
        }
        Shape::Bits(bits) => decode_bytes(*bits / 8, name, at, bytes, words),
        Shape::Layout(layout) => layout.decode_into(name, at, bytes, words),
        Shape::Array(Shape::Bits(8), count) => decode_bytes(*count, name, at, bytes, words),
        Shape::Array(inner, count) => {
            for index in 0..*count {
                let name = format!("{name}[{index}]");
                decode_shape(inner, &name, at + index * inner.bits(), bytes, words);
            }
        }
        Shape::List(_) => {}
    }
}

/// Bytes: as text when they are text, else as digits, cut when they are many.
fn decode_bytes(count: u32, name: &str, at: u32, bytes: &[u8], words: &mut Vec<String>) {
    let first = at as usize / 8;
    let last = (first + count as usize).min(bytes.len());
    let raw = bytes.get(first..last).unwrap_or_default();
    let end = raw
        .iter()
        .rposition(|byte| *byte != 0)
        .map_or(0, |at| at + 1);
    let raw = raw.get(..end).unwrap_or_default();
    if raw.is_empty() {
        return;
    }
    if raw
        .iter()
        .all(|byte| byte.is_ascii_graphic() || *byte == b' ')
    {
        words.push(format!("{name}={:?}", String::from_utf8_lossy(raw)));
    } else {
        let more = if raw.len() > BYTES_SHOWN { ".." } else { "" };
        let shown = raw.get(..BYTES_SHOWN).unwrap_or(raw);
        words.push(format!("{name}={}{more}", hex(shown)));
    }
}

fn hex(raw: &[u8]) -> String {
    raw.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Up to 64 bits at any bit offset; bits behind the end read as zero.
pub fn bits_at(bytes: &[u8], at: u32, bits: u32) -> u64 {
    let end = at + bits;
    // At most nine bytes have a part in it.
    let all = (at / 8..end.div_ceil(8)).fold(0u128, |all, index| {
        let byte = bytes.get(index as usize).copied().unwrap_or(0);
        all << 8 | u128::from(byte)
    });
    let value = all >> (end.next_multiple_of(8) - end);
    // CAST: masked to 64 bits or fewer.
    (value & ((1 << bits) - 1)) as u64
}

/// Writes up to 64 bits at any bit offset; bits behind the end are dropped.
pub fn set_bits_at(bytes: &mut [u8], at: u32, bits: u32, value: u64) {
    for index in 0..bits {
        let bit = at + index;
        let Some(byte) = bytes.get_mut(bit as usize / 8) else {
            return;
        };
        let mask = 0x80u8 >> (bit % 8);
        if value >> (bits - 1 - index) & 1 == 1 {
            *byte |= mask;
        } else {
            *byte &= !mask;
        }
    }
}

/// The generated tables.
mod tables {
    use super::{Described, Layout, Member, Shape};
    include!(concat!(env!("OUT_DIR"), "/layouts.rs"));
}
