//! `Tls`: how a connection is secured.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ServerConfig};

/// The handshake may take a minute unless set (B-TLS-04).
const HANDSHAKE: Duration = Duration::from_secs(60);

/// The peer has half a minute for its `close_notify` unless set (B-TLS-15).
const SHUTDOWN: Duration = Duration::from_secs(30);

/// How a connection is secured: one side, with its certificates, as rustls describes it, and two time
/// limits. ALPN, client certificates, versions and ciphers are matters of the rustls configuration.
///
/// ```
/// # #[cfg(feature = "tls")]
/// # fn example(net: &loop_net::Net, roots: rustls::RootCertStore) -> std::io::Result<()> {
/// use loop_net::Tls;
/// use std::sync::Arc;
///
/// let config = rustls::ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
/// let tls = Tls::client(Arc::new(config), "example.org")?;
/// let connecting = net.tcp_connect(("example.org", 443)).tls(tls);
/// # drop(connecting); Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Tls {
    pub(super) side: Side,
    pub(super) handshake: Duration,
    pub(super) shutdown: Duration,
    pub(super) require_close_notify: bool,
}

#[derive(Clone)]
pub(super) enum Side {
    Client { config: Arc<ClientConfig>, name: ServerName<'static> },
    Server { config: Arc<ServerConfig> },
}

impl Tls {
    /// The client's side. The server must prove to be `name`, a host's name or IP address; a name is also
    /// told to it (SNI).
    ///
    /// # Errors
    /// `InvalidInput` if it is neither.
    pub fn client(config: Arc<ClientConfig>, name: &str) -> io::Result<Tls> {
        match ServerName::try_from(name.to_owned()) {
            Ok(name) => Ok(Tls::new(Side::Client { config, name })),
            Err(_) => {
                let message = format!("{name:?} is neither a host name nor an IP address");
                Err(io::Error::new(io::ErrorKind::InvalidInput, message))
            }
        }
    }

    /// The server's side.
    pub fn server(config: Arc<ServerConfig>) -> Tls {
        Tls::new(Side::Server { config })
    }

    fn new(side: Side) -> Tls {
        Tls { side, handshake: HANDSHAKE, shutdown: SHUTDOWN, require_close_notify: false }
    }

    /// How long the handshake may take before the connection is aborted: 60 seconds unless set.
    ///
    /// # Errors
    /// `InvalidInput` for no time at all.
    pub fn handshake_timeout(mut self, limit: Duration) -> io::Result<Tls> {
        self.handshake = positive(limit, "handshake")?;
        Ok(self)
    }

    /// How long a closed connection waits, from its closing on, for what is written to be taken and for
    /// the peer to close too: 30 seconds unless set.
    ///
    /// # Errors
    /// `InvalidInput` for no time at all.
    pub fn shutdown_timeout(mut self, limit: Duration) -> io::Result<Tls> {
        self.shutdown = positive(limit, "shutdown")?;
        Ok(self)
    }

    /// Whether a peer that ends its connection without a `close_notify` is an error instead of an end of
    /// file: for protocols whose messages do not say how long they are, which somebody in between could
    /// cut short. Off unless set, for many peers end so (B-TLS-18).
    pub fn require_close_notify(mut self, on: bool) -> Tls {
        self.require_close_notify = on;
        self
    }
}

fn positive(limit: Duration, what: &str) -> io::Result<Duration> {
    if limit.is_zero() {
        let message = format!("the time limit of the {what} is zero");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    Ok(limit)
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let side = match &self.side {
            Side::Client { name, .. } => format!("client of {}", name.to_str()),
            Side::Server { .. } => "server".to_owned(),
        };
        f.debug_struct("Tls")
            .field("side", &side)
            .field("handshake_timeout", &self.handshake)
            .field("shutdown_timeout", &self.shutdown)
            .field("require_close_notify", &self.require_close_notify)
            .finish_non_exhaustive()
    }
}
