// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A card with what a verbs program needs, and the queues of such a program.

use device::{
    profile::Profile,
    scaffold::driver::{Driver, Event, EventQueue, Input},
};
use mlx5_hw::{
    field,
    field::{bytes_of, Mut},
    ifc, raw, span,
};
use std::time::Duration;

/// Rights: local write, remote write, remote read, atomic.
pub const ALL: u8 = 0xf;
pub const LOCAL: u8 = 0x1;

/// A registered piece of memory.
#[derive(Clone, Copy, Debug)]
pub struct Mr {
    pub key: u32,
    /// Address that the key knows.
    pub va: u64,
    /// Address on the bus.
    pub pa: u64,
    pub len: usize,
}

#[derive(Clone, Debug)]
pub struct Cq {
    pub cqn: u32,
    buffer: u64,
    record: u64,
    log: u32,
    pub ci: u32,
    pub sequence: u32,
}

/// A completion, taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wc {
    pub opcode: u8,
    pub qpn: u32,
    pub wqe_opcode: u8,
    pub counter: u16,
    pub bytes: u32,
    pub imm: u32,
    pub flags_rqpn: u32,
    /// 0 when good.
    pub syndrome: u8,
    /// Which violation it was; 0 when good.
    pub vendor: u8,
    pub solicited: bool,
}

#[derive(Clone, Debug)]
pub struct Qp {
    pub qpn: u32,
    pub buffer: u64,
    pub record: u64,
    pub log_sq: u32,
    pub log_rq: u32,
    pub sq_pi: u16,
    pub rq_pi: u16,
    pub sq_start: u64,
    uar: u32,
}

pub const RQ_STRIDE: u64 = 64;

pub struct Node {
    pub driver: Driver,
    pub mac: [u8; 6],
    pub gid: [u8; 16],
    pub uar: u32,
    pub pd: u32,
    pub events: EventQueue,
    pub counter_set: u32,
}

/// What a connection is made with.
#[derive(Clone, Copy, Debug)]
pub struct Link {
    pub mtu: u32,
    pub psn: u32,
    pub retry: u32,
    pub rnr_retry: u32,
    pub timeout: u32,
    pub depth: u32,
    pub rights: u8,
    /// Optional parameters of INIT2RTR.
    pub mask: u64,
}

impl Default for Link {
    fn default() -> Self {
        Self {
            mtu: 3,
            psn: 0xff_fff0,
            retry: 7,
            rnr_retry: 7,
            timeout: 14,
            depth: 2,
            rights: ALL,
            mask: 0xe,
        }
    }
}

impl Node {
    pub fn new(last: u8) -> Self {
        Self::with(last, |_| {})
    }

    pub fn with(last: u8, change: impl FnOnce(&mut Profile)) -> Self {
        let mut profile = Profile::shipped("default").unwrap();
        let mac = [2, 0, 0, 0, 0, last];
        profile.port.mac = mac;
        change(&mut profile);
        let mut driver = Driver::up(profile);
        let mut gid = [0; 16];
        gid[10..12].fill(0xff);
        gid[12..].copy_from_slice(&[10, 0, 0, last]);
        let enable = Input::<ifc::modify_nic_vport_context_in>::new(
            raw::MLX5_CMD_OP_MODIFY_NIC_VPORT_CONTEXT,
        )
        .set(field!(modify_nic_vport_context_in, field_select.roce_en), 1)
        .set(
            field!(modify_nic_vport_context_in, nic_vport_context.roce_en),
            1,
        );
        driver.ok(enable, 16);
        // Room for every path MTU.
        let mut pmtu = vec![0; bytes_of::<ifc::pmtu_reg>()];
        Mut::<ifc::pmtu_reg>::new(&mut pmtu)
            .unwrap()
            .set(field!(pmtu_reg, local_port), 1)
            .set(field!(pmtu_reg, admin_mtu), 9000);
        let access = Input::register(raw::MLX5_REG_PMTU.into(), false, &pmtu);
        driver.ok(access, 16 + pmtu.len());
        let uar = driver.alloc_uar();
        let pd = driver.alloc_pd();
        let asynchronous = [0x02, 0x04, 0x05, 0x10, 0x11, 0x12, 0x13, 0x14];
        let events = driver.create_eq(uar, 9, 1, &asynchronous);
        let set = Input::<ifc::alloc_q_counter_in>::new(raw::MLX5_CMD_OP_ALLOC_Q_COUNTER);
        let counter_set = driver.ok(set, 16).number() & 0xff;
        let mut node = Self {
            driver,
            mac,
            gid,
            uar,
            pd,
            events,
            counter_set,
        };
        node.set_address(0, gid, false);
        node
    }

