//! Connecting.

use std::cell::Cell;
use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use loop_core::{LoopError, LoopRef, staggered_race};

use crate::addr::{Addrs, ToAddrs};
use crate::async_fd::AsyncFd;
use crate::conn::{Conn, Shared};
use crate::error::named;
use crate::protocol::{AnyProtocol, Protocol};
use crate::protocol_ref::ProtocolRef;
use crate::security::Security;
use crate::socket::{ConnectOptions, Socket};
use crate::stream::{StreamProtocol, StreamReader, StreamWriter};
use crate::transport::Transport;

/// A connection about to be made; from [`Net::tcp_connect`](crate::Net::tcp_connect).
///
/// ```
/// # use loop_net::{EventLoop, Net};
/// # use std::time::Duration;
/// # let mut event_loop = EventLoop::new()?;
/// # let net = Net::os(&event_loop);
/// # let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
/// # let port = listener.local_addr()?.port();
/// # event_loop.run_until_complete(async {
/// let connecting = net
///     .tcp_connect(("localhost", port))
///     .happy_eyeballs(Duration::from_millis(250))
///     .keepalive(Duration::from_secs(60));
/// let (reader, writer) = connecting.open_stream().await?;
/// # std::io::Result::Ok(())
/// # })??;
/// # Ok::<(), std::io::Error>(())
/// ```
#[must_use = "nothing is connected before `connect` or `open_stream`"]
pub struct TcpConnector {
    shared: Rc<Shared>,
    addrs: io::Result<Addrs>,
    local: Option<io::Result<Addrs>>,
    delay: Option<Duration>,
    interleave: Option<usize>,
    options: ConnectOptions,
    security: Security,
}

impl TcpConnector {
    pub(crate) fn new(shared: Rc<Shared>, addrs: io::Result<Addrs>) -> Self {
        let options = ConnectOptions { nodelay: true, keepalive: None };
        TcpConnector {
            shared,
            addrs,
            local: None,
            delay: None,
            interleave: None,
            options,
            security: Security::default(),
        }
    }

    /// Tries the next address when one has not answered within `delay`, without giving it up: the
    /// first connection wins, and the other attempts are dropped. RFC 8305 recommends 250 ms. The
    /// families take turns then, as if by [`interleave(1)`](Self::interleave). Unless this is called,
    /// an address is tried when the one before has failed (B-CONN-05).
    pub fn happy_eyeballs(mut self, delay: Duration) -> Self {
        self.delay = Some(delay);
        self
    }

    /// Lets the families of the addresses take turns, after the first `first` of the family that comes
    /// first; the order within a family stays (B-CONN-07). Zero counts as one.
    pub fn interleave(mut self, first: usize) -> Self {
        self.interleave = Some(first.max(1));
        self
    }

    /// Connects from one of these addresses, of the same family as the peer's; asyncio's `local_addr`
    /// (B-CONN-04). Port 0 lets the system choose.
    pub fn local_addr(mut self, addrs: impl ToAddrs) -> Self {
        self.local = Some(addrs.to_addrs());
        self
    }

    /// Whether small writes leave at once instead of waiting for an acknowledgement; on unless set
    /// (B-TRN-35).
    pub fn nodelay(mut self, on: bool) -> Self {
        self.options.nodelay = on;
        self
    }

    /// Asks a peer that has been silent for `idle`, in whole seconds, whether it lives, and ends the
    /// connection if it does not answer. Off unless set.
    pub fn keepalive(mut self, idle: Duration) -> Self {
        self.options.keepalive = Some(idle.max(Duration::from_secs(1)));
        self
    }

    /// Puts TLS on the connection. What connects then returns after the handshake, and fails if that
    /// does.
    #[cfg(feature = "tls")]
    #[cfg_attr(docsrs, doc(cfg(feature = "tls")))]
    pub fn tls(mut self, tls: crate::tls::Tls) -> Self {
        self.security = Security::tls(tls);
        self
    }

    /// Connects and gives the connection to a protocol. Returns after `connection_made` (B-TRN-01).
    ///
    /// Dropping the future before it is done closes the socket.
    ///
    /// # Errors
    /// If the address is bad or nobody accepts; the error names the address. With several addresses
    /// that failed in different ways, the error lists them all (B-CONN-02). `InvalidInput` if no local
    /// address is of the peer's family.
    pub async fn connect<P, F>(mut self, factory: F) -> io::Result<(Transport, ProtocolRef<P>)>
    where
        P: Protocol + 'static,
        F: FnOnce() -> P,
    {
        let (shared, security) = (self.shared.clone(), std::mem::take(&mut self.security));
        let socket = self.dial().await?;
        security.start_protocol(&shared, socket, factory()).await
    }

    /// Connects and returns the two halves of a stream; asyncio's `open_connection`. Dropping the future before
    /// it is done closes the socket.
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    pub async fn open_stream(mut self) -> io::Result<(StreamReader, StreamWriter)> {
        let (shared, security) = (self.shared.clone(), std::mem::take(&mut self.security));
        let socket = self.dial().await?;
        security.start_stream(&shared, socket).await
    }

    /// The first address that accepts wins; the sockets of failures are closed (B-CONN-01).
    async fn dial(self) -> io::Result<Socket> {
        let lp = &self.shared.lp;
        let mut addrs = self.addrs?.resolve(lp).await?;
        let local = match self.local {
            Some(local) => Some(local?.resolve(lp).await?),
            None => None,
        };
        let first = self.interleave.or(self.delay.map(|_| 1));
        if let Some(first) = first {
            addrs = interleaved(addrs, first);
        }
        let (local, options) = (local.as_deref(), self.options);
        let attempts = addrs.into_iter().map(|addr| {
            move || async move {
                let attempt = attempt(lp, addr, local, options).await;
                attempt.map_err(|error| named(format!("connect to {addr}"), error))
            }
        });
        let race = staggered_race(attempts, self.delay).await;
        match race.winner {
            Some((_, socket)) => Ok(socket),
            None => Err(combine(race.errors)),
        }
    }
}

