// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One command of a trace.

use std::collections::BTreeMap;

/// Fields that name an object or a place in memory: that they are given is the same in every run, their value is not.
/// The last part of a dotted name counts.
const PLACES: &[&str] = &[
    "addr",
    "address",
    "c_eqn_or_apu_element",
    "counter_set_id",
    "cq_number",
    "cqn",
    "cqn_rcv",
    "cqn_snd",
    "dbr_addr",
    "dct_number",
    "eq_number",
    "flow_group_id",
    "group_id",
    "inline_rqn",
    "mkey_7_0",
    "mkey_index",
    "pd",
    "qpn",
    "remote_qpn",
    "rq_number",
    "rqn",
    "rqtn",
    "rx_hash_toeplitz_key",
    "next_rcv_psn",
    "next_send_psn",
    "source_l3_address",
    "rgid_rip",
    "rmac_31_0",
    "rmac_47_32",
    "sqn",
    "srqn_rmpn_xrqn",
    "start_addr",
    "table_id",
    "tirn",
    "tisn",
    "tisn_0_0",
    "transport_domain",
    "uar",
    "uar_page",
    "udp_sport",
    "underlay_qpn",
];

/// Fields that follow from how the pages of a buffer happen to lie in memory.
const CHANCE: &[&str] = &["log_page_size", "page_offset"];

/// A command of a driver, as far as two runs can be compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// Name; of ACCESS_REG with direction and register, of the others with a modifier
    /// or a service type that is not zero.
    pub command: String,
    /// Input fields that are not zero, without [`CHANCE`]. [`PLACES`] and lists are `*`.
    pub fields: BTreeMap<String, String>,
    /// Whether the card refused it.
    pub refused: bool,
}

impl Call {
    /// Reads `NUMBER MICROSECONDS NAME WORDS -> STATUS WORDS`; none when the line is something else.
    pub fn parse(line: &str) -> Option<Self> {
        let mut parts = line.splitn(3, ' ');
        let (_number, _micros, text) = (parts.next()?, parts.next()?, parts.next()?);
        let (input, result) = text.split_once(" -> ")?;
        let mut words = words(input).into_iter();
        let mut command = words.next()?.to_owned();
        let mut fields = BTreeMap::new();
        for word in words {
            match word.split_once('=') {
                // A direction, a register, a group of capabilities: part of the name.
                None => {
                    command.push(' ');
                    command.push_str(word);
                }
                Some(("op_mod" | "qpc.st", _)) => {
                    command.push(' ');
                    command.push_str(word);
                }
                Some((name, value)) => fields.extend(plain(name, value)),
            }
        }
        Some(Self {
            command,
            fields,
            refused: !(result == "OK" || result.starts_with("OK ")),
        })
    }
}

/// Name and value without what differs from run to run.
fn plain(name: &str, value: &str) -> Option<(String, String)> {
    let last = name.rsplit('.').next().unwrap_or(name);
    let last = last.split('[').next().unwrap_or(last);
    let value = match last {
        "list" => return Some((last.into(), "*".into())),
        _ if CHANCE.contains(&last) => return None,
        _ if PLACES.contains(&last) => "*",
        _ => value,
    };
    Some((name.into(), value.into()))
}

/// Words apart from each other by spaces, quoted text kept together.
fn words(text: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let (mut start, mut quoted, mut escaped) = (0, false, false);
    for (at, letter) in text.char_indices() {
        match letter {
            _ if escaped => escaped = false,
            '\\' => escaped = quoted,
            '"' => quoted = !quoted,
            ' ' if !quoted => {
                words.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    words.push(&text[start..]);
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(text: &str) -> Call {
        Call::parse(&format!("7 1234 {text}")).expect("a line")
    }

    #[test]
    fn names_carry_what_makes_them_another_command() {
        assert_eq!(call("ALLOC_PD -> OK pd=0x1").command, "ALLOC_PD");
        assert_eq!(
            call("ACCESS_REG read PTYS local_port=0x1 -> OK").command,
            "ACCESS_REG read PTYS"
        );
        assert_eq!(
            call("QUERY_HCA_CAP op_mod=0x7 -> OK").command,
            "QUERY_HCA_CAP op_mod=0x7"
        );
    }

    #[test]
    fn numbers_of_objects_and_addresses_do_not_count() {
        let call = call("CREATE_CQ ctx.uar_page=0x10 ctx.log=0x3 ctx.page_offset=0x18 ctx.key[2]=0x9 list[2]=00,01 -> OK cqn=0x400");
        let fields: Vec<(&str, &str)> = call
            .fields
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        assert_eq!(
            fields,
            [
                ("ctx.key[2]", "0x9"),
                ("ctx.log", "0x3"),
                ("ctx.uar_page", "*"),
                ("list", "*"),
            ]
        );
        assert!(!call.refused);
    }

    #[test]
    fn text_with_spaces_is_one_word() {
        let call =
            call(r#"SET_DRIVER_VERSION driver_version="Linux, \"x\" 1" -> BadParam 0x1: no"#);
        assert_eq!(call.fields["driver_version"], r#""Linux, \"x\" 1""#);
        assert!(call.refused);
    }

    #[test]
    fn other_lines_are_not_commands() {
        assert_eq!(Call::parse(""), None);
        assert_eq!(Call::parse("1 2 NAME without result"), None);
    }
}
