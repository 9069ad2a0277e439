//! Echo servers on loopback, under one load generator that compares every byte.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use super::load::Load;
use super::selectors;
use crate::child::{Launch, ServerProcess};
use crate::finding::Finding;
use crate::rival::echo_server::{EchoServer, Serve};
use crate::rival::{corrupting, foreign, loop_net, loop_selector, mio, tokio};
use crate::sample::{Contest, Lap, Plan, Subject, Wrong};

const CONNECTIONS: usize = 64;
const BYTES: usize = 64;

/// Each kind of server twice: by the clock, which the load generator can hold up, and by the
/// processor time of the server's thread or process, which tells what is left for a program's own work.
pub(super) fn contests(plan: &Plan) -> Vec<Contest> {
    let messages = plan.size(300, 1_000);
    let contest = |name, servers: Vec<(String, Server)>, pick: fn(Laps) -> Lap| {
        let subject = |(name, server): (String, Server)| {
            let is_process = matches!(server, Server::Process(_));
            let subject = Subject::new(name, move |seed| {
                let load = Load { connections: CONNECTIONS, bytes: BYTES, messages, seed };
                server.round(&load).map(pick)
            });
            if is_process { subject.elsewhere() } else { subject }
        };
        let params = [("connections", CONNECTIONS as u64), ("bytes", BYTES as u64)];
        Contest::new(name, &params, servers.into_iter().map(subject).collect())
    };
    vec![
        contest("echo/small", everyone(), |laps| laps.wall),
        contest("echo/small_cpu", everyone(), |laps| laps.processor),
        contest("echo/streams", threads(streams()).collect(), |laps| laps.wall),
        contest("echo/streams_cpu", threads(streams()).collect(), |laps| laps.processor),
    ]
}

/// Who cannot take part here, and why.
pub(super) fn absences() -> Vec<Finding> {
    let missing = foreign::echo_servers().iter().filter_map(|(name, found)| {
        let why = found.as_ref().err()?.clone();
        Some(Finding::NotMeasured { what: (*name).into(), why })
    });
    selectors::refused().into_iter().chain(missing).collect()
}

/// Serves one subject's echo at `listen`, calls `ready` with the address that it got, and returns only if the
/// server fails. `streams`: by a task for each connection.
///
/// # Errors
/// If the subject is not known, and the text lists the known ones; or what the server says.
pub fn serve_echo(
    subject: &str,
    streams: bool,
    listen: SocketAddr,
    ready: impl FnOnce(SocketAddr),
) -> Result<(), Wrong> {
    let servers = if streams { self::streams() } else { small() };
    let Some((_, serve)) = servers.iter().find(|(name, _)| name == subject) else {
        let known: Vec<&str> = servers.iter().map(|(name, _)| name.as_str()).collect();
        let known = known.join(", ");
        return Err(Wrong(format!("no echo server is called {subject}; there are {known}")));
    };
    let named = |error| Wrong(format!("{subject} at {listen}: {error}"));
    let server = EchoServer::start_at(serve, listen).map_err(named)?;
    ready(server.address);
    server.wait().map(drop).map_err(named)
}

/// A subject of `echo/small` that changes a byte: to see that it is noticed.
pub fn corrupting_server(plan: &Plan) -> Subject {
    let messages = plan.size(300, 1_000);
    Subject::new("corrupting", move |seed| {
        let load = Load { connections: CONNECTIONS, bytes: BYTES, messages, seed };
        round(&(Arc::new(corrupting::serve_echo) as Serve), &load).map(|laps| laps.wall)
    })
}

/// Everyone's fastest way to serve.
pub(super) fn small() -> Vec<(String, Serve)> {
    let mut servers = ours(loop_net::protocol_server);
    servers.push(("tokio".into(), Arc::new(tokio::serve_echo)));
    servers.push(("mio".into(), Arc::new(mio::serve_echo)));
    servers
}

/// A task for each connection, which reads and writes.
fn streams() -> Vec<(String, Serve)> {
    let mut servers = ours(loop_net::stream_server);
    servers.push(("tokio".into(), Arc::new(tokio::serve_echo)));
    servers
}

