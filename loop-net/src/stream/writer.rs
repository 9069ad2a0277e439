//! The writing half of a stream.

use std::fmt;
use std::future::{Future, poll_fn};
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use crate::stream_state::Stream;
use crate::stream_state::flags::{FULL, LOST};
use crate::transport::{Transport, WriteState};

/// The writing half of a stream; asyncio's `StreamWriter`.
///
/// [`write`](Self::write) never waits; [`drain`](Self::drain) waits while too much is buffered. A wait that is
/// dropped loses nothing. Dropping the writer closes the connection once everything is flushed.
pub struct StreamWriter {
    stream: Rc<Stream>,
    transport: Transport,
    leave_open: bool,
}

impl StreamWriter {
    pub(crate) fn new(stream: Rc<Stream>, transport: Transport) -> Self {
        StreamWriter { stream, transport, leave_open: false }
    }

    #[cfg(feature = "tls")]
    pub(crate) fn is_other_half_of(&self, reader: &super::StreamReader) -> bool {
        reader.is_half_of(&self.stream)
    }

    /// Ends this half without closing the connection.
    pub(crate) fn leave_open(mut self) {
        self.leave_open = true;
    }

    /// The transport underneath, for addresses and water marks.
    pub fn transport(&self) -> &Transport {
        &self.transport
    }

    /// Sends or buffers `data`: what is written in one iteration of the loop leaves in one call, with the next
    /// [`drain`](Self::drain) or at the end of the iteration; see [`Transport::write`]. Loops that write much should
    /// drain in between (B-STR-15).
    #[inline]
    pub fn write(&self, data: &[u8]) -> WriteState {
        self.transport.write_first(data)
    }

    /// Writes each piece in order.
    pub fn write_all_vectored(&self, pieces: &[impl AsRef<[u8]>]) -> WriteState {
        self.transport.write_all_vectored(pieces)
    }

    /// Sends what was written, and waits while more is buffered than the high-water mark, until the low-water mark is
    /// reached. Any number of tasks may wait at once (B-STR-16).
    ///
    /// Answers to requests that came together leave together: while the reader has not taken all that came, this sends
    /// nothing yet, and what was written leaves with the answer to the last of them, at the latest at the end of the
    /// iteration. [`flush`](Self::flush) sends in any case, and so does this for a reader whose reads copy into memory
    /// of the caller's, such as [`read_into`](crate::StreamReader::read_into).
    ///
    /// # Errors
    /// What the connection was lost by (B-STR-17).
    pub fn drain(&self) -> impl Future<Output = io::Result<()>> {
        let mut yielded = false;
        poll_fn(move |cx| {
            let stream = &self.stream;
            if !stream.has_more() && self.transport.send_now() {
                return Poll::Ready(Ok(()));
            }
            if !stream.flags.has(LOST | FULL) && !self.is_closing() {
                return Poll::Ready(Ok(()));
            }
            if let Some(error) = stream.failure() {
                return Poll::Ready(Err(error));
            }
            if stream.flags.has(LOST) {
                let message = "the connection is closed";
                return Poll::Ready(Err(io::Error::new(io::ErrorKind::NotConnected, message)));
            }
            if !yielded && self.is_closing() {
                // Gives a loss that is under way the chance to be seen.
                yielded = true;
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            if !stream.flags.has(FULL) {
                return Poll::Ready(Ok(()));
            }
            stream.enter();
            stream.writers.wait(cx);
            Poll::Pending
        })
    }

    /// Waits until everything written so far is the system's. [`drain`](Self::drain) waits for less, and
    /// is what loops that write want.
    ///
    /// # Errors
    /// What the connection was lost by.
    pub async fn flush(&self) -> io::Result<()> {
        poll_fn(|cx| self.poll_flush_all(cx)).await
    }

    pub(super) fn poll_flush_all(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.transport.poll_flushed(cx));
        Poll::Ready(self.stream.failure().map_or(Ok(()), Err))
    }

    /// Waits while more is buffered than the high-water mark, and writes then.
    #[inline]
    pub(super) fn poll_write_with(
        &self,
        cx: &mut Context<'_>,
        write: impl FnOnce(&Transport) -> WriteState,
    ) -> Poll<io::Result<()>> {
        if let Some(error) = self.stream.failure() {
            return Poll::Ready(Err(error));
        }
        if self.stream.flags.has(FULL) {
            self.stream.enter();
            self.stream.writers.wait(cx);
            return Poll::Pending;
        }
        if write(&self.transport) == WriteState::Closed {
            let message = "the connection is closed for writing";
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::BrokenPipe, message)));
        }
        Poll::Ready(Ok(()))
    }

    /// Ends our side once everything is flushed; the peer reads the end of the stream.
    pub fn write_eof(&self) {
        self.transport.write_eof();
    }

    /// Closes the connection once everything is flushed.
    pub fn close(&self) {
        self.transport.close();
    }

    /// Closes the connection at once and drops what is buffered.
    pub fn abort(&self) {
        self.transport.abort();
    }

    /// Whether the connection is closed or being closed.
    #[inline]
    pub fn is_closing(&self) -> bool {
        self.transport.is_closing()
    }

    /// Waits until the connection is over (B-STR-18).
    ///
    /// # Errors
    /// What it was lost by.
    pub async fn wait_closed(&self) -> io::Result<()> {
        let stream = &self.stream;
        poll_fn(|cx| {
            if stream.flags.has(LOST) {
                return Poll::Ready(stream.failure().map_or(Ok(()), Err));
            }
            stream.enter();
            stream.writers.wait(cx);
            Poll::Pending
        })
        .await
    }
}

impl Drop for StreamWriter {
    fn drop(&mut self) {
        if !self.leave_open {
            self.close();
        }
    }
}

impl fmt::Debug for StreamWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamWriter").field("transport", &self.transport).finish()
    }
}
