//! The system's stream sockets, non-blocking and close-on-exec.

use std::io::{self, IoSlice};
use std::net::{Shutdown, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::fs::FileType;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, SocketAddrAny, SocketType, sockopt};
use socket2::{Domain, Protocol, Type};

use crate::async_fd::set_nonblocking;
use crate::error::{Rejected, named};
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

/// How a socket is connected.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ConnectOptions {
    pub(crate) nodelay: bool,
    /// After how much silence the peer is asked whether it lives.
    pub(crate) keepalive: Option<Duration>,
}

/// What kind of descriptor bytes go through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Socket,
    /// The reading end of a pipe, or what is used as one.
    ReadPipe,
    /// The writing end, which becomes readable when its reader has gone.
    WritePipe,
    /// One that may be readable for other reasons: a terminal.
    UnwatchedPipe,
}

impl Kind {
    /// Whether it is only written to.
    pub(crate) fn only_writes(self) -> bool {
        matches!(self, Kind::WritePipe | Kind::UnwatchedPipe)
    }
}

/// A socket, or an end of a pipe. Reading and writing never block, and on sockets never raise SIGPIPE.
#[derive(Debug)]
pub(crate) struct Socket {
    inner: socket2::Socket,
    kind: Kind,
}

impl Socket {
    fn new(domain: Domain, protocol: Option<Protocol>) -> io::Result<Socket> {
        let inner = socket2::Socket::new(domain, Type::STREAM, protocol)?;
        inner.set_nonblocking(true)?;
        Ok(Socket { inner, kind: Kind::Socket })
    }

