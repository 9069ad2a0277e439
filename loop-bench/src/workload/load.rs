//! The load generator of `echo`: one thread, one mio poll, every connection with one message
//! under way at any time. The same for every server.

use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};

use crate::rng::mix;
use crate::sample::{Lap, Wrong};

/// A server that says nothing for so long has lost a message.
const PATIENCE: Duration = Duration::from_secs(10);

/// What to send.
#[derive(Clone, Copy)]
pub(super) struct Load {
    pub(super) connections: usize,
    /// Bytes a message.
    pub(super) bytes: usize,
    /// Messages on each connection, after one that warms it up.
    pub(super) messages: u64,
    pub(super) seed: u64,
}

impl Load {
    /// All bytes that come back, the warm-up's too.
    pub(super) fn total_bytes(&self) -> u64 {
        self.connections as u64 * self.bytes as u64 * (self.messages + 1)
    }

    /// Sends it all to `server`, and compares each byte that comes back.
    pub(super) fn run(&self, server: SocketAddr) -> Result<Lap, Wrong> {
        let mut poll = Poll::new()?;
        let mut clients = Vec::with_capacity(self.connections);
        for index in 0..self.connections {
            let stream = std::net::TcpStream::connect(server)?;
            stream.set_nodelay(true)?;
            stream.set_nonblocking(true)?;
            let mut stream = TcpStream::from_std(stream);
            poll.registry().register(&mut stream, Token(index), Interest::READABLE)?;
            clients.push(Client {
                stream,
                seed: mix(self.seed ^ index as u64),
                sent: 0,
                message: vec![0; self.bytes],
                arrived: 0,
            });
        }
        // One message on every connection first: by then the server has accepted them all.
        self.exchange(&mut poll, &mut clients, 1)?;
        let ops = self.messages * self.connections as u64;
        let (lap, done) =
            Lap::time(ops, || self.exchange(&mut poll, &mut clients, self.messages + 1));
        done?;
        Ok(lap)
    }

    /// Until every client has had `messages` messages echoed in all.
    fn exchange(
        &self,
        poll: &mut Poll,
        clients: &mut [Client],
        messages: u64,
    ) -> Result<(), Wrong> {
        let mut events = Events::with_capacity(self.connections);
        let mut buffer = vec![0; self.bytes];
        let mut last_news = Instant::now();
        for client in clients.iter_mut() {
            client.send()?;
        }
        let mut unfinished = clients.len();
        while unfinished > 0 {
            match poll.poll(&mut events, Some(PATIENCE)) {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                other => other?,
            }
            if !events.is_empty() {
                last_news = Instant::now();
            } else if last_news.elapsed() >= PATIENCE {
                return Err(Wrong(format!("{unfinished} connections got no answer")));
            }
            for event in &events {
                let client = &mut clients[event.token().0];
                // One read an edge: nothing can follow a whole message before the next is sent, and
                // a short read has emptied the socket.
                if client.receive(&mut buffer)? {
                    if client.sent < messages {
                        client.send()?;
                    } else {
                        unfinished -= 1;
                    }
                }
            }
        }
        Ok(())
    }
}

struct Client {
    stream: TcpStream,
    seed: u64,
    /// Messages begun.
    sent: u64,
    /// The message under way, and how much of it has come back.
    message: Vec<u8>,
    arrived: usize,
}

impl Client {
    /// Begins the next message, no two of which are alike. A fresh message always fits the
    /// socket's buffer, for the one before has come back.
    fn send(&mut self) -> io::Result<()> {
        self.sent += 1;
        let mut word = mix(self.seed ^ self.sent);
        for chunk in self.message.chunks_mut(8) {
            word = word.wrapping_add(self.sent);
            chunk.copy_from_slice(&word.to_le_bytes()[..chunk.len()]);
        }
        self.arrived = 0;
        self.stream.write_all(&self.message)
    }

    /// Reads once; `true` when that completed the message.
    fn receive(&mut self, buffer: &mut [u8]) -> Result<bool, Wrong> {
        // One byte more than is owed would be a byte that was never sent.
        let count = match self.stream.read(buffer) {
            Ok(0) => return Err(Wrong("the server closed a connection".into())),
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(error.into()),
        };
        let owed = &self.message[self.arrived..];
        if count > owed.len() || buffer[..count] != owed[..count] {
            return Err(Wrong(format!("message {}: other bytes came back", self.sent)));
        }
        self.arrived += count;
        Ok(self.arrived == self.message.len())
    }
}
