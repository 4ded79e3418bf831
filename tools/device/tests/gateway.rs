// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What tools and boot programs reach through the vendor gateway: registers by ICMD, and the interface without
//! firmware pages.

use device::{
    card::{Card, Space},
    profile::Profile,
    scaffold::Machine,
};

const ICMD: u32 = 0x9001;
const MAILBOX: u32 = 0x10_0000;
const SEGMENT: u32 = 0x300;
const PORT: u32 = SEGMENT + 0x100;
const SEND: u32 = PORT + 0x80;
const RECEIVE: u32 = PORT + 0xc0;
const KEY: u32 = 0x400;

fn card() -> (Machine, Card) {
    let machine = Machine::new(16 << 20);
    let card = Card::new(
        Profile::shipped("default").expect("shipped"),
        machine.host(),
    );
    (machine, card)
}

/// Puts `words` into the mailbox, runs `opcode`: the status and the mailbox afterwards.
fn ask(card: &mut Card, opcode: u32, words: &[u32]) -> (u32, Vec<u32>) {
    for (at, word) in (MAILBOX..).step_by(4).zip(words) {
        assert_eq!(card.gateway(Space::Icmd, at, Some(*word)), Some(*word));
    }
    card.gateway(Space::Icmd, 0, Some(opcode << 16 | 1));
    let control = card.gateway(Space::Icmd, 0, None).expect("control word");
    assert_eq!(control & 1, 0, "busy");
    let read = |at| card.gateway(Space::Icmd, at, None).expect("mailbox");
    let answer = (MAILBOX..).step_by(4).take(words.len()).map(read).collect();
    (control >> 8 & 0xff, answer)
}

/// Operation TLV, register TLV, PMTU with local port 1.
fn pmtu(method: u32, mtu: u32) -> Vec<u32> {
    let detail = 0x5003 << 16 | method << 8 | 1;
    let register = 3 << 27 | 5 << 16;
    let operation = 1 << 27 | 4 << 16;
    vec![operation, detail, 0, 0, register, 1 << 16, 0, mtu << 16, 0]
}

fn status(answer: &[u32]) -> u32 {
    answer[0] >> 8 & 0x7f
}

#[test]
fn a_register_is_written_and_read_back_by_icmd() {
    let (_, mut card) = card();
    let (ok, answer) = ask(&mut card, ICMD, &pmtu(2, 1522));
    assert_eq!((ok, status(&answer)), (0, 0));
    let (_, answer) = ask(&mut card, ICMD, &pmtu(1, 0));
    assert_eq!((status(&answer), answer[7] >> 16), (0, 1522));
}

#[test]
fn what_icmd_does_not_offer_says_so() {
    let (_, mut card) = card();
    let size = card.gateway(Space::Icmd, 0x1000, None);
    assert!(size.is_some_and(|bytes| bytes >= 0x100));
    assert_eq!(ask(&mut card, 0x8007, &[]).0, 1, "opcode");
    assert_eq!(ask(&mut card, ICMD, &[0; 9]).0, 4, "no TLV");
    assert_eq!(ask(&mut card, 0x8400, &[1, 0]).0, 4, "debug capabilities");
    let general = vec![1 << 29 | 1 << 26, 0];
    assert_eq!(ask(&mut card, 0x8400, &[0, 0]), (0, general));
    let changed = |index: usize, word: u32| {
        let mut words = pmtu(1, 0);
        words[index] = word;
        words
    };
    let cases = [
        (changed(1, 0x9024 << 16 | 1 << 8 | 1), 4, "register"),
        (changed(1, 0x5003 << 16 | 1 << 8 | 2), 5, "class"),
        (changed(1, 0x5003 << 16 | 9 << 8 | 1), 6, "method"),
        (changed(4, 5 << 27 | 5 << 16), 3, "TLV"),
        (changed(4, 3 << 27 | 4 << 16), 7, "length"),
        (changed(5, 9 << 16), 7, "port"),
    ];
    for (words, expected, what) in cases {
        let (ok, answer) = ask(&mut card, ICMD, &words);
        assert_eq!((ok, status(&answer)), (0, expected), "{what}");
    }
    // A TLV longer than the mailbox.
    assert_eq!(
        ask(&mut card, ICMD, &changed(4, 3 << 27 | 0x7ff << 16)).0,
        4
    );
    assert_eq!(card.gateway(Space::Icmd, 0x4, None), None);
    assert_eq!(card.gateway(Space::Icmd, MAILBOX + 2, Some(1)), None);
}

