//! `DatagramTransport`: a datagram endpoint, as its user sees it.

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::rc::{Rc, Weak};

use super::engine::Endpoint;
use crate::conn::Info;
use crate::sock_addr::SockAddr;
use crate::socket_view::SocketView;
use crate::transport::WriteState;

/// An endpoint of a [`DatagramProtocol`](crate::DatagramProtocol); asyncio's `DatagramTransport`.
///
/// It is a weak handle and cheap to clone: the loop owns the endpoint until `connection_lost`. Methods on
/// one that is gone do nothing and never panic.
#[derive(Clone)]
pub struct DatagramTransport {
    endpoint: Weak<Endpoint>,
    info: Rc<Info>,
}

impl DatagramTransport {
    pub(super) fn new(endpoint: Weak<Endpoint>, info: Rc<Info>) -> Self {
        DatagramTransport { endpoint, info }
    }

    /// Sends a datagram to `to`, or queues it if the socket does not take it now; never blocks
    /// (B-UDP-02). The bytes are copied if they must be kept.
    ///
    /// What the system refuses, a datagram of more than 65,507 bytes for example, goes to
    /// [`error_received`](crate::DatagramProtocol::error_received). A send that comes too late is
    /// dropped and answered with [`WriteState::Closed`]; from the fifth on each is reported (B-UDP-09).
    ///
    /// # Errors
    /// `InvalidInput` if the endpoint has a peer and that is another one (B-UDP-05), or if `to` is no
    /// address that can be sent to.
    pub fn send_to(&self, data: &[u8], to: impl Into<SockAddr>) -> io::Result<WriteState> {
        match self.endpoint.upgrade() {
            Some(endpoint) => endpoint.send(data, Some(to.into())),
            None => Ok(self.info.refuse()),
        }
    }

    /// [`send_to`](Self::send_to) the endpoint's peer.
    ///
    /// # Errors
    /// `InvalidInput` if it has none.
    pub fn send(&self, data: &[u8]) -> io::Result<WriteState> {
        match self.endpoint.upgrade() {
            Some(endpoint) => endpoint.send(data, None),
            None => Ok(self.info.refuse()),
        }
    }

    /// Closes the endpoint: nothing is received from now on, what is queued is sent, then
    /// `connection_lost(None)` is called (B-UDP-08).
    pub fn close(&self) {
        if let Some(endpoint) = self.endpoint.upgrade() {
            endpoint.close();
        }
    }

    /// Closes the endpoint at once and drops what is queued.
    pub fn abort(&self) {
        if let Some(endpoint) = self.endpoint.upgrade() {
            endpoint.abort();
        }
    }

    /// Whether the endpoint is closed or being closed.
    pub fn is_closing(&self) -> bool {
        self.endpoint.upgrade().is_none_or(|endpoint| endpoint.is_closing())
    }

    /// Bytes that are queued, each datagram with 8 more (B-UDP-07).
    pub fn write_buffer_size(&self) -> usize {
        self.endpoint.upgrade().map_or(0, |endpoint| endpoint.queued())
    }

    /// The water marks in bytes: `(low, high)`.
    pub fn write_buffer_limits(&self) -> (usize, usize) {
        self.endpoint.upgrade().map_or((0, 0), |endpoint| endpoint.marks.get())
    }

