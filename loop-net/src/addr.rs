//! Addresses as users write them.

use std::fmt::Display;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6, ToSocketAddrs};
use std::time::{Duration, Instant};

use loop_core::{ExceptionContext, LoopRef, Severity};

use crate::error::named;

/// Something that names one or several socket addresses: an address, a pair of host and port, or a text
/// with both.
///
/// Numeric hosts need no look-up (B-CONN-03). `localhost` is the loopback of both families (RFC 6761), and an
/// empty host stands for all interfaces (B-SRV-13). Any other host is a name, which is looked up on a thread
/// when it is needed.
///
/// ```
/// use loop_net::{Addrs, ToAddrs};
/// assert_eq!("127.0.0.1:80".to_addrs()?, ("127.0.0.1", 80).to_addrs()?);
/// assert_eq!("127.0.0.1:80".to_addrs()?, (std::net::Ipv4Addr::LOCALHOST, 80).to_addrs()?);
/// assert!(matches!("[::1]:80".to_addrs()?, Addrs::Known(addrs) if addrs[0].port() == 80));
/// assert!(matches!("localhost:80".to_addrs()?, Addrs::Known(addrs) if addrs.len() == 2));
/// assert!(matches!("example.com:80".to_addrs()?, Addrs::Name { port: 80, .. }));
/// let error = "example.com".to_addrs().unwrap_err();
/// assert!(error.to_string().contains("example.com"));
/// # Ok::<(), std::io::Error>(())
/// ```
pub trait ToAddrs {
    /// The addresses, or the name that they are to be looked up by.
    ///
    /// # Errors
    /// `InvalidInput`, naming the text, if it is neither.
    fn to_addrs(&self) -> io::Result<Addrs>;
}

/// What [`ToAddrs`] gives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Addrs {
    /// Addresses, in the order of preference.
    Known(Vec<SocketAddr>),
    /// A host to look up.
    Name {
        /// The host's name.
        host: String,
        /// The port that goes with its addresses.
        port: u16,
    },
}

impl Addrs {
    /// The addresses, looked up on the loop's own threads if need be.
    pub(crate) async fn resolve(self, lp: &LoopRef) -> io::Result<Vec<SocketAddr>> {
        match self {
            Addrs::Known(addrs) => Ok(addrs),
            Addrs::Name { host, port } if lp.debug() => {
                let what = format!("look up {host}");
                let timed = move || {
                    let started = Instant::now();
                    (look_up(host, port), started.elapsed())
                };
                let (found, took) = lp.run_blocking(timed).await?;
                report_look_up(lp, what, took);
                found
            }
            Addrs::Name { host, port } => lp.run_blocking(move || look_up(host, port)).await?,
        }
    }

    /// The addresses, looked up on this thread if need be.
    pub(crate) fn resolve_blocking(self) -> io::Result<Vec<SocketAddr>> {
        match self {
            Addrs::Known(addrs) => Ok(addrs),
            Addrs::Name { host, port } => look_up(host, port),
        }
    }
}

/// In debug mode every look-up is told of, and a slow one more loudly (B-DBG-05).
fn report_look_up(lp: &LoopRef, what: String, took: Duration) {
    let mut context = ExceptionContext::new(what);
    let slow = took >= lp.slow_callback_duration();
    context.severity = if slow { Severity::Info } else { Severity::Debug };
    context.duration = Some(took);
    lp.report(&context);
}

fn look_up(host: String, port: u16) -> io::Result<Vec<SocketAddr>> {
    let what = format!("look up {host}");
    match (host, port).to_socket_addrs().map(Vec::from_iter) {
        Ok(addrs) if addrs.is_empty() => {
            Err(named(what, io::Error::new(io::ErrorKind::NotFound, "it has no address")))
        }
        Ok(addrs) => Ok(addrs),
        Err(error) => Err(named(what, error)),
    }
}

fn invalid(text: impl Display, why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, format!("{text:#}: {why}"))
}

fn host_and_port(host: &str, port: u16) -> io::Result<Addrs> {
    if let Ok(ip) = host.parse::<IpAddr>() {
        return Ok(Addrs::Known(vec![SocketAddr::new(ip, port)]));
    }
    if host.is_empty() {
        let ips = [IpAddr::V4(Ipv4Addr::UNSPECIFIED), IpAddr::V6(Ipv6Addr::UNSPECIFIED)];
        return Ok(Addrs::Known(ips.map(|ip| SocketAddr::new(ip, port)).to_vec()));
    }
    if host.eq_ignore_ascii_case("localhost") {
        let ips = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
        return Ok(Addrs::Known(ips.map(|ip| SocketAddr::new(ip, port)).to_vec()));
    }
    if host.contains(|c: char| c.is_whitespace() || c.is_control() || "[]/%:".contains(c)) {
        return Err(invalid(host, "neither an IP address nor the name of a host"));
    }
    Ok(Addrs::Name { host: host.to_owned(), port })
}

impl ToAddrs for str {
    fn to_addrs(&self) -> io::Result<Addrs> {
        if let Ok(addr) = self.parse::<SocketAddr>() {
            return Ok(Addrs::Known(vec![addr]));
        }
        let Some((name, port)) = self.rsplit_once(':') else {
            let name = if self.is_empty() { "\"\"" } else { self };
            return Err(invalid(name, "an address needs a port, as in 127.0.0.1:80"));
        };
        let port =
            port.parse().map_err(|_| invalid(self, "the port is not a number up to 65535"))?;
        host_and_port(name, port)
    }
}

impl ToAddrs for String {
    fn to_addrs(&self) -> io::Result<Addrs> {
        self.as_str().to_addrs()
    }
}

impl ToAddrs for (&str, u16) {
    fn to_addrs(&self) -> io::Result<Addrs> {
        host_and_port(self.0, self.1)
    }
}

impl ToAddrs for (String, u16) {
    fn to_addrs(&self) -> io::Result<Addrs> {
        host_and_port(&self.0, self.1)
    }
}

macro_rules! known {
    ($($address:ty),*) => {$(
        impl ToAddrs for $address {
            fn to_addrs(&self) -> io::Result<Addrs> {
                Ok(Addrs::Known(vec![(*self).into()]))
            }
        }
    )*};
}

known!(SocketAddr, SocketAddrV4, SocketAddrV6, (IpAddr, u16), (Ipv4Addr, u16), (Ipv6Addr, u16));

impl ToAddrs for [SocketAddr] {
    fn to_addrs(&self) -> io::Result<Addrs> {
        Ok(Addrs::Known(self.to_vec()))
    }
}

impl<const N: usize> ToAddrs for [SocketAddr; N] {
    fn to_addrs(&self) -> io::Result<Addrs> {
        self[..].to_addrs()
    }
}

impl ToAddrs for Vec<SocketAddr> {
    fn to_addrs(&self) -> io::Result<Addrs> {
        self[..].to_addrs()
    }
}

impl<T: ToAddrs + ?Sized> ToAddrs for &T {
    fn to_addrs(&self) -> io::Result<Addrs> {
        (**self).to_addrs()
    }
}
