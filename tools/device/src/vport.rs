// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The vport of the function and the port behind it: addresses, MTU, link, traffic.

use mlx5_hw::{
    field,
    field::{Mut, Ref},
    ifc, raw, span,
};

use crate::{
    cmd::{Command, Refused},
    hca::Hca,
    profile::Profile,
    refuse,
    register::pfcc::FlowControl,
};

/// PORT_CHANGE sub-types. Source: `enum mlx5_port_state` users in core/events.c.
const PORT_DOWN: u8 = 1;
const PORT_ACTIVE: u8 = 4;

/// MTU of a port that nobody has configured, in bytes with Ethernet header and FCS.
const DEFAULT_MTU: u16 = 1522;

/// Frames and bytes of one kind.
#[derive(Clone, Copy, Debug, Default)]
pub struct Traffic {
    /// Frames.
    pub packets: u64,
    /// Bytes, without FCS.
    pub octets: u64,
}

impl Traffic {
    /// Counts a frame.
    pub fn add(&mut self, octets: usize) {
        self.packets += 1;
        self.octets += octets as u64;
    }
}

/// Upper ends of the size classes of the RFC 2819 group, in bytes with FCS.
pub const SIZE_CLASSES: [usize; 10] = [64, 127, 255, 511, 1023, 1518, 2047, 4095, 8191, 10239];
/// Length of the frame check sequence, which the model does not keep and MTUs of ports count, in bytes.
pub const FCS_LEN: usize = 4;

/// Traffic of one direction, by destination, size and priority.
#[derive(Clone, Copy, Debug, Default)]
pub struct Direction {
    /// Frames of each of the [`SIZE_CLASSES`].
    pub sizes: [u64; SIZE_CLASSES.len()],
    /// By priority.
    pub priorities: [Traffic; 8],
    /// Pause frames, by the priorities that they name; one for the whole link counts as 0, where the stock
    /// driver looks for it (`mlx5e_stats_grp_per_prio_pfc` in core/en_stats.c).
    pub pauses: [u64; 8],
    /// Pause frames for the whole link.
    pub link_pauses: u64,
    /// Frames longer than the port lets through, which are dropped.
    pub too_long: u64,
    /// RoCE to one address.
    pub ib_unicast: Traffic,
    /// RoCE to a group.
    pub ib_multicast: Traffic,
    /// Ethernet to one address.
    pub eth_unicast: Traffic,
    /// Ethernet to a group.
    pub eth_multicast: Traffic,
    /// Ethernet to all.
    pub eth_broadcast: Traffic,
}

impl Direction {
    /// Counts a frame.
    pub fn count(&mut self, frame: &[u8], roce: bool, priority: u8) {
        let Some(dmac) = frame.first_chunk::<6>() else {
            return;
        };
        let group = dmac[0] & 1 == 1;
        let kind = match (roce, group) {
            (true, false) => &mut self.ib_unicast,
            (true, true) => &mut self.ib_multicast,
            (false, false) => &mut self.eth_unicast,
            (false, true) if *dmac == [0xff; 6] => &mut self.eth_broadcast,
            (false, true) => &mut self.eth_multicast,
        };
        kind.add(frame.len());
        let len = frame.len() + FCS_LEN;
        let class = SIZE_CLASSES.iter().position(|most| len <= *most);
        if let Some(class) = class.and_then(|class| self.sizes.get_mut(class)) {
            *class += 1;
        }
        if let Some(one) = self.priorities.get_mut(usize::from(priority)) {
            one.add(frame.len());
        }
    }

    /// Everything.
    pub fn total(&self) -> Traffic {
        let all = [
            self.ib_unicast,
            self.ib_multicast,
            self.eth_unicast,
            self.eth_multicast,
            self.eth_broadcast,
        ];
        all.iter().fold(Traffic::default(), |sum, one| Traffic {
            packets: sum.packets + one.packets,
            octets: sum.octets + one.octets,
        })
    }
}

