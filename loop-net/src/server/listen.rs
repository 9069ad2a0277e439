//! How listening sockets come about.

use std::fmt;
use std::io;
use std::net::SocketAddr;

use loop_core::LoopRef;
use rustix::io::Errno;

use crate::addr::Addrs;
use crate::error::named;
use crate::sock_addr::SockAddr;
use crate::socket::{ListenOptions, Socket};
use crate::unix::{self, SocketFile};

/// What a server is to listen on.
pub(super) enum Source {
    Tcp(io::Result<Addrs>),
    Unix(SockAddr),
    /// A socket that somebody else has bound.
    Ready(Socket),
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Tcp(addrs) => addrs.fmt(f),
            Source::Unix(addr) => addr.fmt(f),
            Source::Ready(socket) => socket.local_addr().fmt(f),
        }
    }
}

/// A listening socket.
pub(super) struct Bound {
    pub(super) socket: Socket,
    pub(super) local: SockAddr,
    /// Removed when the server closes.
    pub(super) file: Option<SocketFile>,
}

impl Bound {
    fn without_file(socket: Socket) -> Bound {
        Bound { local: socket.local_addr(), socket, file: None }
    }
}

/// Listens on everything, or on nothing.
pub(super) async fn listen(
    lp: &LoopRef,
    sources: Vec<Source>,
    options: ListenOptions,
    keep_files: bool,
) -> io::Result<Vec<Bound>> {
    let mut bound = Vec::new();
    for source in sources {
        match source {
            Source::Tcp(addrs) => {
                let addrs = addrs?.resolve(lp).await?;
                let sockets = bind_each(&addrs, |addr| Socket::listen(addr, options))?;
                bound.extend(sockets.into_iter().map(Bound::without_file));
            }
            Source::Unix(local) => {
                let socket = unix::listen(&local, options.backlog)?;
                let path = local.path().filter(|_| !keep_files);
                let file = path.and_then(SocketFile::of);
                bound.push(Bound { socket, local, file });
            }
            Source::Ready(socket) => {
                socket.start_listening(options.backlog)?;
                bound.push(Bound::without_file(socket));
            }
        }
    }
    Ok(bound)
}

/// A socket by `bind` for each address, once. Those that this host does not have are skipped if another one
/// binds (B-SRV-13).
pub(super) fn bind_each(
    addrs: &[SocketAddr],
    bind: impl Fn(SocketAddr) -> io::Result<Socket>,
) -> io::Result<Vec<Socket>> {
    let mut bound = Vec::new();
    let mut skipped = io::Error::new(io::ErrorKind::InvalidInput, "no address to listen on");
    for (index, addr) in addrs.iter().enumerate() {
        if addrs[..index].contains(addr) {
            continue;
        }
        let error = match bind(*addr) {
            Ok(socket) => {
                bound.push(socket);
                continue;
            }
            Err(error) => error,
        };
        let errno = error.raw_os_error().map(Errno::from_raw_os_error);
        skipped = named(format!("listen on {addr}"), error);
        if !matches!(errno, Some(Errno::ADDRNOTAVAIL | Errno::AFNOSUPPORT)) {
            return Err(skipped);
        }
    }
    if bound.is_empty() { Err(skipped) } else { Ok(bound) }
}
