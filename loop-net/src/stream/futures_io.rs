//! The halves of a stream as those of `futures_io` (B-STR-24).

use std::io::{self, IoSlice};
use std::ops::Deref;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_io::{AsyncBufRead, AsyncRead, AsyncWrite};

use super::reader::StreamReader;
use super::writer::StreamWriter;

/// Pieces of so many bytes together are copied to one place on the stack.
const JOINED: usize = 512;

impl AsyncRead for StreamReader {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        self.get_mut().poll_read_into(cx, into)
    }
}

impl AsyncBufRead for StreamReader {
    fn poll_fill_buf(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<&[u8]>> {
        self.get_mut().poll_show(cx)
    }

    fn consume(self: Pin<&mut Self>, count: usize) {
        self.get_mut().consume(count);
    }
}

/// A write waits only while more is buffered than the high-water mark, and then takes everything. A
/// flush waits until all of it is the system's, and closing ends our side after that: what the peer
/// sends can still be read. Over TLS, which has no half-closed connections, it ends the connection.
impl AsyncWrite for StreamWriter {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_write_with(cx, |transport| transport.write_first(data)))?;
        Poll::Ready(Ok(data.len()))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let total = pieces.iter().map(|piece| piece.len()).sum();
        // A few short ones, such as the head and the body of an answer, are one.
        let mut joined = [0; JOINED];
        if let Some(joined) = joined.get_mut(..total) {
            let mut rest = &mut *joined;
            for piece in pieces {
                let (here, after) = rest.split_at_mut(piece.len());
                here.copy_from_slice(piece);
                rest = after;
            }
            return self.poll_write(cx, joined);
        }
        let pieces: Vec<&[u8]> = pieces.iter().map(|piece| piece.deref()).collect();
        ready!(self.poll_write_with(cx, |transport| transport.write_all_vectored(&pieces)))?;
        Poll::Ready(Ok(total))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_flush_all(cx)
    }

    fn poll_close(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.transport().can_write_eof() {
            self.write_eof();
        } else {
            self.close();
        }
        self.poll_flush_all(cx)
    }
}