/// Reads a management register by ICMD: status and content. `words` is the register as it is sent.
fn query(card: &mut Card, id: u32, words: &[u32]) -> (u32, Vec<u32>) {
    let len = words.len() as u32 + 1;
    let mut sent = vec![
        1 << 27 | 4 << 16,
        id << 16 | 1 << 8 | 1,
        0,
        0,
        3 << 27 | len << 16,
    ];
    sent.extend_from_slice(words);
    let (ok, answer) = ask(card, ICMD, &sent);
    assert_eq!(ok, 0, "ICMD status");
    (status(&answer), answer[5..].to_vec())
}

/// Asks MCAM for a group: bits of its 128 registers.
fn offered(card: &mut Card, group: u32) -> u128 {
    let mut words = [0; 18];
    words[0] = group;
    let (status, answer) = query(card, 0x907f, &words);
    assert_eq!(status, 0, "MCAM group {group}");
    answer[2..6]
        .iter()
        .fold(0, |mask, word| mask << 32 | u128::from(*word))
}

#[test]
fn tools_find_the_chip_before_they_ask_the_firmware() {
    let (_, mut card) = card();
    assert_eq!(card.gateway(Space::Chip, 0xf_0014, None), Some(0x212));
    let ready = card.gateway(Space::Chip, 0xb_5f04, None);
    assert_eq!(ready.map(|word| word >> 31), Some(0));
    assert_eq!(card.gateway(Space::Chip, 0xf_0010, None), None);
    assert_eq!(card.gateway(Space::Chip, 0xf_0014, Some(1)), None);
    // The health buffer tells the same chip.
    assert_eq!(card.gateway(Space::InitSegment, 0x234, None), Some(0x212));
}

#[test]
fn management_registers_that_mcam_names_are_there() {
    let (_, mut card) = card();
    let mask = offered(&mut card, 0);
    let named: Vec<u32> = (0..128).filter(|bit| mask >> bit & 1 != 0).collect();
    assert_eq!(named, [0x20, 0x60, 0x61, 0x62, 0x63, 0x64, 0x7f]);
    for bit in 0..128 {
        // One word is too short for each of them; a register that is not there says that instead.
        let (status, _) = query(&mut card, 0x9000 + bit, &[0]);
        let expected = if named.contains(&bit) { 7 } else { 4 };
        assert_eq!(status, expected, "register {:#x}", 0x9000 + bit);
    }
    assert_eq!((offered(&mut card, 1), offered(&mut card, 2)), (0, 0));
    let mut words = [0; 18];
    words[0] = 3;
    assert_eq!(query(&mut card, 0x907f, &words).0, 7, "group");
    words[0] = 1 << 16;
    assert_eq!(query(&mut card, 0x907f, &words).0, 7, "features");
}

#[test]
fn the_firmware_says_what_it_is() {
    let (_, mut card) = card();
    let (ok, mgir) = query(&mut card, 0x9020, &[0; 40]);
    assert_eq!(ok, 0);
    assert_eq!((mgir[0], mgir[2]), (0x101d, 0x212));
    assert_eq!((mgir[4], mgir[5]), (0x0200, 0x00c6_d001));
    assert_eq!(mgir[12].to_be_bytes(), *b"MT_0");
    assert_eq!(mgir[17..20], [22, 36, 1010]);

    let (ok, mcqs) = query(&mut card, 0x9060, &[0; 4]);
    assert_eq!((ok, mcqs[0] >> 31, mcqs[1]), (0, 1, 1));
    assert_eq!(query(&mut card, 0x9060, &[1, 0, 0, 0]).0, 7, "component");

    // Length only, then the version, then what does not exist.
    let mut words = [0; 37];
    words[2] = 1;
    let (ok, mcqi) = query(&mut card, 0x9061, &words[..6]);
    assert_eq!((ok, mcqi[3]), (0, 124));
    words[5] = 4;
    let (_, mcqi) = query(&mut card, 0x9061, &words[..6]);
    assert_eq!(mcqi[5], 0, "no room");
    words[5] = 128;
    let (ok, mcqi) = query(&mut card, 0x9061, &words);
    assert_eq!((ok, mcqi[5], mcqi[7]), (0, 124, 22 << 24 | 36 << 16 | 1010));
    assert_eq!(mcqi[14].to_be_bytes(), *b"22.3");
    for (index, word, what) in [
        (0, 1, "component"),
        (2, 3, "information"),
        (4, 125, "range"),
    ] {
        let mut words = words;
        words[index] = word;
        assert_eq!(query(&mut card, 0x9061, &words).0, 7, "{what}");
    }
}

