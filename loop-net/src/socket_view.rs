//! `SocketView`: the options of a connection's socket.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::rc::{Rc, Weak};
use std::time::Duration;

use crate::conn::Conn;
use crate::socket::Socket;

/// The options of a connection's socket, and nothing else: it cannot be read, written, closed or made
/// blocking behind the transport's back; asyncio's `TransportSocket` (B-TRN-36). From
/// [`Transport::socket`](crate::Transport::socket).
///
/// Every method fails with `NotConnected` once the connection is over, and otherwise with what
/// `getsockopt` or `setsockopt` says.
#[derive(Clone)]
pub struct SocketView {
    conn: Weak<Conn>,
}

impl SocketView {
    pub(crate) fn new(conn: Weak<Conn>) -> Self {
        SocketView { conn }
    }

    fn with<T>(&self, f: impl FnOnce(&Socket) -> io::Result<T>) -> io::Result<T> {
        let conn: Option<Rc<Conn>> = self.conn.upgrade();
        match conn {
            Some(conn) => f(conn.socket()),
            None => Err(io::Error::new(io::ErrorKind::NotConnected, "the connection is over")),
        }
    }

    /// The number of the descriptor, for reports. The connection may close it at any time.
    ///
    /// # Errors
    /// `NotConnected`.
    pub fn fileno(&self) -> io::Result<RawFd> {
        self.with(|socket| Ok(socket.as_fd().as_raw_fd()))
    }

    /// Whether small writes leave at once: `TCP_NODELAY`.
    ///
    /// # Errors
    /// See [`SocketView`].
    pub fn nodelay(&self) -> io::Result<bool> {
        self.with(|socket| socket.options().tcp_nodelay())
    }

    /// Whether small writes are to leave at once: `TCP_NODELAY`.
    ///
    /// # Errors
    /// See [`SocketView`].
    pub fn set_nodelay(&self, on: bool) -> io::Result<()> {
        self.with(|socket| socket.options().set_tcp_nodelay(on))
    }

    /// After how much silence the peer is asked whether it lives, in whole seconds; `None` is never.
    ///
    /// # Errors
    /// See [`SocketView`].
    pub fn keepalive(&self) -> io::Result<Option<Duration>> {
        self.with(|socket| {
            let options = socket.options();
            if options.keepalive()? { Ok(Some(options.tcp_keepalive_time()?)) } else { Ok(None) }
        })
    }

    /// Has the peer asked whether it lives after `idle` of silence, in whole seconds; `None` is never.
    ///
    /// # Errors
    /// See [`SocketView`].
    pub fn set_keepalive(&self, idle: Option<Duration>) -> io::Result<()> {
        self.with(|socket| match idle {
            Some(idle) => {
                let keepalive = socket2::TcpKeepalive::new().with_time(idle);
                socket.options().set_tcp_keepalive(&keepalive)
            }
            None => socket.options().set_keepalive(false),
        })
    }

    /// The bytes that the kernel buffers for sending: `SO_SNDBUF`.
    ///
    /// # Errors
    /// See [`SocketView`].
    pub fn send_buffer_size(&self) -> io::Result<usize> {
        self.with(|socket| socket.options().send_buffer_size())
    }

    /// Sets the bytes that the kernel buffers for sending; Linux takes the double.
    ///
    /// # Errors
    /// See [`SocketView`].
    pub fn set_send_buffer_size(&self, bytes: usize) -> io::Result<()> {
        self.with(|socket| socket.options().set_send_buffer_size(bytes))
    }

    /// The bytes that the kernel buffers for receiving: `SO_RCVBUF`.
    ///
    /// # Errors
    /// See [`SocketView`].
    pub fn recv_buffer_size(&self) -> io::Result<usize> {
        self.with(|socket| socket.options().recv_buffer_size())
    }

    /// Sets the bytes that the kernel buffers for receiving; Linux takes the double.
    ///
    /// # Errors
    /// See [`SocketView`].
    pub fn set_recv_buffer_size(&self, bytes: usize) -> io::Result<()> {
        self.with(|socket| socket.options().set_recv_buffer_size(bytes))
    }

    /// What closing does with bytes that the kernel has not sent: `None` sends them in the background,
    /// zero drops them and resets the connection. Other values would block a close and are refused.
    ///
    /// # Errors
    /// `InvalidInput` for a duration that is not zero; see [`SocketView`].
    pub fn set_linger(&self, linger: Option<Duration>) -> io::Result<()> {
        if linger.is_some_and(|linger| !linger.is_zero()) {
            let message = "lingering would block the loop when the socket is closed";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        self.with(|socket| socket.options().set_linger(linger))
    }
}

impl fmt::Debug for SocketView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SocketView").field("fileno", &self.fileno().ok()).finish()
    }
}
