//! Pipes, terminals and other one-way descriptors as connections.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;

use crate::conn::Shared;
use crate::connect::{start_protocol, start_stream};
use crate::error::Rejected;
use crate::protocol::Protocol;
use crate::protocol_ref::ProtocolRef;
use crate::socket::Socket;
use crate::stream::{StreamReader, StreamWriter};
use crate::transport::Transport;

/// The reading end of a pipe about to be driven; from [`Net::read_pipe`](crate::Net::read_pipe). Dropping
/// it closes the pipe.
#[must_use = "nothing is read before `connect` or `open_stream`"]
pub struct ReadPipe {
    shared: Rc<Shared>,
    socket: Socket,
}

impl ReadPipe {
    pub(crate) fn new<S: Into<OwnedFd> + AsFd>(
        shared: Rc<Shared>,
        source: S,
    ) -> Result<Self, Rejected<S>> {
        Ok(ReadPipe { shared, socket: Socket::adopt_pipe(source, false)? })
    }

    /// Gives the pipe to a protocol; asyncio's `connect_read_pipe`. Returns after `connection_made`.
    ///
    /// After the end of the pipe, `eof_received` is called and then `connection_lost(None)`, whatever
    /// the former answers (B-PIPE-02). The transport takes no writes. Dropping the future before it is
    /// done closes the pipe.
    ///
    /// # Errors
    /// If the loop is closed.
    pub async fn connect<P, F>(self, factory: F) -> io::Result<(Transport, ProtocolRef<P>)>
    where
        P: Protocol + 'static,
        F: FnOnce() -> P,
    {
        start_protocol(&self.shared, self.socket, factory()).await
    }

    /// Makes a stream of it. Dropping the reader closes the pipe, as does dropping the future before it
    /// is done.
    ///
    /// # Errors
    /// If the loop is closed.
    pub async fn open_stream(self) -> io::Result<StreamReader> {
        let (reader, writer) = start_stream(&self.shared, self.socket).await?;
        Ok(reader.alone(writer))
    }
}

/// The writing end of a pipe about to be driven; from [`Net::write_pipe`](crate::Net::write_pipe).
/// Dropping it closes the pipe.
#[must_use = "nothing is written before `connect` or `open_stream`"]
pub struct WritePipe {
    shared: Rc<Shared>,
    socket: Socket,
}

impl WritePipe {
    pub(crate) fn new<S: Into<OwnedFd> + AsFd>(
        shared: Rc<Shared>,
        source: S,
    ) -> Result<Self, Rejected<S>> {
        Ok(WritePipe { shared, socket: Socket::adopt_pipe(source, true)? })
    }

    /// Gives the pipe to a protocol; asyncio's `connect_write_pipe`. Returns after `connection_made`.
    ///
    /// When the reader goes, `connection_lost` is called: with `None` if everything was written, with a
    /// broken pipe else. That watch is not kept on terminals and other devices (B-PIPE-04).
    /// [`write_eof`](Transport::write_eof) flushes and closes. Dropping the future before it is done
    /// closes the pipe.
    ///
    /// # Errors
    /// If the loop is closed.
    pub async fn connect<P, F>(self, factory: F) -> io::Result<(Transport, ProtocolRef<P>)>
    where
        P: Protocol + 'static,
        F: FnOnce() -> P,
    {
        start_protocol(&self.shared, self.socket, factory()).await
    }

    /// Makes a stream of it. Dropping the writer closes the pipe once everything is flushed; dropping
    /// the future before it is done closes it at once.
    ///
    /// # Errors
    /// If the loop is closed.
    pub async fn open_stream(self) -> io::Result<StreamWriter> {
        Ok(start_stream(&self.shared, self.socket).await?.1)
    }
}

impl fmt::Debug for ReadPipe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadPipe").field("fd", &self.socket.as_fd()).finish_non_exhaustive()
    }
}

impl fmt::Debug for WritePipe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WritePipe").field("fd", &self.socket.as_fd()).finish_non_exhaustive()
    }
}
