//! From the user to the socket.

use std::io::{self, IoSlice};
use std::rc::Rc;

use super::engine::{Conn, Marks, is_transient};
use super::gather::Gather;
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

/// Why what is gathered could not just be sent.
enum Left {
    /// More was done than to write a little.
    Disturbed,
    /// The socket did not take all.
    Sent(io::Result<usize>),
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
        self.0.end_otherwise(Left::Disturbed);
    }
}

impl Conn {
    pub(crate) fn buffered(&self) -> usize {
        self.buf.borrow().len() + self.shared().gather.len_for(&self.info)
    }

    pub(super) fn gathers(&self) -> bool {
        self.shared().gather.belongs_to(&self.info)
    }

    #[inline(never)]
    pub(crate) fn write_pieces(&self, pieces: &[impl AsRef<[u8]>]) -> WriteState {
        if !self.takes_writes() {
            return self.info.refuse();
        }
        let gather = &self.shared().gather;
        gather.disturb(&self.info);
        // Several pieces leave in one call also where nothing may wait.
        let alone = pieces.len() > 1 && !self.gathers() && !gather.may_wait(&self.info.shared);
        let gathering = if alone { Gathering::enter(self) } else { None };
        for piece in pieces {
            // `as_ref` is user code, so no borrow is held here.
            self.append(piece.as_ref());
        }
        drop(gathering);
        // Behind all pieces, for this calls hooks, which may write.
        if self.info.put_off.get() && self.buffered() > self.marks().high {
            self.send_put_off();
        }
        self.after_write()
    }

    pub(super) fn takes_writes(&self) -> bool {
        self.state().takes_writes(|| self.buffered() > 0)
    }

    /// Behind what is buffered. Bytes that may wait are gathered, or else join the connection's own buffer; what is
    /// more than the high-water mark is sent.
    fn append(&self, data: &[u8]) {
        // An earlier piece of the same write may have failed.
        if data.is_empty() || self.state().is_lost() {
            return;
        }
        let (gather, high) = (&self.shared().gather, self.marks().high);
        let buffering = self.state().has_buffered();
        // More than is gathered at once need not be copied first.
        if data.len() > high && self.buffered() == 0 {
            self.send(data);
        } else if data.len() > high && self.gathers() && !buffering {
            self.send_behind_gathered(data);
        } else if self.gathers() || !buffering && gather.begin_loosely(&self.info) {
            gather.push(data);
            if self.buffered() > high {
                self.send_gathered();
            }
        } else if buffering || gather.put_off(&self.info) {
            self.put_off(data, !buffering);
        } else {
            self.send(data);
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

    /// Into a buffer of its own, which waits for the end of the iteration if these are the first bytes there.
    pub(super) fn put_off(&self, data: &[u8], first: bool) {
        if !first {
            self.buf.borrow_mut().push(data);
        } else {
            self.buf.borrow_mut().push_into(self.shared().gather.spare(), data);
            self.info.put_off.set(true);
            self.note(|state| state.set_buffered(true));
        }
    }

    /// Sends what waits for the end of the iteration.
    pub(crate) fn send_now(&self) {
        match self.shared().gather.take_loose(&self.info) {
            Some(conn) => _ = conn.send_loose(&self.shared().gather),
            None => self.send_put_off(),
        }
    }

    /// The same, gathered for this connection, which has just been [taken](super::gather::Gather::take_loose).
    /// Whether that was all that was to be done.
    #[inline]
    pub(super) fn send_loose(self: Rc<Self>, gather: &Gather) -> bool {
        match self.end_quietly(gather, false) {
            Ok(()) => true,
            Err(left) => self.send_loose_otherwise(left),
        }
    }

    #[inline(never)]
    fn send_loose_otherwise(self: Rc<Self>, left: Left) -> bool {
        self.end_otherwise(left);
        self.settle();
        false
    }

    /// The same, in its own buffer.
    pub(super) fn send_put_off(&self) {
        if !self.info.put_off.take() || !self.state().has_buffered() {
            return;
        }
        self.write_ready();
        if self.state().has_buffered() {
            self.arm();
        }
    }

    /// Sends what is gathered for this connection: its hook has just returned, say. Whether that was all that was to
    /// be done.
    #[inline(always)]
    pub(super) fn end_gathering(&self, gather: &Gather) -> bool {
        match self.end_quietly(gather, true) {
            Ok(()) => true,
            Err(left) => self.end_otherwise(left),
        }
    }

    /// The same, if no more was done than to write a little, and the socket takes it.
    #[inline(always)]
    fn end_quietly(&self, gather: &Gather, may_be_empty: bool) -> Result<(), Left> {
        if !gather.is_quiet() {
            return Err(Left::Disturbed);
        }
        let mut bytes = gather.bytes();
        if !may_be_empty || !bytes.is_empty() {
            self.socket.send_all(&bytes).map_err(Left::Sent)?;
            bytes.clear();
        }
        drop(bytes);
        gather.end();
        Ok(())
    }

    #[inline(never)]
    fn end_otherwise(&self, left: Left) -> bool {
        let gather = &self.shared().gather;
        match left {
            Left::Disturbed => self.send_gathered(),
            Left::Sent(result) => {
                let sent = self.keep_rest(&gather.bytes(), result);
                self.after_gathered(sent);
            }
        }
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

    /// Sends what is gathered and `data`, in one call.
    fn send_behind_gathered(&self, data: &[u8]) {
        let sent = {
            let bytes = self.shared().gather.bytes();
            match self.socket.send_vectored(&[IoSlice::new(&bytes), IoSlice::new(data)]) {
                Ok(count) if count >= bytes.len() => self.keep_rest(data, Ok(count - bytes.len())),
                result => {
                    let sent = self.keep_rest(&bytes, result);
                    if !matches!(sent, Sent::Failed(_)) {
                        self.buf.borrow_mut().push(data);
                    }
                    sent
                }
            }
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
        self.shared().gather.keep(buf.consume(count));
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
