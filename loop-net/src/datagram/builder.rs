//! `DatagramBuilder`: how a datagram endpoint is made.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;

use loop_core::LoopRef;
use socket2::Domain;

use super::engine::{Endpoint, Parts};
use super::protocol::DatagramProtocol;
use super::socket::{DatagramSocket, Options};
use super::transport::DatagramTransport;
use crate::addr::{Addrs, ToAddrs};
use crate::conn::Shared;
use crate::error::Rejected;
use crate::sock_addr::SockAddr;
use crate::unix::{SocketFile, remove_stale};

/// The longest datagram that is received unless another length is set: more than any UDP datagram.
const MAX_SIZE: usize = 256 * 1024;

enum Name {
    Ip(io::Result<Addrs>),
    Unix(SockAddr),
}

impl Name {
    async fn resolve(self, lp: &LoopRef) -> io::Result<Vec<SockAddr>> {
        match self {
            Name::Ip(addrs) => {
                let found: Vec<SocketAddr> = addrs?.resolve(lp).await?;
                Ok(found.into_iter().map(SockAddr::Ip).collect())
            }
            Name::Unix(addr) => Ok(vec![addr]),
        }
    }
}

/// A datagram endpoint about to be made; from [`Net::udp`](crate::Net::udp),
/// [`Net::udp_connect`](crate::Net::udp_connect), [`Net::unix_datagram`](crate::Net::unix_datagram),
/// [`Net::unix_datagram_connect`](crate::Net::unix_datagram_connect) and
/// [`Net::adopt_datagram`](crate::Net::adopt_datagram).
#[must_use = "nothing is received before `open`"]
pub struct DatagramBuilder {
    shared: Rc<Shared>,
    local: Option<Name>,
    remote: Option<Name>,
    ready: Option<DatagramSocket>,
    options: Options,
    max_size: usize,
}

impl DatagramBuilder {
    fn new(shared: Rc<Shared>) -> Self {
        DatagramBuilder {
            shared,
            local: None,
            remote: None,
            ready: None,
            options: Options::default(),
            max_size: MAX_SIZE,
        }
    }

    pub(crate) fn udp(
        shared: Rc<Shared>,
        local: Option<io::Result<Addrs>>,
        remote: Option<io::Result<Addrs>>,
    ) -> Self {
        let (local, remote) = (local.map(Name::Ip), remote.map(Name::Ip));
        DatagramBuilder { local, remote, ..Self::new(shared) }
    }

    pub(crate) fn unix(
        shared: Rc<Shared>,
        local: Option<SockAddr>,
        remote: Option<SockAddr>,
    ) -> Self {
        let (local, remote) = (local.map(Name::Unix), remote.map(Name::Unix));
        DatagramBuilder { local, remote, ..Self::new(shared) }
    }

    pub(crate) fn on<S: Into<OwnedFd> + AsFd>(
        shared: Rc<Shared>,
        socket: S,
    ) -> Result<Self, Rejected<S>> {
        let ready = Some(DatagramSocket::adopt(socket)?);
        Ok(DatagramBuilder { ready, ..Self::new(shared) })
    }

    /// Sends from this address, one of the same family as the peer's.
    pub fn local_addr(mut self, addrs: impl ToAddrs) -> Self {
        self.local = Some(Name::Ip(addrs.to_addrs()));
        self
    }

    /// Sends from this Unix address, which is where a peer can answer to.
    pub fn local_unix(mut self, addr: impl Into<SockAddr>) -> Self {
        self.local = Some(Name::Unix(addr.into()));
        self
    }

    /// Whether several sockets may be bound to one address. There is no `reuse_address`: for datagrams
    /// it would let others take over the address (B-UDP-13).
    pub fn reuse_port(mut self, on: bool) -> Self {
        self.options.reuse_port = on;
        self
    }

    /// Whether datagrams may be sent to broadcast addresses. The socket is not connected then, also
    /// with a peer, so that everybody can answer (B-UDP-10).
    pub fn broadcast(mut self, on: bool) -> Self {
        self.options.broadcast = on;
        self
    }

    /// The longest datagram that is received, in bytes: 256 KiB unless set, more than any of UDP. A
    /// longer one is an [`error_received`](DatagramProtocol::error_received), and lost.
    pub fn max_size(mut self, bytes: usize) -> Self {
        self.max_size = bytes.max(1);
        self
    }

