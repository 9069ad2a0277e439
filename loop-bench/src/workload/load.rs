//! The load generator of `echo`: one thread, one mio poll, every connection with one message
//! under way at any time. The same for every server.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::Instant;

use mio::{Events, Interest, Poll, Token};

use crate::client::{Client, PATIENCE};
use crate::sample::{Lap, Wrong};

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
            let mut client = Client::connect(server, self.bytes, self.seed ^ index as u64)?;
            poll.registry().register(client.source(), Token(index), Interest::READABLE)?;
            clients.push(client);
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
