//! mio: its poll as a selector, and an echo server by hand, as a careful programmer writes it.

use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use mio::net::{TcpListener, TcpStream};
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token, Waker};

use super::echo_server::Ready;
use super::waiting::{Ready as ReadySource, Waiting, Wake};

/// Edge-triggered: a source is told of once for each time that something new arrives.
struct Edges {
    poll: Poll,
    events: Events,
    waker: Arc<Waker>,
}

/// mio's poll as a selector. It has no other backend to choose.
pub(crate) fn make() -> io::Result<Box<dyn Waiting>> {
    let poll = Poll::new()?;
    let waker = Arc::new(Waker::new(poll.registry(), STOP)?);
    Ok(Box::new(Edges { poll, events: Events::with_capacity(16), waker }))
}

impl Waiting for Edges {
    fn add(&mut self, source: &Rc<UnixStream>, number: usize) -> io::Result<()> {
        // Room for all that can be ready, and the waker.
        if self.events.capacity() < number + 2 {
            self.events = Events::with_capacity((number + 2).next_power_of_two());
        }
        let mut source = SourceFd(&source.as_raw_fd());
        self.poll.registry().register(&mut source, Token(number), Interest::READABLE)
    }

    fn modify(&mut self, source: &Rc<UnixStream>, number: usize, writes: bool) -> io::Result<()> {
        let both = Interest::READABLE | Interest::WRITABLE;
        let interest = if writes { both } else { Interest::READABLE };
        let mut source = SourceFd(&source.as_raw_fd());
        self.poll.registry().reregister(&mut source, Token(number), interest)
    }

    fn remove(&mut self, source: &Rc<UnixStream>, _number: usize) -> io::Result<()> {
        self.poll.registry().deregister(&mut SourceFd(&source.as_raw_fd()))
    }

    fn wait(&mut self, timeout: Option<Duration>, ready: &mut Vec<ReadySource>) -> io::Result<()> {
        // The tearing down of another subject's ring may interrupt it.
        while let Err(error) = self.poll.poll(&mut self.events, timeout) {
            if error.kind() != ErrorKind::Interrupted {
                return Err(error);
            }
        }
        let sources = self.events.iter().filter(|event| event.token() != STOP);
        ready.extend(sources.map(|event| {
            let (reads, writes) = (event.is_readable(), event.is_writable());
            ReadySource { number: event.token().0, reads, writes }
        }));
        Ok(())
    }

    fn is_edge_triggered(&self) -> bool {
        true
    }

    fn waker(&self) -> Wake {
        let waker = Arc::clone(&self.waker);
        Box::new(move || waker.wake().expect("an eventfd takes a one"))
    }
}

const LISTENER: Token = Token(usize::MAX - 1);
const STOP: Token = Token(usize::MAX);

struct Connection {
    stream: TcpStream,
    /// What the peer has not taken yet.
    unsent: Vec<u8>,
}

impl Connection {
    /// Echoes until the socket has nothing more; `false` when the connection is over.
    fn advance(&mut self, buffer: &mut [u8], echoed: &mut u64) -> io::Result<bool> {
        loop {
            while !self.unsent.is_empty() {
                match self.stream.write(&self.unsent) {
                    Ok(count) => _ = self.unsent.drain(..count),
                    Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(true),
                    Err(error) => return Err(error),
                }
            }
            let count = match self.stream.read(buffer) {
                Ok(0) => return Ok(false),
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(true),
                Err(error) => return Err(error),
            };
            *echoed += count as u64;
            let sent = match self.stream.write(&buffer[..count]) {
                Ok(sent) => sent,
                Err(error) if error.kind() == ErrorKind::WouldBlock => 0,
                Err(error) => return Err(error),
            };
            self.unsent.extend_from_slice(&buffer[sent..count]);
            // A short read has emptied the socket: an edge will tell of more.
            if self.unsent.is_empty() && count < buffer.len() {
                return Ok(true);
            }
        }
    }
}

pub(crate) fn serve_echo(ready: Ready) -> io::Result<u64> {
    let mut poll = Poll::new()?;
    let mut listener = TcpListener::bind(ready.listen())?;
    poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
    let waker = Arc::new(Waker::new(poll.registry(), STOP)?);
    // The waker must outlive the poll's last wait, so the stopper gets a share of it.
    let stopper = Arc::clone(&waker);
    ready.announce(listener.local_addr()?, move || stopper.wake().expect("an eventfd takes a one"));

    let mut events = Events::with_capacity(1024);
    let mut connections: Vec<Option<Connection>> = Vec::new();
    // Places of connections that are over.
    let mut free = Vec::new();
    let mut buffer = vec![0; 64 * 1024];
    let mut echoed = 0;
    loop {
        match poll.poll(&mut events, None) {
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            other => other?,
        }
        for event in &events {
            match event.token() {
                STOP => return Ok(echoed),
                LISTENER => accept(&poll, &listener, &mut connections, &mut free)?,
                Token(index) => {
                    let Some(connection) = &mut connections[index] else { continue };
                    // A peer that resets its connection ends that one.
                    if !connection.advance(&mut buffer, &mut echoed).unwrap_or(false) {
                        connections[index] = None;
                        free.push(index);
                    }
                }
            }
        }
    }
}

fn accept(
    poll: &Poll,
    listener: &TcpListener,
    connections: &mut Vec<Option<Connection>>,
    free: &mut Vec<usize>,
) -> io::Result<()> {
    loop {
        let mut stream = match listener.accept() {
            Ok((stream, _peer)) => stream,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error),
        };
        stream.set_nodelay(true)?;
        let index = free.pop().unwrap_or(connections.len());
        if index == connections.len() {
            connections.push(None);
        }
        let both = Interest::READABLE | Interest::WRITABLE;
        poll.registry().register(&mut stream, Token(index), both)?;
        connections[index] = Some(Connection { stream, unsent: Vec::new() });
    }
}
