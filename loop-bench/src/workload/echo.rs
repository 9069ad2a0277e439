//! Echo servers on loopback, under one load generator that compares every byte.

use std::net::SocketAddr;
use std::sync::Arc;

use super::echo_round::{self, Laps, Server};
use super::echo_servers::{self, Named, missing, protocols, rivals, sockets, streams, task_rivals};
use super::load::Load;
use super::selectors::{SELECT_LIMIT, open_files};
use crate::finding::Finding;
use crate::rival::corrupting;
use crate::rival::echo_server::EchoServer;
use crate::sample::{Contest, Lap, Plan, Subject, Wrong};

const CONNECTIONS: usize = 64;
const BYTES: usize = 64;

/// What this process and a server have open besides connections.
const SPARE: usize = 64;

pub(super) fn contests(plan: &Plan) -> Vec<Contest> {
    let messages = plan.size(300, 1_000);
    let contest = |name, servers: Vec<Named>, pick: fn(Laps) -> Lap| {
        contest(name, Load { messages, ..SMALL }, servers, pick)
    };
    let everyone = || protocols().chain(rivals()).collect();
    let with_tasks = || {
        // By the names that these have had from the first.
        let plain = |(name, server): Named| (name.replace(" streams", ""), server);
        streams().map(plain).chain(task_rivals()).collect()
    };
    let mut contests = vec![
        contest("echo/small", everyone(), |laps| laps.wall),
        contest("echo/small_cpu", everyone(), |laps| laps.processor),
        contest("echo/streams", with_tasks(), |laps| laps.wall),
        contest("echo/streams_cpu", with_tasks(), |laps| laps.processor),
    ];
    contests.extend(matrix(plan).into_iter().map(|load| {
        let takes_part = |(name, _): &Named| reason_against(name, load.connections).is_none();
        let servers = protocols().chain(streams()).chain(sockets()).chain(rivals());
        self::contest("echo/matrix", load, servers.filter(takes_part).collect(), |laps| laps.wall)
    }));
    contests
}

const SMALL: Load = Load { connections: CONNECTIONS, bytes: BYTES, messages: 0, depth: 1, seed: 0 };

fn contest(name: &'static str, load: Load, servers: Vec<Named>, pick: fn(Laps) -> Lap) -> Contest {
    let params = [("connections", load.connections as u64), ("bytes", load.bytes as u64)];
    echo_round::contest(name, &params, servers, pick, move |seed| Load { seed, ..load })
}

/// Few connections and many, short messages and long ones; a quick run takes each once.
fn matrix(plan: &Plan) -> Vec<Load> {
    let cells = plan.size(
        &[(1, 64), (64, 16_384), (1_024, 1_024)][..],
        &[
            (1, 64),
            (1, 1_024),
            (1, 16_384),
            (64, 64),
            (64, 1_024),
            (64, 16_384),
            (1_024, 64),
            (1_024, 1_024),
            (1_024, 16_384),
        ],
    );
    let load = |&(connections, bytes): &(usize, usize)| {
        // About as long for a cell as for another: a message alone waits for a context switch, a long one is copied.
        let total = plan.size(4_000, 20_000) / if connections == 1 { 4 } else { 1 };
        let messages = (total / connections as u64 / if bytes > 4_096 { 4 } else { 1 }).max(2);
        Load { connections, bytes, messages, ..SMALL }
    };
    cells.iter().map(load).collect()
}

/// Why a server cannot take so many connections.
fn reason_against(server: &str, connections: usize) -> Option<String> {
    let limit = open_files();
    // Both ends of each are in this process.
    if 2 * connections + SPARE > limit {
        return Some(format!("this process may open {limit} files"));
    }
    let selects = server.starts_with("loop-net/select") && 2 * connections + SPARE > SELECT_LIMIT;
    selects.then(|| format!("select takes no number from {SELECT_LIMIT} on"))
}

/// Who cannot take part here, and why.
pub(super) fn absences(plan: &Plan) -> Vec<Finding> {
    let mut absences = echo_servers::absences();
    for load in matrix(plan) {
        for (name, _) in protocols().chain(streams()).chain(sockets()).chain(rivals()) {
            let what = format!("{name} at connections={}", load.connections);
            let absence = reason_against(&name, load.connections)
                .map(|why| Finding::NotMeasured { what, why });
            absences.extend(absence.filter(|absence| !absences.contains(absence)));
        }
    }
    absences
}

/// A subject of `echo/small` that changes a byte: to see that it is noticed.
pub fn corrupting_server(plan: &Plan) -> Subject {
    let messages = plan.size(300, 1_000);
    let server = Server::Thread(Arc::new(corrupting::serve_echo));
    Subject::new("corrupting", move |seed| {
        server.round(&Load { messages, seed, ..SMALL }).map(|laps| laps.wall)
    })
}

