//! From the user to the socket.

use std::io::{self, IoSlice};
use std::ptr;

use super::engine::{Conn, is_transient};
use super::state::State;
use crate::socket::MAX_PIECES;
use crate::transport::WriteState;

/// A gather buffer that grew beyond this is given back to the allocator.
const KEEP_GATHER: usize = 256 * 1024;

/// What became of bytes that were to be sent.
enum Sent {
    /// There is nothing more to do: they are gone, or in the queue behind others.
    All,
    /// The buffer was empty and is not any more.
    Buffering,
    Failed(io::Error),
}

/// What is written to a connection meanwhile leaves in one call at the end.
struct Gathering<'a>(&'a Conn);

impl<'a> Gathering<'a> {
    /// `None` while something is gathered already.
    fn enter(conn: &'a Conn) -> Option<Self> {
        if !conn.shared.gatherer.get().is_null() {
            return None;
        }
        conn.shared.gatherer.set(conn);
        Some(Gathering(conn))
    }
}

impl Drop for Gathering<'_> {
    fn drop(&mut self) {
        self.0.send_gathered();
        self.0.shared.gatherer.set(ptr::null());
    }
}

impl Conn {
    pub(crate) fn buffered(&self) -> usize {
        let gathered = if self.gathers() { self.shared.gather.borrow().len() } else { 0 };
        self.buf.borrow().len() + gathered
    }

    pub(super) fn gathers(&self) -> bool {
        ptr::eq(self.shared.gatherer.get(), self)
    }

    #[inline]
    pub(crate) fn write(&self, data: &[u8]) -> WriteState {
        if self.gathers()
            && self.state.get().takes_writes(|| false)
            && self.gather_within_marks(data)
        {
            return WriteState::Open;
        }
        self.write_pieces(&[data])
    }

    /// The common case: the running hook writes, and the marks are not concerned.
    #[inline]
    fn gather_within_marks(&self, data: &[u8]) -> bool {
        let mut gather = self.shared.gather.borrow_mut();
        let size = gather.len() + data.len() + self.buf.borrow().len();
        let within = size <= self.high.get() && !self.full.get();
        if within {
            gather.extend_from_slice(data);
        }
        within
    }

    pub(crate) fn write_pieces(&self, pieces: &[impl AsRef<[u8]>]) -> WriteState {
        if !self.takes_writes() {
            return self.info.refuse();
        }
        // Several pieces leave in one call also where no hook gathers them.
        let gathering = if pieces.len() > 1 { Gathering::enter(self) } else { None };
        for piece in pieces {
            // `as_ref` is user code, so no borrow is held here.
            self.append(piece.as_ref());
        }
        drop(gathering);
        self.after_write()
    }

    fn takes_writes(&self) -> bool {
        self.state.get().takes_writes(|| self.buffered() > 0)
    }

    /// Inside a hook bytes are gathered, else they are sent at once, behind what is buffered.
    fn append(&self, data: &[u8]) {
        // An earlier piece of the same write may have failed.
        if data.is_empty() || self.state.get().is_lost() {
            return;
        }
        if !self.gathers() {
            return self.send(data);
        }
        self.shared.gather.borrow_mut().extend_from_slice(data);
        if self.buffered() > self.high.get() {
            // More than the high-water mark before the hook has returned.
            self.send_gathered();
        }
    }

    fn after_write(&self) -> WriteState {
        self.measure();
        if self.is_unsettled() {
            self.settle();
        }
        match (self.state.get().is_lost(), self.full.get()) {
            (true, _) => WriteState::Closed,
            (false, true) => WriteState::Full,
            (false, false) => WriteState::Open,
        }
    }

    /// Sends what the running hook has written so far.
    #[inline(always)]
    pub(super) fn send_gathered(&self) {
        let sent = {
            let mut gathered = self.shared.gather.borrow_mut();
            if gathered.is_empty() {
                return;
            }
            let sent = self.try_send(&gathered);
            gathered.clear();
            gathered.shrink_to(KEEP_GATHER);
            sent
        };
        if !matches!(sent, Sent::All) || self.full.get() || self.state.get().awaits_flush() {
            self.after_gathered(sent);
        }
    }

    #[inline(never)]
    fn after_gathered(&self, sent: Sent) {
        self.after_send(sent);
        self.measure();
        if self.state.get().awaits_flush() && self.buf.borrow().is_empty() {
            self.advance(State::flushed);
        }
    }

    fn send(&self, data: &[u8]) {
        let sent = self.try_send(data);
        self.after_send(sent);
    }

    /// Sends what the socket takes now and buffers the rest; behind buffered bytes it only buffers
    /// (B-TRN-07, B-TRN-08).
    #[inline(always)]
    fn try_send(&self, data: &[u8]) -> Sent {
        let mut buf = self.buf.borrow_mut();
        if !buf.is_empty() {
            buf.push(data);
            return Sent::All;
        }
        let rest = match self.socket.send(data) {
            Ok(count) if count == data.len() => return Sent::All,
            Ok(count) => &data[count..],
            Err(error) if is_transient(&error) => data,
            Err(error) => return Sent::Failed(error),
        };
        buf.push(rest);
        Sent::Buffering
    }

    fn after_send(&self, sent: Sent) {
        match sent {
            Sent::All => {}
            Sent::Buffering => self.arm(),
            Sent::Failed(error) => self.fail("write to", error),
        }
    }

    /// Compares what is buffered with the marks.
    pub(super) fn measure(&self) {
        let size = self.buffered();
        if size > self.high.get() {
            self.full.set(true);
        } else if size <= self.low.get() {
            self.full.set(false);
        }
    }

    /// One vectored send a readiness.
    #[inline(never)]
    pub(super) fn write_ready(&self) {
        let sent = {
            let buf = self.buf.borrow();
            let mut slices = [IoSlice::new(&[]); MAX_PIECES];
            let count = buf.slices(&mut slices);
            self.socket.send_vectored(&slices[..count])
        };
        match sent {
            Ok(count) => self.buf.borrow_mut().consume(count),
            Err(error) if is_transient(&error) => return,
            Err(error) => return self.fail("write to", error),
        }
        self.measure();
        self.settle();
        if self.buf.borrow().is_empty() {
            self.advance(State::flushed);
            if !self.state.get().is_lost() {
                self.arm();
            }
        }
    }

    pub(crate) fn write_eof(&self) {
        let buffered = self.buffered() > 0;
        self.advance(|state| state.write_eof(buffered));
    }

    pub(crate) fn limits(&self) -> (usize, usize) {
        (self.low.get(), self.high.get())
    }

    pub(crate) fn set_limits(&self, low: usize, high: usize) {
        self.low.set(low);
        self.high.set(high);
        self.measure();
        self.settle();
    }
}
