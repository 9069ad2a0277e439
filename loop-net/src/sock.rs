//! Level 1 on sockets: asyncio's `sock_*` operations.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{RecvFlags, sockopt};

use crate::addr::ToAddrs;
use crate::async_fd::AsyncFd;
use crate::error::named;
use crate::sock_addr::SockAddr;
use crate::socket::{accept_from, send_flags};

/// Operations of sockets; on other descriptors they fail with `ENOTSOCK`.
///
/// ```
/// use loop_net::{AsyncFd, LoopRef, run, spawn};
/// use std::net::{TcpListener, TcpStream};
///
/// run(async {
///     let lp = LoopRef::current();
///     let listener = AsyncFd::new(&lp, TcpListener::bind("127.0.0.1:0")?)?;
///     let addr = listener.get_ref().local_addr()?;
///     let client = AsyncFd::new(&lp, TcpStream::connect(addr)?)?;
///     let (served, _) = listener.accept().await?;
///     served.send_all(b"hello").await?;
///     assert_eq!(client.recv(16).await?, b"hello");
///     std::io::Result::Ok(())
/// })??;
/// # Ok::<(), std::io::Error>(())
/// ```
impl<S: AsFd + 'static> AsyncFd<S> {
    /// Receives up to `max` bytes; none at the end of the stream (B-SOCK-02). Dropped, nothing is lost.
    ///
    /// # Errors
    /// What `recv` says, naming the descriptor, and those of [`readable`](Self::readable).
    pub async fn recv(&self, max: usize) -> io::Result<Vec<u8>> {
        let mut buffer = vec![0; max];
        let count = self.recv_into(&mut buffer).await?;
        buffer.truncate(count);
        Ok(buffer)
    }

    /// Receives what fits into `buffer`: how many bytes. Dropped, nothing is lost.
    ///
    /// # Errors
    /// As [`recv`](Self::recv).
    pub async fn recv_into(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let received = self
            .read_with(|source| Ok(rustix::net::recv(source, &mut *buffer, RecvFlags::empty())?.0));
        received.await.map_err(|error| self.named("receive from", error))
    }

    /// Receives one datagram of up to `max` bytes and its sender; the rest of a longer one is lost.
    /// Dropped, nothing is lost.
    ///
    /// # Errors
    /// As [`recv`](Self::recv).
    pub async fn recv_from(&self, max: usize) -> io::Result<(Vec<u8>, SockAddr)> {
        let mut buffer = vec![0; max];
        let (count, from) = self.recv_from_into(&mut buffer).await?;
        buffer.truncate(count);
        Ok((buffer, from))
    }

    /// Receives one datagram into `buffer`: how many bytes, and its sender. Dropped, nothing is lost.
    ///
    /// # Errors
    /// As [`recv`](Self::recv).
    pub async fn recv_from_into(&self, buffer: &mut [u8]) -> io::Result<(usize, SockAddr)> {
        let received = self.read_with(|source| {
            let (count, _, from) = rustix::net::recvfrom(source, &mut *buffer, RecvFlags::empty())?;
            Ok((count, from.map_or(SockAddr::Unnamed, SockAddr::from_any)))
        });
        received.await.map_err(|error| self.named("receive from", error))
    }

    /// Sends all of `data`, in order (B-SOCK-02). Dropped, some of it may have been sent, and how much
    /// is not known.
    ///
    /// # Errors
    /// What `send` says, naming the descriptor, and those of [`writable`](Self::writable). Some of
    /// `data` may have been sent before. SIGPIPE is not raised.
    pub async fn send_all(&self, mut data: &[u8]) -> io::Result<()> {
        while !data.is_empty() {
            let sent = self.write_with(|source| Ok(rustix::net::send(source, data, send_flags())?));
            let count = sent.await.map_err(|error| self.named("send to", error))?;
            data = &data[count..];
        }
        Ok(())
    }

    /// Sends one datagram to `addr`. Dropped, it was not sent.
    ///
    /// # Errors
    /// What `sendto` says, naming the address, and those of [`writable`](Self::writable).
    pub async fn send_to(&self, data: &[u8], addr: impl Into<SockAddr>) -> io::Result<usize> {
        let addr = addr.into();
        let to = addr.to_any()?;
        let sent =
            self.write_with(|source| Ok(rustix::net::sendto(source, data, send_flags(), &to)?));
        sent.await.map_err(|error| named(format!("send to {addr}"), error))
    }

    /// Accepts a connection: a non-blocking, close-on-exec socket, and the peer's address (B-SOCK-05).
    /// Dropped, no connection is lost.
    ///
    /// # Errors
    /// What `accept` says, naming the descriptor, and those of [`readable`](Self::readable).
    pub async fn accept(&self) -> io::Result<(AsyncFd<OwnedFd>, SockAddr)> {
        let accepted = self.read_with(|source| accept_from(source));
        let (fd, from) = accepted.await.map_err(|error| self.named("accept from", error))?;
        Ok((AsyncFd::new(self.loop_ref(), fd)?, from))
    }

    /// Connects the socket (B-SOCK-03). Dropped, it goes on connecting.
    ///
    /// # Errors
    /// What connecting ended with, naming the address, and those of [`writable`](Self::writable).
    /// `WouldBlock` is the answer of a Unix listener whose backlog is full; nothing tells when to try
    /// again.
    pub async fn connect(&self, addr: impl Into<SockAddr>) -> io::Result<()> {
        let addr = addr.into();
        let to = addr.to_any()?;
        let connecting = async {
            match rustix::net::connect(self.get_ref(), &to) {
                // An interrupted connect goes on by itself.
                Err(Errno::INPROGRESS | Errno::INTR) => {
                    self.writable().await?;
                    sockopt::socket_error(self.get_ref())??;
                    Ok(())
                }
                result => Ok(result?),
            }
        };
        connecting.await.map_err(|error| named(format!("connect to {addr}"), error))
    }

    /// Connects the socket to a host, which is looked up on the loop's threads if it is a name: to its
    /// first address of the socket's family (B-SOCK-04). Dropped, it goes on connecting.
    ///
    /// # Errors
    /// As [`connect`](Self::connect), and what looking up says; `AddrNotAvailable` if the host has no
    /// address of the socket's family.
    pub async fn connect_host(&self, addrs: impl ToAddrs) -> io::Result<()> {
        let family = rustix::net::getsockname(self.get_ref())?.address_family();
        let found = addrs.to_addrs()?.resolve(self.loop_ref()).await?;
        let fits = |addr: &SocketAddr| match addr {
            SocketAddr::V4(_) => family == rustix::net::AddressFamily::INET,
            SocketAddr::V6(_) => family == rustix::net::AddressFamily::INET6,
        };
        match found.iter().find(|addr| fits(addr)) {
            Some(addr) => self.connect(*addr).await,
            None => {
                let message = format!("none of {found:?} is of the socket's family");
                Err(io::Error::new(io::ErrorKind::AddrNotAvailable, message))
            }
        }
    }
}
