//! `SockAddr`: the address of any socket.

use std::ffi::{CString, OsStr};
use std::fmt;
use std::io;
use std::net::{SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::net::{SocketAddrAny, SocketAddrUnix};

use crate::error::named;

/// The longest path of a Unix socket, in bytes: `sun_path` has room for one more, the NUL at its end.
/// Linux would take a path that fills it all, and others could then not find the socket.
const MAX_PATH: usize =
    if cfg!(any(target_os = "linux", target_os = "android")) { 107 } else { 103 };

/// The bytes of a `sockaddr_un` in front of the path.
const HEADER: usize = 2;

/// The address of a socket: of the internet, or of the Unix domain.
///
/// ```
/// use loop_net::SockAddr;
/// let addr = SockAddr::from(std::path::PathBuf::from("/run/app.sock"));
/// assert_eq!(addr.to_string(), "/run/app.sock");
/// assert_eq!(SockAddr::abstract_name("app").to_string(), "@app");
/// assert_eq!(SockAddr::from("127.0.0.1:80".parse::<std::net::SocketAddr>()?).to_string(), "127.0.0.1:80");
/// # Ok::<(), std::net::AddrParseError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum SockAddr {
    /// An IP address with a port.
    Ip(SocketAddr),
    /// A file of the Unix domain.
    Path(PathBuf),
    /// A name outside the file system, without the NUL byte in front that marks it; Linux.
    Abstract(Vec<u8>),
    /// A socket without a name: what connects usually has none, nor do the ends of a pair.
    Unnamed,
}

impl SockAddr {
    /// A name of the Unix domain outside the file system; Linux.
    pub fn abstract_name(name: impl AsRef<[u8]>) -> SockAddr {
        SockAddr::Abstract(name.as_ref().to_vec())
    }

    /// The IP address with its port, as the standard library has it, if it is one of the internet.
    pub fn socket_addr(&self) -> Option<SocketAddr> {
        match self {
            SockAddr::Ip(addr) => Some(*addr),
            _ => None,
        }
    }

    /// The path, if it is one.
    pub fn path(&self) -> Option<&Path> {
        match self {
            SockAddr::Path(path) => Some(path),
            _ => None,
        }
    }

    /// As system calls take it.
    ///
    /// # Errors
    /// `InvalidInput`, naming the address, if a path is empty, holds a NUL or is too long (S34 of the
    /// public cases), and for abstract names where there are none.
    pub(crate) fn to_any(&self) -> io::Result<SocketAddrAny> {
        let unix = match self {
            SockAddr::Ip(addr) => return Ok((*addr).into()),
            SockAddr::Path(path) => unix_path(path.as_os_str())?,
            SockAddr::Abstract(name) => abstract_name(name)
                .map_err(|error| invalid(format!("abstract name {self}"), &error.to_string()))?,
            SockAddr::Unnamed => return Err(invalid("a Unix socket", "it has no name")),
        };
        Ok(unix.into())
    }

    pub(crate) fn from_any(addr: SocketAddrAny) -> SockAddr {
        if let Ok(ip) = SocketAddr::try_from(addr.clone()) {
            return SockAddr::Ip(ip);
        }
        // No name, or one that fills the structure and is cut: rustix takes the first for an abstract
        // name and panics on the second, which any local peer can have.
        let len = addr.addr_len() as usize;
        if len <= HEADER || len > HEADER + MAX_PATH + 1 {
            return SockAddr::Unnamed;
        }
        let Ok(unix) = SocketAddrUnix::try_from(addr) else { return SockAddr::Unnamed };
        #[cfg(any(target_os = "linux", target_os = "android"))]
        if let Some(name) = unix.abstract_name() {
            return SockAddr::Abstract(name.to_vec());
        }
        // A path that fills the structure may come with its NUL.
        let bytes = unix.path_bytes().unwrap_or_default();
        match bytes.split(|byte| *byte == 0).next() {
            Some(path) if !path.is_empty() => SockAddr::Path(OsStr::from_bytes(path).into()),
            _ => SockAddr::Unnamed,
        }
    }
}

