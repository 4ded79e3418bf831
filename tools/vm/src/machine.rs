// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The shape of a guest and the QEMU command line that gives it.

use std::path::{Path, PathBuf};

use serde::Deserialize;

/// What a machine has, as a table of suites says it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Machine {
    /// Virtual CPUs; with two nodes the lower half is on node 0.
    pub vcpus: u32,
    /// Memory in MiB.
    pub memory: u32,
    /// NUMA nodes, 1 or 2. With 2, slots named `node1` hang under a bridge of node 1.
    pub nodes: u32,
    /// Virtual time counts instructions (one vCPU): times in the guest repeat.
    pub icount: bool,
    /// More words of the kernel command line.
    pub cmdline: String,
    /// More words of the QEMU command line.
    pub qemu: Vec<String>,
}

impl Default for Machine {
    fn default() -> Self {
        Self {
            vcpus: 2,
            memory: 1024,
            nodes: 1,
            icount: false,
            cmdline: String::new(),
            qemu: Vec::new(),
        }
    }
}

/// Where a card is plugged in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Slot {
    /// Behind a root port of its own, `rpN`.
    #[default]
    RootPort,
    /// On the root bus, without a link.
    RootBus,
    /// Behind a root port `rpN` of node 1.
    Node1,
}

/// One emulated card of a machine.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Card {
    /// Profile of the emulator, a name or a file; empty takes its default.
    pub profile: String,
    /// Where it is plugged in.
    pub slot: Slot,
    /// Name of the cable; two cards with the same name are connected.
    pub cable: String,
    /// More arguments for the emulator.
    pub args: Vec<String>,
    /// More properties of the QEMU device, as JSON members.
    pub device: serde_json::Map<String, serde_json::Value>,
}

/// Host side ends of everything a guest is connected with.
#[derive(Debug)]
pub struct Sockets {
    directory: PathBuf,
    guest: usize,
}

impl Sockets {
    /// Sockets of guest number `guest` live in `directory`; a socket path may have 107 bytes, so it should be short.
    pub fn new(directory: &Path, guest: usize) -> Self {
        Self {
            directory: directory.to_owned(),
            guest,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.join(format!("g{}.{name}", self.guest))
    }

    /// QEMU's monitor.
    pub fn qmp(&self) -> PathBuf {
        self.path("qmp")
    }

    /// A channel of the guest, by name.
    pub fn port(&self, name: &str) -> PathBuf {
        self.path(name)
    }

    /// The vfio-user socket of card `n`.
    pub fn card(&self, n: usize) -> PathBuf {
        self.path(&format!("card{n}"))
    }

    /// The control socket of card `n`.
    pub fn control(&self, n: usize) -> PathBuf {
        self.path(&format!("ctl{n}"))
    }
}

/// Channels between guest and host, as virtio-serial ports `rmlx5.NAME`.
pub const PORTS: [&str; 3] = ["ktap", "host", "out"];

/// Who executes the guest's instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accelerator {
    /// Translation: works everywhere.
    Tcg,
    /// The host's virtualisation, on request.
    Kvm,
}

/// The QEMU command line, without the program.
pub fn arguments(
    machine: &Machine,
    cards: &[Card],
    sockets: &Sockets,
    accelerator: Accelerator,
    boot: &Boot,
) -> Vec<String> {
    let mut args: Vec<String> = [
        "-nodefaults",
        "-no-user-config",
        "-no-reboot",
        "-display",
        "none",
    ]
    .map(String::from)
    .to_vec();
    let mut add = |option: &str, value: String| args.extend([option.to_owned(), value]);

    match accelerator {
        Accelerator::Tcg => {
            let thread = if machine.icount { "single" } else { "multi" };
            add("-accel", format!("tcg,thread={thread}"));
            // Without 5-level paging: fewer steps in each walk that TCG does in software.
            add("-cpu", "max,la57=off".into());
        }
        Accelerator::Kvm => {
            add("-accel", "kvm".into());
            add("-cpu", "host".into());
        }
    }
    if machine.icount {
        add("-icount", "shift=0,sleep=on".into());
    }
    memory(machine, &mut add);
    add("-kernel", boot.kernel.display().to_string());
    add("-initrd", boot.initrd.display().to_string());
    add("-append", command_line(machine));

    add("-chardev", "stdio,id=console,signal=off".into());
    add("-serial", "chardev:console".into());
    let qmp = sockets.qmp();
    add("-qmp", format!("unix:{},server=on,wait=off", qmp.display()));
    add(
        "-drive",
        format!(
            "file={},format=raw,if=none,id=root,readonly=on",
            boot.image.display()
        ),
    );
    add(
        "-device",
        "virtio-blk-pci,drive=root,bus=pcie.0,addr=0x1e".into(),
    );
    add("-device", "virtio-serial-pci,bus=pcie.0,addr=0x1d".into());
    for name in PORTS {
        let path = sockets.port(name);
        add(
            "-chardev",
            format!(
                "socket,id={name},path={},server=on,wait=off",
                path.display()
            ),
        );
        add(
            "-device",
            format!("virtserialport,chardev={name},name=rmlx5.{name}"),
        );
    }
    plug(machine, cards, sockets, &mut add);
    args.extend(machine.qemu.iter().cloned());
    args
}