    pub fn set_address(&mut self, index: u64, gid: [u8; 16], v6: bool) {
        let mut input = Input::<ifc::set_roce_address_in>::new(raw::MLX5_CMD_OP_SET_ROCE_ADDRESS)
            .set(field!(set_roce_address_in, roce_address_index), index)
            .set(field!(set_roce_address_in, roce_address.roce_version), 2)
            .set(
                field!(set_roce_address_in, roce_address.roce_l3_type),
                v6.into(),
            );
        let mac = self
            .mac
            .iter()
            .fold(0u64, |mac, byte| mac << 8 | u64::from(*byte));
        let mut view = Mut::<ifc::set_roce_address_in>::new(&mut input.bytes).unwrap();
        view.raw(span!(set_roce_address_in, roce_address.source_l3_address))
            .copy_from_slice(&gid);
        view.set(
            field!(set_roce_address_in, roce_address.source_mac_47_32),
            mac >> 32,
        );
        view.set(
            field!(set_roce_address_in, roce_address.source_mac_31_0),
            mac & 0xffff_ffff,
        );
        self.driver.ok(input, 16);
    }

    /// Memory through an MTT key whose address has nothing to do with the bus address and does not
    /// start at a page; pages are in reverse order.
    pub fn mr(&mut self, len: usize, rights: u8) -> Mr {
        let skew = 0x123;
        let pages = (len + skew).div_ceil(4096) as u64;
        let base = self.driver.machine.alloc(pages as usize * 4096);
        let va = 0x7000_0000_0000 + base * 16 + skew as u64;
        let list: Vec<u64> = (0..pages.next_multiple_of(2))
            .map(|n| base + 4096 * (pages.saturating_sub(1 + n)))
            .collect();
        let octowords = pages.div_ceil(2);
        let input = self
            .mkey(rights, 1)
            .set(field!(create_mkey_in, memory_key_mkey_entry.start_addr), va)
            .set(
                field!(create_mkey_in, memory_key_mkey_entry.len),
                len as u64,
            )
            .set(
                field!(create_mkey_in, memory_key_mkey_entry.log_page_size),
                12,
            )
            .set(
                field!(
                    create_mkey_in,
                    memory_key_mkey_entry.translations_octword_size
                ),
                octowords,
            )
            .set(
                field!(create_mkey_in, translations_octword_actual_size),
                octowords,
            )
            .list(&list);
        let index = self.driver.ok(input, 16).number();
        Mr {
            key: index << 8 | 0x5a,
            va,
            pa: base,
            len,
        }
    }

    /// A key over everything, like the kernel's PD key.
    pub fn pa_key(&mut self) -> u32 {
        let input = self
            .mkey(LOCAL, 0)
            .set(field!(create_mkey_in, memory_key_mkey_entry.length64), 1);
        self.driver.ok(input, 16).number() << 8 | 0x5a
    }

    pub fn mkey(&self, rights: u8, mode: u64) -> Input<ifc::create_mkey_in> {
        let bit = |n: u8| u64::from(rights >> n & 1);
        Input::new(raw::MLX5_CMD_OP_CREATE_MKEY)
            .set(field!(create_mkey_in, memory_key_mkey_entry.lr), 1)
            .set(field!(create_mkey_in, memory_key_mkey_entry.lw), bit(0))
            .set(field!(create_mkey_in, memory_key_mkey_entry.rw), bit(1))
            .set(field!(create_mkey_in, memory_key_mkey_entry.rr), bit(2))
            .set(field!(create_mkey_in, memory_key_mkey_entry.a), bit(3))
            .set(
                field!(create_mkey_in, memory_key_mkey_entry.access_mode_1_0),
                mode,
            )
            .set(field!(create_mkey_in, memory_key_mkey_entry.qpn), 0xff_ffff)
            .set(field!(create_mkey_in, memory_key_mkey_entry.mkey_7_0), 0x5a)
            .set(
                field!(create_mkey_in, memory_key_mkey_entry.pd),
                self.pd.into(),
            )
    }

    /// Bus address of byte `at` of a registration made by [`Node::mr`].
    fn bus(mr: &Mr, at: usize) -> u64 {
        let pages = (mr.len + 0x123).div_ceil(4096);
        let offset = at + 0x123;
        mr.pa + ((pages - 1 - offset / 4096) * 4096 + offset % 4096) as u64
    }