    /// Sets the water marks in bytes; 16 KiB and 64 KiB at the start. Without `low` it is a quarter of
    /// `high`.
    ///
    /// # Errors
    /// `InvalidInput` if `low` is above `high`.
    pub fn set_write_buffer_limits(&self, high: usize, low: Option<usize>) -> io::Result<()> {
        let low = low.unwrap_or(high / 4);
        if low > high {
            let message = format!("the low-water mark {low} is above the high-water mark {high}");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        if let Some(endpoint) = self.endpoint.upgrade() {
            endpoint.marks.set((low, high));
            endpoint.measure();
        }
        Ok(())
    }

    /// Our IP address, also after the end; `None` for Unix sockets.
    pub fn local_addr(&self) -> Option<SocketAddr> {
        self.info.local.socket_addr()
    }

    /// Our address, whatever its kind, also after the end.
    pub fn local_sock_addr(&self) -> &SockAddr {
        &self.info.local
    }

    /// The peer's address, if there is one, also after the end.
    pub fn peer_sock_addr(&self) -> Option<&SockAddr> {
        Some(&self.info.peer).filter(|peer| **peer != SockAddr::Unnamed)
    }

    /// The options of the socket underneath; with a larger
    /// [`set_recv_buffer_size`](SocketView::set_recv_buffer_size) fewer datagrams are lost in a burst.
    pub fn socket(&self) -> SocketView {
        let endpoint = self.endpoint.upgrade();
        SocketView::new(endpoint.map_or_else(Weak::new, |it| Rc::downgrade(&it.socket)))
    }

    /// Receives what is sent to a multicast group, on the interface with this address; the unspecified
    /// address lets the system choose.
    ///
    /// # Errors
    /// What `setsockopt` says, and `NotConnected` after the end.
    pub fn join_multicast_v4(&self, group: Ipv4Addr, interface: Ipv4Addr) -> io::Result<()> {
        self.with(|socket| socket.join_multicast_v4(&group, &interface))
    }

    /// Undoes [`join_multicast_v4`](Self::join_multicast_v4).
    ///
    /// # Errors
    /// As [`join_multicast_v4`](Self::join_multicast_v4).
    pub fn leave_multicast_v4(&self, group: Ipv4Addr, interface: Ipv4Addr) -> io::Result<()> {
        self.with(|socket| socket.leave_multicast_v4(&group, &interface))
    }

    /// Receives what is sent to a multicast group, on the interface with this number; 0 lets the system
    /// choose.
    ///
    /// # Errors
    /// As [`join_multicast_v4`](Self::join_multicast_v4).
    pub fn join_multicast_v6(&self, group: Ipv6Addr, interface: u32) -> io::Result<()> {
        self.with(|socket| socket.join_multicast_v6(&group, interface))
    }

    /// Undoes [`join_multicast_v6`](Self::join_multicast_v6).
    ///
    /// # Errors
    /// As [`join_multicast_v4`](Self::join_multicast_v4).
    pub fn leave_multicast_v6(&self, group: Ipv6Addr, interface: u32) -> io::Result<()> {
        self.with(|socket| socket.leave_multicast_v6(&group, interface))
    }

    /// Through which interface what is sent to IPv4 groups leaves.
    ///
    /// # Errors
    /// As [`join_multicast_v4`](Self::join_multicast_v4).
    pub fn set_multicast_interface_v4(&self, interface: Ipv4Addr) -> io::Result<()> {
        self.with(|socket| socket.set_multicast_if_v4(&interface))
    }

    /// How many routers what is sent to IPv4 groups may pass: 1 at the start, which keeps it in the local
    /// network.
    ///
    /// # Errors
    /// As [`join_multicast_v4`](Self::join_multicast_v4).
    pub fn set_multicast_ttl_v4(&self, ttl: u32) -> io::Result<()> {
        self.with(|socket| socket.set_multicast_ttl_v4(ttl))
    }

    /// Through which interface, by its number, what is sent to IPv6 groups leaves.
    ///
    /// # Errors
    /// As [`join_multicast_v4`](Self::join_multicast_v4).
    pub fn set_multicast_interface_v6(&self, interface: u32) -> io::Result<()> {
        self.with(|socket| socket.set_multicast_if_v6(interface))
    }

    /// How many routers what is sent to IPv6 groups may pass: 1 at the start.
    ///
    /// # Errors
    /// As [`join_multicast_v4`](Self::join_multicast_v4).
    pub fn set_multicast_hops_v6(&self, hops: u32) -> io::Result<()> {
        self.with(|socket| socket.set_multicast_hops_v6(hops))
    }

    /// Whether what is sent to IPv4 groups is received on this machine too; on at the start.
    ///
    /// # Errors
    /// As [`join_multicast_v4`](Self::join_multicast_v4).
    pub fn set_multicast_loop_v4(&self, on: bool) -> io::Result<()> {
        self.with(|socket| socket.set_multicast_loop_v4(on))
    }

    /// Whether what is sent to IPv6 groups is received on this machine too; on at the start.
    ///
    /// # Errors
    /// As [`join_multicast_v4`](Self::join_multicast_v4).
    pub fn set_multicast_loop_v6(&self, on: bool) -> io::Result<()> {
        self.with(|socket| socket.set_multicast_loop_v6(on))
    }

    fn with<T>(&self, f: impl FnOnce(&socket2::Socket) -> io::Result<T>) -> io::Result<T> {
        match self.endpoint.upgrade() {
            Some(endpoint) => f(endpoint.socket.options()),
            None => Err(io::Error::new(io::ErrorKind::NotConnected, "the endpoint is closed")),
        }
    }
}

impl fmt::Debug for DatagramTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DatagramTransport")
            .field("local", &self.info.local)
            .field("peer", &self.info.peer)
            .field("closing", &self.is_closing())
            .finish()
    }
}
