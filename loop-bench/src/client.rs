//! [`Client`]: one connection to an echo server, with some messages under way.

use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::net::SocketAddr;
use std::time::Duration;

use mio::net::TcpStream;
use mio::{Interest, Registry, Token};

use crate::rng::mix;
use crate::round::Wrong;

/// A server that says nothing for so long has lost a message.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// A connection, which must be polled for edges.
pub(crate) struct Client {
    stream: TcpStream,
    seed: u64,
    /// Bytes a message.
    bytes: usize,
    /// Messages begun.
    pub(crate) sent: u64,
    /// The messages under way, in a ring.
    ring: Vec<u8>,
    /// Bytes that the socket took.
    written: u64,
    /// Bytes that came back.
    arrived: u64,
}

impl Client {
    /// Connects, and waits for that. Up to `depth` messages will be under way, each of `bytes` bytes, which `seed`
    /// decides.
    pub(crate) fn connect(
        server: SocketAddr,
        bytes: usize,
        depth: usize,
        seed: u64,
    ) -> io::Result<Self> {
        let stream = std::net::TcpStream::connect(server)?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        let (stream, ring) = (TcpStream::from_std(stream), vec![0; bytes * depth]);
        Ok(Self { stream, seed: mix(seed), bytes, sent: 0, ring, written: 0, arrived: 0 })
    }

    /// Edges of both directions: a large message may not fit the socket's buffer.
    pub(crate) fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        registry.register(&mut self.stream, token, Interest::READABLE | Interest::WRITABLE)
    }

    /// Begins `count` messages, no two of which are alike, in one write if the socket takes them. No more than the
    /// depth may be under way with them.
    pub(crate) fn send(&mut self, count: u64) -> io::Result<()> {
        for _ in 0..count {
            let at = self.place(self.sent * self.bytes as u64);
            self.sent += 1;
            let mut word = mix(self.seed ^ self.sent);
            for chunk in self.ring[at..at + self.bytes].chunks_mut(8) {
                word = word.wrapping_add(self.sent);
                chunk.copy_from_slice(&word.to_le_bytes()[..chunk.len()]);
            }
        }
        self.flush()
    }

    /// Messages that have come back whole.
    pub(crate) fn complete(&self) -> u64 {
        self.arrived / self.bytes as u64
    }

    /// Reads once, after writing what the socket did not take before; how many messages that completed. `buffer` has
    /// room for all that can be under way.
    pub(crate) fn receive(&mut self, buffer: &mut [u8]) -> Result<u64, Wrong> {
        self.flush()?;
        let count = match self.stream.read(buffer) {
            Ok(0) => return Err(Wrong("the server closed a connection".into())),
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(0),
            Err(error) => return Err(error.into()),
        };
        let before = self.complete();
        // The ring's end may lie within what came.
        let at = self.place(self.arrived);
        let first = count.min(self.ring.len() - at);
        // More than is owed would be bytes that were never sent.
        if count as u64 > self.written - self.arrived
            || buffer[..first] != self.ring[at..at + first]
            || buffer[first..count] != self.ring[..count - first]
        {
            return Err(Wrong(format!("message {}: other bytes came back", before + 1)));
        }
        self.arrived += count as u64;
        Ok(self.complete() - before)
    }

    fn flush(&mut self) -> io::Result<()> {
        let all = self.sent * self.bytes as u64;
        while self.written < all {
            let (at, left) = (self.place(self.written), (all - self.written) as usize);
            let first = left.min(self.ring.len() - at);
            let (first, rest) = (&self.ring[at..at + first], &self.ring[..left - first]);
            let wrote = if rest.is_empty() {
                self.stream.write(first)
            } else {
                self.stream.write_vectored(&[IoSlice::new(first), IoSlice::new(rest)])
            };
            match wrote {
                Ok(count) => self.written += count as u64,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Where in the ring a byte lies.
    fn place(&self, byte: u64) -> usize {
        (byte % self.ring.len() as u64) as usize
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    /// Waits for `client` in a poll of its own until `messages` are complete.
    fn exchange(client: &mut Client, messages: u64) -> Result<(), Wrong> {
        let mut poll = mio::Poll::new()?;
        let (mut events, mut buffer) = (mio::Events::with_capacity(4), vec![0; client.ring.len()]);
        client.register(poll.registry(), Token(0))?;
        let mut complete = 0;
        while complete < messages {
            complete += client.receive(&mut buffer)?;
            poll.poll(&mut events, Some(Duration::from_millis(1)))?;
        }
        Ok(())
    }

    #[test]
    fn messages_go_round_the_ring_in_pieces_of_any_size() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let serving = std::thread::spawn(move || {
            let (mut stream, _peer) = listener.accept().unwrap();
            // A prime number of bytes at a time.
            let (mut buffer, mut total) = ([0; 97], 0);
            while let Ok(count @ 1..) = stream.read(&mut buffer) {
                stream.write_all(&buffer[..count]).unwrap();
                total += count;
            }
            total
        });
        let mut client = Client::connect(address, 61, 5, 3).unwrap();
        client.send(5).unwrap();
        exchange(&mut client, 2).unwrap();
        // The ring's end lies between these two.
        let under_way = client.sent - client.complete();
        client.send(5 - under_way).unwrap();
        while client.arrived < client.sent * 61 {
            _ = client.receive(&mut [0; 305]).unwrap();
        }
        let sent = client.sent;
        drop(client);
        assert_eq!(serving.join().unwrap() as u64, sent * 61);
    }

    #[test]
    fn a_byte_that_was_never_sent_is_noticed() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = Client::connect(listener.local_addr().unwrap(), 4, 2, 3).unwrap();
        let (mut stream, _peer) = listener.accept().unwrap();
        client.send(1).unwrap();
        let mut message = [0; 4];
        stream.read_exact(&mut message).unwrap();
        stream.write_all(&[&message[..], &[0]].concat()).unwrap();
        let wrong = exchange(&mut client, 2).unwrap_err();
        assert!(wrong.0.ends_with("other bytes came back"), "{wrong}");
    }
}
