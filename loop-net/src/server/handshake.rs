//! Reading the PROXY header in front of a connection that was just accepted.

use std::io;
use std::time::Duration;

use loop_core::{LoopRef, timeout};

use super::proxy::{Origin, parse};
use crate::async_fd::AsyncFd;
use crate::socket::Socket;

/// Reads the header and nothing behind it.
///
/// # Errors
/// What is wrong with it, `TimedOut` if it has not come within `patience`.
pub(super) async fn read_header(
    lp: &LoopRef,
    socket: Socket,
    patience: Duration,
) -> io::Result<(Socket, Origin)> {
    let socket = AsyncFd::new(lp, socket)?;
    let reading = async {
        let mut head = Vec::new();
        loop {
            // What makes no whole header is part of it, and is taken; so nobody is ready for nothing.
            let before = head.len();
            let mut seen = [0; 512];
            let count = socket.read_with(|socket| socket.peek(&mut seen)).await?;
            if count == 0 {
                let message = "the connection ended before its PROXY header";
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, message));
            }
            head.extend_from_slice(&seen[..count]);
            let parsed = parse(&head)?;
            let taken = parsed.map_or(count, |(_, len)| len - before);
            socket.read_with(|socket| socket.recv(&mut seen[..taken])).await?;
            if let Some((origin, _)) = parsed {
                return Ok(origin);
            }
        }
    };
    match timeout(patience, reading).await {
        Ok(origin) => Ok((socket.into_inner(), origin?)),
        Err(_) => {
            let message = format!("no PROXY header within {patience:?}");
            Err(io::Error::new(io::ErrorKind::TimedOut, message))
        }
    }
}
