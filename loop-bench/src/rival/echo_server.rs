//! [`EchoServer`]: an echo server that runs on a thread of its own and counts what it echoes.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::meter::processor_time;
use crate::pin::pin_peer;

type Stop = Box<dyn FnOnce() + Send>;

/// Where any server is to listen that is not asked for by other machines.
const LOOPBACK: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// What a server that gives each connection a buffer of its own makes it hold, if messages are not larger.
const BUFFER: usize = 4 * 1024;

/// Tells the server where to listen, and the starter that it does.
pub(crate) struct Ready {
    listen: SocketAddr,
    buffer: usize,
    started: Sender<(SocketAddr, Stop)>,
}

impl Ready {
    /// Where to listen.
    pub(crate) fn listen(&self) -> SocketAddr {
        self.listen
    }

    /// How many bytes a buffer is to hold that belongs to one connection alone.
    pub(crate) fn buffer(&self) -> usize {
        self.buffer
    }

    /// The server listens on `address`; `stop`, called from another thread, makes it return.
    pub(crate) fn announce(self, address: SocketAddr, stop: impl FnOnce() + Send + 'static) {
        // If nobody waits any more the starter has given up, and `stop` is dropped.
        _ = self.started.send((address, Box::new(stop)));
    }

    /// The same for a server whose wait for connections is ended by nothing but a connection: one comes last, and the
    /// flag is set before.
    pub(crate) fn announce_last(self, address: SocketAddr) -> Arc<AtomicBool> {
        let stopped = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&stopped);
        self.announce(address, move || {
            stop.store(true, Ordering::Release);
            // If it is refused the server does not listen any more.
            _ = TcpStream::connect(address);
        });
        stopped
    }
}

/// Serves until it is stopped; the bytes it has echoed.
pub(crate) type Serve = Arc<dyn Fn(Ready) -> io::Result<u64> + Send + Sync>;

/// A server that runs.
pub(crate) struct EchoServer {
    pub(crate) address: SocketAddr,
    stop: Stop,
    thread: JoinHandle<io::Result<Served>>,
}

/// What a server has done.
#[derive(Debug)]
pub(crate) struct Served {
    /// The bytes it has echoed.
    pub(crate) bytes: u64,
    /// The processor time that its thread took, from its start to its end.
    pub(crate) processor: Duration,
}

impl EchoServer {
    /// Starts a server and waits until it listens.
    pub(crate) fn start(serve: &Serve) -> io::Result<Self> {
        Self::start_with(serve, LOOPBACK, BUFFER)
    }

    /// The same, for messages of so many bytes: none has to come in pieces because a buffer is small.
    pub(crate) fn start_for(serve: &Serve, bytes: usize) -> io::Result<Self> {
        Self::start_with(serve, LOOPBACK, bytes.max(BUFFER))
    }

    /// The same, at an address.
    pub(crate) fn start_at(serve: &Serve, listen: SocketAddr) -> io::Result<Self> {
        Self::start_with(serve, listen, BUFFER)
    }

    fn start_with(serve: &Serve, listen: SocketAddr, buffer: usize) -> io::Result<Self> {
        let serve = Arc::clone(serve);
        let (announce, started) = mpsc::channel();
        let thread = thread::Builder::new().spawn(move || {
            pin_peer();
            let bytes = serve(Ready { listen, buffer, started: announce })?;
            Ok(Served { bytes, processor: processor_time()? })
        })?;
        match started.recv() {
            Ok((address, stop)) => Ok(Self { address, stop, thread }),
            Err(_returned_without_a_word) => Err(match join(thread) {
                Ok(_served) => io::Error::other("the server never listened"),
                Err(error) => error,
            }),
        }
    }

    /// Stops it; what it has done.
    pub(crate) fn finish(self) -> io::Result<Served> {
        (self.stop)();
        join(self.thread)
    }

    /// Waits until it returns by itself, which no server does but for an error.
    pub(crate) fn wait(self) -> io::Result<Served> {
        join(self.thread)
    }
}

fn join(thread: JoinHandle<io::Result<Served>>) -> io::Result<Served> {
    thread.join().unwrap_or_else(|_panic| Err(io::Error::other("the server panicked")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(serve: fn(Ready) -> io::Result<u64>) -> io::Result<EchoServer> {
        EchoServer::start(&(Arc::new(serve) as Serve))
    }

    #[test]
    fn a_server_that_fails_to_start_gives_its_error() {
        let failed = start(|_ready| Err(io::ErrorKind::AddrInUse.into()));
        assert_eq!(failed.err().unwrap().kind(), io::ErrorKind::AddrInUse);
        let silent = start(|_ready| Ok(0));
        assert_eq!(silent.err().unwrap().to_string(), "the server never listened");
    }
}
