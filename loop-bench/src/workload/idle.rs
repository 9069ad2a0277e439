//! Echo servers whose connections say nothing any more: the memory that each of them holds.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use super::echo_round::Server;
use super::echo_servers::{Named, missing, protocols, rivals, sockets, streams};
use super::selectors::open_files;
use crate::child::{Launch, ServerProcess, built};
use crate::client::PATIENCE;
use crate::finding::Finding;
use crate::rng::mix;
use crate::sample::{Contest, Lap, Plan, Subject, Wrong};

/// Files that this process has open besides, at most.
const SPARE: usize = 64;
const BYTES: usize = 64;

/// None where the system does not tell another process's memory.
pub(super) fn contests(plan: &Plan) -> Vec<Contest> {
    if !ServerProcess::tells_memory() {
        return Vec::new();
    }
    let connections = plan.size(512, 4_096).min(open_files().saturating_sub(SPARE));
    let subjects = servers().into_iter().filter_map(|(name, found)| {
        let launch = found.ok()?;
        Some(Subject::new(name, move |seed| round(&launch, connections, seed)).elsewhere())
    });
    let params = [("connections", connections as u64)];
    vec![Contest::new("idle/memory", &params, subjects.collect()).measuring("bytes")]
}

/// Who cannot take part here, and why.
pub(super) fn absences() -> Vec<Finding> {
    let absence = |what: String, why| Finding::NotMeasured { what, why };
    if !ServerProcess::tells_memory() {
        let why = "this system does not tell another process's memory";
        return vec![absence("idle".into(), why.into())];
    }
    let missing =
        servers().into_iter().filter_map(|(name, found)| Some(absence(name, found.err()?)));
    missing.collect()
}

/// Each is a process of its own, those in Rust too: this program with other arguments. Of ours the three levels, on
/// the selector that a program gets which does not choose.
fn servers() -> Vec<(String, Result<Launch, String>)> {
    let program = built("loop-bench");
    let here = |(name, server): Named| {
        let launch = match server {
            Server::Process(launch) => Ok(launch),
            Server::Thread(_) => program.clone().map(|program| {
                let arguments = ["serve-echo".to_owned(), name.clone()].to_vec();
                Launch { program, arguments }
            }),
        };
        (name, launch)
    };
    let ours = protocols().take(1).chain(streams().take(1)).chain(sockets().take(1));
    let missing = missing().into_iter().map(|(name, why)| (name.to_owned(), Err(why)));
    ours.chain(rivals()).map(here).chain(missing).collect()
}

/// The operations are the connections, and bytes of memory stand in the place of nanoseconds.
fn round(launch: &Launch, connections: usize, seed: u64) -> Result<Lap, Wrong> {
    let server = launch.start()?;
    // What the first connection needs, code and buffers for all, is not counted.
    let first = connection(server.address, seed)?;
    let before = server.resident()?;
    let mut open = vec![first];
    for number in 1..=connections as u64 {
        open.push(connection(server.address, mix(seed ^ number))?);
    }
    let held = server.resident()?.saturating_sub(before);
    // The server closes first, so that it is the server's one port that stays reserved for a minute, and
    // not thousands of the clients'.
    drop(server);
    Ok(Lap::of_bytes(held, connections as u64))
}

/// A connection that has had one message echoed.
fn connection(server: SocketAddr, seed: u64) -> Result<TcpStream, Wrong> {
    let mut stream = TcpStream::connect(server)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut message = [0; BYTES];
    for (index, chunk) in message.chunks_mut(8).enumerate() {
        chunk.copy_from_slice(&mix(seed.wrapping_add(index as u64)).to_le_bytes());
    }
    stream.write_all(&message)?;
    let mut answer = [0; BYTES];
    stream.read_exact(&mut answer)?;
    if answer == message { Ok(stream) } else { Err(Wrong("other bytes came back".into())) }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    #[test]
    fn every_server_that_is_there_holds_its_connections() {
        if !ServerProcess::tells_memory() {
            return;
        }
        for finding in absences() {
            println!("{finding}");
        }
        for (name, found) in servers() {
            let Ok(launch) = found else { continue };
            let lap = round(&launch, 200, 7).unwrap_or_else(|wrong| panic!("{name}: {wrong}"));
            assert_eq!(lap.ops, 200, "{name}");
            // Less than a page for each is possible, nothing for all of them is not.
            let bytes = lap.elapsed.as_nanos();
            assert!((1..100_000_000).contains(&bytes), "{name}: {bytes}");
        }
    }

    #[test]
    fn a_wrong_byte_is_noticed() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let serving = thread::spawn(move || {
            let (mut stream, _peer) = listener.accept().unwrap();
            let mut message = [0; BYTES];
            stream.read_exact(&mut message).unwrap();
            message[BYTES - 1] ^= 1;
            stream.write_all(&message).unwrap();
        });
        let wrong = connection(address, 1).err().unwrap();
        assert_eq!(wrong.0, "other bytes came back");
        serving.join().unwrap();
    }
}