/// Vport and port.
#[derive(Debug)]
pub struct Vport {
    /// Permanent MAC address.
    pub mac: [u8; 6],
    /// Whether RoCE is enabled.
    pub roce_en: bool,
    /// MTU of the vport, in bytes with Ethernet header and FCS.
    pub mtu: u16,
    /// MTU of the port (PMTU), in the same unit: longer frames do not pass.
    pub port_mtu: u16,
    /// Takes unicast frames of any address.
    pub promisc_uc: bool,
    /// Takes multicast frames of any address.
    pub promisc_mc: bool,
    /// Takes everything.
    pub promisc_all: bool,
    /// Unicast addresses besides the permanent one.
    pub uc_list: Vec<[u8; 6]>,
    /// Multicast addresses.
    pub mc_list: Vec<[u8; 6]>,
    /// VLANs allowed.
    pub vlan_list: Vec<u16>,
    /// What the driver wants of the port (PAOS).
    pub admin_up: bool,
    /// Whether the cable carries a signal.
    pub signal: bool,
    /// What the driver calls itself (NODE_DESC), 64 bytes.
    pub node_description: [u8; 64],
    /// Flow control of the port (PFCC).
    pub flow_control: FlowControl,
    /// Traffic that came in.
    pub received: Direction,
    /// Traffic that went out.
    pub sent: Direction,
    /// Traffic that was looped back.
    pub looped: Traffic,
}

impl Vport {
    /// A fresh one.
    pub fn new(profile: &Profile, signal: bool) -> Self {
        let mut node_description = [0; 64];
        let text = profile.firmware.node_description.as_bytes();
        for (to, from) in node_description.iter_mut().zip(text) {
            *to = *from;
        }
        Self {
            mac: profile.port.mac,
            roce_en: false,
            mtu: DEFAULT_MTU,
            port_mtu: DEFAULT_MTU,
            promisc_uc: false,
            promisc_mc: false,
            promisc_all: false,
            uc_list: Vec::new(),
            mc_list: Vec::new(),
            vlan_list: Vec::new(),
            admin_up: true,
            signal,
            node_description,
            flow_control: FlowControl::default(),
            received: Direction::default(),
            sent: Direction::default(),
            looped: Traffic::default(),
        }
    }

    /// GUID of node, port and system image: the MAC with `ff:fe` in the middle (EUI-64).
    pub fn guid(&self) -> u64 {
        let [a, b, c, d, e, f] = self.mac;
        u64::from_be_bytes([a ^ 2, b, c, 0xff, 0xfe, d, e, f])
    }

    /// One line for a dump.
    pub fn describe(&self) -> String {
        format!(
            "vport: MAC {} link {} RoCE {} mtu {} port mtu {} unicast {} multicast {} promisc {}{}{} pause rx {} tx {} pfc rx {:02x} tx {:02x}",
            mac_text(&self.mac),
            if self.link_up() { "up" } else { "down" },
            on(self.roce_en),
            self.mtu,
            self.port_mtu,
            self.uc_list.len(),
            self.mc_list.len(),
            u8::from(self.promisc_uc),
            u8::from(self.promisc_mc),
            u8::from(self.promisc_all),
            on(self.flow_control.pause_rx),
            on(self.flow_control.pause_tx),
            self.flow_control.priorities_rx,
            self.flow_control.priorities_tx,
        )
    }

    /// Whether frames can pass.
    pub fn link_up(&self) -> bool {
        self.admin_up && self.signal
    }
}

fn on(switch: bool) -> &'static str {
    if switch {
        "on"
    } else {
        "off"
    }
}

/// A MAC address as people write it.
pub fn mac_text(mac: &[u8; 6]) -> String {
    let bytes: Vec<String> = mac.iter().map(|byte| format!("{byte:02x}")).collect();
    bytes.join(":")
}

impl Hca {
    /// Whether a frame with this destination MAC is for this card and nobody else.
    pub fn owns_mac(&self, mac: &[u8; 6]) -> bool {
        *mac == self.vport.mac
            || self.vport.uc_list.contains(mac)
            || self.roce.iter().any(|(_, entry)| entry.mac == *mac)
    }

    /// Changes what decides about the link, and tells the driver when the link has changed.
    pub fn change_link(&mut self, change: impl FnOnce(&mut crate::vport::Vport)) {
        let before = self.vport.link_up();
        change(&mut self.vport);
        let now = self.vport.link_up();
        if before == now {
            return;
        }
        tracing::info!("port link {}", if now { "up" } else { "down" });
        let mut data = [0; 28];
        // Port number in the upper half of byte 8: `struct mlx5_eqe_port_state`.
        data[8] = 1 << 4;
        let subtype = if now { PORT_ACTIVE } else { PORT_DOWN };
        self.async_event(raw::MLX5_EVENT_TYPE_PORT_CHANGE, subtype, &data);
    }
}

/// The signal on the cable came or went.
pub fn set_signal(hca: &mut Hca, up: bool) {
    hca.change_link(|vport| vport.signal = up);
}

/// QUERY_VPORT_STATE.
pub struct QueryVportState;