/// Serves one subject's echo at `listen`, calls `ready` with the address that it got, and returns only if the
/// server fails.
///
/// # Errors
/// If the subject is not known, and the text lists the known ones; if it is missing here, and how to get it; or what
/// the server says.
pub fn serve_echo(
    subject: &str,
    listen: SocketAddr,
    ready: impl FnOnce(SocketAddr),
) -> Result<(), Wrong> {
    let named = |error| Wrong(format!("{subject} at {listen}: {error}"));
    // Those of other languages, which must be looked for, only if it is none of these.
    let mut here = echo_servers::in_rust();
    let found = here.find(|(name, _)| name == subject);
    let found = found.or_else(|| rivals().find(|(name, _)| name == subject));
    match found {
        Some((_, Server::Thread(serve))) => {
            let server = EchoServer::start_at(&serve, listen).map_err(named)?;
            ready(server.address);
            server.wait().map(drop).map_err(named)
        }
        Some((_, Server::Process(launch))) => {
            let server = launch.start_at(listen).map_err(named)?;
            ready(server.address);
            server.wait().map_err(named)
        }
        None => Err(unknown(subject)),
    }
}

fn unknown(subject: &str) -> Wrong {
    if let Some((_, why)) = missing().into_iter().find(|(name, _)| *name == subject) {
        return Wrong(format!("{subject}: {why}"));
    }
    let known = protocols().chain(streams()).chain(sockets()).chain(rivals());
    let known: Vec<String> = known.map(|(name, _)| name).collect();
    Wrong(format!("no echo server is called {subject}; there are {}", known.join(", ")))
}

#[cfg(test)]
mod tests {
    use std::io::{ErrorKind, Read, Write};
    use std::net::TcpStream;
    use std::time::Duration;

    use super::*;
    use crate::rival::foreign;

    #[test]
    fn every_server_echoes_every_byte() {
        let load = Load { connections: 8, bytes: 61, messages: 50, depth: 1, seed: 5 };
        for finding in echo_servers::absences() {
            println!("{finding}");
        }
        for (name, server) in protocols().chain(streams()).chain(sockets()).chain(rivals()) {
            let laps = server.round(&load).unwrap_or_else(|wrong| panic!("{name}: {wrong}"));
            assert_eq!((laps.wall.ops, laps.processor.ops), (400, 408), "{name}");
            assert!(laps.processor.elapsed > Duration::ZERO, "{name}");
        }
    }

    /// Larger than a socket's buffer, so that client and server must both wait to write.
    #[test]
    fn every_server_echoes_long_messages() {
        let load = Load { connections: 3, bytes: 3_000_017, messages: 1, depth: 1, seed: 5 };
        for (name, server) in protocols().chain(streams()).chain(sockets()).chain(rivals()) {
            let laps = server.round(&load).unwrap_or_else(|wrong| panic!("{name}: {wrong}"));
            assert_eq!((laps.wall.ops, laps.processor.ops), (3, 6), "{name}");
        }
    }

    #[test]
    fn the_matrix_has_every_size_and_its_quick_run_each_once() {
        let sizes = |quick, pick: fn(&Load) -> usize| {
            let mut sizes: Vec<_> = matrix(&Plan::new(quick, 1)).iter().map(pick).collect();
            sizes.sort_unstable();
            sizes.dedup();
            sizes
        };
        for quick in [false, true] {
            assert_eq!(sizes(quick, |load| load.connections), [1, 64, 1_024]);
            assert_eq!(sizes(quick, |load| load.bytes), [64, 1_024, 16_384]);
        }
        assert_eq!(matrix(&Plan::full(1)).len(), 9);
    }

    #[test]
    fn select_takes_no_part_where_its_bits_end() {
        assert_eq!(reason_against("loop-net/select", 64), None);
        let told =
            ["loop-net/select", "loop-net/select streams"].map(|name| reason_against(name, 1_024));
        assert!(told.iter().all(Option::is_some), "{told:?}");
        assert!(reason_against("tokio", 1 << 40).unwrap().contains("files"));
    }

    /// Resets a connection that has had its answer, or has not read one, and then talks on another one.
    fn reset_and_talk(name: &str, address: SocketAddr, reads: bool) {
        let mut peer = TcpStream::connect(address).unwrap();
        peer.set_write_timeout(Some(Duration::from_millis(50))).unwrap();
        let block = vec![7; 1 << 20];
        if reads {
            peer.write_all(b"x").unwrap();
            peer.read_exact(&mut [0]).unwrap();
        } else {
            // Until the server takes no more, or has taken a lot.
            let _ = (0..64).try_for_each(|_| peer.write_all(&block));
        }
        rustix::net::sockopt::set_socket_linger(&peer, Some(Duration::ZERO)).unwrap();
        drop(peer);
        let mut other = TcpStream::connect(address).unwrap();
        other.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let mut answer = [0; 5];
        let talked = other.write_all(b"well?").and_then(|()| other.read_exact(&mut answer));
        talked.unwrap_or_else(|error| panic!("{name} after a reset: {error}"));
        assert_eq!(&answer, b"well?", "{name}");
    }

    #[test]
    fn a_client_that_resets_its_connection_ends_no_server() {
        for (name, server) in protocols().chain(streams()).chain(sockets()).chain(rivals()) {
            for reads in [true, false] {
                match &server {
                    Server::Thread(serve) => {
                        let server = EchoServer::start(serve).unwrap();
                        reset_and_talk(&name, server.address, reads);
                        server.finish().unwrap_or_else(|error| panic!("{name}: {error}"));
                    }
                    Server::Process(launch) => {
                        let server = launch.start().unwrap();
                        reset_and_talk(&name, server.address, reads);
                        foreign::finish(server).unwrap_or_else(|error| panic!("{name}: {error}"));
                    }
                }
            }
        }
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