#[test]
fn an_update_of_the_firmware_is_refused() {
    let (_, mut card) = card();
    let (ok, mcc) = query(&mut card, 0x9062, &[0; 8]);
    assert_eq!((ok, mcc), (0, vec![0; 8]), "idle");
    let lock = [
        1 << 27 | 4 << 16,
        0x9062 << 16 | 2 << 8 | 1,
        0,
        0,
        3 << 27 | 9 << 16,
    ];
    let words: Vec<u32> = lock.into_iter().chain([1, 0, 0, 0, 0, 0, 0, 0]).collect();
    let (_, answer) = ask(&mut card, ICMD, &words);
    assert_eq!(status(&answer), 7, "lock");
    assert_eq!(query(&mut card, 0x9063, &[0; 36]).0, 7, "data");
}

#[test]
fn texts_of_the_board_come_in_pieces() {
    let (_, mut card) = card();
    let mut words = [2, 0, 8, 0, 0, 0];
    let (ok, mqis) = query(&mut card, 0x9064, &words);
    assert_eq!((ok, mqis[1], mqis[2]), (0, 30, 8));
    assert_eq!(mqis[4].to_be_bytes(), *b"cxem");
    words[2] = 28 << 16 | 8;
    let (_, mqis) = query(&mut card, 0x9064, &words);
    assert_eq!(
        (mqis[2] & 0xffff, mqis[4]),
        (2, u32::from_be_bytes(*b"er\0\0"))
    );
    assert_eq!(query(&mut card, 0x9064, &[9, 0, 8, 0, 0, 0]).0, 7);
}

/// A boot program: the segment, and memory for its rings.
struct Boot {
    machine: Machine,
    card: Card,
    send: u64,
    receive: u64,
    cq: u64,
    buffers: u64,
}

impl Boot {
    /// As iPXE opens the card: interface chosen, rings and CQ of 64, 64 and 128 entries.
    fn new() -> Self {
        let (machine, card) = card();
        let (send, receive) = (machine.alloc(4096), machine.alloc(4096));
        let (cq, buffers) = (machine.alloc(8192), machine.alloc(65536));
        let mut boot = Self {
            machine,
            card,
            send,
            receive,
            cq,
            buffers,
        };
        assert_eq!(boot.get(0x240), SEGMENT);
        assert_ne!(boot.get(0x1fc) & 1 << 26, 0, "supported");
        boot.set(0x14, 1 << 9);
        assert_eq!(boot.get(SEGMENT) >> 24, 1, "revision");
        for (ring, address, log) in [(SEND, send, 12), (RECEIVE, receive, 10)] {
            boot.set(ring, (address >> 32) as u32);
            boot.set(ring + 4, address as u32 | log);
        }
        let log = boot.get(PORT + 0x6c) & 0x3f;
        assert_eq!(log, 7);
        boot.set(PORT + 0x68, (cq >> 32) as u32);
        boot.set(PORT + 0x6c, cq as u32 | log);
        boot.set(PORT + 4, 1 << 31 | 1 << 30);
        boot
    }

    fn get(&mut self, at: u32) -> u32 {
        self.card
            .gateway(Space::InitSegment, at, None)
            .expect("a register")
    }

    fn set(&mut self, at: u32, value: u32) {
        let done = self.card.gateway(Space::InitSegment, at, Some(value));
        assert_eq!(done, Some(value), "register {at:#x}");
    }

    /// Opcode, owner, index and number of completion `n`.
    fn completion(&self, n: u64) -> (u8, u8, u16, u32) {
        let raw = self.machine.peek(self.cq + 64 * n, 64);
        let index = u16::from_be_bytes([raw[60], raw[61]]);
        let number = u32::from_be_bytes([0, raw[57], raw[58], raw[59]]);
        (raw[63] >> 4, raw[63] & 1, index, number)
    }

