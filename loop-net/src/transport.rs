//! `Transport`: a connection, as its user sees it.

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::{Context, Poll};

use loop_core::LoopRef;

use crate::conn::{Conn, Info};
use crate::layer::Layer;
#[cfg(feature = "tls")]
use crate::layer::Layered;
#[cfg(feature = "tls")]
use crate::protocol::AnyProtocol;
use crate::protocol::Protocol;
use crate::protocol_ref::ProtocolRef;
use crate::sock_addr::SockAddr;
use crate::socket::Kind;
use crate::socket_view::SocketView;

/// Whether one may go on writing; the answer of [`Transport::write`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum WriteState {
    /// The bytes were taken, and there is room for more.
    Open,
    /// The bytes were taken, but more is buffered than the high-water mark: wait for
    /// [`resume_writing`](Protocol::resume_writing).
    Full,
    /// The bytes were dropped: the connection is closed, or its write side was ended.
    Closed,
}

/// A connection of a [`Protocol`]: asyncio's `Transport`.
///
/// It is a weak handle and cheap to clone. The loop owns the connection until `connection_lost`;
/// dropping handles closes nothing (B-TRN-38). Methods on a connection that is gone do nothing and
/// never panic.
#[derive(Clone)]
pub struct Transport {
    info: Rc<Info>,
}

impl Transport {
    pub(crate) fn new(info: Rc<Info>) -> Self {
        Transport { info }
    }

    /// One that goes through another.
    #[cfg(feature = "tls")]
    pub(crate) fn on_top_of(lower: &Transport, layered: Layered) -> Transport {
        Transport::new(Rc::new(Info::on_top_of(&lower.info, layered)))
    }

    /// Sends `data`, or buffers what the socket does not take now; never blocks. The bytes are copied
    /// if they must be kept (B-TRN-07 to 09).
    ///
    /// What a hook of the protocol writes leaves in one call when the hook returns. What tasks and callbacks write
    /// leaves in one call with the next [`flushed`](Self::flushed), at the latest at the end of the loop's iteration:
    /// who then computes for long, blocks or ends the process flushes first. More than the high-water mark does not
    /// wait, and nothing does outside of a running loop. From the fifth write on that comes too late, each is
    /// reported (B-TRN-18).
    #[inline]
    pub fn write(&self, data: &[u8]) -> WriteState {
        if self.info.take(data) { WriteState::Open } else { self.write_now(data) }
    }

    /// [`write`](Self::write) for those who are likely to be the first in their iteration.
    #[inline]
    pub(crate) fn write_first(&self, data: &[u8]) -> WriteState {
        if self.info.take_first(data) { WriteState::Open } else { self.write(data) }
    }

    #[inline(never)]
    fn write_now(&self, data: &[u8]) -> WriteState {
        if self.info.take_first_of_all(data) {
            return WriteState::Open;
        }
        match self.info.conn.upgrade() {
            Some(conn) => conn.write_pieces(&[data]),
            None => self.write_to_layer(&[data]),
        }
    }

    /// Writes each piece in order; asyncio's `writelines` (B-TRN-12).
    pub fn write_all_vectored(&self, pieces: &[impl AsRef<[u8]>]) -> WriteState {
        match self.info.conn.upgrade() {
            Some(conn) => conn.write_pieces(pieces),
            None => self.write_to_layer(&Vec::from_iter(pieces.iter().map(AsRef::as_ref))),
        }
    }

    /// Ends our side of the connection once everything is flushed; reading goes on (B-TRN-23,
    /// B-TRN-24).
    pub fn write_eof(&self) {
        match self.info.conn.upgrade() {
            Some(conn) => conn.write_eof(),
            None => self.on_layer(|layer| layer.write_eof()),
        }
    }

    /// Whether [`write_eof`](Self::write_eof) means something on this kind of transport: on all but the
    /// reading end of a pipe, and TLS connections, which are closed as a whole (B-TLS-13).
    pub fn can_write_eof(&self) -> bool {
        match self.info.conn.upgrade() {
            Some(conn) => conn.kind() != Kind::ReadPipe,
            None => self.info.layered.is_none(),
        }
    }

