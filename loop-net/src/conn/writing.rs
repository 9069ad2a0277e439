//! From the user to the socket.

use std::io::{self, IoSlice};

use super::engine::{Conn, Marks, is_transient};
use super::state::State;
use crate::socket::MAX_PIECES;
use crate::transport::WriteState;

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
        let gather = &conn.shared().gather;
        let begun = gather.begin(&conn.info);
        gather.disturb(&conn.info);
        // Lazily: one that is made only to be dropped would end what somebody else gathers.
        begun.then(|| Gathering(conn))
    }
}

impl Drop for Gathering<'_> {
    fn drop(&mut self) {
        self.0.end_disturbed();
    }
}

impl Conn {
    pub(crate) fn buffered(&self) -> usize {
        self.buf.borrow().len() + self.shared().gather.len_for(&self.info)
    }

    pub(super) fn gathers(&self) -> bool {
        self.shared().gather.belongs_to(&self.info)
    }

    #[inline]
    pub(crate) fn write(&self, data: &[u8]) -> WriteState {
        // The common case outside a hook: nothing is buffered, and the socket takes it all.
        if self.state().is_quiet() && !self.gathers() && !data.is_empty() {
            return match self.socket.send_all(data) {
                Ok(()) => WriteState::Open,
                Err(result) => self.sent_less(data, result),
            };
        }
        self.write_pieces(&[data])
    }

    /// The socket did not take all of a write.
    #[cold]
    fn sent_less(&self, data: &[u8], result: io::Result<usize>) -> WriteState {
        let sent = self.keep_rest(data, result);
        self.after_send(sent);
        self.after_write()
    }

    #[inline(never)]
    pub(crate) fn write_pieces(&self, pieces: &[impl AsRef<[u8]>]) -> WriteState {
        if !self.takes_writes() {
            return self.info.refuse();
        }
        self.shared().gather.disturb(&self.info);
        // Several pieces leave in one call also where no hook gathers them.
        let gathering = if pieces.len() > 1 { Gathering::enter(self) } else { None };
        for piece in pieces {
            // `as_ref` is user code, so no borrow is held here.
            self.append(piece.as_ref());
        }
        drop(gathering);
        self.after_write()
    }

    pub(super) fn takes_writes(&self) -> bool {
        self.state().takes_writes(|| self.buffered() > 0)
    }

    /// Inside a hook bytes are gathered, else they are sent at once, behind what is buffered.
    fn append(&self, data: &[u8]) {
        // An earlier piece of the same write may have failed.
        if data.is_empty() || self.state().is_lost() {
            return;
        }
        // More than is to be gathered, with nothing before it, need not be copied first.
        let large = || data.len() > self.marks().high && self.shared().gather.bytes().is_empty();
        if !self.gathers() || large() {
            return self.send(data);
        }
        self.shared().gather.push(data);
        if self.buffered() > self.marks().high {
            // More than the high-water mark before the hook has returned.
            self.send_gathered();
        }
    }

    fn after_write(&self) -> WriteState {
        self.measure();
        if self.is_unsettled() {
            self.settle();
        }
        match (self.state().is_lost(), self.state().is_full()) {
            (true, _) => WriteState::Closed,
            (false, true) => WriteState::Full,
            (false, false) => WriteState::Open,
        }
    }

    /// Sends what the hook has written that has just returned. Whether that was all that was to be done.
    #[inline(always)]
    pub(super) fn end_gathering(&self) -> bool {
        let gather = &self.shared().gather;
        if !gather.is_quiet() {
            return self.end_disturbed();
        }
        let mut bytes = gather.bytes();
        if !bytes.is_empty() {
            if let Err(result) = self.socket.send_all(&bytes) {
                drop(bytes);
                return self.gathered_too_much(result);
            }
            bytes.clear();
        }
        drop(bytes);
        gather.end();
        true
    }

    /// The hook has done more than to write a little.
    #[inline(never)]
    fn end_disturbed(&self) -> bool {
        self.send_gathered();
        self.shared().gather.end();
        false
    }

    /// The socket did not take all of what the hook has written.
    #[inline(never)]
    fn gathered_too_much(&self, result: io::Result<usize>) -> bool {
        let gather = &self.shared().gather;
        let sent = self.keep_rest(&gather.bytes(), result);
        self.after_gathered(sent);
        gather.end();
        false
    }

    /// Sends what is gathered.
    fn send_gathered(&self) {
        let sent = {
            let bytes = self.shared().gather.bytes();
            if bytes.is_empty() {
                return;
            }
            self.try_send(&bytes)
        };
        self.after_gathered(sent);
    }

    fn after_gathered(&self, sent: Sent) {
        self.shared().gather.clear();
        self.after_send(sent);
        self.measure();
        if self.state().awaits_flush() && !self.state().has_buffered() {
            self.advance(State::flushed);
        }
    }

    fn send(&self, data: &[u8]) {
        let sent = self.try_send(data);
        self.after_send(sent);
    }

    /// Sends what the socket takes now and buffers the rest; behind buffered bytes it only buffers
    /// (B-TRN-07, B-TRN-08).
    fn try_send(&self, data: &[u8]) -> Sent {
        if self.state().has_buffered() {
            self.buf.borrow_mut().push(data);
            return Sent::All;
        }
        self.keep_rest(data, self.socket.send(data))
    }

    /// Buffers what a send has left.
    fn keep_rest(&self, data: &[u8], result: io::Result<usize>) -> Sent {
        let rest = match result {
            Ok(count) if count == data.len() => return Sent::All,
            Ok(count) => &data[count..],
            Err(error) if is_transient(&error) => data,
            Err(error) => return Sent::Failed(error),
        };
        self.buf.borrow_mut().push(rest);
        self.note(|state| state.set_buffered(true));
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
        let (size, marks) = (self.buffered(), self.marks());
        if size > marks.high {
            self.note(|state| state.set_full(true));
        } else if size <= marks.low {
            self.note(|state| state.set_full(false));
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
            Ok(count) => self.consume(count),
            Err(error) if is_transient(&error) => return,
            Err(error) => return self.fail("write to", error),
        }
        self.measure();
        self.settle();
        if !self.state().has_buffered() {
            self.advance(State::flushed);
            if !self.state().is_lost() {
                self.arm();
            }
        }
    }

    fn consume(&self, count: usize) {
        let mut buf = self.buf.borrow_mut();
        buf.consume(count);
        let buffered = !buf.is_empty();
        self.note(|state| state.set_buffered(buffered));
    }

    /// A pipe has no other side to keep open: it is closed (B-PIPE-05).
    pub(crate) fn write_eof(&self) {
        if self.socket.kind().only_writes() {
            return self.close();
        }
        let buffered = self.buffered() > 0;
        self.advance(|state| state.write_eof(buffered));
    }

    pub(crate) fn limits(&self) -> (usize, usize) {
        let Marks { low, high } = self.marks();
        (low, high)
    }

    pub(crate) fn set_limits(&self, low: usize, high: usize) {
        self.shared().gather.disturb(&self.info);
        // No buffer grows beyond this; one more must still be a number.
        self.set_marks(Marks { low, high: high.min(isize::MAX as usize) });
        self.measure();
        self.settle();
    }
}
