// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A card in memory with everything a netdev has, for tests: one EQ, one PA key, an SQ with its
//! TIS, RQs, a TIR, a root flow table. It plays the driver: it writes WQEs, doorbell records and
//! doorbells and reads CQEs, by the byte.

use mlx5_hw::{
    field,
    field::{bytes_of, Field, Mut, Ref},
    ifc, raw,
    status::Status,
};

use crate::{
    card::Card,
    cmd::{execute, Verdict},
    profile::Profile,
    scaffold::Machine,
};

/// log2 of CQEs and of WQEs of each queue.
pub(crate) const LOG: u64 = 4;

/// Bytes of each receive buffer.
pub(crate) const ROOM: u64 = 2048;

/// A work queue with the CQ it completes to.
pub(crate) struct Queue {
    pub(crate) number: u32,
    pub(crate) buffer: u64,
    pub(crate) record: u64,
    pub(crate) posted: u16,
    pub(crate) cqn: u32,
    cq: u64,
    cq_record: u64,
    consumer: u32,
}

pub(crate) struct Bench {
    pub(crate) machine: Machine,
    pub(crate) card: Card,
    pub(crate) pd: u32,
    pub(crate) domain: u32,
    pub(crate) uar: u32,
    pub(crate) key: u32,
    eqn: u32,
}

