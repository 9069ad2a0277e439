//! The TLS connection as the transport that the protocol above writes to.

use std::task::{Context, Poll};

use loop_core::ExceptionContext;

use super::conn::TlsConn;
use super::phase::Phase;
use crate::layer::Layer;
use crate::protocol::AnyProtocol;
use crate::protocol_ref::ProtocolBusy;
use crate::transport::{Transport, WriteState};

impl Layer for TlsConn {
    fn write(&self, pieces: &[&[u8]]) -> WriteState {
        if self.lent.get() { WriteState::Closed } else { self.write_pieces(pieces) }
    }

    fn write_lent(&self, data: &[u8]) -> WriteState {
        self.write_pieces(&[data])
    }

    /// TLS connections are not half-closed here (B-TLS-13).
    fn write_eof(&self) {
        let context = ExceptionContext::warning("a TLS connection has no write_eof: close it")
            .with_subject(self.lower().describe());
        self.lower().loop_ref().report(&context);
    }

    fn close(&self) {
        TlsConn::close(self);
    }

    fn abort(&self) {
        TlsConn::abort(self);
    }

    /// The loss of the transport below counts at once (B-TLS-20).
    fn is_closing(&self) -> bool {
        self.phase.get().is_closing() || self.lower.get().is_some_and(Transport::is_closing)
    }

    fn is_reading(&self) -> bool {
        self.phase.get() <= Phase::Wrapped && !self.paused.get() && !self.lent.get()
    }

    fn pause_reading(&self, paused: bool) {
        TlsConn::pause_reading(self, paused);
    }

    fn is_lent(&self) -> bool {
        self.lent.get()
    }

    fn set_lent(&self, lent: bool) {
        TlsConn::set_lent(self, lent);
    }

    fn buffered(&self) -> usize {
        TlsConn::buffered(self)
    }

    fn limits(&self) -> (usize, usize) {
        (self.low.get(), self.high.get())
    }

    fn set_limits(&self, low: usize, high: usize) {
        self.low.set(low);
        self.high.set(high);
        self.mark_lower();
        self.measure();
        self.settle();
    }

    fn poll_flushed(&self, cx: &Context<'_>) -> Poll<()> {
        if self.backlog.borrow().is_empty() || self.phase.get() == Phase::Unwrapped {
            return self.lower().poll_flushed(cx);
        }
        self.flush_waiters.wait(cx);
        Poll::Pending
    }

    fn set_protocol(&self, protocol: Box<dyn AnyProtocol>) {
        let old = self.protocol.replace(Some(protocol));
        self.forget_told();
        drop(old);
        self.settle();
    }

    fn take_protocol(&self) -> Option<Box<dyn AnyProtocol>> {
        self.protocol.take()
    }

    fn with_protocol(&self, f: &mut dyn FnMut(&mut dyn AnyProtocol)) -> Result<(), ProtocolBusy> {
        let result = self.call(f).ok_or(ProtocolBusy::Running)?;
        self.settle();
        match result {
            Ok(()) => Ok(()),
            Err(panic) => std::panic::resume_unwind(Box::new(panic)),
        }
    }

    fn lower(&self) -> Transport {
        TlsConn::lower(self).clone()
    }
}
