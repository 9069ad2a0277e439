//! Unix sockets: connecting, and the files of listeners.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use rustix::fs::{FileType, Stat, lstat};
use rustix::io::Errno;

use crate::conn::Shared;
use crate::connect::finish;
use crate::error::named;
use crate::protocol::Protocol;
use crate::protocol_ref::ProtocolRef;
use crate::security::Security;
use crate::sock_addr::SockAddr;
use crate::socket::Socket;
use crate::stream::{StreamReader, StreamWriter};
use crate::transport::Transport;

/// A connection to a Unix socket about to be made; from
/// [`Net::unix_connect`](crate::Net::unix_connect).
#[must_use = "nothing is connected before `connect` or `open_stream`"]
pub struct UnixConnector {
    shared: Rc<Shared>,
    addr: SockAddr,
    security: Security,
}

impl UnixConnector {
    pub(crate) fn new(shared: Rc<Shared>, addr: SockAddr) -> Self {
        UnixConnector { shared, addr, security: Security::default() }
    }

    /// Puts TLS on the connection. What connects then returns after the handshake, and fails if that
    /// does. No host is known whose name the server could have to prove: the side of `tls` says which
    /// (B-UNIX-05).
    #[cfg(feature = "tls")]
    #[cfg_attr(docsrs, doc(cfg(feature = "tls")))]
    pub fn tls(mut self, tls: crate::tls::Tls) -> Self {
        self.security = Security::tls(tls);
        self
    }

    /// Connects and gives the connection to a protocol; asyncio's `create_unix_connection`. Returns
    /// after `connection_made` (B-TRN-01). Dropping the future before it is done closes the socket.
    ///
    /// # Errors
    /// If the address is bad or nobody accepts; the error names the address. `WouldBlock` is the answer
    /// of a listener whose backlog is full.
    pub async fn connect<P, F>(self, factory: F) -> io::Result<(Transport, ProtocolRef<P>)>
    where
        P: Protocol + 'static,
        F: FnOnce() -> P,
    {
        let socket = self.dial().await?;
        self.security.start_protocol(&self.shared, socket, factory()).await
    }

    /// Connects and returns the two halves of a stream; asyncio's `open_unix_connection`. Dropping the future
    /// before it is done closes the socket.
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    pub async fn open_stream(self) -> io::Result<(StreamReader, StreamWriter)> {
        let socket = self.dial().await?;
        self.security.start_stream(&self.shared, socket).await
    }

    async fn dial(&self) -> io::Result<Socket> {
        let dialed = async { finish(&self.shared.lp, Socket::unix_connect(&self.addr)?).await };
        dialed.await.map_err(|error| named(format!("connect to {}", self.addr), error))
    }
}

impl fmt::Debug for UnixConnector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UnixConnector").field("addr", &self.addr).finish_non_exhaustive()
    }
}

/// The file of a listening socket. Dropping it removes the file if it is still the same one
/// (B-UNIX-02).
pub(crate) struct SocketFile {
    path: PathBuf,
    inode: (u64, u64),
}

impl SocketFile {
    /// The file of a socket that was just bound.
    pub(crate) fn of(path: &Path) -> Option<SocketFile> {
        let inode = inode(&lstat(path).ok()?);
        Some(SocketFile { path: path.to_owned(), inode })
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if lstat(&self.path).is_ok_and(|stat| inode(&stat) == self.inode) {
            // Somebody else may have been quicker.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Listens on a path or an abstract name. A socket file that nobody listens on any more is removed
/// first; a live one, and any other file, is an address in use (B-UNIX-01, S34 of the public cases).
pub(crate) fn listen(addr: &SockAddr, backlog: i32) -> io::Result<Socket> {
    let listening = remove_stale(addr).and_then(|()| Socket::unix_listen(addr, backlog));
    listening.map_err(|error| named(format!("listen on {addr}"), error))
}

fn inode(stat: &Stat) -> (u64, u64) {
    // The types of the fields differ between systems.
    #[allow(clippy::unnecessary_cast)]
    (stat.st_dev as u64, stat.st_ino as u64)
}

/// Removes a socket file whose server is gone. asyncio removes any; a live server's would be taken over
/// without a word. Who is alive shows in a connect, which a live server sees as a connection that ends
/// at once.
pub(crate) fn remove_stale(addr: &SockAddr) -> io::Result<()> {
    // Refuses bad paths before anything is touched.
    addr.to_any()?;
    let Some(path) = addr.path() else { return Ok(()) };
    let Ok(before) = lstat(path) else { return Ok(()) };
    if FileType::from_raw_mode(before.st_mode) != FileType::Socket {
        // Binding says that the address is in use.
        return Ok(());
    }
    match Socket::unix_connect(addr) {
        Err(error) if error.raw_os_error() == Some(Errno::CONNREFUSED.raw_os_error()) => {}
        _ => return Ok(()),
    }
    if lstat(path).is_ok_and(|now| inode(&now) == inode(&before)) {
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}
