//! Echo servers on loopback, under one load generator that compares every byte.

use std::net::SocketAddr;
use std::sync::Arc;

use super::load::Load;
use crate::rival::echo_server::{EchoServer, Serve};
use crate::rival::{corrupting, loop_net, loop_selector, mio, tokio};
use crate::sample::{Contest, Lap, Plan, Subject, Wrong};

const CONNECTIONS: usize = 64;
const BYTES: usize = 64;

/// Each kind of server twice: by the clock, which the load generator can hold up, and by the
/// processor time of the server's thread, which tells what is left for a program's own work.
pub(super) fn contests(plan: &Plan) -> Vec<Contest> {
    let messages = plan.size(300, 1_000);
    let contest = |name, servers: Vec<(String, Serve)>, pick: fn(Laps) -> Lap| {
        let subject = |(name, serve): (String, Serve)| {
            Subject::new(name, move |seed| {
                let load = Load { connections: CONNECTIONS, bytes: BYTES, messages, seed };
                round(&serve, &load).map(pick)
            })
        };
        let params = [("connections", CONNECTIONS as u64), ("bytes", BYTES as u64)];
        Contest::new(name, &params, servers.into_iter().map(subject).collect())
    };
    vec![
        contest("echo/small", small(), |laps| laps.wall),
        contest("echo/small_cpu", small(), |laps| laps.processor),
        contest("echo/streams", streams(), |laps| laps.wall),
        contest("echo/streams_cpu", streams(), |laps| laps.processor),
    ]
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

/// What a round took.
struct Laps {
    wall: Lap,
    processor: Lap,
}

/// The server and the load generator have a thread each; both count the bytes.
fn round(serve: &Serve, load: &Load) -> Result<Laps, Wrong> {
    let server = EchoServer::start(serve)?;
    let wall = load.run(server.address);
    let served = server.finish()?;
    let wall = wall?;
    Wrong::unless_equal("bytes echoed", served.bytes, load.total_bytes())?;
    let ops = served.bytes / load.bytes as u64;
    Ok(Laps { wall, processor: Lap { elapsed: served.processor, ops } })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::rival::echo_server::Ready;

    const LOAD: Load = Load { connections: 8, bytes: 61, messages: 50, seed: 5 };

    #[test]
    fn every_server_echoes_every_byte() {
        for (name, serve) in small().into_iter().chain(streams()) {
            let laps = round(&serve, &LOAD).unwrap_or_else(|wrong| panic!("{name}: {wrong}"));
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
}