/// One a selector that this system has.
fn ours(server: fn(&'static str) -> Serve) -> Vec<(String, Serve)> {
    loop_selector::usable().map(|name| (format!("loop-net/{name}"), server(name))).collect()
}

/// Those of [`small`], and programs in other languages.
fn everyone() -> Vec<(String, Server)> {
    let foreign = foreign::echo_servers().iter().filter_map(|(name, found)| {
        let launch = found.as_ref().ok()?.clone();
        Some(((*name).to_owned(), Server::Process(launch)))
    });
    threads(small()).chain(foreign).collect()
}

fn threads(servers: Vec<(String, Serve)>) -> impl Iterator<Item = (String, Server)> {
    servers.into_iter().map(|(name, serve)| (name, Server::Thread(serve)))
}

/// Where a server runs.
enum Server {
    Thread(Serve),
    Process(Launch),
}

impl Server {
    fn round(&self, load: &Load) -> Result<Laps, Wrong> {
        match self {
            Self::Thread(serve) => round(serve, load),
            Self::Process(launch) => round_of_process(launch.start()?, load),
        }
    }
}

/// What a round took.
struct Laps {
    wall: Lap,
    processor: Lap,
}

impl Laps {
    /// If the server has echoed what it was sent.
    fn checked(wall: Lap, processor: Duration, bytes: u64, load: &Load) -> Result<Self, Wrong> {
        Wrong::unless_equal("bytes echoed", bytes, load.total_bytes())?;
        let ops = bytes / load.bytes as u64;
        Ok(Self { wall, processor: Lap { elapsed: processor, ops } })
    }
}

/// The server and the load generator have a thread each; both count the bytes.
fn round(serve: &Serve, load: &Load) -> Result<Laps, Wrong> {
    let server = EchoServer::start(serve)?;
    let wall = load.run(server.address);
    let served = server.finish()?;
    Laps::checked(wall?, served.processor, served.bytes, load)
}

/// The same of a process, whose start is not counted, for it is the start of an interpreter too.
fn round_of_process(server: ServerProcess, load: &Load) -> Result<Laps, Wrong> {
    let before = server.processor()?;
    let wall = load.run(server.address)?;
    let processor = server.processor()? - before;
    Laps::checked(wall, processor, foreign::finish(server)?, load)
}

#[cfg(test)]
mod tests {
    use std::io::{ErrorKind, Read, Write};
    use std::net::TcpStream;

    use super::*;
    use crate::rival::echo_server::Ready;

    const LOAD: Load = Load { connections: 8, bytes: 61, messages: 50, seed: 5 };

    #[test]
    fn every_server_echoes_every_byte() {
        for finding in absences() {
            println!("{finding}");
        }
        for (name, server) in everyone().into_iter().chain(threads(streams())) {
            let laps = server.round(&LOAD).unwrap_or_else(|wrong| panic!("{name}: {wrong}"));
            assert_eq!((laps.wall.ops, laps.processor.ops), (400, 408), "{name}");
            assert!(laps.processor.elapsed > Duration::ZERO, "{name}");
        }
    }

    #[test]
    fn a_wrong_byte_is_noticed() {
        let wrong = round(&(Arc::new(corrupting::serve_echo) as Serve), &LOAD).err().unwrap();
        assert!(wrong.0.contains("other bytes came back"), "{wrong}");
    }

    /// Echoes rightly and lies about how much.
    fn serve_and_miscount(ready: Ready) -> std::io::Result<u64> {
        Ok(mio::serve_echo(ready)? + 1)
    }

    #[test]
    fn a_wrong_count_is_noticed() {
        let wrong = round(&(Arc::new(serve_and_miscount) as Serve), &LOAD).err().unwrap();
        assert!(wrong.0.starts_with("bytes echoed"), "{wrong}");
    }

    /// What the peer does not take must wait in the server, and keep its order.
    #[test]
    fn foreign_servers_keep_what_a_slow_reader_does_not_take() {
        let all: Vec<u8> = (0..16u32 << 20).map(|n| (n / 251) as u8).collect();
        for (name, found) in foreign::echo_servers() {
            let Ok(launch) = found else { continue };
            let server = launch.start().unwrap();
            let mut stream = TcpStream::connect(server.address).unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
            stream.set_write_timeout(Some(Duration::from_millis(100))).unwrap();
            // Until the server takes no more, or it has taken all.
            let mut sent = 0;
            while sent < all.len() {
                match stream.write(&all[sent..]) {
                    Ok(count) => sent += count,
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::WouldBlock, "{name}: {error}");
                        break;
                    }
                }
            }
            let mut came = vec![0; sent];
            stream.read_exact(&mut came).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert!(came == all[..sent], "{name}");
            assert_eq!(foreign::finish(server).unwrap(), sent as u64, "{name}");
        }
    }
}