    fn tcp(addr: SocketAddr) -> io::Result<Socket> {
        Self::new(Domain::for_address(addr), Some(Protocol::TCP))
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

    /// A socket that keeps an address for others that share its port, and does not listen.
    pub(crate) fn reserve(addr: SocketAddr) -> io::Result<Socket> {
        let socket = Self::tcp(addr)?;
        if addr.is_ipv6() {
            socket.inner.set_only_v6(true)?;
        }
        socket.inner.set_reuse_address(true)?;
        share_port(&socket.inner)?;
        socket.inner.bind(&addr.into())?;
        Ok(socket)
    }

    pub(crate) fn unix_listen(addr: &SockAddr, backlog: i32) -> io::Result<Socket> {
        let name = addr.to_any()?;
        let socket = Self::new(Domain::UNIX, None)?;
        rustix::net::bind(&socket, &name)?;
        socket.inner.listen(backlog)?;
        Ok(socket)
    }

    /// Listens on a socket that is bound; listening twice is fine.
    pub(crate) fn start_listening(&self, backlog: i32) -> io::Result<()> {
        self.inner.listen(backlog)
    }

    /// A TCP socket that is connecting or connected already; `true` if it still connects. It is bound
    /// to `local` first.
    pub(crate) fn tcp_connect(
        addr: SocketAddr,
        local: Option<SocketAddr>,
        options: ConnectOptions,
    ) -> io::Result<(Socket, bool)> {
        let socket = Self::tcp(addr)?;
        if let Some(local) = local {
            let bound = socket.inner.bind(&local.into());
            bound.map_err(|error| named(format!("bind to {local}"), error))?;
        }
        if options.nodelay {
            socket.set_nodelay()?;
        }
        if let Some(idle) = options.keepalive {
            socket.inner.set_tcp_keepalive(&socket2::TcpKeepalive::new().with_time(idle))?;
        }
        let connecting = socket.start_connecting(&addr.into())?;
        Ok((socket, connecting))
    }

    /// A Unix socket that is connecting or connected already; `true` if it still connects.
    pub(crate) fn unix_connect(addr: &SockAddr) -> io::Result<(Socket, bool)> {
        let socket = Self::new(Domain::UNIX, None)?;
        let connecting = socket.start_connecting(&addr.to_any()?)?;
        Ok((socket, connecting))
    }

    fn start_connecting(&self, addr: &SocketAddrAny) -> io::Result<bool> {
        match rustix::net::connect(self, addr) {
            Ok(()) => Ok(false),
            // An interrupted connect goes on by itself (B-SOCK-03).
            Err(Errno::INPROGRESS | Errno::INTR) => Ok(true),
            Err(error) => Err(error.into()),
        }
    }

    /// Takes over a stream socket that somebody else has made.
    pub(crate) fn adopt<S: Into<OwnedFd> + AsFd>(source: S) -> Result<Socket, Rejected<S>> {
        let checked = match sockopt::socket_type(&source) {
            Ok(SocketType::STREAM) => rustix::io::ioctl_fionbio(&source, true).map_err(Into::into),
            Ok(_) => {
                let message = "a stream socket is needed, and this is another kind";
                Err(io::Error::new(io::ErrorKind::InvalidInput, message))
            }
            Err(Errno::NOTSOCK) => {
                let message = "a stream socket is needed, and this is no socket";
                Err(io::Error::new(io::ErrorKind::InvalidInput, message))
            }
            Err(error) => Err(named("take over a socket", error.into())),
        };
        match checked {
            Ok(()) => Ok(Socket::from(source.into())),
            Err(error) => Err(Rejected { source, error }),
        }
    }

    /// Takes over a pipe, a socket or a character device as an end of a pipe. Anything else comes back
    /// untouched (B-PIPE-01).
    pub(crate) fn adopt_pipe<S: Into<OwnedFd> + AsFd>(
        source: S,
        writes: bool,
    ) -> Result<Socket, Rejected<S>> {
        let check = || {
            let kind = FileType::from_raw_mode(rustix::fs::fstat(&source)?.st_mode);
            let kind = match (kind, writes) {
                (FileType::Fifo | FileType::Socket, true) => Kind::WritePipe,
                (FileType::CharacterDevice, true) => Kind::UnwatchedPipe,
                (FileType::Fifo | FileType::Socket | FileType::CharacterDevice, false) => {
                    Kind::ReadPipe
                }
                (other, _) => {
                    let message =
                        format!("a pipe, socket or character device is needed: {other:?}");
                    return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
                }
            };
            set_nonblocking(&source, true)?;
            Ok(kind)
        };
        match check() {
            Ok(kind) => Ok(Socket { inner: socket2::Socket::from(source.into()), kind }),
            Err(error) => Err(Rejected { source, error }),
        }
    }

    pub(crate) fn kind(&self) -> Kind {
        self.kind
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

    pub(crate) fn local_addr(&self) -> SockAddr {
        rustix::net::getsockname(self).map_or(SockAddr::Unnamed, SockAddr::from_any)
    }

    pub(crate) fn peer_addr(&self) -> SockAddr {
        let peer = rustix::net::getpeername(self).ok().flatten();
        peer.map_or(SockAddr::Unnamed, SockAddr::from_any)
    }

    /// One read that leaves the bytes where they are.
    pub(crate) fn peek(&self, buffer: &mut [u8]) -> io::Result<usize> {
        Ok(rustix::net::recv(self, buffer, RecvFlags::PEEK)?.0)
    }

    /// One read from what can be read. Zero bytes are the end of file.
    #[inline]
    pub(crate) fn recv(&self, buffer: &mut [u8]) -> io::Result<usize> {
        Ok(rustix::io::read(self, buffer)?)
    }

    /// One write.
    pub(crate) fn send(&self, data: &[u8]) -> io::Result<usize> {
        if self.kind != Kind::Socket {
            return Ok(rustix::io::write(self, data)?);
        }
        Ok(rustix::net::send(self, data, send_flags())?)
    }

    /// One write, to what is known to be a socket. What became of it is only of interest if it has not
    /// taken everything.
    #[inline(always)]
    pub(crate) fn send_all(&self, data: &[u8]) -> Result<(), io::Result<usize>> {
        match rustix::net::send(self, data, send_flags()) {
            Ok(count) if count == data.len() => Ok(()),
            Ok(count) => Err(Ok(count)),
            Err(error) => Err(Err(error.into())),
        }
    }

    /// One vectored write of at most [`MAX_PIECES`] pieces.
    pub(crate) fn send_vectored(&self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        if self.kind != Kind::Socket {
            return Ok(rustix::io::writev(self, pieces)?);
        }
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
pub(crate) fn share_port(socket: &socket2::Socket) -> io::Result<()> {
    socket.set_reuse_port(true)
}

#[cfg(any(target_os = "solaris", target_os = "illumos"))]
pub(crate) fn share_port(_: &socket2::Socket) -> io::Result<()> {
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
        Socket { inner: socket2::Socket::from(fd), kind: Kind::Socket }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inner.as_fd()
    }
}
