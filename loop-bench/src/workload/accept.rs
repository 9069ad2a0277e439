//! Echo servers whose clients connect, say one byte, hear it, and go: what a connection costs from its beginning to
//! its end.

use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::time::Instant;

use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};

use super::echo_round::{self, Laps, Work};
use super::echo_servers::{protocols, rivals, streams};
use crate::client::PATIENCE;
use crate::rng::mix;
use crate::sample::{Contest, Lap, Plan, Wrong};

/// Connections that are open at once: fewer than any server lets wait to be accepted.
const AT_ONCE: usize = 32;

pub(super) fn contests(plan: &Plan) -> Vec<Contest> {
    let connections = plan.size(1_000, 5_000);
    let contest = |name, pick: fn(Laps) -> Lap| {
        let servers = protocols().chain(streams()).chain(rivals()).collect();
        let params = [("at_once", AT_ONCE as u64)];
        echo_round::contest(name, &params, servers, pick, move |seed| Storm { connections, seed })
    };
    vec![
        contest("accept/storm", |laps| laps.wall),
        contest("accept/storm_cpu", |laps| laps.processor),
    ]
}

/// So many connections, after some that warm the server up; each has one byte.
#[derive(Clone, Copy)]
struct Storm {
    connections: u64,
    seed: u64,
}

impl Work for Storm {
    fn bytes(&self) -> usize {
        1
    }

    fn messages(&self) -> u64 {
        self.connections + AT_ONCE as u64
    }

    fn run(&self, server: SocketAddr) -> Result<Lap, Wrong> {
        let mut storming = Storming {
            poll: Poll::new()?,
            events: Events::with_capacity(AT_ONCE),
            visits: (0..AT_ONCE).map(|_| None).collect(),
            server,
            seed: self.seed,
        };
        storming.go(0..AT_ONCE as u64)?;
        let all = AT_ONCE as u64..self.messages();
        let (lap, done) = Lap::time(self.connections, || storming.go(all));
        done?;
        Ok(lap)
    }
}

struct Storming {
    poll: Poll,
    events: Events,
    /// The connections, by token.
    visits: Vec<Option<Visit>>,
    server: SocketAddr,
    seed: u64,
}

struct Visit {
    stream: TcpStream,
    said: u8,
}

impl Storming {
    /// Makes the connections of these numbers, until the last is over.
    fn go(&mut self, mut numbers: std::ops::Range<u64>) -> Result<(), Wrong> {
        let mut open = 0;
        for place in 0..AT_ONCE {
            open += usize::from(self.begin(place, &mut numbers)?);
        }
        let mut last_news = Instant::now();
        let mut events = std::mem::replace(&mut self.events, Events::with_capacity(0));
        while open > 0 {
            match self.poll.poll(&mut events, Some(PATIENCE)) {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                other => other?,
            }
            if !events.is_empty() {
                last_news = Instant::now();
            } else if last_news.elapsed() >= PATIENCE {
                return Err(Wrong(format!("{open} connections got no answer")));
            }
            for event in &events {
                let place = event.token().0;
                let Some(visit) = &mut self.visits[place] else { continue };
                if visit.is_over()? {
                    self.visits[place] = None;
                    open -= usize::from(!self.begin(place, &mut numbers)?);
                }
            }
        }
        self.events = events;
        Ok(())
    }

    /// Connects, and says a byte; `false` if there are no numbers left. On loopback a connection is there when
    /// `connect` returns, so it is no wait.
    fn begin(
        &mut self,
        place: usize,
        numbers: &mut impl Iterator<Item = u64>,
    ) -> Result<bool, Wrong> {
        let Some(number) = numbers.next() else { return Ok(false) };
        let said = mix(self.seed ^ number) as u8;
        let stream = std::net::TcpStream::connect(self.server)?;
        stream.set_nonblocking(true)?;
        let mut stream = TcpStream::from_std(stream);
        stream.write_all(&[said])?;
        self.poll.registry().register(&mut stream, Token(place), Interest::READABLE)?;
        self.visits[place] = Some(Visit { stream, said });
        Ok(true)
    }
}

impl Visit {
    /// Whether the byte has come back.
    fn is_over(&mut self) -> Result<bool, Wrong> {
        let mut heard = [0; 2];
        match self.stream.read(&mut heard) {
            Ok(1) if heard[0] == self.said => Ok(true),
            Ok(0) => Err(Wrong("the server closed a connection".into())),
            Ok(_) => Err(Wrong("other bytes came back".into())),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    #[test]
    fn every_server_takes_every_connection() {
        let storm = Storm { connections: 200, seed: 5 };
        for (name, server) in protocols().chain(streams()).chain(rivals()) {
            let laps = server.round(&storm).unwrap_or_else(|wrong| panic!("{name}: {wrong}"));
            assert_eq!((laps.wall.ops, laps.processor.ops), (200, 232), "{name}");
        }
    }

    /// Answers each connection; the hundredth wrongly.
    fn serve_once_wrongly(wrongly: fn(u8) -> Vec<u8>) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || {
            for number in 1_u64.. {
                let Ok((mut stream, _peer)) = listener.accept() else { break };
                let mut said = [0];
                let Ok(1) = stream.read(&mut said) else { break };
                let answer = if number == 100 { wrongly(said[0]) } else { said.to_vec() };
                if stream.write_all(&answer).is_err() {
                    break;
                }
            }
        });
        address
    }

    #[test]
    fn a_wrong_byte_two_bytes_and_none_are_noticed() {
        let wrong = |wrongly| {
            let storm = Storm { connections: 200, seed: 5 };
            storm.run(serve_once_wrongly(wrongly)).unwrap_err().0
        };
        assert_eq!(wrong(|byte| vec![byte ^ 1]), "other bytes came back");
        assert_eq!(wrong(|byte| vec![byte, byte]), "other bytes came back");
        assert_eq!(wrong(|_byte| vec![]), "the server closed a connection");
    }
}
