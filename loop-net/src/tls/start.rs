//! How TLS connections begin: on new sockets, and on connections that live already.

use std::cell::Cell;
use std::fmt;
use std::io;
use std::rc::Rc;

use loop_core::LoopError;

use super::conn::{Made, TlsConn};
use super::settings::Tls;
use crate::conn::{Conn, Shared};
use crate::error::NetError;
use crate::protocol::{AnyProtocol, KeepOpen, Protocol};
use crate::socket::Socket;
use crate::stream::{StreamProtocol, StreamReader, StreamWriter};
use crate::transport::Transport;

/// A protocol behind TLS, as a protocol for the transport that carries it: for any connection of this
/// crate, also one that is TLS itself. From [`Tls::over`].
pub struct TlsProtocol(Rc<TlsConn>);

impl Tls {
    /// Puts TLS in front of a protocol. Its `connection_made` is called when the handshake is over,
    /// with a transport that encrypts; it never hears of a connection whose handshake fails (B-TLS-02,
    /// B-TLS-05).
    ///
    /// ```
    /// # #[cfg(feature = "tls")]
    /// # fn example<P: loop_net::Protocol + Default + 'static>(net: &loop_net::Net, tls: loop_net::Tls) {
    /// let serving = net.unix_server("/run/example.sock").bind(move || tls.over(P::default()));
    /// # drop(serving)
    /// # }
    /// ```
    pub fn over<P: Protocol + 'static>(&self, protocol: P) -> TlsProtocol {
        self.over_boxed(Box::new(protocol))
    }

    pub(crate) fn over_boxed(&self, protocol: Box<dyn AnyProtocol>) -> TlsProtocol {
        TlsProtocol(TlsConn::new(self.clone(), protocol, false))
    }
}

impl Protocol for TlsProtocol {
    fn connection_made(&mut self, transport: &Transport) {
        self.0.begin(transport);
    }

    fn data_received(&mut self, data: &[u8]) {
        self.0.input(data);
    }

    fn eof_received(&mut self) -> KeepOpen {
        self.0.lower_ended()
    }

    fn pause_writing(&mut self) {
        self.0.lower_paused_writing(true);
    }

    fn resume_writing(&mut self) {
        self.0.lower_paused_writing(false);
    }

    fn connection_lost(&mut self, error: Option<&NetError>) {
        self.0.lower_lost(error);
    }
}

impl fmt::Debug for TlsProtocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TlsProtocol").field(&self.0.tls).finish()
    }
}

/// Gives a connected socket to a protocol behind TLS, and waits for the end of the handshake.
pub(crate) async fn start(
    shared: &Rc<Shared>,
    socket: Socket,
    protocol: Box<dyn AnyProtocol>,
    tls: &Tls,
) -> io::Result<Transport> {
    let layered = tls.over_boxed(protocol);
    let (conn, made) = (layered.0.clone(), shared.lp.create_future());
    conn.tell(made.clone());
    let lower = Conn::start(shared, socket, Box::new(layered), None, None).transport();
    shaken(conn, lower, made).await
}

/// Makes a TLS stream of a connected socket.
pub(crate) async fn start_stream(
    shared: &Rc<Shared>,
    socket: Socket,
    tls: &Tls,
) -> io::Result<(StreamReader, StreamWriter)> {
    let (protocol, halves) = stream();
    start(shared, socket, protocol, tls).await?;
    halves.take().ok_or_else(|| LoopError::Closed.into())
}

type Halves = Rc<Cell<Option<(StreamReader, StreamWriter)>>>;

/// A stream's protocol, and where its halves will be.
fn stream() -> (Box<dyn AnyProtocol>, Halves) {
    let halves = Halves::default();
    let made = halves.clone();
    let protocol = StreamProtocol::new(move |reader, writer| made.set(Some((reader, writer))));
    (Box::new(protocol), halves)
}