    pub fn fill(&self, mr: &Mr, bytes: &[u8]) {
        for (at, byte) in bytes.iter().enumerate() {
            self.driver.machine.poke(Self::bus(mr, at), &[*byte]);
        }
    }

    pub fn bytes(&self, mr: &Mr, len: usize) -> Vec<u8> {
        (0..len)
            .map(|at| self.driver.machine.peek(Self::bus(mr, at), 1)[0])
            .collect()
    }

    pub fn cq(&mut self, log: u32) -> Cq {
        self.cq_with(log, |input| input)
    }

    pub fn cq_with(
        &mut self,
        log: u32,
        change: impl FnOnce(Input<ifc::create_cq_in>) -> Input<ifc::create_cq_in>,
    ) -> Cq {
        let (buffer, pages) = self.ring(log);
        let record = self.driver.machine.alloc(64);
        let input = Input::new(raw::MLX5_CMD_OP_CREATE_CQ)
            .set(field!(create_cq_in, cq_context.log_cq_size), log.into())
            .set(field!(create_cq_in, cq_context.uar_page), self.uar.into())
            .set(
                field!(create_cq_in, cq_context.c_eqn_or_apu_element),
                self.events.eqn.into(),
            )
            .set(field!(create_cq_in, cq_context.dbr_addr), record)
            .list(&pages);
        let cqn = self.driver.ok(change(input), 16).number();
        Cq {
            cqn,
            buffer,
            record,
            log,
            ci: 0,
            sequence: 0,
        }
    }

    fn ring(&mut self, log: u32) -> (u64, Vec<u64>) {
        let bytes = 64usize << log;
        let buffer = self.driver.machine.alloc(bytes);
        for slot in 0..1u64 << log {
            self.driver.machine.poke(buffer + slot * 64 + 63, &[0xf1]);
        }
        let pages = (0..bytes.div_ceil(4096) as u64).map(|n| buffer + 4096 * n);
        (buffer, pages.collect())
    }

    /// Resizes a CQ and copies what was not consumed, as `copy_resize_cqes` does.
    pub fn resize(&mut self, cq: &mut Cq, log: u32) -> device::scaffold::driver::Answer {
        let (buffer, pages) = self.ring(log);
        let input = Input::<ifc::modify_cq_in>::new(raw::MLX5_CMD_OP_MODIFY_CQ)
            .op_mod(1)
            .set(field!(modify_cq_in, cqn), cq.cqn.into())
            .set(
                field!(
                    modify_cq_in,
                    modify_field_select_resize_field_select
                        .resize_field_select
                        .resize_field_select
                ),
                7,
            )
            .set(field!(modify_cq_in, cq_context.log_cq_size), log.into())
            .list(&pages);
        let answer = self.driver.exec(input, 16);
        if answer.status != 0 {
            return answer;
        }
        let mut index = cq.ci;
        loop {
            let from = cq.buffer + u64::from(index & ((1 << cq.log) - 1)) * 64;
            let mut raw = self.driver.machine.peek(from, 64);
            assert_eq!(
                u32::from(raw[63] & 1),
                index >> cq.log & 1,
                "a CQE is there"
            );
            if raw[63] >> 4 == 5 {
                break;
            }
            index = index.wrapping_add(1);
            let to = buffer + u64::from(index & ((1 << log) - 1)) * 64;
            raw[63] = raw[63] & !1 | (index >> log & 1) as u8;
            self.driver.machine.poke(to, &raw);
        }
        cq.ci = cq.ci.wrapping_add(1);
        (cq.buffer, cq.log) = (buffer, log);
        answer
    }

    /// Looks at the next completion and consumes it.
    pub fn poll(&mut self, cq: &mut Cq) -> Option<Wc> {
        let wc = self.poll_quietly(cq)?;
        let ci = (cq.ci & 0xff_ffff).to_be_bytes();
        self.driver.machine.poke(cq.record, &ci);
        Some(wc)
    }

