//! The system's stream sockets, non-blocking and close-on-exec.

use std::io::{self, IoSlice};
use std::net::{Shutdown, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags};
use socket2::{Domain, Protocol, Type};

use crate::sock_addr::SockAddr;

/// The most pieces that one vectored send takes; POSIX promises 16, Linux and the BSDs take 1024
/// (B-TRN-10).
pub(crate) const MAX_PIECES: usize = 64;

/// How a listener is made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ListenOptions {
    pub(crate) backlog: i32,
    pub(crate) reuse_address: bool,
    pub(crate) reuse_port: bool,
}

/// A socket. Reading and writing never block and never raise SIGPIPE.
#[derive(Debug)]
pub(crate) struct Socket {
    inner: socket2::Socket,
}

impl Socket {
    fn tcp(addr: SocketAddr) -> io::Result<Socket> {
        let inner =
            socket2::Socket::new(Domain::for_address(addr), Type::STREAM, Some(Protocol::TCP))?;
        inner.set_nonblocking(true)?;
        Ok(Socket { inner })
    }

    pub(crate) fn listen(addr: SocketAddr, options: ListenOptions) -> io::Result<Socket> {
        let socket = Self::tcp(addr)?;
        if addr.is_ipv6() {
            // Both families may be bound to one port (B-SRV-13).
            socket.inner.set_only_v6(true)?;
        }
        socket.inner.set_reuse_address(options.reuse_address)?;
        if options.reuse_port {
            share_port(&socket.inner)?;
        }
        socket.inner.bind(&addr.into())?;
        socket.inner.listen(options.backlog)?;
        Ok(socket)
    }

    /// A socket that is connecting or connected already; `true` if it still connects.
    pub(crate) fn connect(addr: SocketAddr) -> io::Result<(Socket, bool)> {
        let socket = Self::tcp(addr)?;
        match socket.inner.connect(&addr.into()) {
            Ok(()) => Ok((socket, false)),
            // An interrupted connect goes on by itself (B-SOCK-03).
            Err(error)
                if matches!(
                    error.raw_os_error().map(rustix::io::Errno::from_raw_os_error),
                    Some(rustix::io::Errno::INPROGRESS | rustix::io::Errno::INTR)
                ) =>
            {
                Ok((socket, true))
            }
            Err(error) => Err(error),
        }
    }

    /// The error that connecting ended with, if it failed.
    pub(crate) fn take_error(&self) -> io::Result<Option<io::Error>> {
        self.inner.take_error()
    }

    pub(crate) fn accept(&self) -> io::Result<(Socket, SockAddr)> {
        let (fd, addr) = accept_from(self)?;
        Ok((Socket::from(fd), addr))
    }

    pub(crate) fn set_nodelay(&self) -> io::Result<()> {
        self.inner.set_tcp_nodelay(true)
    }

    pub(crate) fn local_addr(&self) -> Option<SocketAddr> {
        self.inner.local_addr().ok()?.as_socket()
    }

    pub(crate) fn peer_addr(&self) -> Option<SocketAddr> {
        self.inner.peer_addr().ok()?.as_socket()
    }

    /// One read. Zero bytes are the end of file.
    pub(crate) fn recv(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let (count, _) = rustix::net::recv(self, buffer, RecvFlags::empty())?;
        Ok(count)
    }

    /// One write.
    pub(crate) fn send(&self, data: &[u8]) -> io::Result<usize> {
        Ok(rustix::net::send(self, data, send_flags())?)
    }

    /// One vectored write of at most [`MAX_PIECES`] pieces.
    pub(crate) fn send_vectored(&self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut nothing = SendAncillaryBuffer::default();
        Ok(rustix::net::sendmsg(self, pieces, &mut nothing, send_flags())?)
    }

    pub(crate) fn shutdown_write(&self) -> io::Result<()> {
        self.inner.shutdown(Shutdown::Write)
    }
}

/// One accept: a non-blocking, close-on-exec socket.
#[cfg(not(target_vendor = "apple"))]
pub(crate) fn accept_from(listener: impl AsFd) -> io::Result<(OwnedFd, SockAddr)> {
    let flags = rustix::net::SocketFlags::NONBLOCK | rustix::net::SocketFlags::CLOEXEC;
    let (fd, addr) = rustix::net::acceptfrom_with(listener, flags)?;
    Ok((fd, addr.map_or(SockAddr::Unnamed, SockAddr::from_any)))
}

#[cfg(target_vendor = "apple")]
pub(crate) fn accept_from(listener: impl AsFd) -> io::Result<(OwnedFd, SockAddr)> {
    let (fd, addr) = rustix::net::acceptfrom(listener)?;
    rustix::io::fcntl_setfd(&fd, rustix::io::FdFlags::CLOEXEC)?;
    rustix::io::ioctl_fionbio(&fd, true)?;
    Ok((fd, addr.map_or(SockAddr::Unnamed, SockAddr::from_any)))
}

#[cfg(not(any(target_os = "solaris", target_os = "illumos")))]
fn share_port(socket: &socket2::Socket) -> io::Result<()> {
    socket.set_reuse_port(true)
}

#[cfg(any(target_os = "solaris", target_os = "illumos"))]
fn share_port(_: &socket2::Socket) -> io::Result<()> {
    let message = "reuse_port is not supported on this system"; // B-SRV-14
    Err(io::Error::new(io::ErrorKind::InvalidInput, message))
}

/// Apple has no such flag; there the standard library's start-up ignores SIGPIPE.
pub(crate) fn send_flags() -> SendFlags {
    #[cfg(not(target_vendor = "apple"))]
    return SendFlags::NOSIGNAL;
    #[cfg(target_vendor = "apple")]
    return SendFlags::empty();
}

impl From<OwnedFd> for Socket {
    fn from(fd: OwnedFd) -> Self {
        Socket { inner: socket2::Socket::from(fd) }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inner.as_fd()
    }
}
