//! TLS or not: what becomes of a connected socket.

use std::io;
use std::rc::Rc;

use crate::conn::Shared;
use crate::connect::{start_protocol, start_stream};
use crate::protocol::Protocol;
use crate::protocol_ref::ProtocolRef;
use crate::socket::Socket;
use crate::stream::{StreamReader, StreamWriter};
use crate::transport::Transport;

/// How the connections of a builder are secured: not at all, unless set.
#[derive(Default)]
pub(crate) struct Security {
    #[cfg(feature = "tls")]
    tls: Option<crate::tls::Tls>,
}

impl Security {
    #[cfg(feature = "tls")]
    pub(crate) fn tls(tls: crate::tls::Tls) -> Security {
        Security { tls: Some(tls) }
    }

    /// Gives a connected socket to a protocol, after the handshake if there is one. If that fails, or the
    /// future is dropped, the connection is closed (B-CONN-11).
    pub(crate) async fn start_protocol<P: Protocol + 'static>(
        &self,
        shared: &Rc<Shared>,
        socket: Socket,
        protocol: P,
    ) -> io::Result<(Transport, ProtocolRef<P>)> {
        #[cfg(feature = "tls")]
        if let Some(tls) = &self.tls {
            let transport = crate::tls::start(shared, socket, Box::new(protocol), tls).await?;
            return Ok((transport.clone(), ProtocolRef::new(transport)));
        }
        start_protocol(shared, socket, protocol).await
    }

    /// Makes a stream of a connected socket; otherwise as [`start_protocol`](Self::start_protocol).
    pub(crate) async fn start_stream(
        &self,
        shared: &Rc<Shared>,
        socket: Socket,
    ) -> io::Result<(StreamReader, StreamWriter)> {
        #[cfg(feature = "tls")]
        if let Some(tls) = &self.tls {
            return crate::tls::start_stream(shared, socket, tls).await;
        }
        start_stream(shared, socket).await
    }
}
