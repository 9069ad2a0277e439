//! `Transport`: a connection, as its user sees it.

use std::cell::Cell;
use std::fmt;
use std::future::poll_fn;
use std::io;
use std::marker::PhantomData;
use std::net::SocketAddr;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll};

use loop_core::{ExceptionContext, LoopRef};

use crate::conn::{Conn, Shared};
use crate::layer::{Layer, Layered};
use crate::protocol::{AnyProtocol, Protocol};
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

/// From this one on each dropped write is reported (B-TRN-18).
const REPORT_REFUSED: u32 = 5;

/// What is known of a connection also when it is gone (B-TRN-36).
pub(crate) struct Info {
    shared: Rc<Shared>,
    pub(crate) local: SockAddr,
    pub(crate) peer: SockAddr,
    /// Writes that came too late.
    refused: Cell<u32>,
    /// Only if it goes through another transport.
    layered: Option<Layered>,
}

impl Info {
    pub(crate) fn new(shared: Rc<Shared>, local: SockAddr, peer: SockAddr) -> Self {
        Info { shared, local, peer, refused: Cell::new(0), layered: None }
    }

    /// Of a transport on top of another one.
    #[cfg(feature = "tls")]
    pub(crate) fn layered(
        lower: &Transport,
        layer: Weak<dyn Layer>,
        facts: Rc<dyn std::any::Any>,
    ) -> Self {
        let (local, peer) = (lower.info.local.clone(), lower.info.peer.clone());
        let layered = Some(Layered { layer, facts });
        Info { layered, ..Info::new(lower.info.shared.clone(), local, peer) }
    }

    pub(crate) fn loop_ref(&self) -> &LoopRef {
        &self.shared.lp
    }

    pub(crate) fn describe(&self) -> String {
        match (&self.peer, &self.local) {
            (SockAddr::Unnamed, SockAddr::Unnamed) => "connection".to_owned(),
            (SockAddr::Unnamed, local) => format!("connection on {local}"),
            (peer, _) => format!("connection with {peer}"),
        }
    }

    /// Drops a write that came too late.
    #[cold]
    pub(crate) fn refuse(&self) -> WriteState {
        let refused = self.refused.get().saturating_add(1);
        self.refused.set(refused);
        if refused >= REPORT_REFUSED {
            let context =
                ExceptionContext::warning("data written to a closed connection is dropped")
                    .with_subject(self.describe());
            self.shared.lp.report(&context);
        }
        WriteState::Closed
    }
}

/// A connection of a [`Protocol`]: asyncio's `Transport`.
///
/// It is a weak handle and cheap to clone. The loop owns the connection until `connection_lost`;
/// dropping handles closes nothing (B-TRN-38). Methods on a connection that is gone do nothing and
/// never panic.
#[derive(Clone)]
pub struct Transport {
    conn: Weak<Conn>,
    info: Rc<Info>,
}

impl Transport {
    pub(crate) fn new(conn: Weak<Conn>, info: Rc<Info>) -> Self {
        Transport { conn, info }
    }

    /// Sends `data`, or buffers what the socket does not take now; never blocks. The bytes are copied
    /// if they must be kept (B-TRN-07 to 09).
    ///
    /// What a hook of the protocol writes leaves in one call when the hook returns, or once it exceeds
    /// the high-water mark. From the fifth write on that comes too late, each is reported (B-TRN-18).
    #[inline]
    pub fn write(&self, data: &[u8]) -> WriteState {
        if self.info.shared.gather.take(self.conn.as_ptr(), data) {
            return WriteState::Open;
        }
        match self.conn.upgrade() {
            Some(conn) => conn.write(data),
            None => self.write_to_layer(&[data]),
        }
    }

    /// Writes each piece in order; asyncio's `writelines` (B-TRN-12).
    pub fn write_all_vectored(&self, pieces: &[impl AsRef<[u8]>]) -> WriteState {
        match self.conn.upgrade() {
            Some(conn) => conn.write_pieces(pieces),
            None => self.write_to_layer(pieces),
        }
    }

    /// Ends our side of the connection once everything is flushed; reading goes on (B-TRN-23,
    /// B-TRN-24).
    pub fn write_eof(&self) {
        match self.conn.upgrade() {
            Some(conn) => conn.write_eof(),
            None => self.on_layer(|layer| layer.write_eof()),
        }
    }