impl Command for QueryVportState {
    const OPCODE: u32 = raw::MLX5_CMD_OP_QUERY_VPORT_STATE;
    type In = ifc::query_vport_state_in;
    type Out = ifc::query_vport_state_out;

    fn run(
        hca: &mut Hca,
        input: Ref<'_, Self::In>,
        output: &mut Mut<'_, Self::Out>,
    ) -> Result<(), Refused> {
        own_vport(
            input.flag(field!(query_vport_state_in, other_vport)),
            input.get(field!(query_vport_state_in, vport_number)),
        )?;
        output
            .set_flag(
                field!(query_vport_state_out, admin_state),
                hca.vport.admin_up,
            )
            .set_flag(field!(query_vport_state_out, state), hca.vport.link_up());
        Ok(())
    }
}

/// MODIFY_VPORT_STATE.
pub struct ModifyVportState;

impl Command for ModifyVportState {
    const OPCODE: u32 = raw::MLX5_CMD_OP_MODIFY_VPORT_STATE;
    type In = ifc::modify_vport_state_in;
    type Out = ifc::modify_vport_state_out;

    fn run(
        hca: &mut Hca,
        input: Ref<'_, Self::In>,
        _output: &mut Mut<'_, Self::Out>,
    ) -> Result<(), Refused> {
        own_vport(
            input.flag(field!(modify_vport_state_in, other_vport)),
            input.get(field!(modify_vport_state_in, vport_number)),
        )?;
        if input.flag(field!(modify_vport_state_in, max_tx_speed)) {
            refuse!(BadParam, 2, "a limit of the transmit speed is not offered");
        }
        let up = match input.get(field!(modify_vport_state_in, admin_state)) {
            0 => false,
            1 => true,
            other => refuse!(BadParam, 3, "admin state {other} is not offered"),
        };
        hca.change_link(|vport| vport.admin_up = up);
        Ok(())
    }
}

/// Refuses vports of other functions.
pub fn own_vport(other: bool, number: u64) -> Result<(), Refused> {
    if other || number != 0 {
        refuse!(BadParam, 0x7010, "vport {number} is not this function's");
    }
    Ok(())
}

/// QUERY_VPORT_COUNTER.
pub struct QueryVportCounter;

impl Command for QueryVportCounter {
    const OPCODE: u32 = raw::MLX5_CMD_OP_QUERY_VPORT_COUNTER;
    type In = ifc::query_vport_counter_in;
    type Out = ifc::query_vport_counter_out;

    fn run(
        hca: &mut Hca,
        input: Ref<'_, Self::In>,
        output: &mut Mut<'_, Self::Out>,
    ) -> Result<(), Refused> {
        own_vport(
            input.flag(field!(query_vport_counter_in, other_vport)),
            input.get(field!(query_vport_counter_in, vport_number)),
        )?;
        let (rx, tx) = (hca.vport.received, hca.vport.sent);
        let kinds = [
            (
                span!(query_vport_counter_out, received_ib_unicast),
                rx.ib_unicast,
            ),
            (
                span!(query_vport_counter_out, transmitted_ib_unicast),
                tx.ib_unicast,
            ),
            (
                span!(query_vport_counter_out, received_ib_multicast),
                rx.ib_multicast,
            ),
            (
                span!(query_vport_counter_out, transmitted_ib_multicast),
                tx.ib_multicast,
            ),
            (
                span!(query_vport_counter_out, received_eth_broadcast),
                rx.eth_broadcast,
            ),
            (
                span!(query_vport_counter_out, transmitted_eth_broadcast),
                tx.eth_broadcast,
            ),
            (
                span!(query_vport_counter_out, received_eth_unicast),
                rx.eth_unicast,
            ),
            (
                span!(query_vport_counter_out, transmitted_eth_unicast),
                tx.eth_unicast,
            ),
            (
                span!(query_vport_counter_out, received_eth_multicast),
                rx.eth_multicast,
            ),
            (
                span!(query_vport_counter_out, transmitted_eth_multicast),
                tx.eth_multicast,
            ),
            (
                span!(query_vport_counter_out, local_loopback),
                hca.vport.looped,
            ),
        ];
        for (place, traffic) in kinds {
            output.with(place, |output| {
                output
                    .set(field!(traffic_counter, packets), traffic.packets)
                    .set(field!(traffic_counter, octets), traffic.octets);
            });
        }
        if input.flag(field!(query_vport_counter_in, clear)) {
            hca.vport.received = Direction::default();
            hca.vport.sent = Direction::default();
            hca.vport.looped = Traffic::default();
        }
        Ok(())
    }
}
