//! From the protocol above to the transport below, and the way out.

use super::conn::TlsConn;
use super::phase::Phase;
use super::session::Session;
use crate::layer::Layer;
use crate::transport::WriteState;

/// How much is encrypted at once, and how much ciphertext the transport below may keep.
const PIECE: usize = 64 * 1024;

impl TlsConn {
    pub(super) fn write_pieces(&self, pieces: &[&[u8]]) -> WriteState {
        if self.is_closing() {
            return WriteState::Closed;
        }
        for piece in pieces {
            self.backlog.borrow_mut().push(piece);
        }
        self.pump();
        self.measure();
        self.settle();
        match (self.phase.get().is_closing(), self.measure()) {
            (true, _) => WriteState::Closed,
            (false, true) => WriteState::Full,
            (false, false) => WriteState::Open,
        }
    }

    /// Encrypts as much as the transport below takes, and goes on when it has drained.
    pub(super) fn pump(&self) {
        if !matches!(self.phase.get(), Phase::Wrapped | Phase::Flushing) {
            return;
        }
        while !self.lower_full.get() && !self.backlog.borrow().is_empty() {
            if self.lower().write_buffer_size() > PIECE {
                // A hook of the transport below runs, or it would have said that it is full.
                self.queue_pump();
                break;
            }
            let done = self.with_session(|session| {
                let mut backlog = self.backlog.borrow_mut();
                let piece = backlog.first(PIECE);
                let count = piece.len();
                let written = session.write(piece);
                backlog.consume(count);
                written
            });
            if !matches!(done, Some(Ok(()))) {
                break;
            }
            self.send_out();
        }
        self.measure();
        if self.backlog.borrow().is_empty() {
            self.flush_waiters.wake();
            if self.phase.get() == Phase::Flushing {
                self.say_goodbye();
            }
        }
    }

    /// Sets the marks of the transport below. It says when it has drained only if it was full, so it must
    /// be whenever what it keeps is more than our low-water mark.
    pub(super) fn mark_lower(&self) {
        let Some(lower) = self.lower.get() else { return };
        let high = PIECE.min(self.low.get().saturating_sub(1));
        let low = high / 4;
        if lower.write_buffer_limits() != (low, high) {
            let set = lower.set_write_buffer_limits(high, Some(low));
            debug_assert!(set.is_ok(), "a quarter is less");
        }
    }

    pub(super) fn queue_pump(&self) {
        if self.pump_queued.replace(true) {
            return;
        }
        let me = self.me.clone();
        self.lp().call_soon(move || {
            if let Some(me) = me.upgrade() {
                me.pump_queued.set(false);
                me.pump();
                me.settle();
            }
        });
    }

    pub(super) fn say_goodbye(&self) {
        self.with_session(Session::send_close_notify);
        self.send_out();
        if self.peer_gone.get() {
            return self.unwrap();
        }
        self.enter(Phase::Shutdown);
        // The peer's answer is read, whether the user wants to read or not.
        if self.lower_paused.replace(false) {
            self.lower().resume_reading();
        }
    }

    /// Both sides have said goodbye.
    pub(super) fn unwrap(&self) {
        self.enter(Phase::Unwrapped);
        self.lower().close();
    }

    pub(super) fn close(&self) {
        match self.phase.get() {
            Phase::New | Phase::Handshake => self.abort(),
            Phase::Wrapped => {
                self.enter(Phase::Flushing);
                self.limit(self.tls.shutdown);
                drop(self.plain.take());
                self.pump();
            }
            _ => {}
        }
    }

    pub(super) fn abort(&self) {
        if self.phase.get() != Phase::Unwrapped {
            self.enter(Phase::Unwrapped);
        }
        self.backlog.borrow_mut().clear();
        drop(self.plain.take());
        if let Some(lower) = self.lower.get() {
            lower.abort();
        }
    }

    pub(super) fn buffered(&self) -> usize {
        let Some(lower) = self.lower.get() else { return 0 };
        if lower.is_closing() && self.phase.get() != Phase::Unwrapped {
            // It was lost: nothing will be sent any more (B-TLS-20).
            return 0;
        }
        self.backlog.borrow().len() + lower.write_buffer_size()
    }

    /// At the mark is above it here (B-TLS-09).
    pub(super) fn measure(&self) -> bool {
        let size = self.buffered();
        if size >= self.high.get() && size > 0 {
            self.full.set(true);
        } else if size <= self.low.get() {
            self.full.set(false);
        }
        self.full.get()
    }
}
