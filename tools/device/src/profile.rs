// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What card this is: identity, limits, capabilities. A TOML file.
//!
//! Capability fields have their ifc names and stand under the name of their layout:
//! `[caps.cmd_hca_cap]` `log_max_qp = 17`. A name or a value that the layout does not have is an
//! error of the profile, found when it is loaded.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::caps;

/// A profile that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// No shipped profile has this name.
    #[error("no profile {0:?}: shipped are default, minimal, small, degraded")]
    Unknown(String),
    /// The file is not TOML or misses something.
    #[error("profile does not parse: {0}")]
    Parse(#[from] toml::de::Error),
    /// `[caps.X]` is not a capability layout.
    #[error("[caps.{0}]: no such capability group")]
    Group(String),
    /// A field is not in the layout.
    #[error("[caps.{0}] {1}: no such field")]
    Field(String, String),
    /// A value is too wide for its field.
    #[error("[caps.{0}] {1} = {2}: the field has {3} bits")]
    Value(String, String, u64, u32),
    /// A value the model cannot work with.
    #[error("{0}")]
    Unusable(String),
}

/// One card.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// What it is called.
    pub name: String,
    /// Firmware.
    pub firmware: Firmware,
    /// The port.
    pub port: Port,
    /// Firmware pages.
    pub pages: Pages,
    /// PCI side; for the adapter, the model does not look at it.
    pub pci: Pci,
    /// Capabilities in force at first, by group and field.
    pub caps: BTreeMap<String, BTreeMap<String, u64>>,
    /// Fields whose maximum is not the value in [`Profile::caps`].
    #[serde(default)]
    pub max_caps: BTreeMap<String, BTreeMap<String, u64>>,
}

/// What firmware says about itself.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Firmware {
    /// Major, minor, sub-minor.
    pub version: [u16; 3],
    /// Board id, at most 16 characters.
    pub psid: String,
    /// 64 bytes at most: NODE_DESC.
    #[serde(default)]
    pub node_description: String,
}

/// The port.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Port {
    /// Permanent MAC address. The adapter changes it for a second card.
    pub mac: [u8; 6],
    /// Bit of `eth_proto_oper` in PTYS, legacy speeds.
    pub eth_proto: u32,
    /// Bit of `ext_eth_proto_oper` in PTYS; 0 when only legacy speeds exist.
    #[serde(default)]
    pub ext_eth_proto: u32,
    /// Largest frame, in bytes with header and FCS.
    pub max_mtu: u16,
}

/// Firmware pages, in units of 4 KiB.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pages {
    /// Wanted before anything else (QUERY_PAGES mod 1).
    pub boot: u32,
    /// Wanted for INIT_HCA (mod 2).
    pub init: u32,
    /// Of boot and init together: what objects may use before more is asked for.
    pub reserve: u32,
    /// Asked for at a time when objects need more.
    pub batch: u32,
    /// More free pages than this are offered back.
    pub spare: u32,
}

/// What the adapter shows in configuration space.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pci {
    /// PCI device id; the vendor is 0x15b3.
    pub device: u16,
    /// Revision id.
    #[serde(default)]
    pub revision: u8,
    /// Subsystem id.
    pub subsystem: u16,
    /// log2 of the size of BAR0 in bytes.
    pub log_bar: u8,
    /// MSI-X vectors.
    pub vectors: u16,
    /// Largest MPS, in bytes.
    pub mps: u16,
    /// Speed the card can do, as the link capability encodes it (4 is 16 GT/s).
    pub max_speed: u8,
    /// Lanes the card has.
    pub max_width: u8,
    /// Speed the link runs at.
    pub speed: u8,
    /// Lanes the link runs with.
    pub width: u8,
    /// Writes of the guest to doorbell registers reach the card combined, as a processor with a
    /// write combining mapping sends them. A virtual machine monitor that splits every write does
    /// not do that by itself.
    #[serde(default)]
    pub write_combining: bool,
}

const SHIPPED: &[(&str, &str)] = &[
    ("default", include_str!("../profiles/default.toml")),
    ("minimal", include_str!("../profiles/minimal.toml")),
    ("small", include_str!("../profiles/small.toml")),
    ("degraded", include_str!("../profiles/degraded.toml")),
];

impl Profile {
    /// A profile that comes with the model.
    ///
    /// # Errors
    /// [`ProfileError::Unknown`].
    pub fn shipped(name: &str) -> Result<Self, ProfileError> {
        let text = SHIPPED.iter().find(|(known, _)| *known == name);
        let (_, text) = text.ok_or_else(|| ProfileError::Unknown(name.to_owned()))?;
        Self::parse(text)
    }

    /// A profile from the text of a TOML file. `base = "default"` takes over everything of a
    /// shipped profile that the file does not say itself.
    ///
    /// # Errors
    /// Whatever is wrong with it, with the name of the field.
    pub fn parse(text: &str) -> Result<Self, ProfileError> {
        let mut table: toml::Table = toml::from_str(text)?;
        while let Some(base) = table.remove("base") {
            let name = base.as_str().unwrap_or_default().to_owned();
            let (_, text) = SHIPPED
                .iter()
                .find(|(known, _)| *known == name)
                .ok_or(ProfileError::Unknown(name))?;
            let mut under: toml::Table = toml::from_str(text)?;
            merge(&mut under, table);
            table = under;
        }
        let profile: Self = table.try_into()?;
        profile.check()?;
        Ok(profile)
    }

    fn check(&self) -> Result<(), ProfileError> {
        let all = self.caps.iter().chain(&self.max_caps);
        for (name, fields) in all {
            let Some((_, layout)) = caps::group(name) else {
                return Err(ProfileError::Group(name.clone()));
            };
            for (field, value) in fields {
                let Some((_, bits)) = layout.find(field) else {
                    return Err(ProfileError::Field(name.clone(), field.clone()));
                };
                if bits > 64 || (bits < 64 && value >> bits != 0) {
                    return Err(ProfileError::Value(
                        name.clone(),
                        field.clone(),
                        *value,
                        bits,
                    ));
                }
            }
        }
        let unusable = |what: &str| Err(ProfileError::Unusable(what.to_owned()));
        if self.firmware.psid.len() > 16 {
            return unusable("firmware.psid: more than 16 characters");
        }
        if self.firmware.node_description.len() > 64 {
            return unusable("firmware.node_description: more than 64 bytes");
        }
        if !(17..=32).contains(&self.pci.log_bar) {
            return unusable("pci.log_bar: must lie between 17 and 32");
        }
        if self.pages.batch == 0 {
            return unusable("pages.batch: must not be 0");
        }
        Ok(())
    }
}

/// Lays `over` over `under`, table by table.
fn merge(under: &mut toml::Table, over: toml::Table) {
    for (key, value) in over {
        match (under.get_mut(&key), value) {
            (Some(toml::Value::Table(under)), toml::Value::Table(over)) => merge(under, over),
            (_, value) => {
                under.insert(key, value);
            }
        }
    }
}