/// Waits for the end of a handshake; dropped, it ends the connection (B-TLS-07).
async fn shaken(conn: Rc<TlsConn>, lower: Transport, made: Made) -> io::Result<Transport> {
    let mut starting = AbortGuard(Some(lower));
    // The connection belongs to the transport below, not to whoever waits.
    let weak = Rc::downgrade(&conn);
    drop(conn);
    made.await.map_err(io::Error::other)?.map_err(|error| error.to_io())?;
    starting.0 = None;
    weak.upgrade().and_then(|conn| conn.upper()).ok_or_else(|| LoopError::Closed.into())
}

struct AbortGuard(Option<Transport>);

impl Drop for AbortGuard {
    fn drop(&mut self) {
        if let Some(transport) = &self.0 {
            transport.abort();
        }
    }
}

/// Puts TLS on a connection that lives, below `protocol`; `received` are bytes of the peer's handshake
/// that came already.
async fn upgrade(
    lower: &Transport,
    protocol: Box<dyn AnyProtocol>,
    connected: bool,
    tls: &Tls,
    received: &[u8],
) -> io::Result<Transport> {
    let conn = TlsConn::new(tls.clone(), protocol, connected);
    let made = lower.loop_ref().create_future();
    conn.tell(made.clone());
    lower.set_protocol(TlsProtocol(conn.clone()));
    conn.begin(lower);
    if !received.is_empty() {
        conn.input(received);
    }
    lower.resume_reading();
    shaken(conn, lower.clone(), made).await
}

impl Transport {
    /// Turns this connection into a TLS connection; asyncio's `start_tls`. The transport that encrypts
    /// comes back, and this one must not be used any more. The protocol stays, is not told, and has to
    /// be given the new transport: what it received before is its business (B-TLS-22).
    ///
    /// It must not be called while the peer may already send its handshake, as it may when it is the
    /// one that starts; pause reading before it is asked to. On failure, and when the future is dropped, the
    /// connection is closed, and the protocol hears of that once (B-TLS-24).
    ///
    /// # Errors
    /// `InvalidInput` for a pipe, `NotConnected` if the connection is closing, `ResourceBusy` while a hook
    /// of its protocol runs; nothing has happened then. Else what the handshake failed by.
    pub async fn start_tls(&self, tls: Tls) -> io::Result<Transport> {
        self.check_upgradable()?;
        let protocol = self.take_protocol().ok_or_else(|| {
            let message = "a hook of the protocol runs: start TLS from a task";
            io::Error::new(io::ErrorKind::ResourceBusy, message)
        })?;
        upgrade(self, protocol, true, &tls, &[]).await
    }
}

impl StreamWriter {
    /// Turns this stream into a TLS stream; asyncio's `StreamWriter.start_tls`. What is written is
    /// flushed first. What the reader has buffered is taken for the beginning of the peer's handshake, so
    /// none of it is lost (B-STR-23).
    ///
    /// On failure, and when the future is dropped, the connection is closed.
    ///
    /// # Errors
    /// `InvalidInput` if the halves are not of one stream or it is a pipe, `NotConnected` if it has ended
    /// or is closing. Else what the handshake failed by.
    pub async fn start_tls(
        self,
        reader: StreamReader,
        tls: Tls,
    ) -> io::Result<(StreamReader, StreamWriter)> {
        if !self.is_other_half_of(&reader) {
            let message = "the reader and the writer are of different streams";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        self.transport().check_upgradable()?;
        self.transport().flushed().await;
        self.transport().check_upgradable()?;
        if reader.has_ended() {
            let message = "the peer has ended the stream";
            return Err(io::Error::new(io::ErrorKind::NotConnected, message));
        }
        let lower = self.transport().clone();
        let received = reader.into_buffered();
        self.leave_open();
        let (protocol, halves) = stream();
        upgrade(&lower, protocol, false, &tls, &received).await?;
        halves.take().ok_or_else(|| LoopError::Closed.into())
    }
}
