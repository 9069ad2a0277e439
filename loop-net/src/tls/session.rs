//! The TLS engine: bytes in, bytes out, no socket.

use std::io::{self, Read, Write};
use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::{ClientConnection, Connection, ServerConnection};

use super::settings::Side;

/// One side of a TLS connection.
pub(super) struct Session(Connection);

/// What came of some input.
pub(super) struct Fed {
    /// What the peer has written, in the clear.
    pub(super) plain: Vec<u8>,
    /// The peer has sent its `close_notify`.
    pub(super) closed: bool,
    /// The input was no TLS, or the peer is not who it should be. An alert is to be sent.
    pub(super) error: Option<rustls::Error>,
}

impl Session {
    pub(super) fn new(side: &Side) -> Result<Session, rustls::Error> {
        let mut connection: Connection = match side {
            Side::Client { config, name } => {
                let name: ServerName<'static> = name.clone();
                ClientConnection::new(Arc::clone(config), name)?.into()
            }
            Side::Server { config } => ServerConnection::new(Arc::clone(config))?.into(),
        };
        // The connection bounds what is written, by its water marks.
        connection.set_buffer_limit(None);
        Ok(Session(connection))
    }

    pub(super) fn is_handshaking(&self) -> bool {
        self.0.is_handshaking()
    }

    /// Takes all of the input.
    pub(super) fn feed(&mut self, mut data: &[u8]) -> Fed {
        let mut fed = Fed { plain: Vec::new(), closed: false, error: None };
        while !data.is_empty() && !fed.closed && fed.error.is_none() {
            if let Err(error) = self.0.read_tls(&mut data) {
                fed.error = Some(rustls::Error::General(error.to_string()));
                return fed;
            }
            let count = match self.0.process_new_packets() {
                Ok(state) => {
                    fed.closed = state.peer_has_closed();
                    state.plaintext_bytes_to_read()
                }
                Err(error) => {
                    fed.error = Some(error);
                    0
                }
            };
            if count > 0 {
                let start = fed.plain.len();
                fed.plain.resize(start + count, 0);
                let read = self.0.reader().read(&mut fed.plain[start..]).unwrap_or(0);
                fed.plain.truncate(start + read);
            }
        }
        fed
    }

    /// Encrypts; what comes of it is [taken](Self::take) afterwards.
    pub(super) fn write(&mut self, plain: &[u8]) -> io::Result<()> {
        self.0.writer().write_all(plain)
    }

    /// All that is to be sent to the peer by now.
    pub(super) fn take(&mut self) -> Vec<u8> {
        let mut out = Vec::new();
        while self.0.wants_write() {
            // A vector takes everything.
            if !matches!(self.0.write_tls(&mut out), Ok(1..)) {
                break;
            }
        }
        out
    }

    pub(super) fn send_close_notify(&mut self) {
        self.0.send_close_notify();
    }

    pub(super) fn engine(&self) -> &Connection {
        &self.0
    }
}
