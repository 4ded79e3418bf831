// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A card in the state that a command needs, and commands by name with fields by path.

use device::{
    cmd::{
        registry::{self, Entry},
        Needs,
    },
    layout::{bits_at, set_bits_at},
    profile::Profile,
    scaffold::driver::{Answer, Driver, Input},
};
use mlx5_hw::{field, ifc, raw, status::Status};

/// A command on its way.
#[derive(Clone)]
pub struct Request {
    pub entry: &'static Entry,
    pub bytes: Vec<u8>,
    pub out_len: usize,
}

pub fn entry(name: &str) -> &'static Entry {
    let mut all = registry::all();
    all.find(|entry| entry.name == name)
        .unwrap_or_else(|| panic!("no command {name}"))
}

/// Zeroes with an opcode.
pub fn request(name: &str) -> Request {
    let entry = entry(name);
    let mut bytes = vec![0; entry.input.bytes()];
    bytes[..2].copy_from_slice(&entry.opcode.to_be_bytes());
    Request {
        entry,
        bytes,
        out_len: entry.output.bytes().max(16),
    }
}

impl Request {
    /// Sets a field by its path in the layout.
    pub fn set(mut self, path: &str, value: u64) -> Self {
        let found = self.entry.input.find(path);
        let (at, bits) = found.unwrap_or_else(|| panic!("{}: no {path}", self.entry.name));
        assert!(bits >= 64 || value >> bits == 0, "{path} = {value:#x}");
        set_bits_at(&mut self.bytes, at, bits, value);
        self
    }

    /// Sets op_mod.
    pub fn op_mod(mut self, op_mod: u16) -> Self {
        self.bytes[6..8].copy_from_slice(&op_mod.to_be_bytes());
        self
    }

    /// A field by its path.
    pub fn get(&self, path: &str) -> u64 {
        let found = self.entry.input.find(path);
        let (at, bits) = found.unwrap_or_else(|| panic!("{}: no {path}", self.entry.name));
        bits_at(&self.bytes, at, bits)
    }

    /// Appends bytes: the list behind the fixed part.
    pub fn list(mut self, bytes: &[u8]) -> Self {
        self.bytes.extend_from_slice(bytes);
        self
    }

    /// Room for more output than the layout has.
    pub fn room(mut self, more: usize) -> Self {
        self.out_len += more;
        self
    }
}

/// A card and a driver.
pub struct World {
    pub driver: Driver,
    /// What was run, oldest first.
    pub log: Vec<Request>,
}

impl World {
    /// A card as far up as a command of that kind needs it.
    pub fn at(needs: Needs) -> Self {
        Self::with(needs, |_| ())
    }

    /// The same with another profile.
    pub fn with(needs: Needs, change: impl FnOnce(&mut Profile)) -> Self {
        let mut profile = Profile::shipped("default").unwrap();
        change(&mut profile);
        let mut driver = Driver::new(profile);
        let enable = || Input::<ifc::enable_hca_in>::new(raw::MLX5_CMD_OP_ENABLE_HCA);
        match needs {
            Needs::Nothing => {}
            Needs::Enabled | Needs::EnabledOnly => {
                driver.ok(enable(), 16);
            }
            Needs::Init => driver.bring_up(),
        }
        Self {
            driver,
            log: Vec::new(),
        }
    }

    /// Runs a request; status and reason.
    pub fn run(&mut self, request: &Request) -> (Status, u16, Answer) {
        self.log.push(request.clone());
        loop {
            let (driver, out) = (&mut self.driver, request.out_len);
            driver.post(0, &request.bytes, out);
            driver.ring(1);
            if let Some(answer) = driver.answer(0, out) {
                let answer = answer.expect("delivered");
                let status = Status::from_code(answer.status).expect("a status of the interface");
                // CAST: the low half is the point.
                return (status, answer.syndrome as u16, answer);
            }
            // It waits for firmware pages: give them as a driver does, and look again.
            let give = driver.machine.alloc(64 * 4096);
            let pages: Vec<u64> = (0..64).map(|n| give + 4096 * n).collect();
            let input = Input::<ifc::manage_pages_in>::new(raw::MLX5_CMD_OP_MANAGE_PAGES)
                .op_mod(1)
                .set(field!(manage_pages_in, input_num_entries), 64)
                .list(&pages);
            driver.post(31, &input.bytes, 16);
            driver.ring(1 << 31);
            let given = driver.answer(31, 16).expect("answered").expect("delivered");
            assert_eq!(given.status, 0, "pages are taken");
        }
    }

    /// Makes what the good path of a command makes; its number.
    pub fn make(&mut self, name: &str) -> u64 {
        let request = crate::good::good(self, name).unwrap_or_else(|| panic!("no recipe: {name}"));
        let (status, code, answer) = self.run(&request);
        assert_eq!(status, Status::Ok, "{name}: {code:#x}: {}", self.last());
        answer.number().into()
    }

    /// Fresh memory.
    pub fn memory(&self, len: usize) -> u64 {
        self.driver.machine.alloc(len)
    }

    /// Addresses of fresh pages, as a list.
    pub fn pages(&self, count: u64) -> Vec<u8> {
        let base = self.memory(count as usize * 4096);
        (0..count)
            .flat_map(|n| (base + 4096 * n).to_be_bytes())
            .collect()
    }

    /// The last line of the trace.
    pub fn last(&self) -> String {
        let lines = self.driver.card.trace().since(0);
        lines.last().map_or(String::new(), |line| line.text.clone())
    }

    /// Everything that a refused command must leave as it is.
    pub fn state(&self) -> (Vec<String>, String) {
        let card = &self.driver.card;
        (card.dump(), format!("{:?}", card.census()))
    }
}
