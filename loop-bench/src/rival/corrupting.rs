//! No rival: an echo server with a fault, which shows what the checks are worth.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::Ordering;
use std::thread;

use super::echo_server::Ready;

/// A thread for each connection, which flips a bit once it has echoed a thousand bytes. Serves until it is told
/// to stop, and then until its clients are gone.
pub(crate) fn serve_echo(ready: Ready) -> io::Result<u64> {
    let listener = TcpListener::bind(ready.listen())?;
    let stopped = ready.announce_last(listener.local_addr()?);
    let mut connections = Vec::new();
    loop {
        let (stream, _peer) = listener.accept()?;
        if stopped.load(Ordering::Acquire) {
            break;
        }
        connections.push(thread::spawn(|| corrupt(stream)));
    }
    Ok(connections.into_iter().filter_map(|connection| connection.join().ok()).sum())
}

fn corrupt(mut stream: TcpStream) -> u64 {
    let (mut buffer, mut echoed) = ([0; 4096], 0);
    // A client that notices is gone at once.
    while let Ok(count @ 1..) = stream.read(&mut buffer) {
        echoed += count as u64;
        if echoed > 1_000 {
            buffer[count - 1] ^= 1;
        }
        if stream.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    echoed
}