/// One attempt. With local addresses, those of the peer's family are tried in order (B-CONN-04).
async fn attempt(
    lp: &LoopRef,
    addr: SocketAddr,
    local: Option<&[SocketAddr]>,
    options: ConnectOptions,
) -> io::Result<Socket> {
    let Some(local) = local else {
        return finish(lp, Socket::tcp_connect(addr, None, options)?).await;
    };
    let family = if addr.is_ipv4() { "IPv4" } else { "IPv6" };
    let mut failed = io::Error::new(
        io::ErrorKind::InvalidInput,
        format!("no local address is of the family {family}: {local:?}"),
    );
    for local in local.iter().filter(|local| local.is_ipv4() == addr.is_ipv4()) {
        match Socket::tcp_connect(addr, Some(*local), options) {
            Ok(started) => return finish(lp, started).await,
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

/// Waits until a socket that may still connect is connected.
pub(crate) async fn finish(
    lp: &LoopRef,
    (socket, connecting): (Socket, bool),
) -> io::Result<Socket> {
    if !connecting {
        return Ok(socket);
    }
    // Ends its registration before the socket can be closed, also when this future is dropped half-way
    // (B-CONN-09).
    let socket = AsyncFd::new(lp, socket)?;
    socket.writable().await?;
    match socket.get_ref().take_error()? {
        Some(error) => Err(error),
        None => Ok(socket.into_inner()),
    }
}

/// Lets the two families take turns after the first `first` of the family that comes first (B-CONN-07).
fn interleaved(addrs: Vec<SocketAddr>, first: usize) -> Vec<SocketAddr> {
    let Some(leads) = addrs.first().map(SocketAddr::is_ipv4) else { return addrs };
    let count = addrs.len();
    let (mut ours, mut others): (VecDeque<_>, VecDeque<_>) =
        addrs.into_iter().partition(|addr| addr.is_ipv4() == leads);
    let mut order: Vec<SocketAddr> = ours.drain(..(first - 1).min(ours.len())).collect();
    while order.len() < count {
        order.extend(ours.pop_front());
        order.extend(others.pop_front());
    }
    order
}

/// Gives a connected socket to a protocol.
pub(crate) async fn start_protocol<P: Protocol + 'static>(
    shared: &Rc<Shared>,
    socket: Socket,
    protocol: P,
) -> io::Result<(Transport, ProtocolRef<P>)> {
    let transport = start(shared, socket, Box::new(protocol)).await?;
    Ok((transport.clone(), ProtocolRef::new(transport)))
}

/// Makes a stream of a connected socket.
pub(crate) async fn start_stream(
    shared: &Rc<Shared>,
    socket: Socket,
) -> io::Result<(StreamReader, StreamWriter)> {
    let halves = Rc::new(Cell::new(None));
    let made = halves.clone();
    let protocol = StreamProtocol::new(move |reader, writer| made.set(Some((reader, writer))));
    start(shared, socket, Box::new(protocol)).await?;
    halves.take().ok_or_else(|| LoopError::Closed.into())
}

async fn start(
    shared: &Rc<Shared>,
    socket: Socket,
    protocol: Box<dyn AnyProtocol>,
) -> io::Result<Transport> {
    let made = shared.lp.create_future();
    let conn = Conn::start(shared, socket, protocol, None, Some(made.clone()));
    // Weak while waiting: the connection is the loop's, and may be over first.
    let transport = conn.transport();
    drop(conn);
    let mut starting = Starting(Some(transport.clone()));
    made.await.map_err(io::Error::other)?;
    starting.0 = None;
    Ok(transport)
}

/// A connection that nobody has got yet: it ends with the future that waits for it.
struct Starting(Option<Transport>);

impl Drop for Starting {
    fn drop(&mut self) {
        if let Some(transport) = &self.0 {
            transport.abort();
        }
    }
}

/// One error for all attempts, in their order (B-CONN-02).
fn combine(mut errors: Vec<(usize, io::Error)>) -> io::Error {
    errors.sort_by_key(|(index, _)| *index);
    match errors.len() {
        0 => io::Error::new(io::ErrorKind::InvalidInput, "no address to connect to"),
        1 => errors.remove(0).1,
        _ => {
            let kind = errors[0].1.kind();
            let texts: Vec<String> = errors.iter().map(|(_, error)| error.to_string()).collect();
            io::Error::new(kind, texts.join("; "))
        }
    }
}

impl fmt::Debug for TcpConnector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TcpConnector").field("addrs", &self.addrs).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn b_conn_07_families_take_turns_and_keep_their_order() {
        let v4 = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let v6 = |port| SocketAddr::from(([0, 0, 0, 0, 0, 0, 0, 1], port));
        let (a, b, c, x, y) = (v4(1), v4(2), v4(3), v6(1), v6(2));
        let all = vec![a, b, c, x, y];
        assert_eq!(interleaved(all.clone(), 1), [a, x, b, y, c]);
        assert_eq!(interleaved(all.clone(), 2), [a, b, x, c, y]);
        assert_eq!(interleaved(all.clone(), 3), [a, b, c, x, y]);
        assert_eq!(interleaved(all, 9), [a, b, c, x, y]);
        assert_eq!(interleaved(vec![x, a, b, c, y], 1), [x, a, y, b, c]);
        assert_eq!(interleaved(vec![], 1), []);
    }
}
