// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Q counter sets: what queues count, summed by set.

use mlx5_hw::{
    field,
    field::{Mut, Ref},
    ifc, raw,
};

use crate::{
    cmd::{Command, Refused},
    hca::Hca,
    refuse,
    table::{Kind, Object},
    vport::own_vport,
};

macro_rules! counters {
    ($($name:ident,)+) => {
        /// One set. The counters have the names of QUERY_Q_COUNTER and wrap at 32 bits.
        #[derive(Clone, Debug, Default)]
        #[allow(missing_docs)]
        pub struct QCounter {
            $(pub $name: u32,)+
        }

        impl QCounter {
            fn show(&self, output: &mut Mut<'_, ifc::query_q_counter_out>) {
                $(output.set(field!(query_q_counter_out, $name), self.$name.into());)+
            }

            /// The counters that are not zero, for a dump.
            pub fn describe(&self) -> String {
                let mut words = Vec::new();
                $(if self.$name != 0 {
                    words.push(format!("{}={}", stringify!($name), self.$name));
                })+
                words.join(" ")
            }
        }
    };
}

counters! {
    rx_write_requests,
    rx_read_requests,
    rx_atomic_requests,
    rx_dct_connect,
    out_of_buffer,
    out_of_sequence,
    duplicate_request,
    rnr_nak_retry_err,
    packet_seq_err,
    implied_nak_seq_err,
    local_ack_timeout_err,
    req_rnr_retries_exceeded,
    resp_local_length_error,
    req_local_length_error,
    resp_local_qp_error,
    local_operation_error,
    resp_local_protection,
    req_local_protection,
    resp_cqe_error,
    req_cqe_error,
    req_mw_binding,
    req_bad_response,
    req_remote_invalid_request,
    resp_remote_invalid_request,
    req_remote_access_errors,
    resp_remote_access_errors,
    req_remote_operation_errors,
    req_transport_retries_exceeded,
    cq_overflow,
    resp_cqe_flush_error,
    req_cqe_flush_error,
    roce_adp_retrans,
    roce_adp_retrans_to,
    roce_slow_restart,
    roce_slow_restart_cnps,
    roce_slow_restart_trans,
}

impl Object for QCounter {
    const KIND: Kind = Kind::QCounter;

    fn footprint(&self) -> u64 {
        256
    }
}

impl Hca {
    /// Counts something in a set; set 0 and sets that do not exist count nothing.
    pub fn count_q(&mut self, set: u32, count: impl FnOnce(&mut QCounter)) {
        if let Some(counter) = self.q_counters.get_mut(set) {
            count(counter);
        }
    }
}

/// ALLOC_Q_COUNTER.
pub struct AllocQCounter;

impl Command for AllocQCounter {
    const OPCODE: u32 = raw::MLX5_CMD_OP_ALLOC_Q_COUNTER;
    type In = ifc::alloc_q_counter_in;
    type Out = ifc::alloc_q_counter_out;

    fn footprint(_input: Ref<'_, Self::In>) -> u64 {
        QCounter::default().footprint()
    }

    fn run(
        hca: &mut Hca,
        _input: Ref<'_, Self::In>,
        output: &mut Mut<'_, Self::Out>,
    ) -> Result<(), Refused> {
        let set = hca.q_counters.insert(QCounter::default())?;
        output.set(field!(alloc_q_counter_out, counter_set_id), set.into());
        Ok(())
    }
}

/// DEALLOC_Q_COUNTER.
pub struct DeallocQCounter;

impl Command for DeallocQCounter {
    const OPCODE: u32 = raw::MLX5_CMD_OP_DEALLOC_Q_COUNTER;
    type In = ifc::dealloc_q_counter_in;
    type Out = ifc::dealloc_q_counter_out;

    fn run(
        hca: &mut Hca,
        input: Ref<'_, Self::In>,
        _output: &mut Mut<'_, Self::Out>,
    ) -> Result<(), Refused> {
        let set = input.get32(field!(dealloc_q_counter_in, counter_set_id));
        hca.q_counters.remove(set)?;
        Ok(())
    }
}

/// QUERY_Q_COUNTER.
pub struct QueryQCounter;

impl Command for QueryQCounter {
    const OPCODE: u32 = raw::MLX5_CMD_OP_QUERY_Q_COUNTER;
    type In = ifc::query_q_counter_in;
    type Out = ifc::query_q_counter_out;

    fn run(
        hca: &mut Hca,
        input: Ref<'_, Self::In>,
        output: &mut Mut<'_, Self::Out>,
    ) -> Result<(), Refused> {
        own_vport(
            input.flag(field!(query_q_counter_in, other_vport)),
            input.get(field!(query_q_counter_in, vport_number)),
        )?;
        if input.flag(field!(query_q_counter_in, aggregate)) {
            refuse!(BadParam, 1, "sums over all sets are not offered");
        }
        let set = input.get32(field!(query_q_counter_in, counter_set_id));
        let counter = hca.q_counters.find_mut(set)?;
        counter.show(output);
        if input.flag(field!(query_q_counter_in, clear)) {
            *counter = QCounter::default();
        }
        Ok(())
    }
}
