//! The reading half of a stream.

use std::fmt;
use std::future::{Future, poll_fn};
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use super::error::ReadError;
use super::lines::Lines;
use super::search::find_first;
use super::writer::StreamWriter;
use crate::stream_state::flags::{EOF, SHOWN, UNREAD};
use crate::stream_state::{Buffer, Stream};
use crate::transport::Transport;

/// The reading half of a stream; asyncio's `StreamReader`.
///
/// A read that is dropped before it is done has consumed nothing (B-STR-12). When the reader itself is
/// dropped, what comes in later is thrown away.
pub struct StreamReader {
    stream: Rc<Stream>,
    transport: Transport,
    /// Bytes that an [`AsyncBufRead`](futures_io::AsyncBufRead) has been shown: out of the shared buffer,
    /// so that they can be borrowed.
    shown: Buffer,
    /// There is no writer whose end would close the connection.
    alone: bool,
}

impl StreamReader {
    pub(crate) fn new(stream: Rc<Stream>, transport: Transport) -> Self {
        StreamReader { stream, transport, shown: Buffer::default(), alone: false }
    }

    /// A stream without its writing half: the end of the reader closes the connection.
    pub(crate) fn alone(mut self, writer: StreamWriter) -> Self {
        writer.leave_open();
        self.alone = true;
        self
    }

    /// Gives up the stream for what it has buffered.
    #[cfg(feature = "tls")]
    pub(crate) fn into_buffered(mut self) -> Vec<u8> {
        let mut bytes = self.shown.take(self.shown.len());
        let mut buffer = self.stream.buffer.borrow_mut();
        let rest = buffer.len();
        bytes.extend_from_slice(&buffer.take(rest));
        drop(buffer);
        bytes
    }

    #[cfg(feature = "tls")]
    pub(crate) fn is_half_of(&self, stream: &Rc<Stream>) -> bool {
        Rc::ptr_eq(&self.stream, stream)
    }

    #[cfg(feature = "tls")]
    pub(crate) fn has_ended(&self) -> bool {
        self.stream.flags.has(EOF)
    }

    /// The transport underneath, for addresses and pauses.
    pub fn transport(&self) -> &Transport {
        &self.transport
    }

    /// Whether the stream has ended and everything was read (B-STR-10).
    pub fn at_eof(&self) -> bool {
        self.stream.flags.has(EOF)
            && self.stream.buffer.borrow().is_empty()
            && self.shown.is_empty()
    }

    /// Waits only while nothing is buffered; returns 1 to `max` bytes, none at the end of the stream or
    /// if `max` is 0 (B-STR-01).
    ///
    /// # Errors
    /// [`ReadError::Io`] once the connection has failed.
    pub fn read(&mut self, max: usize) -> impl Future<Output = Result<Vec<u8>, ReadError>> {
        // One level of future where an `async fn` that awaits another has two.
        poll_fn(move |cx| {
            let len = match max {
                0 => return Poll::Ready(Ok(Vec::new())),
                _ => ready!(self.poll_some(cx)).map_err(ReadError::Io)?,
            };
            Poll::Ready(Ok(self.take(max.min(len))))
        })
    }

    /// [`read`](Self::read) into memory of the caller's: how many bytes, 0 at the end of the stream or
    /// if `into` is empty. A loop that reads so allocates nothing.
    ///
    /// # Errors
    /// [`ReadError::Io`] once the connection has failed.
    pub fn read_into(&mut self, into: &mut [u8]) -> impl Future<Output = Result<usize, ReadError>> {
        poll_fn(move |cx| self.poll_read_into(cx, into).map_err(ReadError::Io))
    }

    /// Everything up to the end of the stream, however much (B-STR-02).
    ///
    /// # Errors
    /// [`ReadError::Io`] once the connection has failed.
    pub async fn read_to_end(&mut self) -> Result<Vec<u8>, ReadError> {
        self.fill(usize::MAX).await?;
        Ok(self.take_all())
    }

    /// Exactly `count` bytes, also beyond the limit (B-STR-03).
    ///
    /// # Errors
    /// [`ReadError::Incomplete`] if the stream ends first, [`ReadError::Io`] once the connection has
    /// failed.
    pub async fn read_exact(&mut self, count: usize) -> Result<Vec<u8>, ReadError> {
        if self.fill(count).await? < count {
            let partial = self.take_all();
            return Err(ReadError::Incomplete { partial, expected: Some(count) });
        }
        Ok(self.take(count))
    }

    /// Everything up to and with `separator`, which may straddle what came in at a time (B-STR-04).
    ///
    /// # Errors
    /// [`ReadError::Incomplete`] if the stream ends first, [`ReadError::LimitOverrun`] if more than
    /// [`limit`](Self::limit) bytes come before the separator, [`ReadError::InvalidSeparator`] if it is
    /// empty, and [`ReadError::Io`] once the connection has failed.
    pub async fn read_until(&mut self, separator: &[u8]) -> Result<Vec<u8>, ReadError> {
        self.read_until_any(&[separator]).await
    }

