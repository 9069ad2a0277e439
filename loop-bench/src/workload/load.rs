//! The load generator of `echo` and `pipelining`: one thread, one mio poll, every connection with the same number
//! of messages under way at any time. The same for every server.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::Instant;

use mio::{Events, Poll, Token};

use super::echo_round::Work;
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
    /// How many of them are under way at once.
    pub(super) depth: usize,
    pub(super) seed: u64,
}

impl Work for Load {
    fn bytes(&self) -> usize {
        self.bytes
    }

    fn messages(&self) -> u64 {
        self.connections as u64 * (self.messages + 1)
    }

    fn run(&self, server: SocketAddr) -> Result<Lap, Wrong> {
        let mut poll = Poll::new()?;
        let mut clients = Vec::with_capacity(self.connections);
        for index in 0..self.connections {
            let seed = self.seed ^ index as u64;
            let mut client = Client::connect(server, self.bytes, self.depth, seed)?;
            client.register(poll.registry(), Token(index))?;
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
}

impl Load {
    /// Until every client has had `messages` messages echoed in all.
    fn exchange(
        &self,
        poll: &mut Poll,
        clients: &mut [Client],
        messages: u64,
    ) -> Result<(), Wrong> {
        let mut events = Events::with_capacity(self.connections);
        let mut buffer = vec![0; self.bytes * self.depth];
        let mut last_news = Instant::now();
        for client in clients.iter_mut() {
            client.send((messages - client.sent).min(self.depth as u64))?;
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
                // One read an edge: the buffer has room for all that is owed, so either the socket is empty now, or
                // there is another edge.
                let complete = client.receive(&mut buffer)?;
                if complete == 0 {
                    continue;
                }
                if client.complete() == messages {
                    unfinished -= 1;
                } else {
                    client.send(complete.min(messages - client.sent))?;
                }
            }
        }
        Ok(())
    }
}
