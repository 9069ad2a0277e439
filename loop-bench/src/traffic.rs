//! [`Traffic`]: requests for an echo server, at a set rate or as fast as it answers, with their latencies.

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use mio::{Events, Poll, Token};

use crate::client::{Client, PATIENCE};
use crate::latency::{Latencies, Schedule};
use crate::round::Wrong;

/// The sooner a request is due, the less the kernel can be trusted to wake in time: a poll's timeout is whole
/// milliseconds.
const SPIN: Duration = Duration::from_millis(2);

/// When requests are sent.
#[derive(Clone, Copy, Debug)]
pub enum Pace {
    /// Each connection sends its next request when the last is answered. A server that stalls is then asked less: its
    /// stall is one long latency among many short ones.
    Closed,
    /// Requests are due by the clock, whatever the server does. One that finds no free connection waits, and its
    /// waiting counts.
    Open(Schedule),
}

/// What to send to an echo server.
#[derive(Clone, Copy, Debug)]
pub struct Traffic {
    /// Connections, each with one request under way at most.
    pub connections: usize,
    /// Bytes a request.
    pub bytes: usize,
    /// When requests are sent.
    pub pace: Pace,
    /// For so long; what is due by then is waited for.
    pub duration: Duration,
    /// Decides the bytes.
    pub seed: u64,
}

/// What came back.
#[derive(Clone, Debug)]
pub struct Answers {
    /// From when each request was due to the last byte of its answer.
    pub latencies: Latencies,
    /// From the first request to the last answer.
    pub elapsed: Duration,
    /// The bytes that came back, those of the request that warmed each connection up too.
    pub bytes: u64,
}

impl Traffic {
    /// Sends it, and compares each byte that comes back. Blocks the thread, and keeps its core busy while requests are
    /// due.
    ///
    /// # Errors
    /// If a connection fails or is closed, other bytes come back, or no answer comes for ten seconds.
    pub fn send(&self, server: SocketAddr) -> Result<Answers, Wrong> {
        if self.connections == 0 || self.bytes == 0 {
            return Err(Wrong("no connections or no bytes: nothing to send".into()));
        }
        let mut poll = Poll::new()?;
        let mut clients = Vec::with_capacity(self.connections);
        for index in 0..self.connections {
            let mut client = Client::connect(server, self.bytes, 1, self.seed ^ index as u64)?;
            client.register(poll.registry(), Token(index))?;
            clients.push(client);
        }
        let mut sender = Sender {
            events: Events::with_capacity(self.connections),
            buffer: vec![0; self.bytes],
            idle: VecDeque::with_capacity(self.connections),
            due: vec![None; self.connections],
            under_way: 0,
            last_news: Instant::now(),
            latencies: Latencies::new(),
            clients,
        };
        sender.warm_up(&mut poll)?;
        let start = Instant::now();
        match self.pace {
            Pace::Closed => sender.closed(&mut poll, start, self.duration)?,
            Pace::Open(schedule) => sender.open(&mut poll, start, self.duration, schedule)?,
        }
        let elapsed = start.elapsed();
        let answers = sender.latencies.count() + self.connections as u64;
        let bytes = answers * self.bytes as u64;
        Ok(Answers { latencies: sender.latencies, elapsed, bytes })
    }
}

struct Sender {
    clients: Vec<Client>,
    events: Events,
    buffer: Vec<u8>,
    /// Connections without a request, the longest idle first.
    idle: VecDeque<usize>,
    /// When the request of each connection was due; `None` while it warms up.
    due: Vec<Option<Instant>>,
    under_way: usize,
    last_news: Instant,
    latencies: Latencies,
}

impl Sender {
    /// One request on each connection: by then the server has accepted them all.
    fn warm_up(&mut self, poll: &mut Poll) -> Result<(), Wrong> {
        for client in &mut self.clients {
            client.send(1)?;
            self.under_way += 1;
        }
        while self.under_way > 0 {
            self.receive(poll, Some(PATIENCE))?;
        }
        Ok(())
    }

    fn closed(&mut self, poll: &mut Poll, start: Instant, duration: Duration) -> Result<(), Wrong> {
        loop {
            let now = Instant::now();
            if now - start < duration {
                while let Some(index) = self.idle.pop_front() {
                    self.request(index, Instant::now())?;
                }
            } else if self.under_way == 0 {
                return Ok(());
            }
            self.receive(poll, Some(PATIENCE))?;
        }
    }

