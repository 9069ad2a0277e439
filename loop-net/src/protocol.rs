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
pub trait Protocol {
    /// The connection is there. Keep a clone of the transport to write to it.
    fn connection_made(&mut self, transport: &Transport) {
        let _ = transport;
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

/// A protocol in a connection's slot, from which its own type can be had back.
pub(crate) trait AnyProtocol: Protocol {
    fn as_any(&mut self) -> &mut dyn Any;
}

impl<P: Protocol + 'static> AnyProtocol for P {
    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}