    /// Posts a send of `payload` behind the 14 inlined bytes, as request `index`.
    fn post(&mut self, index: u16, header: &[u8; 14], payload: &[u8], key: u32) {
        let number = self.get(SEND + 0xc);
        let mut wqe = vec![0u8; 64];
        wqe[..4].copy_from_slice(&(u32::from(index) << 8 | 0xa).to_be_bytes());
        wqe[4..8].copy_from_slice(&(number << 8 | 4).to_be_bytes());
        wqe[11] = 3 << 2;
        wqe[28..30].copy_from_slice(&14u16.to_be_bytes());
        wqe[30..44].copy_from_slice(header);
        wqe[48..52].copy_from_slice(&(payload.len() as u32).to_be_bytes());
        wqe[52..56].copy_from_slice(&key.to_be_bytes());
        wqe[56..64].copy_from_slice(&self.buffers.to_be_bytes());
        let slot = u64::from(index % 64);
        self.machine.poke(self.send + 64 * slot, &wqe);
        self.machine.poke(self.buffers, payload);
        let next = u32::from(index.wrapping_add(1));
        self.set(SEND + 8, next << 8);
    }
}

const HEADER: [u8; 14] = [2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 8, 0x88, 0xb5];

#[test]
fn a_boot_program_sends() {
    let mut boot = Boot::new();
    boot.post(0, &HEADER, &[0x5a; 100], KEY);
    let frame = boot.machine.take_frame().expect("a frame");
    assert_eq!(frame[..14], HEADER);
    assert_eq!(frame[14..], [0x5a; 100]);
    let number = boot.get(SEND + 0xc);
    assert_eq!(boot.completion(0), (0, 0, 0, number));
    // A wrong key is an error completion, not a frame.
    boot.post(1, &HEADER, &[1; 10], KEY + 1);
    assert_eq!(boot.machine.take_frame(), None);
    assert_eq!(boot.completion(1), (13, 0, 1, number));
}

#[test]
fn a_boot_program_receives_what_it_asked_for() {
    let mut boot = Boot::new();
    let own = {
        let (high, low) = (boot.get(PORT + 8), boot.get(PORT + 0xc));
        let [.., a, b] = high.to_be_bytes();
        let [c, d, e, f] = low.to_be_bytes();
        [a, b, c, d, e, f]
    };
    let mut wqe = vec![0u8; 16];
    wqe[..4].copy_from_slice(&200u32.to_be_bytes());
    wqe[4..8].copy_from_slice(&KEY.to_be_bytes());
    wqe[8..].copy_from_slice(&boot.buffers.to_be_bytes());
    boot.machine.poke(boot.receive, &wqe);
    boot.machine.poke(boot.receive + 16, &wqe);

    let frame = |mac: &[u8; 6], len: usize| {
        let mut frame = mac.to_vec();
        frame.resize(len, 7);
        frame
    };
    // Nothing posted, then somebody else's frame: both are dropped.
    boot.card.receive(&frame(&own, 64));
    boot.set(RECEIVE + 8, 2 << 8);
    boot.card.receive(&frame(&[2, 9, 9, 9, 9, 9], 64));
    boot.card.receive(&frame(&own, 100));
    let number = boot.get(RECEIVE + 0xc);
    assert_eq!(boot.completion(0), (2, 0, 0, number));
    let stored = boot.machine.peek(boot.buffers, 100);
    assert_eq!(stored, frame(&own, 100));
    // Too long for the buffer: an error completion.
    boot.card.receive(&frame(&own, 300));
    assert_eq!(boot.completion(1), (14, 0, 1, number));
    // Promiscuous, but nothing left.
    boot.set(PORT + 4, 7 << 29);
    boot.card.receive(&frame(&[2, 9, 9, 9, 9, 9], 64));
    assert_eq!(boot.completion(2).0, 0);
}

#[test]
fn a_reset_ends_the_interface() {
    let mut boot = Boot::new();
    boot.card.reset(device::card::Reset::Bus);
    assert_eq!(boot.get(SEND), 0);
    let ring = Some(1 << 8);
    assert_eq!(boot.card.gateway(Space::InitSegment, SEND + 8, ring), None);
    assert_eq!(boot.get(0x14) >> 8 & 3, 0, "full driver");
    assert_eq!(boot.machine.take_frame(), None);
}
