//! Connecting.

use std::cell::Cell;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::rc::{Rc, Weak};

use loop_core::{LoopError, LoopRef};

use crate::addr::Addrs;
use crate::async_fd::AsyncFd;
use crate::conn::{Conn, Shared};
use crate::error::named;
use crate::protocol::{AnyProtocol, Protocol};
use crate::socket::Socket;
use crate::stream::{StreamProtocol, StreamReader, StreamWriter};
use crate::transport::{ProtocolRef, Transport};

/// A connection about to be made; from [`Net::tcp_connect`](crate::Net::tcp_connect).
#[must_use = "nothing is connected before `connect` or `open_stream`"]
pub struct TcpConnector {
    shared: Rc<Shared>,
    addrs: io::Result<Addrs>,
}

impl TcpConnector {
    pub(crate) fn new(shared: Rc<Shared>, addrs: io::Result<Addrs>) -> Self {
        TcpConnector { shared, addrs }
    }

    /// Connects and gives the connection to a protocol. Returns after `connection_made` (B-TRN-01).
    ///
    /// Dropping the future before it is done closes the socket.
    ///
    /// # Errors
    /// If the address is bad or nobody accepts; the error names the address. With several addresses
    /// that failed in different ways, the error lists them all (B-CONN-02).
    pub async fn connect<P, F>(self, factory: F) -> io::Result<(Transport, ProtocolRef<P>)>
    where
        P: Protocol + 'static,
        F: FnOnce() -> P,
    {
        let shared = self.shared.clone();
        let socket = self.dial().await?;
        let (transport, conn) = start(&shared, socket, Box::new(factory())).await?;
        Ok((transport, ProtocolRef::new(conn)))
    }

    /// Connects and returns the two halves of a stream; asyncio's `open_connection`.
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    pub async fn open_stream(self) -> io::Result<(StreamReader, StreamWriter)> {
        let shared = self.shared.clone();
        let socket = self.dial().await?;
        let halves = Rc::new(Cell::new(None));
        let made = halves.clone();
        let protocol = StreamProtocol::new(move |reader, writer| made.set(Some((reader, writer))));
        start(&shared, socket, Box::new(protocol)).await?;
        halves.take().ok_or_else(|| LoopError::Closed.into())
    }

    /// The first address that accepts wins; the sockets of failures are closed (B-CONN-01).
    async fn dial(self) -> io::Result<Socket> {
        let mut errors: Vec<io::Error> = Vec::new();
        for addr in self.addrs?.resolve(&self.shared.lp).await? {
            match dial_one(&self.shared.lp, addr).await {
                Ok(socket) => return Ok(socket),
                Err(error) => errors.push(named(format!("connect to {addr}"), error)),
            }
        }
        Err(combine(errors))
    }
}

async fn start(
    shared: &Rc<Shared>,
    socket: Socket,
    protocol: Box<dyn AnyProtocol>,
) -> io::Result<(Transport, Weak<Conn>)> {
    let made = shared.lp.create_future();
    let conn = Conn::start(shared, socket, protocol, None, Some(made.clone()));
    // Weak while waiting: the connection is the loop's, and may be over first.
    let (transport, conn) = (conn.transport(), Rc::downgrade(&conn));
    let mut starting = Starting(Some(transport.clone()));
    made.await.map_err(io::Error::other)?;
    starting.0 = None;
    Ok((transport, conn))
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

fn combine(mut errors: Vec<io::Error>) -> io::Error {
    match errors.len() {
        0 => io::Error::new(io::ErrorKind::InvalidInput, "no address to connect to"),
        1 => errors.remove(0),
        _ => {
            let kind = errors[0].kind();
            let texts: Vec<String> = errors.iter().map(io::Error::to_string).collect();
            io::Error::new(kind, texts.join("; "))
        }
    }
}

async fn dial_one(lp: &LoopRef, addr: SocketAddr) -> io::Result<Socket> {
    let (socket, connecting) = Socket::connect(addr)?;
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

impl fmt::Debug for TcpConnector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TcpConnector").field("addrs", &self.addrs).finish_non_exhaustive()
    }
}