    /// The same without telling the card.
    pub fn poll_quietly(&mut self, cq: &mut Cq) -> Option<Wc> {
        let slot = u64::from(cq.ci & ((1 << cq.log) - 1));
        let raw = self.driver.machine.peek(cq.buffer + slot * 64, 64);
        let own = raw[63];
        if own >> 4 == 0xf || u32::from(own & 1) != cq.ci >> cq.log & 1 {
            return None;
        }
        cq.ci = cq.ci.wrapping_add(1);
        let word = |at: usize| u32::from_be_bytes(raw[at..at + 4].try_into().unwrap());
        let opcode = own >> 4;
        let error = matches!(opcode, 13 | 14);
        Some(Wc {
            opcode,
            qpn: word(0x38) & 0xff_ffff,
            wqe_opcode: raw[0x38],
            counter: (word(0x3c) >> 16) as u16,
            bytes: word(0x2c),
            imm: word(0x24),
            flags_rqpn: word(0x18),
            syndrome: if error { raw[0x37] } else { 0 },
            vendor: if error { raw[0x36] } else { 0 },
            solicited: own & 2 != 0,
        })
    }

    /// A dword of the completion at an index of a CQ.
    pub fn completion_word(&self, cq: &Cq, index: u64, at: u64) -> u32 {
        let slot = index & ((1 << cq.log) - 1);
        let raw = self.driver.machine.peek(cq.buffer + slot * 64 + at, 4);
        raw.iter().fold(0, |all, byte| all << 8 | u32::from(*byte))
    }

    /// Asks for an event; `solicited` only for solicited completions.
    pub fn arm(&mut self, cq: &mut Cq, solicited: bool) {
        let word = cq.sequence << 28 | u32::from(solicited) << 24 | cq.ci & 0xff_ffff;
        self.driver.machine.poke(cq.record + 4, &word.to_be_bytes());
        let mut data = word.to_be_bytes().to_vec();
        data.extend(cq.cqn.to_be_bytes());
        let at = u64::from(self.uar) * 4096 + 0x20;
        self.driver.card.bar_write(at, &data);
    }

    /// Events since the last call.
    pub fn take_events(&mut self) -> Vec<Event> {
        let mut all = Vec::new();
        while let Some(event) = self.driver.next_event(&mut self.events) {
            all.push(event);
        }
        let events = self.events;
        self.driver.update_eq(&events, true);
        all
    }

    /// A queue pair in RESET; `st` as in the interface.
    pub fn qp(&mut self, st: u64, send: &Cq, recv: &Cq) -> Qp {
        self.qp_with(st, send, recv, |input| input)
    }

    pub fn qp_with(
        &mut self,
        st: u64,
        send: &Cq,
        recv: &Cq,
        change: impl FnOnce(Input<ifc::create_qp_in>) -> Input<ifc::create_qp_in>,
    ) -> Qp {
        let (log_sq, log_rq) = (5, 4);
        let sq_start = RQ_STRIDE << log_rq;
        let bytes = sq_start + (64 << log_sq);
        let buffer = self.driver.machine.alloc(bytes as usize);
        let record = self.driver.machine.alloc(64);
        let pages: Vec<u64> = (0..bytes.div_ceil(4096))
            .map(|n| buffer + 4096 * n)
            .collect();
        let input = Input::new(raw::MLX5_CMD_OP_CREATE_QP)
            .set(field!(create_qp_in, qpc.st), st)
            .set(field!(create_qp_in, qpc.pm_state), 3)
            .set(field!(create_qp_in, qpc.pd), self.pd.into())
            .set(field!(create_qp_in, qpc.log_sq_size), log_sq.into())
            .set(field!(create_qp_in, qpc.log_rq_size), log_rq.into())
            .set(field!(create_qp_in, qpc.log_rq_stride), 2)
            .set(field!(create_qp_in, qpc.uar_page), self.uar.into())
            .set(field!(create_qp_in, qpc.user_index), 0xff_ffff)
            .set(field!(create_qp_in, qpc.cqn_snd), send.cqn.into())
            .set(field!(create_qp_in, qpc.cqn_rcv), recv.cqn.into())
            .set(field!(create_qp_in, qpc.dbr_addr), record)
            .set(field!(create_qp_in, qpc.rlky), 1)
            .list(&pages);
        let qpn = self.driver.ok(change(input), 16).number();
        Qp {
            qpn,
            buffer,
            record,
            log_sq,
            log_rq,
            sq_pi: 0,
            rq_pi: 0,
            sq_start,
            uar: self.uar,
        }
    }