    /// Whether [`write_eof`](Self::write_eof) means something on this kind of transport: on all but the
    /// reading end of a pipe, and TLS connections, which are closed as a whole (B-TLS-13).
    pub fn can_write_eof(&self) -> bool {
        match self.conn.upgrade() {
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
        match self.conn.upgrade() {
            Some(conn) => conn.set_protocol(Box::new(protocol)),
            None => self.on_layer(|layer| layer.set_protocol(Box::new(protocol))),
        }
        ProtocolRef::new(self.clone())
    }

    /// The options of the socket underneath.
    pub fn socket(&self) -> SocketView {
        match self.layer() {
            Some(layer) => layer.lower().socket(),
            None => SocketView::new(self.conn.clone()),
        }
    }

    /// Closes the connection: reading stops now, what is buffered is flushed, then
    /// `connection_lost(None)` is called (B-TRN-20).
    pub fn close(&self) {
        match self.conn.upgrade() {
            Some(conn) => conn.close(),
            None => self.on_layer(|layer| layer.close()),
        }
    }

    /// Closes the connection at once and drops what is buffered (B-TRN-21).
    pub fn abort(&self) {
        match self.conn.upgrade() {
            Some(conn) => conn.abort(),
            None => self.on_layer(|layer| layer.abort()),
        }
    }

    /// Whether the connection is closed or being closed.
    pub fn is_closing(&self) -> bool {
        match self.conn.upgrade() {
            Some(conn) => conn.is_closing(),
            None => self.layer().is_none_or(|layer| layer.is_closing()),
        }
    }

    /// Whether incoming bytes are delivered: not while paused, closing, or after the peer's end of
    /// file.
    pub fn is_reading(&self) -> bool {
        match self.conn.upgrade() {
            Some(conn) => conn.is_reading(),
            None => self.layer().is_some_and(|layer| layer.is_reading()),
        }
    }

    /// Stops calling `data_received`, also for what is ready already (B-TRN-30 to 32).
    pub fn pause_reading(&self) {
        match self.conn.upgrade() {
            Some(conn) => conn.pause_reading(true),
            None => self.on_layer(|layer| layer.pause_reading(true)),
        }
    }

    /// Goes on after [`pause_reading`](Self::pause_reading).
    pub fn resume_reading(&self) {
        match self.conn.upgrade() {
            Some(conn) => conn.pause_reading(false),
            None => self.on_layer(|layer| layer.pause_reading(false)),
        }
    }

    /// Bytes that the socket has not taken yet.
    pub fn write_buffer_size(&self) -> usize {
        match self.conn.upgrade() {
            Some(conn) => conn.buffered(),
            None => self.layer().map_or(0, |layer| layer.buffered()),
        }
    }

    /// The water marks in bytes: `(low, high)`.
    pub fn write_buffer_limits(&self) -> (usize, usize) {
        match self.conn.upgrade() {
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
        match self.conn.upgrade() {
            Some(conn) => conn.set_limits(low, high),
            None => self.on_layer(|layer| layer.set_limits(low, high)),
        }
        Ok(())
    }

    /// Waits until nothing is buffered: everything written so far is the system's, or the connection is
    /// over and it is lost. Dropping the future changes nothing.
    pub async fn flushed(&self) {
        poll_fn(|cx| self.poll_flushed(cx)).await;
    }

    pub(crate) fn poll_flushed(&self, cx: &Context<'_>) -> Poll<()> {
        match self.conn.upgrade() {
            Some(conn) => conn.poll_flushed(cx),
            None => self.layer().map_or(Poll::Ready(()), |layer| layer.poll_flushed(cx)),
        }
    }

    pub(crate) fn conn(&self) -> Option<Rc<Conn>> {
        self.conn.upgrade()
    }

    pub(crate) fn loop_ref(&self) -> &LoopRef {
        self.info.loop_ref()
    }

    /// Asked only when there is no connection of this transport's own.
    fn layer(&self) -> Option<Rc<dyn Layer>> {
        self.info.layered.as_ref()?.layer.upgrade()
    }

    fn on_layer(&self, f: impl FnOnce(&dyn Layer)) {
        if let Some(layer) = self.layer() {
            f(&*layer);
        }
    }

    #[inline(never)]
    fn write_to_layer(&self, pieces: &[impl AsRef<[u8]>]) -> WriteState {
        let Some(layer) = self.layer() else { return self.info.refuse() };
        let mut state = WriteState::Open;
        for piece in pieces {
            state = layer.write(piece.as_ref());
        }
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
        match self.conn.upgrade() {
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
        if self.conn.upgrade().is_some_and(|conn| conn.kind() != Kind::Socket) {
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
        self.info.local.ip()
    }

    /// The peer's IP address, also after the connection is gone; `None` for other kinds of sockets.
    pub fn peer_addr(&self) -> Option<SocketAddr> {
        self.info.peer.ip()
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

/// Why a protocol could not be looked at: [`ProtocolRef::with`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProtocolBusy {
    /// One of its hooks runs right now.
    Running,
    /// The connection is over and the protocol dropped.
    Gone,
    /// The connection has another protocol by now: [`Transport::set_protocol`].
    Replaced,
}

impl fmt::Display for ProtocolBusy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ProtocolBusy::Running => "a hook of the protocol runs",
            ProtocolBusy::Gone => "the connection is over",
            ProtocolBusy::Replaced => "the connection has another protocol",
        })
    }
}

impl std::error::Error for ProtocolBusy {}

/// The protocol of a connection, from outside its hooks.
pub struct ProtocolRef<P> {
    transport: Transport,
    kind: PhantomData<fn() -> P>,
}

impl<P: Protocol + 'static> ProtocolRef<P> {
    pub(crate) fn new(transport: Transport) -> Self {
        ProtocolRef { transport, kind: PhantomData }
    }

    /// Runs `f` on the protocol, as if it were one of its hooks.
    ///
    /// # Errors
    /// [`ProtocolBusy`] while a hook runs, or when the connection is over.
    pub fn with<R>(&self, f: impl FnOnce(&mut P) -> R) -> Result<R, ProtocolBusy> {
        let (mut f, mut result) = (Some(f), None);
        let mut look = |protocol: &mut dyn AnyProtocol| {
            if let Some(protocol) = protocol.as_any().downcast_mut::<P>() {
                result = f.take().map(|f| f(protocol));
            }
        };
        match self.transport.conn() {
            Some(conn) => conn.with_protocol(look)?,
            None => self.transport.layer().ok_or(ProtocolBusy::Gone)?.with_protocol(&mut look)?,
        }
        result.ok_or(ProtocolBusy::Replaced)
    }
}

impl<P> Clone for ProtocolRef<P> {
    fn clone(&self) -> Self {
        ProtocolRef { transport: self.transport.clone(), kind: PhantomData }
    }
}

impl<P> fmt::Debug for ProtocolRef<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProtocolRef").finish_non_exhaustive()
    }
}
