//! Stream sockets that somebody else has connected.

use std::fmt;
use std::io;
use std::rc::Rc;

use crate::conn::Shared;
use crate::protocol::Protocol;
use crate::protocol_ref::ProtocolRef;
use crate::security::Security;
use crate::socket::Socket;
use crate::stream::{StreamReader, StreamWriter};
use crate::transport::Transport;

/// A connected socket about to be driven; from [`Net::adopt`](crate::Net::adopt). Dropping it closes the
/// socket.
#[must_use = "nothing is driven before `connect` or `open_stream`"]
pub struct Adopted {
    shared: Rc<Shared>,
    socket: Socket,
    security: Security,
}

impl Adopted {
    pub(crate) fn new(shared: Rc<Shared>, socket: Socket) -> Self {
        Adopted { shared, socket, security: Security::default() }
    }

    /// Puts TLS on the connection, as the side that `tls` says. What starts it then returns after the
    /// handshake, and fails if that does.
    #[cfg(feature = "tls")]
    #[cfg_attr(docsrs, doc(cfg(feature = "tls")))]
    pub fn tls(mut self, tls: crate::tls::Tls) -> Self {
        self.security = Security::tls(tls);
        self
    }

    /// Gives the connection to a protocol. Returns after `connection_made`. Dropping the future before
    /// it is done closes the socket.
    ///
    /// # Errors
    /// If the loop is closed, or a TLS handshake fails.
    pub async fn connect<P, F>(self, factory: F) -> io::Result<(Transport, ProtocolRef<P>)>
    where
        P: Protocol + 'static,
        F: FnOnce() -> P,
    {
        self.security.start_protocol(&self.shared, self.socket, factory()).await
    }

    /// Makes a stream of it. Dropping the future before it is done closes the socket.
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    pub async fn open_stream(self) -> io::Result<(StreamReader, StreamWriter)> {
        self.security.start_stream(&self.shared, self.socket).await
    }
}

impl fmt::Debug for Adopted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Adopted").field("socket", &self.socket).finish_non_exhaustive()
    }
}
