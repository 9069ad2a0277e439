//! A round of an echo server under some [`Work`], whatever its kind: on a thread of its own, or a process.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::child::{Launch, ServerProcess};
use crate::rival::echo_server::{EchoServer, Serve};
use crate::rival::foreign;
use crate::sample::{Contest, Lap, Subject, Wrong};

/// What clients do to a server.
pub(super) trait Work {
    /// Does it, and compares each byte that comes back. The lap is of the measured part.
    fn run(&self, server: SocketAddr) -> Result<Lap, Wrong>;
    /// The bytes of a message.
    fn bytes(&self) -> usize;
    /// All messages, those too that warm up.
    fn messages(&self) -> u64;
}

/// Where a server runs.
#[derive(Clone)]
pub(super) enum Server {
    Thread(Serve),
    Process(Launch),
}

impl Server {
    pub(super) fn round(&self, work: &impl Work) -> Result<Laps, Wrong> {
        match self {
            Self::Thread(serve) => round_of_thread(serve, work),
            Self::Process(launch) => round_of_process(launch.start()?, work),
        }
    }
}

/// What a round took: by the clock, which the load generator can hold up, and by the processor time of the server's
/// thread or process, which tells what is left for a program's own work.
pub(super) struct Laps {
    pub(super) wall: Lap,
    pub(super) processor: Lap,
}

/// A contest of `servers`, all under the work that `work` makes of a seed; `pick` says which lap counts.
pub(super) fn contest<W: Work + 'static>(
    name: &'static str,
    params: &[(&'static str, u64)],
    servers: Vec<(String, Server)>,
    pick: fn(Laps) -> Lap,
    work: impl Fn(u64) -> W + 'static,
) -> Contest {
    let work = Arc::new(work);
    let subject = |(name, server): (String, Server)| {
        let is_process = matches!(server, Server::Process(_));
        let work = Arc::clone(&work);
        let subject = Subject::new(name, move |seed| server.round(&work(seed)).map(pick));
        if is_process { subject.elsewhere() } else { subject }
    };
    Contest::new(name, params, servers.into_iter().map(subject).collect())
}

impl Laps {
    /// If the server has echoed what it was sent.
    fn checked(
        wall: Lap,
        processor: Duration,
        bytes: u64,
        work: &impl Work,
    ) -> Result<Self, Wrong> {
        let messages = work.messages();
        Wrong::unless_equal("bytes echoed", bytes, messages * work.bytes() as u64)?;
        Ok(Self { wall, processor: Lap { elapsed: processor, ops: messages } })
    }
}

/// The server and the load generator have a thread each; both count the bytes.
fn round_of_thread(serve: &Serve, work: &impl Work) -> Result<Laps, Wrong> {
    let server = EchoServer::start_for(serve, work.bytes())?;
    let wall = work.run(server.address);
    let served = server.finish()?;
    Laps::checked(wall?, served.processor, served.bytes, work)
}

/// The same of a process, whose start is not counted, for it is the start of an interpreter too.
fn round_of_process(server: ServerProcess, work: &impl Work) -> Result<Laps, Wrong> {
    let before = server.processor()?;
    let wall = work.run(server.address)?;
    let processor = server.processor()? - before;
    Laps::checked(wall, processor, foreign::finish(server)?, work)
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::super::load::Load;
    use super::*;
    use crate::rival::echo_server::Ready;
    use crate::rival::{corrupting, mio};

    const LOAD: Load = Load { connections: 8, bytes: 61, messages: 50, depth: 1, seed: 5 };

    fn thread(serve: fn(Ready) -> io::Result<u64>) -> Server {
        Server::Thread(Arc::new(serve))
    }

    #[test]
    fn a_wrong_byte_is_noticed() {
        for depth in [1, 16] {
            let load = Load { depth, ..LOAD };
            let wrong = thread(corrupting::serve_echo).round(&load).err().unwrap();
            assert!(wrong.0.contains("other bytes came back"), "{wrong}");
        }
    }

    /// Echoes rightly and lies about how much.
    fn serve_and_miscount(ready: Ready) -> io::Result<u64> {
        Ok(mio::serve_echo(ready)? + 1)
    }

    #[test]
    fn a_wrong_count_is_noticed() {
        let wrong = thread(serve_and_miscount).round(&LOAD).err().unwrap();
        assert!(wrong.0.starts_with("bytes echoed"), "{wrong}");
    }
}
