//! What was agreed in a handshake.

use std::cell::Cell;
use std::fmt;
use std::rc::Rc;

use rustls::Connection;

use crate::transport::Transport;

/// What the two sides of a TLS connection have agreed on; from [`Transport::tls_info`].
#[derive(Clone)]
#[non_exhaustive]
pub struct TlsInfo {
    /// The protocol chosen by ALPN: `b"h2"`, say.
    pub alpn: Option<Vec<u8>>,
    /// The name that the client asked for (SNI), as a server sees it.
    pub server_name: Option<String>,
    /// "TLSv1_3", say.
    pub version: String,
    /// The cipher suite by its name in the standard.
    pub cipher: String,
    /// The certificates that the peer has shown, its own first, in DER. A client always sees some; a
    /// server only if it asks for them.
    pub peer_certificates: Vec<Vec<u8>>,
    clean: Rc<Cell<bool>>,
}

impl TlsInfo {
    pub(super) fn of(engine: &Connection, clean: Rc<Cell<bool>>) -> TlsInfo {
        let server_name = match engine {
            Connection::Server(server) => server.server_name().map(str::to_owned),
            Connection::Client(_) => None,
        };
        let certificates = engine.peer_certificates().unwrap_or_default();
        TlsInfo {
            alpn: engine.alpn_protocol().map(<[u8]>::to_vec),
            server_name,
            version: engine.protocol_version().map_or(String::new(), |it| format!("{it:?}")),
            cipher: engine
                .negotiated_cipher_suite()
                .map_or(String::new(), |suite| format!("{:?}", suite.suite())),
            peer_certificates: certificates.iter().map(|der| der.to_vec()).collect(),
            clean,
        }
    }

    /// Whether the peer has said by a `close_notify` that it has sent everything. An end of file
    /// without may be somebody in between who has cut the connection (B-TLS-18).
    pub fn clean_shutdown(&self) -> bool {
        self.clean.get()
    }
}

/// Of certificates only how many there are.
impl fmt::Debug for TlsInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsInfo")
            .field("alpn", &self.alpn.as_ref().map(|name| name.escape_ascii().to_string()))
            .field("server_name", &self.server_name)
            .field("version", &self.version)
            .field("cipher", &self.cipher)
            .field("peer_certificates", &self.peer_certificates.len())
            .field("clean_shutdown", &self.clean_shutdown())
            .finish()
    }
}

impl Transport {
    /// What the handshake of this connection has agreed on, also after its end. `None` if it is no TLS
    /// connection, or its handshake is not over (B-TLS-26).
    pub fn tls_info(&self) -> Option<TlsInfo> {
        self.layer_facts()?.downcast_ref::<std::cell::OnceCell<TlsInfo>>()?.get().cloned()
    }
}
