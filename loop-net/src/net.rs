//! `Net`: where a program gets its connections from.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;

use loop_core::LoopRef;

use crate::addr::ToAddrs;
use crate::conn::Shared;
use crate::connect::TcpConnector;
use crate::server::TcpServerBuilder;

/// The network that a program is handed: all entry points are methods of this value, so that a test
/// can hand it another network.
///
/// Cheap to clone; connections made through clones share one buffer for what their hooks write.
#[derive(Clone)]
pub struct Net {
    pub(crate) shared: Rc<Shared>,
}

impl Net {
    /// The operating system's network, on this loop.
    pub fn os(lp: &LoopRef) -> Net {
        Net { shared: Shared::new(lp.clone()) }
    }

    /// The loop that connections run on.
    pub fn loop_ref(&self) -> LoopRef {
        self.shared.lp.clone()
    }

    /// A server on these addresses; asyncio's `create_server` and `start_server`. Port 0 lets the
    /// system choose.
    ///
    /// ```
    /// # use loop_net::{Net, Protocol, EventLoop};
    /// # struct Quiet;
    /// # impl Protocol for Quiet { fn data_received(&mut self, _: &[u8]) {} }
    /// let mut event_loop = EventLoop::new()?;
    /// let net = Net::os(&event_loop);
    /// let server = event_loop.run_until_complete(net.tcp_server("127.0.0.1:0").bind(|| Quiet))??;
    /// assert_ne!(server.local_addrs()[0].port(), 0);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn tcp_server(&self, addrs: impl ToAddrs) -> TcpServerBuilder {
        TcpServerBuilder::new(self.shared.clone(), addrs.to_addrs())
    }

    /// The addresses of a host, looked up on the loop's own threads; asyncio's `getaddrinfo`.
    ///
    /// # Errors
    /// `InvalidInput` if it is neither address nor name; what the system's resolver says, naming the host.
    pub async fn resolve(&self, addrs: impl ToAddrs) -> io::Result<Vec<SocketAddr>> {
        addrs.to_addrs()?.resolve(&self.shared.lp).await
    }

    /// A connection to these addresses, tried in order; asyncio's `create_connection` and
    /// `open_connection`.
    pub fn tcp_connect(&self, addrs: impl ToAddrs) -> TcpConnector {
        TcpConnector::new(self.shared.clone(), addrs.to_addrs())
    }
}

impl fmt::Debug for Net {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Net").field("loop_ref", &self.shared.lp).finish()
    }
}
