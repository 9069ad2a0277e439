//! Addresses as users write them.

use std::fmt::Display;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

/// Something that names one or several socket addresses without a look-up.
///
/// Host names are not resolved here, for a look-up blocks; `localhost` is the loopback of both
/// families (RFC 6761), and an empty host stands for all interfaces (B-SRV-13). Others are an error that says so: resolve them on a thread, with
/// [`ToSocketAddrs`](std::net::ToSocketAddrs), and pass the result.
///
/// ```
/// use loop_net::ToAddrs;
/// assert_eq!("127.0.0.1:80".to_addrs()?, ("127.0.0.1", 80).to_addrs()?);
/// assert_eq!("[::1]:80".to_addrs()?[0].port(), 80);
/// assert_eq!("localhost:80".to_addrs()?.len(), 2);
/// let error = "example.com:80".to_addrs().unwrap_err();
/// assert!(error.to_string().contains("example.com"));
/// # Ok::<(), std::io::Error>(())
/// ```
pub trait ToAddrs {
    /// The addresses, in the order of preference.
    ///
    /// # Errors
    /// `InvalidInput`, naming the text, if it is not an address.
    fn to_addrs(&self) -> io::Result<Vec<SocketAddr>>;
}

fn invalid(text: impl Display, why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, format!("{text:#}: {why}"))
}

fn host(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    if let Ok(ip) = host.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(ip, port)]);
    }
    if host.is_empty() {
        let ips = [IpAddr::V4(Ipv4Addr::UNSPECIFIED), IpAddr::V6(Ipv6Addr::UNSPECIFIED)];
        return Ok(ips.map(|ip| SocketAddr::new(ip, port)).to_vec());
    }
    if host.eq_ignore_ascii_case("localhost") {
        let ips = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
        return Ok(ips.map(|ip| SocketAddr::new(ip, port)).to_vec());
    }
    Err(invalid(host, "not an IP address, and host names are not looked up here"))
}

impl ToAddrs for str {
    fn to_addrs(&self) -> io::Result<Vec<SocketAddr>> {
        if let Ok(addr) = self.parse::<SocketAddr>() {
            return Ok(vec![addr]);
        }
        let Some((name, port)) = self.rsplit_once(':') else {
            return Err(invalid(self, "an address needs a port, as in 127.0.0.1:80"));
        };
        let port =
            port.parse().map_err(|_| invalid(self, "the port is not a number up to 65535"))?;
        host(name, port)
    }
}

impl ToAddrs for String {
    fn to_addrs(&self) -> io::Result<Vec<SocketAddr>> {
        self.as_str().to_addrs()
    }
}

impl ToAddrs for (&str, u16) {
    fn to_addrs(&self) -> io::Result<Vec<SocketAddr>> {
        host(self.0, self.1)
    }
}

impl ToAddrs for (IpAddr, u16) {
    fn to_addrs(&self) -> io::Result<Vec<SocketAddr>> {
        Ok(vec![SocketAddr::from(*self)])
    }
}

impl ToAddrs for SocketAddr {
    fn to_addrs(&self) -> io::Result<Vec<SocketAddr>> {
        Ok(vec![*self])
    }
}

impl ToAddrs for SocketAddrV4 {
    fn to_addrs(&self) -> io::Result<Vec<SocketAddr>> {
        Ok(vec![(*self).into()])
    }
}

impl ToAddrs for SocketAddrV6 {
    fn to_addrs(&self) -> io::Result<Vec<SocketAddr>> {
        Ok(vec![(*self).into()])
    }
}

impl ToAddrs for [SocketAddr] {
    fn to_addrs(&self) -> io::Result<Vec<SocketAddr>> {
        Ok(self.to_vec())
    }
}

impl<T: ToAddrs + ?Sized> ToAddrs for &T {
    fn to_addrs(&self) -> io::Result<Vec<SocketAddr>> {
        (**self).to_addrs()
    }
}