fn unix_path(path: &OsStr) -> io::Result<SocketAddrUnix> {
    let bytes = path.as_bytes();
    let name = Path::new(path).display();
    if bytes.is_empty() {
        return Err(invalid("a Unix socket", "its path is empty"));
    }
    if bytes.len() > MAX_PATH {
        let why = format!("the path has {} bytes, more than {MAX_PATH}", bytes.len());
        return Err(invalid(name, &why));
    }
    let path = CString::new(bytes).map_err(|_| invalid(&name, "the path holds a NUL byte"))?;
    SocketAddrUnix::new(path.as_c_str()).map_err(|error| named(format!("{name}"), error.into()))
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn abstract_name(name: &[u8]) -> io::Result<SocketAddrUnix> {
    Ok(SocketAddrUnix::new_abstract_name(name)?)
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn abstract_name(_: &[u8]) -> io::Result<SocketAddrUnix> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "only Linux has abstract names"))
}

fn invalid(what: impl fmt::Display, why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, format!("{what}: {why}"))
}

impl From<SocketAddr> for SockAddr {
    fn from(addr: SocketAddr) -> Self {
        SockAddr::Ip(addr)
    }
}

impl From<SocketAddrV4> for SockAddr {
    fn from(addr: SocketAddrV4) -> Self {
        SockAddr::Ip(addr.into())
    }
}

impl From<SocketAddrV6> for SockAddr {
    fn from(addr: SocketAddrV6) -> Self {
        SockAddr::Ip(addr.into())
    }
}

impl From<&SockAddr> for SockAddr {
    fn from(addr: &SockAddr) -> Self {
        addr.clone()
    }
}

impl From<PathBuf> for SockAddr {
    fn from(path: PathBuf) -> Self {
        SockAddr::Path(path)
    }
}

impl From<&PathBuf> for SockAddr {
    fn from(path: &PathBuf) -> Self {
        SockAddr::Path(path.clone())
    }
}

impl From<&Path> for SockAddr {
    fn from(path: &Path) -> Self {
        SockAddr::Path(path.to_owned())
    }
}

/// A path.
impl From<&str> for SockAddr {
    fn from(path: &str) -> Self {
        SockAddr::Path(path.into())
    }
}

/// A path.
impl From<String> for SockAddr {
    fn from(path: String) -> Self {
        SockAddr::Path(path.into())
    }
}

impl fmt::Display for SockAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SockAddr::Ip(addr) => addr.fmt(f),
            SockAddr::Path(path) if path.as_os_str().is_empty() => f.write_str("\"\""),
            SockAddr::Path(path) => path.display().fmt(f),
            SockAddr::Abstract(name) => write!(f, "@{}", name.escape_ascii()),
            SockAddr::Unnamed => f.write_str("an unnamed socket"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s34_a_path_of_108_bytes_is_refused_and_named() {
        for (len, good) in [(MAX_PATH, true), (MAX_PATH + 1, false), (5_000, false)] {
            let path = PathBuf::from("/".to_owned() + &"x".repeat(len - 1));
            match SockAddr::from(path.clone()).to_any() {
                Ok(addr) => {
                    assert!(good);
                    assert_eq!(SockAddr::from_any(addr), SockAddr::Path(path));
                }
                Err(error) => {
                    assert!(!good);
                    assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
                    let text = error.to_string();
                    assert!(text.contains("/xxx") && text.contains("more than"), "{text}");
                }
            }
        }
        for bad in ["", "a\0b"] {
            let error = SockAddr::from(PathBuf::from(bad)).to_any().unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        }
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn abstract_names_come_back_as_they_went() {
        for name in [&b"app"[..], b"", b"\0\xff"] {
            let addr = SockAddr::abstract_name(name);
            assert_eq!(SockAddr::from_any(addr.to_any().unwrap()), addr);
        }
        assert!(SockAddr::abstract_name([b'x'; 200]).to_any().is_err());
    }
}
