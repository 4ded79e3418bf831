// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a port is plugged into, as a person writes it.

use std::path::PathBuf;
use std::str::FromStr;

/// What a port is plugged into.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkSpec {
    /// Nothing: no carrier.
    None,
    /// A switch without any other port: carrier, and nobody answers.
    Silent,
    /// A cable whose other end comes to this socket path.
    Listen(PathBuf),
    /// A cable whose other end listens at this socket path; tried until it is there.
    Connect(PathBuf),
    /// A cable of this name whose other end is a port of the same process.
    Join(String),
}

/// A link description that is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no link: use none, silent, listen:PATH, connect:PATH or join:NAME")]
pub struct SpecError(String);

impl FromStr for LinkSpec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        match text.split_once(':') {
            None if text == "none" => Ok(Self::None),
            None if text == "silent" => Ok(Self::Silent),
            Some(("listen", path)) if !path.is_empty() => Ok(Self::Listen(path.into())),
            Some(("connect", path)) if !path.is_empty() => Ok(Self::Connect(path.into())),
            Some(("join", name)) if !name.is_empty() => Ok(Self::Join(name.to_owned())),
            _ => Err(SpecError(text.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_form_parses_and_others_are_refused() {
        assert_eq!("none".parse(), Ok(LinkSpec::None));
        assert_eq!("silent".parse(), Ok(LinkSpec::Silent));
        assert_eq!("listen:/a:b".parse(), Ok(LinkSpec::Listen("/a:b".into())));
        assert_eq!("connect:x".parse(), Ok(LinkSpec::Connect("x".into())));
        assert_eq!("join:a".parse(), Ok(LinkSpec::Join("a".into())));
        for bad in ["", "join:", "listen:", "up", "none:", "tcp:1"] {
            assert!(bad.parse::<LinkSpec>().is_err(), "{bad}");
        }
    }
}