    /// Everything up to and with whichever separator ends first; of two that end together it is the
    /// shorter one (B-STR-07).
    ///
    /// ```
    /// # use loop_net::{Net, run, LoopRef};
    /// # use std::io::Write;
    /// # run(async {
    /// # let net = Net::os(&LoopRef::current());
    /// # let (ours, mut theirs) = std::os::unix::net::UnixStream::pair()?;
    /// # let (mut reader, _writer) = net.adopt(ours)?.open_stream().await?;
    /// theirs.write_all(b"HELO a\r\nQUIT\n")?;
    /// assert_eq!(reader.read_until_any(&[b"\r\n", b"\n"]).await?, b"HELO a\r\n");
    /// assert_eq!(reader.read_until_any(&[b"\r\n", b"\n"]).await?, b"QUIT\n");
    /// # std::io::Result::Ok(())
    /// # })??;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`read_until`](Self::read_until); a list without separators is an
    /// [`ReadError::InvalidSeparator`] too.
    pub async fn read_until_any(&mut self, separators: &[&[u8]]) -> Result<Vec<u8>, ReadError> {
        let mut searched = 0;
        poll_fn(|cx| self.poll_until(cx, separators, &mut searched)).await
    }

    /// `searched` is how many bytes hold no beginning of a separator: 0 at first, then as it was left.
    fn poll_until(
        &mut self,
        cx: &mut Context<'_>,
        separators: &[&[u8]],
        searched: &mut usize,
    ) -> Poll<Result<Vec<u8>, ReadError>> {
        let longest = separators.iter().map(|separator| separator.len()).max();
        let overlap = match longest {
            Some(longest) if separators.iter().all(|separator| !separator.is_empty()) => {
                longest - 1
            }
            _ => return Poll::Ready(Err(ReadError::InvalidSeparator)),
        };
        self.give_back();
        let limit = self.limit();
        loop {
            if let Some(error) = self.stream.failure() {
                return Poll::Ready(Err(ReadError::Io(error)));
            }
            let (found, len) = {
                let buffer = self.stream.buffer.borrow();
                let bytes = buffer.as_slice();
                (find_first(&bytes[*searched..], separators), bytes.len())
            };
            if let Some((start, end)) = found {
                let (start, end) = (start + *searched, end + *searched);
                if start > limit {
                    return Poll::Ready(Err(ReadError::LimitOverrun { consumed: start }));
                }
                return Poll::Ready(Ok(self.take(end)));
            }
            *searched = len.saturating_sub(overlap).max(*searched);
            if *searched > limit {
                return Poll::Ready(Err(ReadError::LimitOverrun { consumed: *searched }));
            }
            if self.stream.flags.has(EOF) {
                let partial = self.take(len);
                return Poll::Ready(Err(ReadError::Incomplete { partial, expected: None }));
            }
            ready!(self.poll_fill(cx, len + 1)).map_err(ReadError::Io)?;
        }
    }

    /// How many bytes a line or another separated read may have before its separator: 64 KiB unless
    /// set. Twice as many unread bytes stop the transport from reading.
    pub fn limit(&self) -> usize {
        self.stream.limit.get()
    }

    /// Sets the [`limit`](Self::limit).
    ///
    /// # Errors
    /// `InvalidInput` if it is 0 (B-STR-14).
    pub fn set_limit(&mut self, limit: usize) -> io::Result<()> {
        if limit == 0 {
            let message = "the limit of a stream is at least one byte";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        self.stream.set_limit(limit);
        Ok(())
    }

    /// The next line with its `\n`; the last one may lack it. `None` at the end of the stream.
    ///
    /// A line longer than the [`limit`](Self::limit) is an error, after which reading resumes: behind the line if its end
    /// had come, else behind all that was buffered (B-STR-08).
    ///
    /// # Errors
    /// [`ReadError::LimitOverrun`] and [`ReadError::Io`].
    pub async fn read_line(&mut self) -> Result<Option<Vec<u8>>, ReadError> {
        let mut searched = 0;
        poll_fn(|cx| self.poll_line(cx, &mut searched)).await
    }

    pub(super) fn poll_line(
        &mut self,
        cx: &mut Context<'_>,
        searched: &mut usize,
    ) -> Poll<Result<Option<Vec<u8>>, ReadError>> {
        Poll::Ready(match ready!(self.poll_until(cx, &[b"\n"], searched)) {
            Ok(line) => Ok(Some(line)),
            Err(ReadError::Incomplete { partial, .. }) if partial.is_empty() => Ok(None),
            Err(ReadError::Incomplete { partial, .. }) => Ok(Some(partial)),
            Err(ReadError::LimitOverrun { consumed }) => {
                let (len, ends) = {
                    let buffer = self.stream.buffer.borrow();
                    (buffer.len(), buffer.as_slice().get(consumed) == Some(&b'\n'))
                };
                drop(self.take(if ends { consumed + 1 } else { len }));
                Err(ReadError::LimitOverrun { consumed })
            }
            Err(error) => Err(error),
        })
    }

    /// The lines of the stream, as a `Stream`.
    pub fn lines(&mut self) -> Lines<'_> {
        Lines::new(self)
    }