/// What the guest starts from.
#[derive(Debug)]
pub struct Boot {
    /// Kernel image.
    pub kernel: PathBuf,
    /// First file system.
    pub initrd: PathBuf,
    /// Read-only root file system.
    pub image: PathBuf,
}

/// Memory that a device process can map, on one node or on two.
fn memory(machine: &Machine, add: &mut impl FnMut(&str, String)) {
    let backend =
        |id: &str, size: u32| format!("memory-backend-memfd,id={id},size={size}M,share=on");
    if machine.nodes < 2 {
        add("-machine", "q35,memory-backend=mem".into());
        add("-object", backend("mem", machine.memory));
        add("-m", format!("{}M", machine.memory));
        add("-smp", machine.vcpus.to_string());
        return;
    }
    let half = machine.memory / 2;
    add("-machine", "q35".into());
    add("-m", format!("{}M", half * 2));
    // A socket a node: CPUs of two nodes that shared a cache would make the kernel warn.
    let middle = machine.vcpus.div_ceil(2);
    let sockets = if machine.vcpus % 2 == 0 {
        2
    } else {
        machine.vcpus
    };
    add("-smp", format!("{},sockets={sockets}", machine.vcpus));
    for (node, first, last) in [(0, 0, middle - 1), (1, middle, machine.vcpus - 1)] {
        add("-object", backend(&format!("mem{node}"), half));
        let cpus = if first <= last {
            format!(",cpus={first}-{last}")
        } else {
            String::new()
        };
        add(
            "-numa",
            format!("node,nodeid={node}{cpus},memdev=mem{node}"),
        );
    }
    add(
        "-device",
        "pxb-pcie,id=node1,bus=pcie.0,bus_nr=128,numa_node=1,addr=0x1c".into(),
    );
}

fn plug(machine: &Machine, cards: &[Card], sockets: &Sockets, add: &mut impl FnMut(&str, String)) {
    // Hot-plug through the root port itself: with ACPI's, QEMU never sets "link active" in the port, and
    // the PCI core gives up after a secondary bus reset.
    add(
        "-global",
        "ICH9-LPC.acpi-pci-hotplug-with-bridge-support=off".into(),
    );
    for (n, card) in cards.iter().enumerate() {
        let bus = match card.slot {
            Slot::RootBus => "pcie.0".to_owned(),
            Slot::RootPort | Slot::Node1 => {
                let parent = if card.slot == Slot::Node1 && machine.nodes > 1 {
                    "node1"
                } else {
                    "pcie.0"
                };
                add(
                    "-device",
                    format!(
                        "pcie-root-port,id=rp{n},bus={parent},chassis={},slot={}",
                        n + 1,
                        n + 1
                    ),
                );
                format!("rp{n}")
            }
        };
        let mut device = serde_json::json!({
            "driver": "vfio-user-pci",
            "id": format!("card{n}"),
            "bus": bus,
            "socket": { "type": "unix", "path": sockets.card(n) },
        });
        if let Some(members) = device.as_object_mut() {
            members.extend(card.device.clone());
        }
        add("-device", device.to_string());
    }
}

fn command_line(machine: &Machine) -> String {
    // no_timer_check: the check of the timer interrupt is what TCG's early hang trips over.
    // panic=-1 with -no-reboot: a panic ends QEMU at once, after the message.
    let mut line = String::from(
        "console=ttyS0 no_timer_check panic=-1 mitigations=off audit=0 loglevel=7 \
         sysctl.kernel.hung_task_timeout_secs=60",
    );
    if !machine.cmdline.is_empty() {
        line.push(' ');
        line.push_str(&machine.cmdline);
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(machine: &Machine, cards: &[Card]) -> String {
        let boot = Boot {
            kernel: "/k".into(),
            initrd: "/i".into(),
            image: "/g".into(),
        };
        let sockets = Sockets::new(Path::new("/run"), 0);
        arguments(machine, cards, &sockets, Accelerator::Tcg, &boot).join(" ")
    }

    #[test]
    fn memory_is_shared_with_the_card() {
        let text = line(&Machine::default(), &[Card::default()]);
        assert!(text.contains("-object memory-backend-memfd,id=mem,size=1024M,share=on"));
        assert!(text.contains("-machine q35,memory-backend=mem"));
        assert!(text.contains(r#""driver":"vfio-user-pci""#));
        assert!(text.contains(r#""bus":"rp0""#));
        assert!(!text.contains("kvm"));
    }

    #[test]
    fn a_card_of_node_1_hangs_under_its_bridge() {
        let machine = Machine {
            nodes: 2,
            vcpus: 4,
            ..Machine::default()
        };
        let card = Card {
            slot: Slot::Node1,
            ..Card::default()
        };
        let text = line(&machine, &[card]);
        assert!(text.contains("node,nodeid=1,cpus=2-3,memdev=mem1"));
        assert!(text.contains("pcie-root-port,id=rp0,bus=node1"));
        // Without a bus of their own they would land behind the bridge, which takes only bridges.
        assert!(text.contains("drive=root,bus=pcie.0") && text.contains("serial-pci,bus=pcie.0"));
        assert!(!text.contains("memory-backend=mem "));
    }

    #[test]
    fn counted_time_runs_on_one_thread() {
        let machine = Machine {
            icount: true,
            vcpus: 1,
            ..Machine::default()
        };
        assert!(line(&machine, &[]).contains("-accel tcg,thread=single"));
        assert!(line(&machine, &[]).contains("-icount shift=0,sleep=on"));
    }
}
