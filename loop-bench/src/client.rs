//! [`Client`]: one connection to an echo server, with one message under way at any time.

use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::time::Duration;

use mio::net::TcpStream;

use crate::rng::mix;
use crate::round::Wrong;

/// A server that says nothing for so long has lost a message.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// A connection, which must be polled for edges of readability.
pub(crate) struct Client {
    stream: TcpStream,
    seed: u64,
    /// Messages begun.
    pub(crate) sent: u64,
    /// The message under way, and how much of it has come back.
    message: Vec<u8>,
    arrived: usize,
}

impl Client {
    /// Connects, and waits for that. Its messages have `bytes` bytes, which `seed` decides.
    pub(crate) fn connect(server: SocketAddr, bytes: usize, seed: u64) -> io::Result<Self> {
        let stream = std::net::TcpStream::connect(server)?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        let (stream, message) = (TcpStream::from_std(stream), vec![0; bytes]);
        Ok(Self { stream, seed: mix(seed), sent: 0, message, arrived: 0 })
    }

    /// What is to be polled.
    pub(crate) fn source(&mut self) -> &mut TcpStream {
        &mut self.stream
    }

    /// Begins the next message, no two of which are alike. A fresh message always fits the
    /// socket's buffer, for the one before has come back.
    pub(crate) fn send(&mut self) -> io::Result<()> {
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
    pub(crate) fn receive(&mut self, buffer: &mut [u8]) -> Result<bool, Wrong> {
        let count = match self.stream.read(buffer) {
            Ok(0) => return Err(Wrong("the server closed a connection".into())),
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(error.into()),
        };
        // More than is owed would be bytes that were never sent.
        let owed = &self.message[self.arrived..];
        if count > owed.len() || buffer[..count] != owed[..count] {
            return Err(Wrong(format!("message {}: other bytes came back", self.sent)));
        }
        self.arrived += count;
        Ok(self.arrived == self.message.len())
    }
}
