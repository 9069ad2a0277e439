//! The protocol behind a stream.

use std::rc::Rc;

use loop_core::LoopError;

use super::reader::StreamReader;
use super::writer::StreamWriter;
use crate::error::NetError;
use crate::protocol::{KeepOpen, Protocol};
use crate::stream_state::Stream;
use crate::stream_state::flags::{EOF, FULL, LOST};
use crate::transport::Transport;

type OnConnect = Box<dyn FnOnce(StreamReader, StreamWriter)>;

/// Feeds a [`Stream`].
pub(crate) struct StreamProtocol {
    stream: Rc<Stream>,
    /// Known once the connection is made; a stream is fed only after that.
    transport: Option<Transport>,
    on_connect: Option<OnConnect>,
}

impl StreamProtocol {
    /// A protocol that hands out the two halves of its stream once it is connected.
    pub(crate) fn new(on_connect: impl FnOnce(StreamReader, StreamWriter) + 'static) -> Self {
        let on_connect: OnConnect = Box::new(on_connect);
        StreamProtocol { stream: Stream::new(), transport: None, on_connect: Some(on_connect) }
    }
}

impl Protocol for StreamProtocol {
    fn connection_made(&mut self, transport: &Transport) {
        self.transport = Some(transport.clone());
        let fd = transport.socket().fileno().unwrap_or(-1);
        self.stream.connect(transport.loop_ref(), fd);
        if let Some(conn) = transport.conn() {
            conn.feed_to(self.stream.clone());
        }
        if let Some(on_connect) = self.on_connect.take() {
            let reader = StreamReader::new(self.stream.clone(), transport.clone());
            on_connect(reader, StreamWriter::new(self.stream.clone(), transport.clone()));
        }
    }

    /// Not called on a connection of the stream's own, which feeds it itself.
    fn data_received(&mut self, data: &[u8]) {
        let Some(transport) = &self.transport else { return };
        if self.stream.push(data) {
            transport.pause_reading();
        }
        self.stream.wake_reader(transport.loop_ref());
    }

    /// The stream stays open for writing, but not over TLS, where nothing can (B-STR-20).
    fn eof_received(&mut self) -> KeepOpen {
        self.stream.flags.put(EOF, true);
        let Some(transport) = &self.transport else { return KeepOpen::No };
        self.stream.wake_reader(transport.loop_ref());
        if transport.can_write_eof() { KeepOpen::Yes } else { KeepOpen::No }
    }

    fn pause_writing(&mut self) {
        self.stream.flags.put(FULL, true);
    }

    fn resume_writing(&mut self) {
        self.stream.flags.put(FULL, false);
        self.stream.writers.wake();
    }

    fn connection_lost(&mut self, error: Option<&NetError>) {
        // The error belongs to the connection, which drops it after this call.
        self.stream.end(error.map(NetError::to_io));
    }
}

impl Drop for StreamProtocol {
    /// Only closing the loop drops the protocol of a connection that is not over.
    fn drop(&mut self) {
        if !self.stream.flags.has(LOST) {
            self.stream.end(Some(LoopError::Closed.into()));
        }
    }
}