    /// Waits until `count` bytes are buffered or the stream has ended; how many there are.
    async fn fill(&mut self, count: usize) -> Result<usize, ReadError> {
        poll_fn(|cx| self.poll_fill(cx, count)).await.map_err(ReadError::Io)
    }

    /// Whoever was shown bytes and has not consumed them reads them again.
    fn give_back(&mut self) {
        if !self.shown.is_empty() {
            self.stream.flags.put(SHOWN, false);
            let shown = std::mem::take(&mut self.shown);
            self.stream.buffer.borrow_mut().put_back(shown);
        }
    }

    /// Shows what is there without taking it; nothing at the end of the stream.
    pub(crate) fn poll_show(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<&[u8]>> {
        if self.shown.is_empty() {
            ready!(self.poll_some(cx))?;
            // What was shown is empty, and its memory serves again.
            std::mem::swap(&mut self.shown, &mut *self.stream.buffer.borrow_mut());
            self.stream.flags.put(SHOWN, !self.shown.is_empty());
            self.consumed();
        }
        Poll::Ready(Ok(self.shown.as_slice()))
    }

    pub(crate) fn consume(&mut self, count: usize) {
        let count = count.min(self.shown.len());
        self.shown.consume(count);
        self.stream.flags.put(SHOWN, !self.shown.is_empty());
    }

    #[inline]
    pub(super) fn poll_read_into(
        &mut self,
        cx: &mut Context<'_>,
        into: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_take(cx, into.len(), |bytes| into[..bytes.len()].copy_from_slice(bytes))
    }

    /// Copies 1 to `max` bytes by `copy`, which does nothing else, out of the stream; how many. None at its
    /// end, or if `max` is 0.
    #[inline]
    pub(crate) fn poll_take(
        &mut self,
        cx: &mut Context<'_>,
        max: usize,
        copy: impl FnOnce(&[u8]),
    ) -> Poll<io::Result<usize>> {
        if max == 0 {
            return Poll::Ready(Ok(0));
        }
        if self.stream.is_plain() {
            let count = self.stream.buffer.borrow_mut().copy_out(max, copy);
            if count > 0 {
                return Poll::Ready(Ok(count));
            }
            self.stream.wait_to_read(self.transport.loop_ref(), cx);
            return Poll::Pending;
        }
        ready!(self.poll_fill(cx, 1))?;
        let count = self.stream.buffer.borrow_mut().copy_out(max, copy);
        self.consumed();
        Poll::Ready(Ok(count))
    }

    /// Waits until something is buffered or the stream has ended; how many bytes there are.
    #[inline]
    fn poll_some(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if self.stream.is_plain() {
            let len = self.stream.buffer.borrow().len();
            if len > 0 {
                return Poll::Ready(Ok(len));
            }
            self.stream.wait_to_read(self.transport.loop_ref(), cx);
            return Poll::Pending;
        }
        self.poll_fill(cx, 1)
    }

    #[inline(never)]
    fn poll_fill(&mut self, cx: &mut Context<'_>, count: usize) -> Poll<io::Result<usize>> {
        self.give_back();
        let stream = &self.stream;
        if let Some(error) = stream.failure() {
            return Poll::Ready(Err(error));
        }
        let len = stream.buffer.borrow().len();
        if len >= count || stream.flags.has(EOF) {
            return Poll::Ready(Ok(len));
        }
        if stream.resumes() {
            self.transport.resume_reading();
        }
        stream.wait_to_read(self.transport.loop_ref(), cx);
        Poll::Pending
    }

    /// After bytes were taken out.
    #[inline]
    fn consumed(&self) {
        if self.stream.resumes_consumed() {
            self.transport.resume_reading();
        }
    }

    fn take_all(&mut self) -> Vec<u8> {
        let count = self.stream.buffer.borrow().len();
        self.take(count)
    }

    fn take(&mut self, count: usize) -> Vec<u8> {
        let taken = self.stream.take(count);
        self.consumed();
        taken
    }
}

impl Drop for StreamReader {
    fn drop(&mut self) {
        self.stream.flags.put(UNREAD, true);
        let left = self.stream.buffer.take();
        drop(left);
        if self.alone {
            return self.transport.close();
        }
        // So that the peer's end of file is seen.
        self.consumed();
    }
}

impl fmt::Debug for StreamReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamReader")
            .field("buffered", &self.stream.buffer.borrow().len())
            .field("eof", &self.stream.flags.has(EOF))
            .finish()
    }
}
