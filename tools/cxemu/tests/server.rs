// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The running binary, seen by a client that speaks vfio-user as QEMU does.

use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::process::{Child, Command, Output};
use std::time::{Duration, Instant};

use rustix::event::{eventfd, EventfdFlags};
use vfio_bindings::bindings::vfio::{
    VFIO_IRQ_SET_ACTION_TRIGGER, VFIO_IRQ_SET_DATA_EVENTFD, VFIO_IRQ_SET_DATA_NONE,
};
use vfio_user::Client;

const BAR0: u32 = 0;
const CONFIG: u32 = 7;
const MSIX: u32 = 2;
const RAM: u64 = 1 << 20;

/// A card in a process of its own.
struct Card {
    child: Child,
    directory: PathBuf,
}

impl Card {
    fn start(name: &str) -> Self {
        let directory = std::env::temp_dir().join(format!("cxemu-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let child = Command::new(env!("CARGO_BIN_EXE_cxemu"))
            .arg("--socket")
            .arg(directory.join("card"))
            .arg("--ctl")
            .arg(directory.join("ctl"))
            .args(["--log", "error"])
            .spawn()
            .unwrap();
        Self { child, directory }
    }

    /// Connects as soon as the socket is there.
    fn client(&self) -> Client {
        connect(&self.directory.join("card"))
    }

    fn ctl(&self, words: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_cxemu"))
            .args(["ctl", "--ctl"])
            .arg(self.directory.join("ctl"))
            .arg("--")
            .args(words)
            .output()
            .unwrap()
    }
}

impl Drop for Card {
    fn drop(&mut self) {
        let alive = matches!(self.child.try_wait(), Ok(None));
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.directory);
        if !std::thread::panicking() {
            assert!(alive, "the card ended by itself");
        }
    }
}

/// Connects as soon as the socket is there.
fn connect(socket: &std::path::Path) -> Client {
    let start = Instant::now();
    loop {
        match Client::new(socket) {
            Ok(client) => return client,
            Err(error) => assert!(start.elapsed() < Duration::from_secs(10), "{error}"),
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn read32(client: &mut Client, region: u32, offset: u64) -> u32 {
    let mut bytes = [0; 4];
    client.region_read(region, offset, &mut bytes).unwrap();
    u32::from_le_bytes(bytes)
}

fn write32(client: &mut Client, region: u32, offset: u64, value: u32) {
    client
        .region_write(region, offset, &value.to_le_bytes())
        .unwrap();
}

/// Memory decoding and bus mastering on, RAM at 0.
fn enable(client: &mut Client) -> File {
    let ram = File::from(rustix::fs::memfd_create("ram", rustix::fs::MemfdFlags::CLOEXEC).unwrap());
    ram.set_len(RAM).unwrap();
    client.dma_map(0, 0, RAM, ram.as_raw_fd()).unwrap();
    write32(client, CONFIG, 0x04, 0x6);
    ram
}

#[test]
fn regions_and_identity_are_those_of_the_card() {
    let card = Card::start("identity");
    let mut client = card.client();
    assert_eq!(client.region(BAR0).unwrap().size, 32 << 20);
    assert_eq!(client.region(CONFIG).unwrap().size, 4096);
    assert_eq!(client.get_irq_info(MSIX).unwrap().count, 64);
    assert_eq!(read32(&mut client, CONFIG, 0), 0x101d_15b3);
}

#[test]
fn registers_answer_only_while_decoding_is_on() {
    let card = Card::start("decoding");
    let mut client = card.client();
    assert_eq!(read32(&mut client, BAR0, 0), !0);
    enable(&mut client);
    // Command interface revision 5 in the upper half of the second word, big endian.
    assert_eq!(read32(&mut client, BAR0, 4).swap_bytes() >> 16, 5);
    assert_eq!(read32(&mut client, BAR0, (32 << 20) - 2), !0);
    write32(&mut client, CONFIG, 0x04, 0);
    assert_eq!(read32(&mut client, BAR0, 4), !0);
}

#[test]
fn the_next_client_finds_a_fresh_card() {
    let card = Card::start("next");
    let mut first = card.client();
    enable(&mut first);
    assert_eq!(read32(&mut first, CONFIG, 4) & 6, 6);
    first.shutdown().unwrap();
    drop(first);
    let mut second = card.client();
    assert_eq!(read32(&mut second, CONFIG, 4) & 6, 0);
    let bus = card.ctl(&["bus"]);
    assert!(String::from_utf8_lossy(&bus.stdout).contains("\"dma_windows\": 0"));
}

#[test]
fn a_reset_message_restores_defaults() {
    let card = Card::start("reset");
    let mut client = card.client();
    enable(&mut client);
    client.reset().unwrap();
    assert_eq!(read32(&mut client, CONFIG, 4) & 6, 0);
}

#[test]
fn interrupts_reach_the_descriptor_of_their_vector() {
    let card = Card::start("irq");
    let mut client = card.client();
    enable(&mut client);
    client
        .region_write(CONFIG, 0x9e, &0x8000u16.to_le_bytes())
        .unwrap();
    let line: OwnedFd = eventfd(0, EventfdFlags::NONBLOCK).unwrap();
    let connect = VFIO_IRQ_SET_DATA_EVENTFD | VFIO_IRQ_SET_ACTION_TRIGGER;
    let trigger = VFIO_IRQ_SET_DATA_NONE | VFIO_IRQ_SET_ACTION_TRIGGER;
    // Raised before there is a descriptor, it waits.
    client.set_irqs(MSIX, trigger, 3, 1, &[]).unwrap();
    let mut bits = [0; 8];
    client.region_read(BAR0, 0x3000, &mut bits).unwrap();
    assert_eq!(u64::from_le_bytes(bits), 1 << 3);
    client
        .set_irqs(MSIX, connect, 3, 1, &[line.as_raw_fd()])
        .unwrap();
    client.set_irqs(MSIX, trigger, 3, 1, &[]).unwrap();
    let mut count = [0; 8];
    rustix::io::read(&line, &mut count).unwrap();
    assert_eq!(u64::from_ne_bytes(count), 2);
    // Without the descriptor nothing fires, and vectors that do not exist hurt nobody.
    client.set_irqs(MSIX, connect, 3, 1, &[]).unwrap();
    client.set_irqs(MSIX, trigger, 3, 1, &[]).unwrap();
    client.set_irqs(MSIX, trigger, u32::MAX, 2, &[]).unwrap();
    client.set_irqs(MSIX, trigger, 0, 100_000, &[]).unwrap();
    assert!(rustix::io::read(&line, &mut count).is_err());
    assert_eq!(read32(&mut client, CONFIG, 0), 0x101d_15b3);
}

#[test]
fn no_access_stops_the_card() {
    let card = Card::start("storm");
    let mut client = card.client();
    enable(&mut client);
    let mut state = 0x1234_5678_9abc_def1u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    for _ in 0..20_000 {
        let word = random();
        let region = [BAR0, BAR0, CONFIG, 6, 8][(word % 5) as usize];
        let offset = match word >> 8 & 7 {
            // Registers of the init segment, of a doorbell page, configuration, anywhere.
            0..=2 => random() % 0x2100 & !3,
            3 | 4 => 0x10000 + (random() % 0x10000 & !7),
            5 => random() % 4200,
            6 => (32 << 20) - random() % 64,
            _ => random(),
        };
        let len = [1, 2, 4, 4, 8, 8, 3, 64][(word >> 16 & 7) as usize];
        if word >> 24 & 1 == 0 {
            let bytes: Vec<u8> = (0..len).map(|_| random() as u8).collect();
            client.region_write(region, offset, &bytes).unwrap();
        } else {
            client
                .region_read(region, offset, &mut vec![0; len])
                .unwrap();
        }
    }
    client.reset().unwrap();
    assert_eq!(read32(&mut client, CONFIG, 0), 0x101d_15b3);
    assert!(card.ctl(&["counters"]).status.success());
}

#[test]
fn control_words_act_and_refusals_say_why() {
    let card = Card::start("ctl");
    let mut client = card.client();
    assert!(card.ctl(&["aer", "uncorrectable=0x4000"]).status.success());
    assert_eq!(read32(&mut client, CONFIG, 0x104), 0x4000);
    assert!(card
        .ctl(&["retrain", "speed=3", "width=8"])
        .status
        .success());
    assert_eq!(read32(&mut client, CONFIG, 0x70) >> 16 & 0x3ff, 3 | 8 << 4);
    assert!(card.ctl(&["link", "down"]).status.success());
    let counters = card.ctl(&["counters"]);
    assert!(String::from_utf8_lossy(&counters.stdout).contains("\"carrier\": false"));
    let refused = card.ctl(&["inject", "qp-context", "qpn=77"]);
    assert!(!refused.status.success());
    assert!(String::from_utf8_lossy(&refused.stderr).contains("QP"));
    assert!(!card
        .ctl(&["aer", "uncorrectable=0x80000000"])
        .status
        .success());
}

/// A process with two cards and a cable between them.
#[test]
fn two_cards_of_a_process_share_only_their_cable() {
    let directory = std::env::temp_dir().join(format!("cxemu-{}-two", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let at = |name: &str| directory.join(name).display().to_string();
    let start = |cards: &[String]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cxemu"));
        command.args(["--log", "error"]);
        for card in cards {
            command.args(["--card", card]);
        }
        command
    };
    let card = |name: &str, more: &str| {
        format!(
            "socket={},ctl={},{more}",
            at(name),
            at(&format!("{name}.ctl"))
        )
    };
    let other = "link=join:x,mac=02:00:00:00:00:02";
    // What cannot be says so at once.
    for (second, why) in [
        (card("two", "link=join:x"), "same address"),
        (
            card("two", "link=join:y,mac=02:00:00:00:00:02"),
            "only one end",
        ),
    ] {
        let output = start(&[card("one", "link=join:x"), second])
            .output()
            .unwrap();
        assert!(!output.status.success());
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(text.contains(why), "{text}");
    }
    let child = start(&[card("one", "link=join:x"), card("two", other)])
        .arg("--once")
        .spawn()
        .unwrap();
    let mut one = Card {
        child,
        directory: directory.clone(),
    };
    let mut first = connect(&directory.join("one"));
    let mut second = connect(&directory.join("two"));
    enable(&mut first);
    assert_eq!(read32(&mut first, BAR0, 4).swap_bytes() >> 16, 5);
    assert_eq!(read32(&mut second, BAR0, 4), !0, "not enabled");
    let ctl = |name: &str, words: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_cxemu"))
            .args(["ctl", "--ctl", &at(&format!("{name}.ctl")), "--"])
            .args(words)
            .output()
            .unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let carrier = |name: &str, up: bool| {
        let start = Instant::now();
        let wanted = format!("\"carrier\": {up}");
        while !ctl(name, &["counters"]).contains(&wanted) {
            assert!(start.elapsed() < Duration::from_secs(10), "{name} {up}");
        }
    };
    for up in [true, false, true] {
        ctl("two", &["link", if up { "up" } else { "down" }]);
        carrier("one", up);
        carrier("two", up);
    }
    // One virtual machine leaves: the other card goes on, and the process with it.
    second.shutdown().unwrap();
    drop(second);
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(read32(&mut first, BAR0, 4).swap_bytes() >> 16, 5);
    first.shutdown().unwrap();
    drop(first);
    let start = Instant::now();
    while one.child.try_wait().unwrap().is_none() {
        assert!(start.elapsed() < Duration::from_secs(10), "--once");
    }
    let _ = std::fs::remove_dir_all(&directory);
    std::mem::forget(one);
}
