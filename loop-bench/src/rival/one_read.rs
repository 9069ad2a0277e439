//! [`Unsent`]: one side of an echo by hand, for loops that tell of readiness and are told what is wanted next.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};

/// The next connection that waits at a listener that does not block.
pub(crate) fn accepted(listener: &TcpListener) -> io::Result<Option<TcpStream>> {
    let stream = match listener.accept() {
        Ok((stream, _peer)) => stream,
        Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
        Err(error) => return Err(error),
    };
    stream.set_nonblocking(true)?;
    stream.set_nodelay(true)?;
    Ok(Some(stream))
}

/// What a peer has not taken yet. Until it has gone, nothing more is read.
#[derive(Default)]
pub(crate) struct Unsent(Vec<u8>);

/// What a connection waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Next {
    Read,
    Write,
    /// For nothing: it is over.
    Close,
}

impl Unsent {
    /// Sends what waits, or reads once and sends that. A connection that fails is over.
    pub(crate) fn advance(
        &mut self,
        stream: &TcpStream,
        buffer: &mut [u8],
        echoed: &mut u64,
    ) -> Next {
        self.step(stream, buffer, echoed).unwrap_or(Next::Close)
    }

    fn step(
        &mut self,
        mut stream: &TcpStream,
        buffer: &mut [u8],
        echoed: &mut u64,
    ) -> io::Result<Next> {
        if self.0.is_empty() {
            let count = match stream.read(buffer) {
                Ok(0) => return Ok(Next::Close),
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(Next::Read),
                Err(error) => return Err(error),
            };
            *echoed += count as u64;
            let sent = written(stream.write(&buffer[..count]))?;
            self.0.extend_from_slice(&buffer[sent..count]);
        } else {
            let sent = written(stream.write(&self.0))?;
            self.0.drain(..sent);
        }
        Ok(if self.0.is_empty() { Next::Read } else { Next::Write })
    }
}

/// How much the socket took: nothing if it would block.
fn written(result: io::Result<usize>) -> io::Result<usize> {
    match result {
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(0),
        other => other,
    }
}
