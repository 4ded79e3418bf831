// SPDX-License-Identifier: GPL-2.0
//! The network interface.
//!
//! Nothing is made on the card until the interface is opened. Rings go when it is closed; what has no memory for
//! packets stays.
//! What belongs together is one value whose drop takes it away: the order of fields is the teardown
//! plan.
//!
//! | module | object |
//! |---|---|
//! | [`base`] | protection and transport domain, memory key, TIS: what all queues of the interface share |
//! | [`sq`], [`rq`], [`cq`] | queues as the card knows them |
//! | [`q_counter`] | what the card dropped for want of a WQE |
//! | [`wqe`], [`cqe`] | their entries |
//! | [`tx`], [`sent`], [`gauge`] | transmit rings: the end that posts, the end that finishes, how far both are |
//! | [`rx`], [`layout`] | receive rings, and how frames lie in their memory |
//! | [`slot`] | where the interface keeps the posting end of a transmit ring and counts, open or not |
//! | [`channel`] | one completion vector's rings, polled together |
//! | [`entrance`], [`rules`], [`places`] | who gets a frame first: users' rules, then the interface |
//! | [`rqt`], [`tir`], [`flow`], [`steering`], [`vlans`] | which packet comes to which ring |
//! | [`sink`] | where a closed interface's tables lead to |
//! | [`qos`], [`dcb`] | how the port treats priorities, and what `dcb` asks |
//! | [`vport`], [`pmtu`], [`pfcc`] | what the port lets in, how long it may be, and how it is slowed down |
//! | [`q_counter`] | what the card dropped for want of a WQE |
//! | [`footing`] | what stays on the card when the interface is closed |
//! | [`lanes`] | the rings of an opened interface |
//! | [`netdev`] | what the network core asks |
//! | [`tools`], [`selftest`] | what `ethtool` asks |
//! | [`face`] | the interface as a part of the card: resets, carrier |
//!
//! | term | meaning |
//! |---|---|
//! | TIS, TIR | transport interface send, receive: what makes Ethernet of a queue |
//! | RQT | table of RQs that a hash picks from |
//!
//! Lock order: 1. the PCI core's device lock, 2. the RTNL, 3. the face's registration, 4. a channel's ends of its rings
//! (softirqs off), 5. a queue's transmit lock. The entrance's lock comes after the RTNL, and nothing comes after it.

pub(crate) mod base;
mod caps;
mod channel;
mod cq;
mod cqe;
mod dcb;
pub(crate) mod entrance;
mod face;
pub(crate) mod flow;
mod footing;
mod gauge;
mod hash;
pub(crate) mod headers;
mod lanes;
mod layout;
mod netdev;
mod pfcc;
mod places;
mod pmtu;
mod ppcnt;
mod q_counter;
mod qos;
mod queue_stats;
pub(crate) mod rq;
pub(crate) mod rqt;
mod rules;
mod rx;
mod selftest;
mod sent;
mod sink;
mod slot;
mod sq;
mod steering;
pub(crate) mod tir;
mod tools;
mod tx;
mod vlans;
mod vport;
mod wqe;

pub(crate) use face::Face;
