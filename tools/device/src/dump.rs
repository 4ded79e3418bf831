// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Every object as a line: kind, number, colon, what it is like.

use crate::{
    hca::Hca,
    table::{Object, Table},
};

/// Which objects to show.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Only of this kind: `qp`, `flow-table`; upper and lower case, space and hyphen are the same.
    pub kind: Option<String>,
    /// Only of this number.
    pub number: Option<u32>,
}

impl Selection {
    /// Whether a line of [`Hca::dump`] is meant.
    pub fn has(&self, line: &str) -> bool {
        let name = line.split(':').next().unwrap_or_default();
        let (kind, number) = match name.rsplit_once(' ') {
            Some((kind, number)) => (kind, parse(number)),
            None => (name, None),
        };
        let same = |wanted: &String| plain(wanted) == plain(kind);
        self.kind.as_ref().is_none_or(same) && (self.number.is_none() || self.number == number)
    }
}

fn plain(kind: &str) -> String {
    kind.to_lowercase().replace(['-', '_'], " ")
}

fn parse(number: &str) -> Option<u32> {
    match number.strip_prefix("0x") {
        Some(hex) => u32::from_str_radix(hex, 16).ok(),
        None => number.parse().ok(),
    }
}

/// Objects that are a number and nothing more: who refers to them is all there is to say.
fn bare<T: Object>(table: &Table<T>) -> impl Iterator<Item = String> + '_ {
    table.iter().map(|(number, _)| {
        let users = table.references(number);
        format!("{} {number:#x}: used by {users}", T::KIND.text())
    })
}

impl Hca {
    /// Every object, one line each.
    pub fn dump(&self) -> Vec<String> {
        let mut lines = vec![
            self.vport.describe(),
            self.priorities.describe(),
            self.congestion.describe(),
        ];
        lines.extend(self.roce.iter().map(|(index, entry)| {
            let address = std::net::Ipv6Addr::from(entry.address);
            let mac = crate::vport::mac_text(&entry.mac);
            // The table counts from 0: version 1 is 0, version 2 is 2.
            let version = entry.version.max(1);
            let vlan = entry.vlan.map_or(String::new(), |id| format!(" VLAN {id}"));
            format!("RoCE address {index}: {address} MAC {mac} v{version}{vlan}")
        }));
        let sets = self.q_counters.iter();
        lines.extend(sets.map(|(set, one)| format!("Q counter {set}: {}", one.describe())));
        lines.extend(bare(&self.uars));
        lines.extend(bare(&self.pds));
        lines.extend(bare(&self.xrcds));
        lines.extend(bare(&self.transport_domains));
        lines.extend(self.eqs.iter().map(|(eqn, eq)| eq.describe(eqn)));
        lines.extend(self.cqs.iter().map(|(cqn, cq)| cq.describe(cqn)));
        lines.extend(self.mkeys.iter().map(|(index, mkey)| mkey.describe(index)));
        lines.extend(self.qps.iter().map(|(_, qp)| qp.describe()));
        lines.extend(self.srqs.iter().map(|(srqn, srq)| srq.describe(srqn)));
        lines.extend(self.tises.iter().map(|(tisn, tis)| tis.describe(tisn)));
        lines.extend(self.sqs.iter().map(|(sqn, sq)| sq.describe(sqn)));
        lines.extend(self.rqs.iter().map(|(rqn, rq)| rq.describe(rqn)));
        lines.extend(self.rqts.iter().map(|(rqtn, rqt)| rqt.describe(rqtn)));
        lines.extend(self.tirs.iter().map(|(tirn, tir)| tir.describe(tirn)));
        lines.extend(self.flow.describe());
        lines.extend(self.flow_counters.iter().map(|(id, one)| one.describe(id)));
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_selection_is_by_kind_and_number() {
        let select = |kind: Option<&str>, number| Selection {
            kind: kind.map(str::to_owned),
            number,
        };
        for (selection, line, expected) in [
            (select(None, None), "vport: MAC", true),
            (select(Some("qp"), None), "QP 0x80: Rc", true),
            (select(Some("qp"), Some(0x80)), "QP 0x80: Rc", true),
            (select(Some("qp"), Some(0x81)), "QP 0x80: Rc", false),
            (select(Some("qp"), Some(0x80)), "CQ 0x80: EQ", false),
            (
                select(Some("flow-table"), Some(2)),
                "flow table 0x2: level",
                true,
            ),
            (
                select(Some("roce_address"), Some(3)),
                "RoCE address 3: ::1",
                true,
            ),
        ] {
            assert_eq!(selection.has(line), expected, "{selection:?} {line}");
        }
    }
}