    fn open(
        &mut self,
        poll: &mut Poll,
        start: Instant,
        duration: Duration,
        schedule: Schedule,
    ) -> Result<(), Wrong> {
        let total = schedule.due_before(duration);
        let mut next = 0;
        while next < total || self.under_way > 0 {
            while next < total && start.elapsed() >= schedule.due(next) {
                let Some(index) = self.idle.pop_front() else { break };
                self.request(index, start + schedule.due(next))?;
                next += 1;
            }
            let timeout = if next == total || self.idle.is_empty() {
                // Only an answer can change anything.
                PATIENCE
            } else {
                let left = schedule.due(next).saturating_sub(start.elapsed());
                left.saturating_sub(SPIN)
            };
            self.receive(poll, Some(timeout))?;
        }
        Ok(())
    }

    fn request(&mut self, index: usize, due: Instant) -> Result<(), Wrong> {
        self.due[index] = Some(due);
        self.under_way += 1;
        if self.under_way == 1 {
            self.last_news = Instant::now();
        }
        Ok(self.clients[index].send(1)?)
    }

    /// Waits once, and takes the answers that are there.
    fn receive(&mut self, poll: &mut Poll, timeout: Option<Duration>) -> Result<(), Wrong> {
        match poll.poll(&mut self.events, timeout) {
            Err(error) if error.kind() == ErrorKind::Interrupted => return Ok(()),
            other => other?,
        }
        if !self.events.is_empty() {
            self.last_news = Instant::now();
        } else if self.under_way > 0 && self.last_news.elapsed() >= PATIENCE {
            return Err(Wrong(format!("{} requests got no answer", self.under_way)));
        }
        for event in &self.events {
            let index = event.token().0;
            if self.clients[index].receive(&mut self.buffer)? > 0 {
                if let Some(due) = self.due[index] {
                    self.latencies.record(due.elapsed());
                }
                self.under_way -= 1;
                self.idle.push_back(index);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::thread;

    use super::*;

    const STALL: Duration = Duration::from_millis(150);

    /// Echoes on one connection, and stands still once, at the first request behind the one that warms up.
    fn stalling_server() -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || {
            let (mut stream, _peer) = listener.accept().unwrap();
            let mut buffer = [0; 4096];
            for read in 0.. {
                let Ok(count @ 1..) = stream.read(&mut buffer) else { break };
                if read == 1 {
                    thread::sleep(STALL);
                }
                stream.write_all(&buffer[..count]).unwrap();
            }
        });
        address
    }

    fn answers(pace: Pace) -> Answers {
        let duration = Duration::from_millis(600);
        let traffic = Traffic { connections: 1, bytes: 32, pace, duration, seed: 1 };
        traffic.send(stalling_server()).unwrap()
    }

    #[test]
    fn s38_a_stalled_server_shows_at_a_set_rate() {
        let open = answers(Pace::Open(Schedule::per_second(1_000.0)));
        // However slow this machine is just now, no request was left out.
        assert_eq!(open.latencies.count(), 600);
        assert_eq!(open.bytes, 601 * 32);
        // A request every millisecond: about 150 wait, and half of them for half of the stall or more.
        let late = open.latencies.slower_than(STALL / 2);
        assert!(late >= 60, "{late} of {:?}", open.latencies);
    }

    #[test]
    fn s38_a_closed_loop_asks_a_stalled_server_less() {
        let closed = answers(Pace::Closed);
        assert!(closed.latencies.max() >= STALL);
        // One after the other, as many late ones as fit into the time: none waits for another.
        let late = closed.latencies.slower_than(STALL / 2);
        assert!(late * STALL.as_millis() as u64 / 2 <= closed.elapsed.as_millis() as u64, "{late}");
    }

    #[test]
    fn a_server_that_closes_is_noticed() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || drop::<TcpStream>(listener.accept().unwrap().0));
        let (pace, duration) = (Pace::Closed, Duration::from_secs(5));
        let traffic = Traffic { connections: 1, bytes: 32, pace, duration, seed: 1 };
        assert!(traffic.send(address).is_err());
        let nothing = Traffic { connections: 0, ..traffic };
        assert!(nothing.send(address).unwrap_err().0.contains("nothing to send"));
    }
}