/// An input with its opcode, `list` behind its fixed part.
pub(crate) fn input<L>(opcode: u32, list: &[u8], fill: impl FnOnce(&mut Mut<'_, L>)) -> Vec<u8> {
    let mut bytes = vec![0; bytes_of::<L>()];
    let mut view = Mut::new(&mut bytes).unwrap();
    fill(&mut view);
    assert!(!view.overflowed());
    bytes[..2].copy_from_slice(&(opcode as u16).to_be_bytes());
    bytes.extend_from_slice(list);
    bytes
}

impl Bench {
    pub(crate) fn new() -> Self {
        let mut profile = Profile::shipped("default").unwrap();
        profile.pages.init = 1000;
        profile.pages.reserve = 1000;
        let machine = Machine::new(16 << 20);
        let card = Card::new(profile, machine.host());
        let mut bench = Self {
            machine,
            card,
            pd: 0,
            domain: 0,
            uar: 0,
            key: 0,
            eqn: 0,
        };
        bench.boot();
        bench.pd = bench.number(
            input::<ifc::alloc_pd_in>(raw::MLX5_CMD_OP_ALLOC_PD, &[], |_| ()),
            field!(alloc_pd_out, pd),
        );
        bench.domain = bench.alloc_domain();
        bench.uar = bench.number(
            input::<ifc::alloc_uar_in>(raw::MLX5_CMD_OP_ALLOC_UAR, &[], |_| ()),
            field!(alloc_uar_out, uar),
        );
        bench.eqn = bench.create_eq();
        bench.key = bench.create_key();
        bench
    }

    /// Runs a command.
    pub(crate) fn exec(&mut self, input: &[u8], out_len: usize) -> Result<Vec<u8>, Status> {
        let mut output = vec![0; out_len];
        match execute(self.card.hca(), input, out_len, &mut output) {
            Verdict::Done => Ok(output),
            Verdict::Refused(refused) => {
                assert!(!refused.what.is_empty());
                Err(refused.status)
            }
            Verdict::Parked => panic!("no pages left"),
        }
    }

    /// Runs a command that makes an object; its number.
    pub(crate) fn number<O>(&mut self, input: Vec<u8>, field: Field<O>) -> u32 {
        let output = self.exec(&input, bytes_of::<O>()).unwrap();
        Ref::<O>::new(&output).unwrap().get32(field)
    }

    /// Runs a command without result.
    pub(crate) fn run(&mut self, input: Vec<u8>) -> Result<(), Status> {
        self.exec(&input, 16).map(drop)
    }

    fn boot(&mut self) {
        self.run(input::<ifc::enable_hca_in>(
            raw::MLX5_CMD_OP_ENABLE_HCA,
            &[],
            |_| (),
        ))
        .unwrap();
        let asked = self.number(
            input::<ifc::query_pages_in>(raw::MLX5_CMD_OP_QUERY_PAGES, &[], |q| {
                q.set(field!(query_pages_in, op_mod), 2);
            }),
            field!(query_pages_out, num_pages),
        );
        // The card never touches the contents of its pages: any addresses do.
        let list: Vec<u8> = (0..asked)
            .flat_map(|page| (0x1_0000_0000 + u64::from(page) * 4096).to_be_bytes())
            .collect();
        self.run(input::<ifc::manage_pages_in>(
            raw::MLX5_CMD_OP_MANAGE_PAGES,
            &list,
            |m| {
                m.set(field!(manage_pages_in, op_mod), 1)
                    .set(field!(manage_pages_in, input_num_entries), asked.into());
            },
        ))
        .unwrap();
        self.run(input::<ifc::init_hca_in>(
            raw::MLX5_CMD_OP_INIT_HCA,
            &[],
            |_| (),
        ))
        .unwrap();
    }

    fn create_eq(&mut self) -> u32 {
        let buffer = self.machine.alloc(4096);
        let uar = self.uar;
        for slot in 0..64 {
            self.machine.poke(buffer + slot * 64 + 63, &[1]);
        }
        self.number(
            input::<ifc::create_eq_in>(
                raw::MLX5_CMD_OP_CREATE_EQ,
                &buffer.to_be_bytes(),
                |create| {
                    create
                        .set(field!(create_eq_in, eq_context_entry.log_eq_size), 6)
                        .set(field!(create_eq_in, eq_context_entry.uar_page), uar.into());
                },
            ),
            field!(create_eq_out, eq_number),
        )
    }

    fn create_key(&mut self) -> u32 {
        let pd = self.pd;
        let index = self.number(
            input::<ifc::create_mkey_in>(raw::MLX5_CMD_OP_CREATE_MKEY, &[], |create| {
                create
                    .set_flag(field!(create_mkey_in, memory_key_mkey_entry.lr), true)
                    .set_flag(field!(create_mkey_in, memory_key_mkey_entry.lw), true)
                    .set_flag(field!(create_mkey_in, memory_key_mkey_entry.length64), true)
                    .set(field!(create_mkey_in, memory_key_mkey_entry.qpn), 0xff_ffff)
                    .set(field!(create_mkey_in, memory_key_mkey_entry.pd), pd.into());
            }),
            field!(create_mkey_out, mkey_index),
        );
        index << 8
    }

    pub(crate) fn alloc_domain(&mut self) -> u32 {
        self.number(
            input::<ifc::alloc_transport_domain_in>(
                raw::MLX5_CMD_OP_ALLOC_TRANSPORT_DOMAIN,
                &[],
                |_| (),
            ),
            field!(alloc_transport_domain_out, transport_domain),
        )
    }

    fn create_cq(&mut self) -> (u32, u64, u64) {
        let (buffer, record) = (self.machine.alloc(4096), self.machine.alloc(64));
        for slot in 0..1 << LOG {
            self.machine.poke(buffer + slot * 64 + 63, &[0xf1]);
        }
        let (uar, eqn) = (self.uar, self.eqn);
        let cqn = self.number(
            input::<ifc::create_cq_in>(
                raw::MLX5_CMD_OP_CREATE_CQ,
                &buffer.to_be_bytes(),
                |create| {
                    create
                        .set(field!(create_cq_in, cq_context.log_cq_size), LOG)
                        .set(field!(create_cq_in, cq_context.uar_page), uar.into())
                        .set(
                            field!(create_cq_in, cq_context.c_eqn_or_apu_element),
                            eqn.into(),
                        )
                        .set(field!(create_cq_in, cq_context.dbr_addr), record);
                },
            ),
            field!(create_cq_out, cqn),
        );
        (cqn, buffer, record)
    }

    fn queue(&mut self) -> Queue {
        let (cqn, cq, cq_record) = self.create_cq();
        Queue {
            number: 0,
            buffer: self.machine.alloc(4096),
            record: self.machine.alloc(64),
            posted: 0,
            cqn,
            cq,
            cq_record,
            consumer: 0,
        }
    }

    pub(crate) fn create_tis(&mut self, domain: u32) -> u32 {
        self.number(
            input::<ifc::create_tis_in>(raw::MLX5_CMD_OP_CREATE_TIS, &[], |create| {
                create.set(field!(create_tis_in, ctx.transport_domain), domain.into());
            }),
            field!(create_tis_out, tisn),
        )
    }

    /// An SQ of 16 blocks in state RDY, with a TIS of the domain.
    pub(crate) fn create_sq(&mut self) -> Queue {
        let tisn = self.create_tis(self.domain);
        self.create_sq_of(Some(tisn))
    }

    /// An SQ of 16 blocks in state RDY.
    pub(crate) fn create_sq_of(&mut self, tisn: Option<u32>) -> Queue {
        let mut queue = self.queue();
        let (uar, pd) = (self.uar, self.pd);
        queue.number = self.number(
            input::<ifc::create_sq_in>(
                raw::MLX5_CMD_OP_CREATE_SQ,
                &queue.buffer.to_be_bytes(),
                |create| {
                    create
                        .set(field!(create_sq_in, ctx.cqn), queue.cqn.into())
                        .set(field!(create_sq_in, ctx.flush_in_error_en), 1)
                        .set(field!(create_sq_in, ctx.tis_lst_sz), tisn.is_some().into())
                        .set(
                            field!(create_sq_in, ctx.tis_num_0),
                            tisn.unwrap_or(0).into(),
                        )
                        .set(field!(create_sq_in, ctx.wq.wq_type), 1)
                        .set(field!(create_sq_in, ctx.wq.pd), pd.into())
                        .set(field!(create_sq_in, ctx.wq.uar_page), uar.into())
                        .set(field!(create_sq_in, ctx.wq.dbr_addr), queue.record)
                        .set(field!(create_sq_in, ctx.wq.log_wq_stride), 6)
                        .set(field!(create_sq_in, ctx.wq.log_wq_sz), LOG);
                },
            ),
            field!(create_sq_out, sqn),
        );
        self.modify_sq(&queue, 0, 1).unwrap();
        queue
    }

    pub(crate) fn modify_sq(&mut self, queue: &Queue, from: u64, to: u64) -> Result<(), Status> {
        self.run(input::<ifc::modify_sq_in>(
            raw::MLX5_CMD_OP_MODIFY_SQ,
            &[],
            |modify| {
                modify
                    .set(field!(modify_sq_in, sqn), queue.number.into())
                    .set(field!(modify_sq_in, sq_state), from)
                    .set(field!(modify_sq_in, ctx.state), to);
            },
        ))?;
        self.card.hca().work(1000);
        Ok(())
    }

    /// An RQ of 16 WQEs in state RDY; nothing is posted.
    pub(crate) fn create_rq(&mut self, keep_vlan: bool) -> Queue {
        let mut queue = self.queue();
        let pd = self.pd;
        queue.number = self.number(
            input::<ifc::create_rq_in>(
                raw::MLX5_CMD_OP_CREATE_RQ,
                &queue.buffer.to_be_bytes(),
                |create| {
                    create
                        .set(field!(create_rq_in, ctx.cqn), queue.cqn.into())
                        .set(field!(create_rq_in, ctx.flush_in_error_en), 1)
                        .set_flag(field!(create_rq_in, ctx.vsd), keep_vlan)
                        .set(field!(create_rq_in, ctx.wq.wq_type), 1)
                        .set(field!(create_rq_in, ctx.wq.pd), pd.into())
                        .set(field!(create_rq_in, ctx.wq.dbr_addr), queue.record)
                        .set(field!(create_rq_in, ctx.wq.log_wq_stride), 4)
                        .set(field!(create_rq_in, ctx.wq.log_wq_sz), LOG);
                },
            ),
            field!(create_rq_out, rqn),
        );
        self.modify_rq(&queue, 0, 1).unwrap();
        queue
    }

    pub(crate) fn modify_rq(&mut self, queue: &Queue, from: u64, to: u64) -> Result<(), Status> {
        self.run(input::<ifc::modify_rq_in>(
            raw::MLX5_CMD_OP_MODIFY_RQ,
            &[],
            |modify| {
                modify
                    .set(field!(modify_rq_in, rqn), queue.number.into())
                    .set(field!(modify_rq_in, rq_state), from)
                    .set(field!(modify_rq_in, ctx.state), to);
            },
        ))
    }

    /// Posts `count` WQEs of [`ROOM`] bytes; the address of the first buffer.
    pub(crate) fn post_receives(&mut self, rq: &mut Queue, count: u16) -> u64 {
        let data = self.machine.alloc(usize::from(count) * ROOM as usize);
        for index in 0..count {
            let slot = u64::from(rq.posted & 0xf) * 16;
            let segment = data_segment(ROOM as u32, self.key, data + u64::from(index) * ROOM);
            self.machine.poke(rq.buffer + slot, &segment);
            rq.posted = rq.posted.wrapping_add(1);
        }
        let record = u32::from(rq.posted).to_be_bytes();
        self.machine.poke(rq.record, &record);
        data
    }

    /// Posts a WQE (its control segment is filled in here) and rings the doorbell.
    pub(crate) fn post_send(&mut self, sq: &mut Queue, opcode: u8, rest: &[u8]) {
        let segments = (16 + rest.len()).div_ceil(16);
        let mut wqe = vec![0; segments.div_ceil(4) * 64];
        wqe[3] = opcode;
        wqe[1..3].copy_from_slice(&sq.posted.to_be_bytes());
        wqe[4..8].copy_from_slice(&(sq.number << 8 | segments as u32).to_be_bytes());
        wqe[11] = 2 << 2;
        wqe[16..16 + rest.len()].copy_from_slice(rest);
        self.post_raw(sq, &wqe);
    }

    /// Posts whole blocks as they are.
    pub(crate) fn post_raw(&mut self, sq: &mut Queue, wqe: &[u8]) {
        for block in wqe.chunks(64) {
            let slot = u64::from(sq.posted & 0xf) * 64;
            self.machine.poke(sq.buffer + slot, block);
            sq.posted = sq.posted.wrapping_add(1);
        }
        self.ring(sq, &wqe[..8]);
    }

    /// Writes the doorbell record and rings the doorbell.
    pub(crate) fn ring(&mut self, sq: &Queue, control: &[u8]) {
        let record = u32::from(sq.posted).to_be_bytes();
        self.machine.poke(sq.record + 4, &record);
        let mut doorbell = control.to_vec();
        doorbell[4..7].copy_from_slice(&sq.number.to_be_bytes()[1..]);
        let at = u64::from(self.uar) * 4096 + 0x800;
        self.card.bar_write(at, &doorbell);
    }

    /// The next CQE of a queue.
    pub(crate) fn poll(&mut self, queue: &mut Queue) -> Option<Vec<u8>> {
        let slot = u64::from(queue.consumer & 0xf) * 64;
        let cqe = self.machine.peek(queue.cq + slot, 64);
        let owner = (queue.consumer >> LOG & 1) as u8;
        if cqe[63] & 1 != owner || cqe[63] >> 4 == 0xf {
            return None;
        }
        queue.consumer += 1;
        let record = queue.consumer.to_be_bytes();
        self.machine.poke(queue.cq_record, &record);
        Some(cqe)
    }

    pub(crate) fn create_rqt(&mut self, rqns: &[u32]) -> Result<u32, Status> {
        let list: Vec<u8> = rqns.iter().flat_map(|rqn| rqn.to_be_bytes()).collect();
        let input = input::<ifc::create_rqt_in>(raw::MLX5_CMD_OP_CREATE_RQT, &list, |create| {
            create
                .set(field!(create_rqt_in, rqt_context.rqt_max_size), 16)
                .set(
                    field!(create_rqt_in, rqt_context.rqt_actual_size),
                    rqns.len() as u64,
                );
        });
        let output = self.exec(&input, bytes_of::<ifc::create_rqt_out>())?;
        let output = Ref::<ifc::create_rqt_out>::new(&output).unwrap();
        Ok(output.get32(field!(create_rqt_out, rqtn)))
    }

    /// A TIR; `fill` gets what the domain and nothing else has been set in.
    pub(crate) fn create_tir(
        &mut self,
        fill: impl FnOnce(&mut Mut<'_, ifc::create_tir_in>),
    ) -> Result<u32, Status> {
        let domain = self.domain;
        let input = input::<ifc::create_tir_in>(raw::MLX5_CMD_OP_CREATE_TIR, &[], |create| {
            create.set(field!(create_tir_in, ctx.transport_domain), domain.into());
            fill(create);
        });
        let output = self.exec(&input, bytes_of::<ifc::create_tir_out>())?;
        let output = Ref::<ifc::create_tir_out>::new(&output).unwrap();
        Ok(output.get32(field!(create_tir_out, tirn)))
    }

    pub(crate) fn direct_tir(&mut self, rqn: u32) -> u32 {
        self.create_tir(|create| {
            create.set(field!(create_tir_in, ctx.inline_rqn), rqn.into());
        })
        .unwrap()
    }

    /// A root table with one catch-all entry that leads to a TIR; table and group.
    pub(crate) fn steer_all(&mut self, tirn: u32) -> (u32, u32) {
        let table = self.number(
            input::<ifc::create_flow_table_in>(raw::MLX5_CMD_OP_CREATE_FLOW_TABLE, &[], |create| {
                create.set(field!(create_flow_table_in, flow_table_context.log_size), 2);
            }),
            field!(create_flow_table_out, table_id),
        );
        let group = self.number(
            input::<ifc::create_flow_group_in>(raw::MLX5_CMD_OP_CREATE_FLOW_GROUP, &[], |create| {
                create
                    .set(field!(create_flow_group_in, table_id), table.into())
                    .set(field!(create_flow_group_in, end_flow_index), 3);
            }),
            field!(create_flow_group_out, group_id),
        );
        self.set_entry(table, group, 0, tirn).unwrap();
        self.run(input::<ifc::set_flow_table_root_in>(
            raw::MLX5_CMD_OP_SET_FLOW_TABLE_ROOT,
            &[],
            |set| {
                set.set(field!(set_flow_table_root_in, table_id), table.into());
            },
        ))
        .unwrap();
        (table, group)
    }

    pub(crate) fn set_entry(
        &mut self,
        table: u32,
        group: u32,
        index: u32,
        tirn: u32,
    ) -> Result<(), Status> {
        let destination = (u64::from(2u32 << 24 | tirn) << 32).to_be_bytes();
        self.run(input::<ifc::set_fte_in>(
            raw::MLX5_CMD_OP_SET_FLOW_TABLE_ENTRY,
            &destination,
            |set| {
                set.set(field!(set_fte_in, table_id), table.into())
                    .set(field!(set_fte_in, flow_index), index.into())
                    .set(field!(set_fte_in, flow_context.group_id), group.into())
                    .set(field!(set_fte_in, flow_context.flow_tag), 0x77)
                    .set(field!(set_fte_in, flow_context.action), 4)
                    .set(field!(set_fte_in, flow_context.destination_list_size), 1);
            },
        ))
    }

    /// Reads a register with these bytes as the question, or writes them.
    pub(crate) fn register(&mut self, id: u32, write: bool, bytes: &[u8]) -> Vec<u8> {
        let access =
            input::<ifc::access_register_in>(raw::MLX5_CMD_OP_ACCESS_REG, bytes, |input| {
                input
                    .set(field!(access_register_in, op_mod), u64::from(!write))
                    .set(field!(access_register_in, register_id), id.into());
            });
        let head = bytes_of::<ifc::access_register_out>();
        self.exec(&access, head + bytes.len()).unwrap()[head..].to_vec()
    }

    /// Sets the MTU of the port, in bytes with Ethernet header and FCS.
    pub(crate) fn set_port_mtu(&mut self, bytes: u16) {
        let mut register = vec![0; bytes_of::<ifc::pmtu_reg>()];
        Mut::<ifc::pmtu_reg>::new(&mut register)
            .unwrap()
            .set(field!(pmtu_reg, local_port), 1)
            .set(field!(pmtu_reg, admin_mtu), bytes.into());
        self.register(raw::MLX5_REG_PMTU, true, &register);
    }

    /// MAC address of the card.
    pub(crate) fn mac(&self) -> [u8; 6] {
        self.card.profile().port.mac
    }
}

/// A data segment.
pub(crate) fn data_segment(len: u32, key: u32, addr: u64) -> Vec<u8> {
    let parts = [len.to_be_bytes(), key.to_be_bytes()].concat();
    [parts.as_slice(), &addr.to_be_bytes()].concat()
}

/// An Ethernet segment with inlined headers.
pub(crate) fn eth_segment(cs_flags: u8, mss: u16, inlined: &[u8]) -> Vec<u8> {
    let mut segment = vec![0; 14];
    segment[4] = cs_flags;
    segment[6..8].copy_from_slice(&mss.to_be_bytes());
    segment[12..14].copy_from_slice(&(inlined.len() as u16).to_be_bytes());
    segment.extend_from_slice(inlined);
    segment.resize(segment.len().next_multiple_of(16), 0);
    segment
}
