//! Listening sockets that the process was started with.

use std::io;
use std::os::fd::OwnedFd;

/// The listening sockets that whoever started this process passed to it, in their order: systemd's socket
/// activation (`LISTEN_FDS`). None if there are none. Give each to
/// [`Net::server_on`](crate::Net::server_on) or [`ServerBuilder::and_on`](crate::ServerBuilder::and_on).
///
/// The environment variables are removed, so that children do not take the sockets for theirs; call it
/// at the beginning of `main`, before there are other threads that might look at the environment. The
/// second call finds nothing.
///
/// ```
/// # use loop_net::{EventLoop, Net, Protocol, inherited_listeners};
/// # let mut event_loop = EventLoop::new()?;
/// # let net = Net::os(&event_loop);
/// let mut inherited = inherited_listeners()?.into_iter();
/// let mut builder = match inherited.next() {
///     Some(socket) => net.server_on(socket)?,
///     None => net.tcp_server("127.0.0.1:0"),
/// };
/// for socket in inherited {
///     builder = builder.and_on(socket)?;
/// }
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
/// If one of them is no listening TCP or Unix stream socket, naming its descriptor.
pub fn inherited_listeners() -> io::Result<Vec<OwnedFd>> {
    let mut inherited = listenfd::ListenFd::from_env();
    let mut sockets = Vec::with_capacity(inherited.len());
    for index in 0..inherited.len() {
        // One that is not of the first kind stays where it is.
        let socket = match inherited.take_tcp_listener(index) {
            Ok(socket) => socket.map(OwnedFd::from),
            Err(_) => inherited.take_unix_listener(index)?.map(OwnedFd::from),
        };
        sockets.extend(socket);
    }
    Ok(sockets)
}
