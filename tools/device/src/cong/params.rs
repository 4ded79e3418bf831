// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Parameters of both points.
//!
//! Bits of the selection: `MLX5_IB_RP_*_ATTR`, `MLX5_IB_NP_*_ATTR` in ib/cong.c. Units, ranges and
//! defaults: NVIDIA, "DCQCN CC Parameters", and the widths of the same parameters in mlxconfig.

use mlx5_hw::{
    field,
    field::{Mut, Ref},
    ifc,
};

use super::LINE_RATE;
use crate::{cmd::Refused, refuse};

macro_rules! parameters {
    (
        $(#[$doc:meta])*
        $name:ident of $layout:ident {
            $($(#[$field_doc:meta])* $bit:literal $field:ident = $default:literal in $range:expr,)+
        }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct $name {
            $($(#[$field_doc])* pub $field: u32,)+
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $($field: $default,)+ }
            }
        }

        impl $name {
            /// Bits of the selection that mean something.
            const SELECTABLE: u32 = $(1 << $bit)|+;

            pub(super) fn show(&self, output: &mut Mut<'_, ifc::$layout>) {
                $(output.set(field!($layout, $field), self.$field.into());)+
            }

            /// These with what `selection` selects of `input`; the rest of `input` says nothing.
            ///
            /// # Errors
            /// `BadParam` for a bit without a meaning and a value out of its range.
            pub(super) fn with(&self, input: Ref<'_, ifc::$layout>, selection: u32) -> Result<Self, Refused> {
                if selection & !Self::SELECTABLE != 0 {
                    refuse!(BadParam, 3, "selection {selection:#x} of {:#x}", Self::SELECTABLE);
                }
                let mut new = self.clone();
                $(if selection >> $bit & 1 != 0 {
                    let value = input.get32(field!($layout, $field));
                    if !$range.contains(&value) {
                        refuse!(BadParam, 4, "{} {value} is not in {:?}", stringify!($field), $range);
                    }
                    new.$field = value;
                })+
                Ok(new)
            }
        }
    };
}

parameters! {
    /// How QPs slow down, and how they recover.
    Rp of cong_control_r_roce_ecn_rp {
        /// A CNP always makes the current rate the target.
        1 clamp_tgt_rate = 0 in 0..=1,
        /// It does after an increase by the timer as well, and not only after one by the bytes.
        2 clamp_tgt_rate_after_time_inc = 1 in 0..=1,
        /// Time between increases, in microseconds.
        3 rpg_time_reset = 300 in 1..=131_071,
        /// Data between increases, in 64 bytes; 0 is never.
        4 rpg_byte_reset = 32_767 in 0..=32_767,
        /// Increases of one kind until the next stage.
        5 rpg_threshold = 1 in 1..=31,
        /// Rate of a QP at most, in Mb/s; 0 is that of the port.
        6 rpg_max_rate = 0 in 0..=LINE_RATE,
        /// Additive increase in Mb/s.
        7 rpg_ai_rate = 5 in 1..=LINE_RATE,
        /// Hyper increase in Mb/s.
        8 rpg_hai_rate = 50 in 1..=LINE_RATE,
        /// What a rate keeps of itself in one decrease, in percent.
        9 rpg_min_dec_fac = 50 in 0..=100,
        /// Rate of a QP at least, in Mb/s.
        10 rpg_min_rate = 1 in 1..=LINE_RATE,
        /// Rate after the first CNP in Mb/s; 0: it is decreased as by any other.
        11 rate_to_set_on_first_cnp = 0 in 0..=LINE_RATE,
        /// What alpha keeps of itself in an update, in 1024ths.
        12 dce_tcp_g = 1019 in 0..=1023,
        /// Time between updates of alpha, in microseconds.
        13 dce_tcp_rtt = 1 in 1..=131_071,
        /// Time between decreases, in microseconds.
        14 rate_reduce_monitor_period = 4 in 1..=u32::MAX,
        /// Alpha at the first CNP, in 1024ths.
        15 initial_alpha_value = 1023 in 1..=1023,
        /// A rate decreases by alpha / 2^this.
        16 rpg_gd = 11 in 10..=11,
    }
}

parameters! {
    /// What CNPs are like, and how many there are.
    Np of cong_control_r_roce_ecn_np {
        /// Time between two CNPs to one QP, in microseconds.
        2 min_time_between_cnps = 4 in 0..=4095,
        /// Their DSCP.
        3 cnp_dscp = 48 in 0..=63,
        /// 0: their priority is `cnp_802p_prio`; 1: that of the marked packet.
        4 cnp_prio_mode = 0 in 0..=1,
        /// Their priority in a VLAN.
        4 cnp_802p_prio = 6 in 0..=7,
    }
}

impl Rp {
    /// What an unlimited QP may send, in Mb/s.
    pub fn line(&self) -> u32 {
        match self.rpg_max_rate {
            0 => LINE_RATE,
            rate => rate,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mlx5_hw::status::Status;

    const BYTES: usize = 256;

    #[test]
    fn only_what_is_selected_changes() {
        let rp = Rp::default();
        let mut bytes = [0; BYTES];
        let mut input = Mut::new(&mut bytes).unwrap();
        Rp {
            rpg_ai_rate: 9,
            rpg_gd: 10,
            ..rp.clone()
        }
        .show(&mut input);
        let input = Ref::new(&bytes).unwrap();
        let expected = Rp {
            rpg_ai_rate: 9,
            ..rp.clone()
        };
        assert_eq!(rp.with(input, 1 << 7), Ok(expected));
        assert_eq!(rp.with(input, 0), Ok(rp.clone()));
        // Both fields of the priority have one bit.
        let mut bytes = [0; BYTES];
        let mut input = Mut::<ifc::cong_control_r_roce_ecn_np>::new(&mut bytes).unwrap();
        input.set(field!(cong_control_r_roce_ecn_np, cnp_802p_prio), 3);
        let np = Np::default();
        let new = np.with(Ref::new(&bytes).unwrap(), 1 << 4).unwrap();
        assert_eq!((new.cnp_prio_mode, new.cnp_802p_prio), (0, 3));
        assert_eq!((new.cnp_dscp, new.min_time_between_cnps), (48, 4));
    }

    #[test]
    fn bits_without_a_meaning_and_values_out_of_range_are_refused() {
        let rp = Rp::default();
        let zero = [0; BYTES];
        let code = |refused: Refused| (refused.status, refused.code);
        for bit in [0, 17, 31] {
            let refused = rp.with(Ref::new(&zero).unwrap(), 1 << bit).unwrap_err();
            assert_eq!(code(refused), (Status::BadParam, 3), "bit {bit}");
            let refused = Np::default().with(Ref::new(&zero).unwrap(), 1 << bit);
            assert_eq!(code(refused.unwrap_err()), (Status::BadParam, 3));
        }
        // Zero is out of range for these.
        for bit in [3, 5, 7, 8, 10, 13, 14, 15, 16] {
            let refused = rp.with(Ref::new(&zero).unwrap(), 1 << bit).unwrap_err();
            assert_eq!(code(refused), (Status::BadParam, 4), "bit {bit}");
        }
        let all = [0xff; BYTES];
        for bit in [3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 15, 16] {
            let refused = rp.with(Ref::new(&all).unwrap(), 1 << bit).unwrap_err();
            assert_eq!(code(refused), (Status::BadParam, 4), "bit {bit}");
        }
    }
}
