//! The system's datagram sockets, non-blocking and close-on-exec.

use std::io::{self, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{RecvAncillaryBuffer, RecvFlags, ReturnFlags, SocketType, sockopt};
use socket2::{Domain, Type};

use crate::async_fd::set_nonblocking;
use crate::error::{Rejected, named};
use crate::sock_addr::SockAddr;
use crate::socket::{send_flags, share_port};

/// How a datagram socket is made.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Options {
    pub(super) reuse_port: bool,
    pub(super) broadcast: bool,
}

fn unbound(domain: Domain, options: Options) -> io::Result<socket2::Socket> {
    let socket = socket2::Socket::new(domain, Type::DGRAM, None)?;
    socket.set_nonblocking(true)?;
    if options.reuse_port {
        share_port(&socket)?;
    }
    if options.broadcast {
        socket.set_broadcast(true)?;
    }
    Ok(socket)
}

#[derive(Debug)]
pub(super) struct DatagramSocket(socket2::Socket);

impl DatagramSocket {
    /// Bound to `local` and connected to `remote`, as far as they are given.
    pub(super) fn open(
        domain: Domain,
        local: Option<&SockAddr>,
        remote: Option<&SockAddr>,
        options: Options,
    ) -> io::Result<DatagramSocket> {
        let socket = unbound(domain, options).map_err(|error| match local.or(remote) {
            Some(addr) => named(format!("make a datagram socket for {addr}"), error),
            None => error,
        })?;
        if let Some(local) = local {
            let bound = rustix::net::bind(&socket, &local.to_any()?);
            bound.map_err(|error| named(format!("bind to {local}"), error.into()))?;
        }
        if let Some(remote) = remote {
            let connected = rustix::net::connect(&socket, &remote.to_any()?);
            connected.map_err(|error| named(format!("connect to {remote}"), error.into()))?;
        }
        Ok(DatagramSocket(socket))
    }

    /// Takes over a socket that somebody else has made.
    pub(super) fn adopt<S: Into<OwnedFd> + AsFd>(source: S) -> Result<Self, Rejected<S>> {
        let check = || {
            if sockopt::socket_type(&source)? != SocketType::DGRAM {
                let message = "a datagram socket is needed, and this is another kind";
                return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
            }
            set_nonblocking(&source, true)
        };
        match check() {
            Ok(_) => Ok(DatagramSocket(socket2::Socket::from(source.into()))),
            Err(error) => Err(Rejected { source, error }),
        }
    }

    pub(super) fn local_addr(&self) -> SockAddr {
        rustix::net::getsockname(self).map_or(SockAddr::Unnamed, SockAddr::from_any)
    }

    pub(super) fn peer_addr(&self) -> Option<SockAddr> {
        rustix::net::getpeername(self).ok().flatten().map(SockAddr::from_any)
    }

    pub(super) fn options(&self) -> &socket2::Socket {
        &self.0
    }

    /// One datagram: its length, whether it was longer than that, and its sender.
    pub(super) fn recv(&self, buffer: &mut [u8]) -> io::Result<(usize, bool, SockAddr)> {
        let mut nothing = RecvAncillaryBuffer::default();
        let mut slices = [IoSliceMut::new(buffer)];
        let message = rustix::net::recvmsg(self, &mut slices, &mut nothing, RecvFlags::empty())?;
        let cut = message.flags.contains(ReturnFlags::TRUNC);
        Ok((message.bytes, cut, message.address.map_or(SockAddr::Unnamed, SockAddr::from_any)))
    }

    /// One datagram, to the peer if `to` is not given.
    pub(super) fn send(&self, data: &[u8], to: Option<&SockAddr>) -> io::Result<()> {
        match to {
            Some(to) => rustix::net::sendto(self, data, send_flags(), &to.to_any()?)?,
            None => rustix::net::send(self, data, send_flags())?,
        };
        Ok(())
    }
}

impl AsFd for DatagramSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