    pub fn move_init(&mut self, qp: &Qp, send: &Cq, recv: &Cq, qkey: u32) {
        let input = Input::<ifc::rst2init_qp_in>::new(raw::MLX5_CMD_OP_RST2INIT_QP)
            .set(field!(rst2init_qp_in, qpn), qp.qpn.into())
            .set(field!(rst2init_qp_in, qpc.pm_state), 3)
            .set(field!(rst2init_qp_in, qpc.pd), self.pd.into())
            .set(field!(rst2init_qp_in, qpc.cqn_snd), send.cqn.into())
            .set(field!(rst2init_qp_in, qpc.cqn_rcv), recv.cqn.into())
            .set(field!(rst2init_qp_in, qpc.q_key), qkey.into())
            .set(field!(rst2init_qp_in, qpc.rlky), 1)
            .set(
                field!(rst2init_qp_in, qpc.counter_set_id),
                self.counter_set.into(),
            )
            .set(
                field!(rst2init_qp_in, qpc.primary_address_path.vhca_port_num),
                1,
            );
        self.driver.ok(input, 16);
    }

    pub fn move_rtr(&mut self, qp: &Qp, peer: u32, mac: [u8; 6], gid: [u8; 16], link: Link) {
        let bit = |n: u8| u64::from(link.rights >> n & 1);
        let mac = mac
            .iter()
            .fold(0u64, |mac, byte| mac << 8 | u64::from(*byte));
        let mut input = Input::<ifc::init2rtr_qp_in>::new(raw::MLX5_CMD_OP_INIT2RTR_QP)
            .set(field!(init2rtr_qp_in, qpn), qp.qpn.into())
            .set(field!(init2rtr_qp_in, opt_param_mask), link.mask)
            .set(field!(init2rtr_qp_in, qpc.mtu), link.mtu.into())
            .set(field!(init2rtr_qp_in, qpc.log_msg_max), 30)
            .set(field!(init2rtr_qp_in, qpc.remote_qpn), peer.into())
            .set(field!(init2rtr_qp_in, qpc.next_rcv_psn), link.psn.into())
            .set(field!(init2rtr_qp_in, qpc.min_rnr_nak), 12)
            .set(field!(init2rtr_qp_in, qpc.log_rra_max), link.depth.into())
            .set(field!(init2rtr_qp_in, qpc.rwe), bit(1))
            .set(field!(init2rtr_qp_in, qpc.rre), bit(2))
            .set(field!(init2rtr_qp_in, qpc.rae), bit(3))
            .set(field!(init2rtr_qp_in, qpc.primary_address_path.grh), 1)
            .set(
                field!(init2rtr_qp_in, qpc.primary_address_path.hop_limit),
                64,
            )
            .set(
                field!(init2rtr_qp_in, qpc.primary_address_path.udp_sport),
                0xc123,
            )
            .set(
                field!(init2rtr_qp_in, qpc.primary_address_path.vhca_port_num),
                1,
            )
            .set(
                field!(init2rtr_qp_in, qpc.primary_address_path.rmac_47_32),
                mac >> 32,
            )
            .set(
                field!(init2rtr_qp_in, qpc.primary_address_path.rmac_31_0),
                mac & 0xffff_ffff,
            );
        Mut::<ifc::init2rtr_qp_in>::new(&mut input.bytes)
            .unwrap()
            .raw(span!(init2rtr_qp_in, qpc.primary_address_path.rgid_rip))
            .copy_from_slice(&gid);
        self.driver.ok(input, 16);
    }

    pub fn move_rts(&mut self, qp: &Qp, link: Link) {
        let input = Input::<ifc::rtr2rts_qp_in>::new(raw::MLX5_CMD_OP_RTR2RTS_QP)
            .set(field!(rtr2rts_qp_in, qpn), qp.qpn.into())
            .set(field!(rtr2rts_qp_in, qpc.next_send_psn), link.psn.into())
            .set(field!(rtr2rts_qp_in, qpc.log_sra_max), link.depth.into())
            .set(field!(rtr2rts_qp_in, qpc.retry_count), link.retry.into())
            .set(field!(rtr2rts_qp_in, qpc.rnr_retry), link.rnr_retry.into())
            .set(
                field!(rtr2rts_qp_in, qpc.primary_address_path.ack_timeout),
                link.timeout.into(),
            );
        self.driver.ok(input, 16);
    }

    pub fn move_err(&mut self, qp: &Qp) {
        let input = Input::<ifc::qp_2err_in>::new(raw::MLX5_CMD_OP_2ERR_QP)
            .set(field!(qp_2err_in, qpn), qp.qpn.into());
        self.driver.ok(input, 16);
    }

