// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Receive flow steering: tables of groups of entries, walked from the root for each frame.

pub mod commands;
pub mod counter;
pub mod key;
pub mod table;
#[cfg(test)]
mod tests;
pub mod tree;