    /// Gives the connection to another protocol; the next hook is the new one's, and `connection_made`
    /// is not called again (B-TRN-33). The old one is dropped, at the end of its hook if it calls this.
    /// The new one is told at once if it is to pause writing.
    ///
    /// ```
    /// # use loop_net::{Protocol, Transport};
    /// # struct Chat;
    /// # impl Protocol for Chat { fn data_received(&mut self, _: &[u8]) {} }
    /// struct Login(Option<Transport>);
    ///
    /// impl Protocol for Login {
    ///     fn connection_made(&mut self, transport: &Transport) {
    ///         self.0 = Some(transport.clone());
    ///     }
    ///     fn data_received(&mut self, data: &[u8]) {
    ///         if data == b"secret\n" {
    ///             self.0.as_ref().unwrap().set_protocol(Chat);
    ///         }
    ///     }
    /// }
    /// ```
    pub fn set_protocol<P: Protocol + 'static>(&self, protocol: P) -> ProtocolRef<P> {
        match self.info.conn.upgrade() {
            Some(conn) => conn.set_protocol(Box::new(protocol)),
            None => self.on_layer(|layer| layer.set_protocol(Box::new(protocol))),
        }
        ProtocolRef::new(self.clone())
    }

    /// The options of the socket underneath.
    pub fn socket(&self) -> SocketView {
        match self.layer() {
            Some(layer) => layer.lower().socket(),
            None => SocketView::new(self.info.conn.clone()),
        }
    }

    /// Closes the connection: reading stops now, what is buffered is flushed, then
    /// `connection_lost(None)` is called (B-TRN-20).
    pub fn close(&self) {
        match self.info.conn.upgrade() {
            Some(conn) => conn.close(),
            None => self.on_layer(|layer| layer.close()),
        }
    }

    /// Closes the connection at once and drops what is buffered (B-TRN-21).
    pub fn abort(&self) {
        match self.info.conn.upgrade() {
            Some(conn) => conn.abort(),
            None => self.on_layer(|layer| layer.abort()),
        }
    }

    /// Whether the connection is closed or being closed.
    #[inline]
    pub fn is_closing(&self) -> bool {
        match &self.info.layered {
            None => self.info.is_closing(),
            Some(_) => self.layer().is_none_or(|layer| layer.is_closing()),
        }
    }

    /// Whether incoming bytes are delivered: not while paused, closing, or after the peer's end of
    /// file.
    pub fn is_reading(&self) -> bool {
        match self.info.conn.upgrade() {
            Some(conn) => conn.is_reading(),
            None => self.layer().is_some_and(|layer| layer.is_reading()),
        }
    }

    /// Stops calling `data_received`, also for what is ready already (B-TRN-30 to 32).
    pub fn pause_reading(&self) {
        match self.info.conn.upgrade() {
            Some(conn) => conn.pause_reading(true),
            None => self.on_layer(|layer| layer.pause_reading(true)),
        }
    }

    /// Goes on after [`pause_reading`](Self::pause_reading).
    pub fn resume_reading(&self) {
        match self.info.conn.upgrade() {
            Some(conn) => conn.pause_reading(false),
            None => self.on_layer(|layer| layer.pause_reading(false)),
        }
    }

    /// Bytes that the socket has not taken yet, those that wait for the end of the iteration included.
    pub fn write_buffer_size(&self) -> usize {
        match self.info.conn.upgrade() {
            Some(conn) => conn.buffered(),
            None => self.layer().map_or(0, |layer| layer.buffered()),
        }
    }

    /// The water marks in bytes: `(low, high)`.
    pub fn write_buffer_limits(&self) -> (usize, usize) {
        match self.info.conn.upgrade() {
            Some(conn) => conn.limits(),
            None => self.layer().map_or((0, 0), |layer| layer.limits()),
        }
    }

    /// Sets the water marks in bytes; 16 KiB and 64 KiB at the start, 128 and 512 with TLS. Without `low` it is a quarter
    /// of `high`. The protocol is paused or resumed if the new marks ask for it (B-TRN-13, B-TRN-15).
    ///
    /// # Errors
    /// `InvalidInput` if `low` is above `high`.
    pub fn set_write_buffer_limits(&self, high: usize, low: Option<usize>) -> io::Result<()> {
        let low = low.unwrap_or(high / 4);
        if low > high {
            let message = format!("the low-water mark {low} is above the high-water mark {high}");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        match self.info.conn.upgrade() {
            Some(conn) => conn.set_limits(low, high),
            None => self.on_layer(|layer| layer.set_limits(low, high)),
        }
        Ok(())
    }

    /// Sends what waits for the end of the iteration, and waits until nothing is buffered: everything written so far
    /// is the system's, or the connection is over and it is lost. Dropping the future changes nothing.
    pub async fn flushed(&self) {
        poll_fn(|cx| self.poll_flushed(cx)).await;
    }

    /// Sends what waits for the end of the iteration. Whether there was some, and that was all that was to be done:
    /// then the connection is open, and nothing is buffered.
    #[inline]
    pub(crate) fn send_now(&self) -> bool {
        if let Some(calm) = self.info.send_loose() {
            return calm;
        }
        if self.info.may_wait_elsewhere() {
            self.send_waiting();
        }
        false
    }

    #[inline(never)]
    fn send_waiting(&self) {
        match self.info.conn.upgrade() {
            Some(conn) => conn.send_now(),
            None => self.on_layer(|layer| _ = layer.lower().send_now()),
        }
    }

    pub(crate) fn poll_flushed(&self, cx: &Context<'_>) -> Poll<()> {
        match self.info.conn.upgrade() {
            Some(conn) => conn.poll_flushed(cx),
            None => self.layer().map_or(Poll::Ready(()), |layer| layer.poll_flushed(cx)),
        }
    }

    pub(crate) fn conn(&self) -> Option<Rc<Conn>> {
        self.info.conn.upgrade()
    }

    pub(crate) fn loop_ref(&self) -> &LoopRef {
        self.info.loop_ref()
    }

    /// Asked only when there is no connection of this transport's own.
    pub(crate) fn layer(&self) -> Option<Rc<dyn Layer>> {
        self.info.layered.as_ref()?.layer.upgrade()
    }

    fn on_layer(&self, f: impl FnOnce(&dyn Layer)) {
        if let Some(layer) = self.layer() {
            f(&*layer);
        }
    }

    #[inline(never)]
    fn write_to_layer(&self, pieces: &[&[u8]]) -> WriteState {
        let Some(layer) = self.layer() else { return self.info.refuse() };
        let state = layer.write(pieces);
        if state == WriteState::Closed { self.info.refuse() } else { state }
    }

    /// Whether it goes through another transport.
    pub(crate) fn is_layered(&self) -> bool {
        self.info.layered.is_some()
    }

    /// What is known of a layer.
    #[cfg(feature = "tls")]
    pub(crate) fn layer_facts(&self) -> Option<&dyn std::any::Any> {
        Some(&*self.info.layered.as_ref()?.facts)
    }

    /// The protocol, out of its slot. `None` while one of its hooks runs, or at the end.
    #[cfg(feature = "tls")]
    pub(crate) fn take_protocol(&self) -> Option<Box<dyn AnyProtocol>> {
        match self.info.conn.upgrade() {
            Some(conn) => conn.take_protocol(),
            None => self.layer()?.take_protocol(),
        }
    }

    /// Whether there is a connection that TLS can be put on.
    #[cfg(feature = "tls")]
    pub(crate) fn check_upgradable(&self) -> io::Result<()> {
        if self.is_closing() {
            let message = "the connection is closed, or about to";
            return Err(io::Error::new(io::ErrorKind::NotConnected, message));
        }
        if self.info.conn.upgrade().is_some_and(|conn| conn.kind() != Kind::Socket) {
            let message = "TLS needs a socket, and this is a pipe";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        Ok(())
    }

    /// What a report calls this connection.
    pub(crate) fn describe(&self) -> String {
        self.info.describe()
    }

    /// Our IP address, also after the connection is gone; `None` for other kinds of sockets.
    pub fn local_addr(&self) -> Option<SocketAddr> {
        self.info.local.socket_addr()
    }

    /// The peer's IP address, also after the connection is gone; `None` for other kinds of sockets.
    pub fn peer_addr(&self) -> Option<SocketAddr> {
        self.info.peer.socket_addr()
    }

    /// Our address, whatever its kind, also after the connection is gone.
    pub fn local_sock_addr(&self) -> &SockAddr {
        &self.info.local
    }

    /// The peer's address, whatever its kind, also after the connection is gone.
    pub fn peer_sock_addr(&self) -> &SockAddr {
        &self.info.peer
    }
}

impl fmt::Debug for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transport")
            .field("local", &self.info.local)
            .field("peer", &self.info.peer)
            .field("closing", &self.is_closing())
            .finish()
    }
}