    pub fn move_rst(&mut self, qp: &mut Qp) {
        let input = Input::<ifc::qp_2rst_in>::new(raw::MLX5_CMD_OP_2RST_QP)
            .set(field!(qp_2rst_in, qpn), qp.qpn.into());
        self.driver.ok(input, 16);
        (qp.sq_pi, qp.rq_pi) = (0, 0);
        self.driver.machine.poke(qp.record, &[0; 8]);
    }

    pub fn state(&mut self, qp: &Qp) -> u8 {
        let input = Input::<ifc::query_qp_in>::new(raw::MLX5_CMD_OP_QUERY_QP)
            .set(field!(query_qp_in, qpn), qp.qpn.into());
        let out = mlx5_hw::field::bytes_of::<ifc::query_qp_out>();
        self.driver.ok(input, out).output[0x18] >> 4
    }

    /// Posts a request without ringing; `segments` follow the control segment.
    pub fn post(&mut self, qp: &mut Qp, opcode: u8, flags: u8, imm: u32, segments: &[u8]) {
        let ds = 1 + segments.len().div_ceil(16);
        let mut wqe = Vec::new();
        wqe.extend((u32::from(qp.sq_pi) << 8 | u32::from(opcode)).to_be_bytes());
        wqe.extend((qp.qpn << 8 | ds as u32).to_be_bytes());
        wqe.extend([0, 0, 0, flags]);
        wqe.extend(imm.to_be_bytes());
        wqe.extend(segments);
        self.post_raw(qp, &wqe);
    }

    /// Posts these bytes as they are.
    pub fn post_raw(&mut self, qp: &mut Qp, wqe: &[u8]) {
        let blocks = wqe.len().div_ceil(64);
        for (block, bytes) in wqe.chunks(64).enumerate() {
            let slot = u64::from(qp.sq_pi.wrapping_add(block as u16)) & ((1 << qp.log_sq) - 1);
            self.driver
                .machine
                .poke(qp.buffer + qp.sq_start + slot * 64, bytes);
        }
        qp.sq_pi = qp.sq_pi.wrapping_add(blocks as u16);
        let pi = u32::from(qp.sq_pi).to_be_bytes();
        self.driver.machine.poke(qp.record + 4, &pi);
    }

    pub fn doorbell(&mut self, qp: &Qp) {
        let index = u32::from(qp.sq_pi.wrapping_sub(1));
        let mut data = (index << 8).to_be_bytes().to_vec();
        data.extend((qp.qpn << 8).to_be_bytes());
        self.driver
            .card
            .bar_write(u64::from(qp.uar) * 4096 + 0x800, &data);
    }

    pub fn post_recv(&mut self, qp: &mut Qp, segments: &[(u32, u64, u32)]) {
        let slot = u64::from(qp.rq_pi) & ((1 << qp.log_rq) - 1);
        let mut wqe = data(segments);
        if (wqe.len() as u64) < RQ_STRIDE {
            wqe.extend(data(&[(0x100, 0, 0)]));
        }
        self.driver.machine.poke(qp.buffer + slot * RQ_STRIDE, &wqe);
        qp.rq_pi = qp.rq_pi.wrapping_add(1);
        let pi = u32::from(qp.rq_pi).to_be_bytes();
        self.driver.machine.poke(qp.record, &pi);
    }

    pub fn q_counter(&mut self, at: usize) -> u32 {
        let input = Input::<ifc::query_q_counter_in>::new(raw::MLX5_CMD_OP_QUERY_Q_COUNTER).set(
            field!(query_q_counter_in, counter_set_id),
            self.counter_set.into(),
        );
        let out = mlx5_hw::field::bytes_of::<ifc::query_q_counter_out>();
        self.driver.ok(input, out).word(at)
    }

    pub fn advance(&mut self, by: Duration) {
        self.driver.machine.advance(by);
        self.driver.card.tick();
    }
}

/// Data segments: key, address, length.
pub fn data(segments: &[(u32, u64, u32)]) -> Vec<u8> {
    segments
        .iter()
        .flat_map(|(key, va, len)| {
            let mut raw = len.to_be_bytes().to_vec();
            raw.extend(key.to_be_bytes());
            raw.extend(va.to_be_bytes());
            raw
        })
        .collect()
}

/// A remote address segment.
pub fn raddr(va: u64, rkey: u32) -> Vec<u8> {
    let mut raw = va.to_be_bytes().to_vec();
    raw.extend(rkey.to_be_bytes());
    raw.extend([0; 4]);
    raw
}
