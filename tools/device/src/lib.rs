// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The ConnectX model, behind four traits: testable without a virtual machine.

pub mod eth;
pub mod flow;
pub mod host;
