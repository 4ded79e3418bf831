// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The socket end of a cable: waiting for the other end, losing it, finding it again. Inside one
//! process both ends are there from the start.
//!
//! A message is one byte of kind and its body: a frame, or the sender's carrier.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::event::epoll;
use rustix::io::Errno;
use rustix::net::{
    accept_with, bind, connect, listen, socket_with, socketpair, AddressFamily, RecvFlags,
    SendFlags, SocketAddrUnix, SocketFlags, SocketType,
};

const KIND_FRAME: u8 = 0;
const KIND_CARRIER: u8 = 1;
/// Asked of the kernel for the socket; it grants what its own limit allows.
const SEND_BUFFER: usize = 4 << 20;
const FLAGS: SocketFlags = SocketFlags::NONBLOCK.union(SocketFlags::CLOEXEC);

/// One message from the other end.
#[derive(Debug)]
pub(crate) enum Arrival {
    Frame(Vec<u8>),
    Carrier(bool),
    Gone,
}

/// What became of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    Yes,
    /// The socket is full; try again when it is writable.
    Full,
    /// There is no other end.
    Gone,
}

enum Role {
    Listener(OwnedFd),
    Caller,
    /// Both ends were made at once; one that is lost does not come back.
    Joined,
}

/// The socket, in one of two roles.
pub(crate) struct Plug {
    role: Role,
    path: PathBuf,
    peer: Option<OwnedFd>,
    /// Whether the socket is watched for room.
    watched: bool,
    scratch: Vec<u8>,
}

impl Plug {
    /// Opens the listening end at `path`; a stale socket file of a process that is gone is
    /// replaced, a live one is not.
    pub(crate) fn listen(path: &Path, ready: &OwnedFd) -> io::Result<Self> {
        let address = SocketAddrUnix::new(path)?;
        let fd = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, FLAGS, None)?;
        if path.exists() {
            let probe = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, FLAGS, None)?;
            if connect(&probe, &address) != Err(Errno::CONNREFUSED) {
                return Err(io::Error::from(Errno::ADDRINUSE));
            }
            std::fs::remove_file(path)?;
        }
        bind(&fd, &address)?;
        listen(&fd, 1)?;
        epoll::add(
            ready,
            &fd,
            epoll::EventData::new_u64(0),
            epoll::EventFlags::IN,
        )?;
        Ok(Self::new(Role::Listener(fd), path))
    }

    /// The calling end; [`Plug::join`] does the calling.
    pub(crate) fn call(path: &Path) -> Self {
        Self::new(Role::Caller, path)
    }

    /// One end of a socket pair.
    pub(crate) fn joined(peer: OwnedFd, ready: &OwnedFd) -> io::Result<Self> {
        let mut new = Self::new(Role::Joined, Path::new(""));
        new.attach(peer, ready)?;
        Ok(new)
    }

    /// The two ends of a cable within the process.
    pub(crate) fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
        let pair = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, FLAGS, None)?;
        Ok(pair)
    }

    fn attach(&mut self, peer: OwnedFd, ready: &OwnedFd) -> io::Result<()> {
        // The size is a wish: a smaller buffer only means that the queue is used earlier.
        let _ = rustix::net::sockopt::set_socket_send_buffer_size(&peer, SEND_BUFFER);
        let data = epoll::EventData::new_u64(0);
        epoll::add(ready, &peer, data, epoll::EventFlags::IN)?;
        self.peer = Some(peer);
        self.watched = false;
        Ok(())
    }

    fn new(role: Role, path: &Path) -> Self {
        Self {
            role,
            path: path.to_owned(),
            peer: None,
            watched: false,
            scratch: Vec::new(),
        }
    }

    pub(crate) fn connected(&self) -> bool {
        self.peer.is_some()
    }

    /// Whether somebody has to call [`Plug::join`] from time to time.
    pub(crate) fn must_call(&self) -> bool {
        self.peer.is_none() && matches!(self.role, Role::Caller)
    }

    /// Looks for the other end, if there is none. True when it has just come.
    pub(crate) fn join(&mut self, ready: &OwnedFd) -> bool {
        if self.peer.is_some() {
            return false;
        }
        let peer = match &self.role {
            Role::Listener(fd) => accept_with(fd, FLAGS),
            Role::Caller => self.dial(),
            Role::Joined => return false,
        };
        peer.is_ok_and(|peer| self.attach(peer, ready).is_ok())
    }

    fn dial(&self) -> rustix::io::Result<OwnedFd> {
        let fd = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, FLAGS, None)?;
        connect(&fd, &SocketAddrUnix::new(&self.path)?)?;
        Ok(fd)
    }

    /// Asks to be woken when the socket takes more.
    pub(crate) fn want_room(&mut self, ready: &OwnedFd, wanted: bool) {
        if let Some(peer) = self.peer.as_ref().filter(|_| wanted != self.watched) {
            self.watched = wanted;
            let mut flags = epoll::EventFlags::IN;
            flags.set(epoll::EventFlags::OUT, wanted);
            let _ = epoll::modify(ready, peer, epoll::EventData::new_u64(0), flags);
        }
    }

    /// Receives one message into `buffer`; `None` when there is nothing now.
    pub(crate) fn receive(&mut self, buffer: &mut [u8]) -> Option<Arrival> {
        let peer = self.peer.as_ref()?;
        match rustix::net::recv(peer, &mut *buffer, RecvFlags::DONTWAIT) {
            Err(Errno::AGAIN | Errno::INTR) => None,
            Err(_) | Ok((0, _)) => {
                self.peer = None;
                Some(Arrival::Gone)
            }
            Ok((_, len)) => match buffer.get(..len)? {
                [KIND_FRAME, frame @ ..] => Some(Arrival::Frame(frame.to_vec())),
                [KIND_CARRIER, up] => Some(Arrival::Carrier(*up != 0)),
                // A newer peer may say more than we know.
                _ => Some(Arrival::Frame(Vec::new())),
            },
        }
    }

    pub(crate) fn send_frame(&mut self, frame: &[u8]) -> Sent {
        self.send(KIND_FRAME, frame)
    }

    pub(crate) fn send_carrier(&mut self, up: bool) -> Sent {
        self.send(KIND_CARRIER, &[u8::from(up)])
    }

    fn send(&mut self, kind: u8, body: &[u8]) -> Sent {
        let Some(peer) = &self.peer else {
            return Sent::Gone;
        };
        self.scratch.clear();
        self.scratch.push(kind);
        self.scratch.extend_from_slice(body);
        match rustix::net::send(
            peer,
            &self.scratch,
            SendFlags::DONTWAIT | SendFlags::NOSIGNAL,
        ) {
            Ok(_) => Sent::Yes,
            Err(Errno::AGAIN | Errno::INTR | Errno::NOBUFS) => Sent::Full,
            // The reader sees the end of file and says so to everybody.
            Err(_) => Sent::Gone,
        }
    }
}

impl Drop for Plug {
    fn drop(&mut self) {
        if matches!(self.role, Role::Listener(_)) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}
