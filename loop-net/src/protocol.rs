//! `Protocol`: what a program does with a connection's bytes.

use std::any::Any;

use crate::error::NetError;
use crate::transport::Transport;

/// What to do after the peer ended its side; the answer of
/// [`eof_received`](Protocol::eof_received).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeepOpen {
    /// Flush what is written and close: the default.
    No,
    /// Keep our side open for writing: a half-closed connection.
    Yes,
}

/// The hooks of a stream connection; asyncio's `Protocol`.
///
/// Per connection the calls follow one grammar: `connection_made` once; then any number of
/// `data_received`, `eof_received` once at most, `pause_writing` and `resume_writing` in turns; then
/// `connection_lost` once, and nothing after it (B-TRN-02).
///
/// A hook may call anything, its own transport and loop included. It is never called while another
/// hook of the same connection runs: what falls due meanwhile follows when that one returns
/// (B-TRN-14). A panic is reported; one in `data_received` or `eof_received` also aborts the
/// connection (B-TRN-29).
///
/// ```
/// use loop_net::{Protocol, Transport};
///
/// #[derive(Default)]
/// struct Echo {
///     transport: Option<Transport>,
/// }
///
/// impl Protocol for Echo {
///     fn connection_made(&mut self, transport: &Transport) {
///         self.transport = Some(transport.clone());
///     }
///
///     fn data_received(&mut self, data: &[u8]) {
///         if let Some(transport) = &self.transport {
///             transport.write(data);
///         }
///     }
/// }
/// ```
///
/// Hooks find their loop as the current one. Here it ends whoever has been silent for a minute:
///
/// ```
/// use loop_net::{LoopRef, NetError, Protocol, TimerHandle, Transport};
/// use std::time::Duration;
///
/// const IDLE: Duration = Duration::from_secs(60);
///
/// #[derive(Default)]
/// struct Impatient {
///     idle: Option<TimerHandle>,
/// }
///
/// impl Protocol for Impatient {
///     fn connection_made(&mut self, transport: &Transport) {
///         let transport = transport.clone();
///         self.idle = Some(LoopRef::current().call_later(IDLE, move || transport.close()));
///     }
///
///     fn data_received(&mut self, _: &[u8]) {
///         if let Some(idle) = &mut self.idle {
///             idle.reschedule(LoopRef::current().now() + IDLE);
///         }
///     }
///
///     fn connection_lost(&mut self, _: Option<&NetError>) {
///         if let Some(idle) = &self.idle {
///             idle.cancel();
///         }
///     }
/// }
/// ```
pub trait Protocol {
    /// The connection is there. Keep a clone of the transport to write to it.
    fn connection_made(&mut self, transport: &Transport) {
        let _ = transport;
    }

    /// Where to receive into the protocol's own memory: see [`Buffered`], which answers for you.
    #[doc(hidden)]
    fn buffered(&mut self) -> Option<&mut dyn BufferedProtocol> {
        None
    }

    /// Bytes came in: at least one, in the loop's buffer, which the next connection uses again.
    fn data_received(&mut self, data: &[u8]);

    /// The peer will send no more.
    fn eof_received(&mut self) -> KeepOpen {
        KeepOpen::No
    }

    /// More is buffered than the high-water mark: stop writing if you can (B-TRN-14).
    fn pause_writing(&mut self) {}

    /// The buffer has drained to the low-water mark.
    fn resume_writing(&mut self) {}

    /// The connection is over: `None` after a close, an abort or the peer's end of file, else what
    /// failed (B-TRN-04). The socket is closed after this returns.
    fn connection_lost(&mut self, error: Option<&NetError>) {
        let _ = error;
    }
}

/// The hooks of a stream connection that is received into memory of the protocol's own: asyncio's
/// `BufferedProtocol`. Given to a connection in a [`Buffered`].
///
/// ```
/// use loop_net::{Buffered, BufferedProtocol, EventLoop, Net};
///
/// /// Collects frames of 4 bytes without a copy.
/// #[derive(Default)]
/// struct Frames {
///     frame: [u8; 4],
///     filled: usize,
///     frames: Vec<[u8; 4]>,
/// }
///
/// impl BufferedProtocol for Frames {
///     fn buffer(&mut self, _: Option<usize>) -> &mut [u8] {
///         &mut self.frame[self.filled..]
///     }
///     fn buffer_updated(&mut self, count: usize) {
///         self.filled += count;
///         if self.filled == 4 {
///             self.filled = 0;
///             self.frames.push(self.frame);
///         }
///     }
/// }
/// # let mut event_loop = EventLoop::new()?;
/// # let net = Net::os(&event_loop);
/// let server = net.tcp_server("127.0.0.1:0").bind(|| Buffered(Frames::default()));
/// # event_loop.run_until_complete(server)??;
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// The grammar is that of [`Protocol`], with `buffer` and `buffer_updated` in turns in the place of
/// `data_received`; a panic in either is reported and aborts the connection.
pub trait BufferedProtocol {
    /// The connection is there.
    fn connection_made(&mut self, transport: &Transport) {
        let _ = transport;
    }

    /// Where the next bytes go: at least one byte long, or the connection fails. `hint` is how many are
    /// known to be there, if that is known.
    fn buffer(&mut self, hint: Option<usize>) -> &mut [u8];

    /// The first `count` bytes of the buffer, at least one, were received.
    fn buffer_updated(&mut self, count: usize);

    /// As [`Protocol::eof_received`].
    fn eof_received(&mut self) -> KeepOpen {
        KeepOpen::No
    }

    /// As [`Protocol::pause_writing`].
    fn pause_writing(&mut self) {}

    /// As [`Protocol::resume_writing`].
    fn resume_writing(&mut self) {}

    /// As [`Protocol::connection_lost`].
    fn connection_lost(&mut self, error: Option<&NetError>) {
        let _ = error;
    }
}

/// A [`BufferedProtocol`] as a [`Protocol`]. Connections of the system receive into its buffer without a
/// copy; whatever else calls `data_received` has the bytes copied there.
#[derive(Debug, Clone, Copy, Default)]
pub struct Buffered<P>(pub P);

impl<P: BufferedProtocol> Protocol for Buffered<P> {
    fn connection_made(&mut self, transport: &Transport) {
        self.0.connection_made(transport);
    }

    fn buffered(&mut self) -> Option<&mut dyn BufferedProtocol> {
        Some(&mut self.0)
    }

    fn data_received(&mut self, mut data: &[u8]) {
        while !data.is_empty() {
            let buffer = self.0.buffer(Some(data.len()));
            let count = buffer.len().min(data.len());
            assert!(count > 0, "the protocol gave an empty buffer to receive into");
            buffer[..count].copy_from_slice(&data[..count]);
            self.0.buffer_updated(count);
            data = &data[count..];
        }
    }

    fn eof_received(&mut self) -> KeepOpen {
        self.0.eof_received()
    }

    fn pause_writing(&mut self) {
        self.0.pause_writing();
    }

    fn resume_writing(&mut self) {
        self.0.resume_writing();
    }

    fn connection_lost(&mut self, error: Option<&NetError>) {
        self.0.connection_lost(error);
    }
}

/// A protocol in a connection's slot, from which its own type can be had back.
pub(crate) trait AnyProtocol: Protocol {
    fn as_any(&mut self) -> &mut dyn Any;
}

impl<P: Protocol + 'static> AnyProtocol for P {
    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}
