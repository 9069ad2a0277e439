//! The lines of a stream.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_core::Stream;

use super::error::ReadError;
use super::reader::StreamReader;

/// The lines of a stream, with their `\n`; the last one may lack it. From [`StreamReader::lines`].
///
/// It ends at the end of the stream, or behind the first error of the connection. A line that is too
/// long is an error, after which the lines go on (B-STR-08). Dropping it between lines loses nothing.
///
/// ```
/// # use loop_net::{Net, run, LoopRef};
/// # use std::{future::poll_fn, io::Write, pin::Pin};
/// use futures_core::Stream;
/// # run(async {
/// # let net = Net::os(&LoopRef::current());
/// # let (ours, mut theirs) = std::os::unix::net::UnixStream::pair()?;
/// # let (mut reader, _writer) = net.adopt(ours)?.open_stream().await?;
/// theirs.write_all(b"one\ntwo\n")?;
/// # drop(theirs);
/// let mut lines = reader.lines();
/// let mut count = 0;
/// // With the `futures` crate: while let Some(line) = lines.next().await
/// while let Some(line) = poll_fn(|cx| Pin::new(&mut lines).poll_next(cx)).await {
///     assert_eq!(line?.len(), 4);
///     count += 1;
/// }
/// assert_eq!(count, 2);
/// # std::io::Result::Ok(())
/// # })??;
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct Lines<'a> {
    reader: &'a mut StreamReader,
    searched: usize,
    ended: bool,
}

impl<'a> Lines<'a> {
    pub(super) fn new(reader: &'a mut StreamReader) -> Self {
        Lines { reader, searched: 0, ended: false }
    }
}

impl Stream for Lines<'_> {
    type Item = Result<Vec<u8>, ReadError>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        if this.ended {
            return Poll::Ready(None);
        }
        let line = ready!(this.reader.poll_line(cx, &mut this.searched));
        this.searched = 0;
        this.ended = matches!(line, Ok(None) | Err(ReadError::Io(_)));
        Poll::Ready(line.transpose())
    }
}

impl fmt::Debug for Lines<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lines").field("reader", &self.reader).finish()
    }
}
