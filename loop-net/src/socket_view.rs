//! `SocketView`: the options of a socket.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::rc::Weak;
use std::time::Duration;

use socket2::SockRef;

/// The options of the socket of a connection or of a datagram endpoint, and nothing else: it cannot be read,
/// written, closed or made blocking behind the transport's back; asyncio's `TransportSocket` (B-TRN-36). From
/// [`Transport::socket`](crate::Transport::socket) and
/// [`DatagramTransport::socket`](crate::DatagramTransport::socket).
///
/// Every method fails with `NotConnected` once the connection or endpoint is over, and otherwise with what
/// `getsockopt` or `setsockopt` says.
#[derive(Clone)]
pub struct SocketView {
    owner: Weak<dyn AsFd>,
}

impl SocketView {
    /// Of whoever has the socket, for as long as it does.
    pub(crate) fn new(owner: Weak<dyn AsFd>) -> Self {
        SocketView { owner }
    }

    fn with<T>(&self, f: impl FnOnce(SockRef<'_>) -> io::Result<T>) -> io::Result<T> {
        match self.owner.upgrade() {
            Some(owner) => f(SockRef::from(&owner.as_fd())),
            None => Err(io::Error::new(io::ErrorKind::NotConnected, "the connection is over")),
        }
    }

    /// The number of the descriptor, for reports. Its owner may close it at any time.
    ///
    /// # Errors
    /// `NotConnected`.
    pub fn fileno(&self) -> io::Result<RawFd> {
        self.with(|socket| Ok(socket.as_raw_fd()))
    }

    /// Whether small writes leave at once: `TCP_NODELAY`.
    ///
    /// # Errors
    /// See [`SocketView`].
    pub fn nodelay(&self) -> io::Result<bool> {
        self.with(|socket| socket.tcp_nodelay())
    }

    /// Whether small writes are to leave at once: `TCP_NODELAY`.
    ///
    /// # Errors
    /// See [`SocketView`].
    pub fn set_nodelay(&self, on: bool) -> io::Result<()> {
        self.with(|socket| socket.set_tcp_nodelay(on))
    }

    /// After how much silence the peer is asked whether it lives, in whole seconds; `None` is never.
    ///
    /// # Errors
    /// See [`SocketView`].
    pub fn keepalive(&self) -> io::Result<Option<Duration>> {
        self.with(|socket| match socket.keepalive()? {
            true => Ok(Some(socket.tcp_keepalive_time()?)),
            false => Ok(None),
        })
    }

    /// Has the peer asked whether it lives after `idle` of silence, in whole seconds and at least one; `None` is
    /// never.
    ///
    /// # Errors
    /// See [`SocketView`].
    pub fn set_keepalive(&self, idle: Option<Duration>) -> io::Result<()> {
        self.with(|socket| match idle {
            Some(idle) => {
                let idle = idle.max(Duration::from_secs(1));
                let keepalive = socket2::TcpKeepalive::new().with_time(idle);
                socket.set_tcp_keepalive(&keepalive)
            }
            None => socket.set_keepalive(false),
        })
    }

    /// The bytes that the kernel buffers for sending: `SO_SNDBUF`.
    ///
    /// # Errors
    /// See [`SocketView`].
    pub fn send_buffer_size(&self) -> io::Result<usize> {
        self.with(|socket| socket.send_buffer_size())
    }

    /// Sets the bytes that the kernel buffers for sending; Linux takes the double.
    ///
    /// # Errors
    /// See [`SocketView`].
    pub fn set_send_buffer_size(&self, bytes: usize) -> io::Result<()> {
        self.with(|socket| socket.set_send_buffer_size(bytes))
    }

    /// The bytes that the kernel buffers for receiving: `SO_RCVBUF`.
    ///
    /// # Errors
    /// See [`SocketView`].
    pub fn recv_buffer_size(&self) -> io::Result<usize> {
        self.with(|socket| socket.recv_buffer_size())
    }

    /// Sets the bytes that the kernel buffers for receiving; Linux takes the double. Datagrams that find the
    /// buffer full are lost without a word.
    ///
    /// # Errors
    /// See [`SocketView`].
    pub fn set_recv_buffer_size(&self, bytes: usize) -> io::Result<()> {
        self.with(|socket| socket.set_recv_buffer_size(bytes))
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
        self.with(|socket| socket.set_linger(linger))
    }
}

impl fmt::Debug for SocketView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SocketView").field("fileno", &self.fileno().ok()).finish()
    }
}