    /// Makes the endpoint and gives it to a protocol; asyncio's `create_datagram_endpoint`. Returns
    /// after `connection_made`. Dropping the future before it is done closes the socket.
    ///
    /// ```
    /// use loop_net::{DatagramProtocol, DatagramTransport, EventLoop, Net, SockAddr};
    ///
    /// #[derive(Default)]
    /// struct Echo(Option<DatagramTransport>);
    ///
    /// impl DatagramProtocol for Echo {
    ///     fn connection_made(&mut self, transport: &DatagramTransport) {
    ///         self.0 = Some(transport.clone());
    ///     }
    ///     fn datagram_received(&mut self, data: &[u8], from: &SockAddr) {
    ///         if let Some(transport) = &self.0 {
    ///             let _ = transport.send_to(data, from);
    ///         }
    ///     }
    /// }
    ///
    /// let mut event_loop = EventLoop::new()?;
    /// let net = Net::os(&event_loop);
    /// let server = event_loop.run_until_complete(net.udp("127.0.0.1:0").open(Echo::default))??;
    /// println!("listening on {}", server.local_sock_addr());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    /// `InvalidInput` if no local and no remote address are of one family; else what binding or
    /// connecting to the first pair of them failed with, naming the address (B-UDP-10).
    pub async fn open<P, F>(self, factory: F) -> io::Result<DatagramTransport>
    where
        P: DatagramProtocol + 'static,
        F: FnOnce() -> P,
    {
        let shared = self.shared.clone();
        let parts = self.parts().await?;
        let made = shared.lp.create_future();
        let endpoint = Endpoint::start(&shared, parts, Box::new(factory()), made.clone());
        let transport = endpoint.transport();
        // Weak while waiting: the endpoint is the loop's, and may be over first.
        drop(endpoint);
        let mut starting = Starting(Some(transport.clone()));
        made.await.map_err(io::Error::other)?;
        starting.0 = None;
        Ok(transport)
    }

    async fn parts(self) -> io::Result<Parts> {
        let max_size = self.max_size;
        if let Some(socket) = self.ready {
            let remote = socket.peer_addr().map(|addr| (addr, true));
            return Ok(Parts { socket, remote, max_size, file: None });
        }
        let lp = &self.shared.lp;
        let (mut locals, mut remotes) = (vec![None], vec![None]);
        if let Some(local) = self.local {
            locals = local.resolve(lp).await?.into_iter().map(Some).collect();
        }
        if let Some(remote) = self.remote {
            remotes = remote.resolve(lp).await?.into_iter().map(Some).collect();
        }
        let mut first_error = None;
        for remote in &remotes {
            for local in &locals {
                let Some(domain) = common_domain(local.as_ref(), remote.as_ref()) else { continue };
                match open(domain, local.as_ref(), remote.as_ref(), self.options) {
                    Ok((socket, file)) => {
                        let connected = !self.options.broadcast;
                        let remote = remote.clone().map(|remote| (remote, connected));
                        return Ok(Parts { socket, remote, max_size, file });
                    }
                    Err(error) => first_error = Some(first_error.unwrap_or(error)),
                }
            }
        }
        Err(first_error.unwrap_or_else(|| {
            let message = format!("no addresses of one family: {locals:?} and {remotes:?}");
            io::Error::new(io::ErrorKind::InvalidInput, message)
        }))
    }
}

fn common_domain(local: Option<&SockAddr>, remote: Option<&SockAddr>) -> Option<Domain> {
    let domain = |addr: &SockAddr| match addr {
        SockAddr::Ip(addr) => Domain::for_address(*addr),
        _ => Domain::UNIX,
    };
    match (local.map(domain), remote.map(domain)) {
        (Some(local), Some(remote)) => (local == remote).then_some(local),
        (local, remote) => local.or(remote),
    }
}

fn open(
    domain: Domain,
    local: Option<&SockAddr>,
    remote: Option<&SockAddr>,
    options: Options,
) -> io::Result<(DatagramSocket, Option<SocketFile>)> {
    if let Some(local) = local {
        // B-UDP-12.
        remove_stale(local)?;
    }
    let remote = remote.filter(|_| !options.broadcast);
    let socket = DatagramSocket::open(domain, local, remote, options)?;
    let file = local.and_then(SockAddr::path).and_then(SocketFile::of);
    Ok((socket, file))
}

/// An endpoint that nobody has got yet: it ends with the future that waits for it.
struct Starting(Option<DatagramTransport>);

impl Drop for Starting {
    fn drop(&mut self) {
        if let Some(transport) = &self.0 {
            transport.abort();
        }
    }
}

impl fmt::Debug for DatagramBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DatagramBuilder")
            .field("options", &self.options)
            .field("max_size", &self.max_size)
            .finish_non_exhaustive()
    }
}
