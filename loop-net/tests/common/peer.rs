//! The other end of a connection.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

#[cfg(feature = "tls")]
use super::tls::Relay;

/// The other end of a connection of any kind: a socket, an end of a pipe, or the clear side of a thread that
/// speaks TLS.
pub struct Peer {
    end: Option<File>,
    /// Its own address and ours, of the kinds that have some.
    pub addrs: Option<(SocketAddr, SocketAddr)>,
    #[cfg(feature = "tls")]
    relay: Option<Relay>,
}

impl Peer {
    pub fn new(end: impl Into<OwnedFd>) -> Peer {
        Peer {
            end: Some(end.into().into()),
            addrs: None,
            #[cfg(feature = "tls")]
            relay: None,
        }
    }

    #[cfg(feature = "tls")]
    pub fn behind(end: impl Into<OwnedFd>, relay: Relay) -> Peer {
        Peer { relay: Some(relay), ..Peer::new(end) }
    }

    pub fn named(self, theirs: SocketAddr, ours: SocketAddr) -> Peer {
        Peer { addrs: Some((theirs, ours)), ..self }
    }

    fn file(&self) -> &File {
        self.end.as_ref().expect("a pipe that was ended is closed")
    }

    pub fn set_nonblocking(&self, on: bool) -> io::Result<()> {
        Ok(rustix::io::ioctl_fionbio(self.file(), on)?)
    }

    pub fn try_clone(&self) -> io::Result<File> {
        self.file().try_clone()
    }

    /// We read the end. A socket may still be read.
    pub fn end(&mut self) {
        if rustix::net::shutdown(self.file(), rustix::net::Shutdown::Write).is_err() {
            self.end = None;
        }
    }

    /// Ends the connection with a reset instead of an end of file, where there is such a thing.
    pub fn reset(self) {
        let end = self.end.expect("a pipe that was ended is closed");
        #[cfg(feature = "tls")]
        if let Some(relay) = self.relay {
            return relay.reset();
        }
        // Not on pipes.
        let _ = socket2::SockRef::from(&end).set_linger(Some(Duration::ZERO));
    }
}

impl AsFd for Peer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file().as_fd()
    }
}

impl Read for Peer {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.file().read(buf)
    }
}

impl Write for Peer {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.file().write(buf)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
