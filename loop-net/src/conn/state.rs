//! What a connection is in, as pure transitions.
//!
//! ```text
//!            close, bytes buffered            flushed
//!     Open ------------------------> Draining -------.
//!       |  close, nothing buffered                   |
//!       |  abort, error                abort, error  v
//!       '------------------------------------------> Lost
//! ```
//!
//! A transition returns what is to be done as a small set; the engine does it once no borrow is held.
//! Only the transitions into `Lost` ask for `connection_lost`, so it comes exactly once.

use loop_core::Interest;

use crate::socket::Kind;

/// Things to do after a transition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Actions(u8);

impl Actions {
    pub(crate) const NONE: Actions = Actions(0);
    /// Tell the loop of a changed interest.
    pub(crate) const ARM: Actions = Actions(1);
    /// Shut down the write side.
    pub(crate) const SHUTDOWN: Actions = Actions(2);
    /// Forget the buffer, leave the selector, queue `connection_lost`.
    pub(crate) const LOSE: Actions = Actions(4);
    /// Wake whoever waits for the buffer to be empty.
    pub(crate) const FLUSHED: Actions = Actions(8);

    pub(crate) fn has(self, other: Actions) -> bool {
        self.0 & other.0 != 0
    }
}

/// The state, as bits:
///
/// | bit | meaning |
/// |---|---|
/// | `MADE` | `connection_made` has returned; nothing is read before |
/// | `PAUSED` | the user paused reading |
/// | `EOF_SEEN` | the peer's end of file was seen, and the connection kept open |
/// | `EOF_QUEUED` | the user ended our side; it is shut down once the buffer is flushed |
/// | `EOF_SENT` | it is shut down |
/// | `CLOSING` | not `Open`: closed by the user, or lost |
/// | `LOST` | `Lost`; always with `CLOSING` |
/// | `FULL` | more is buffered than the marks allow |
/// | `TOLD_FULL` | the protocol was told to pause writing, and not yet to resume |
/// | `BUFFERED` | bytes wait for the socket |
/// | `OWN_BUFFER` | the protocol receives into its own buffer |
/// | `FLUSH_AWAITED` | somebody waits for the buffer to be empty |
/// | `LENT` | the socket is lent to a file that is being sent: no reads, no writes |
/// | `LENT_WAITS` | its borrower waits to write |
/// | `ONE_WAY` | what is only written to |
/// | `FED` | a stream is given what comes in, and not its protocol |
#[derive(Debug, Clone, Copy)]
pub(crate) struct State(u16);

const MADE: u16 = 1 << 0;
const PAUSED: u16 = 1 << 1;
const EOF_SEEN: u16 = 1 << 2;
const EOF_QUEUED: u16 = 1 << 3;
const EOF_SENT: u16 = 1 << 4;
const CLOSING: u16 = 1 << 5;
const LOST: u16 = 1 << 6;
const FULL: u16 = 1 << 7;
const TOLD_FULL: u16 = 1 << 8;
const BUFFERED: u16 = 1 << 9;
const OWN_BUFFER: u16 = 1 << 10;
const FLUSH_AWAITED: u16 = 1 << 11;
const LENT: u16 = 1 << 12;
const LENT_WAITS: u16 = 1 << 13;
const ONE_WAY: u16 = 1 << 14;
const FED: u16 = 1 << 15;

impl State {
    pub(crate) const fn new() -> Self {
        State(0)
    }

    /// The state at the start. What only reads has ended its writing side, and what only writes but may
    /// be readable is never read from.
    pub(crate) fn of(kind: Kind) -> Self {
        match kind {
            Kind::Socket => State::new(),
            Kind::ReadPipe => State(EOF_QUEUED | EOF_SENT),
            Kind::WritePipe => State(ONE_WAY),
            Kind::UnwatchedPipe => State(ONE_WAY | PAUSED),
        }
    }

    pub(crate) fn await_flush(&mut self) {
        self.0 |= FLUSH_AWAITED;
    }

    pub(crate) fn is_lent(self) -> bool {
        self.has(LENT)
    }

    pub(crate) fn set_lent(&mut self, lent: bool) -> Actions {
        self.set(LENT, lent);
        let actions = self.lent_waits(false);
        // The user may have ended our side meanwhile.
        if lent || self.has(BUFFERED) { actions } else { Actions(actions.0 | self.flushed().0) }
    }

    pub(crate) fn lent_is_waiting(self) -> bool {
        self.has(LENT_WAITS)
    }

    pub(crate) fn lent_waits(&mut self, waits: bool) -> Actions {
        self.set(LENT_WAITS, waits);
        if self.is_lost() || !self.has(MADE) { Actions::NONE } else { Actions::ARM }
    }

    /// Whether the protocol receives into its own buffer.
    pub(crate) fn has_own_buffer(self) -> bool {
        self.has(OWN_BUFFER)
    }

    /// Whether what is ready is read into the loop's buffer, for the protocol.
    pub(crate) fn reads_plainly(self) -> bool {
        !self.has(OWN_BUFFER | ONE_WAY | FED)
    }

    /// The same, for a stream.
    pub(crate) fn is_fed(self) -> bool {
        self.has(FED)
    }

    pub(crate) fn set_fed(&mut self, fed: bool) {
        self.set(FED, fed);
    }

    pub(crate) fn set_own_buffer(&mut self, own: bool) {
        self.set(OWN_BUFFER, own);
    }

    fn has(self, bits: u16) -> bool {
        self.0 & bits != 0
    }

    pub(crate) fn is_lost(self) -> bool {
        self.has(LOST)
    }

    pub(crate) fn is_closing(self) -> bool {
        self.has(CLOSING)
    }

    /// Whether a small write concerns nothing but the socket, which is one.
    pub(crate) fn is_quiet(self) -> bool {
        !self.has(EOF_QUEUED | CLOSING | LOST | FULL | TOLD_FULL | BUFFERED | LENT | ONE_WAY)
    }

    pub(crate) fn is_full(self) -> bool {
        self.has(FULL)
    }

    /// Whether the protocol believes something else of the buffer than what is true.
    pub(crate) fn is_unsettled(self) -> bool {
        self.has(FULL | TOLD_FULL) && self.has(FULL) != self.has(TOLD_FULL)
    }

    pub(crate) fn has_buffered(self) -> bool {
        self.has(BUFFERED)
    }

    pub(crate) fn set_full(&mut self, full: bool) {
        self.set(FULL, full);
    }

    pub(crate) fn set_told_full(&mut self, full: bool) {
        self.set(TOLD_FULL, full);
    }

    pub(crate) fn set_buffered(&mut self, buffered: bool) {
        self.set(BUFFERED, buffered);
    }

    fn set(&mut self, bits: u16, on: bool) {
        if on {
            self.0 |= bits;
        } else {
            self.0 &= !bits;
        }
    }

    /// After a kept-open end of file nothing is read any more (B-TRN-27).
    pub(crate) fn is_reading(self) -> bool {
        self.0 & (MADE | PAUSED | EOF_SEEN | CLOSING | LENT) == MADE
    }

    /// Data written after `close` is still taken while older data drains (B-TRN-19).
    pub(crate) fn takes_writes(self, buffered: impl FnOnce() -> bool) -> bool {
        match self.0 & (EOF_QUEUED | CLOSING | LOST | LENT) {
            0 => true,
            CLOSING => buffered(),
            _ => false,
        }
    }

    /// Whether an empty buffer changes anything: something waits for the flush.
    pub(crate) fn awaits_flush(self) -> bool {
        self.has(CLOSING | EOF_QUEUED | FLUSH_AWAITED)
    }

    pub(crate) fn interest(self) -> Option<Interest> {
        let writes = self.has(BUFFERED | LENT_WAITS) && !self.is_lost();
        match (self.is_reading(), writes) {
            (true, true) => Some(Interest::READ | Interest::WRITE),
            (true, false) => Some(Interest::READ),
            (false, true) => Some(Interest::WRITE),
            (false, false) => None,
        }
    }

    pub(crate) fn made(&mut self) -> Actions {
        self.0 |= MADE;
        if self.is_lost() { Actions::NONE } else { Actions::ARM }
    }

    pub(crate) fn close(&mut self, buffered: bool) -> Actions {
        if self.is_closing() {
            return Actions::NONE;
        }
        if !buffered {
            return self.lose();
        }
        self.0 |= CLOSING;
        Actions::ARM
    }

    /// Aborts, or ends after an error.
    pub(crate) fn lose(&mut self) -> Actions {
        if self.is_lost() {
            return Actions::NONE;
        }
        self.0 |= CLOSING | LOST;
        self.0 &= !(FULL | BUFFERED);
        Actions(Actions::LOSE.0 | self.end_flush().0)
    }

    fn end_flush(&mut self) -> Actions {
        let awaited = self.has(FLUSH_AWAITED | LENT_WAITS);
        self.0 &= !FLUSH_AWAITED;
        if awaited { Actions::FLUSHED } else { Actions::NONE }
    }

    pub(crate) fn eof_kept_open(&mut self) -> Actions {
        self.0 |= EOF_SEEN;
        // The hook may have ended the connection that it wants to keep.
        if self.is_lost() { Actions::NONE } else { Actions::ARM }
    }

    /// Nothing when closing, and the second time (B-TRN-23).
    pub(crate) fn write_eof(&mut self, buffered: bool) -> Actions {
        if self.has(CLOSING | EOF_QUEUED) {
            return Actions::NONE;
        }
        self.0 |= EOF_QUEUED;
        if buffered || self.has(LENT) { Actions::NONE } else { self.end_writing() }
    }

    fn end_writing(&mut self) -> Actions {
        self.0 |= EOF_SENT;
        Actions::SHUTDOWN
    }

    /// The buffer is empty (again) (B-TRN-11).
    pub(crate) fn flushed(&mut self) -> Actions {
        let actions = match self.0 & (EOF_QUEUED | EOF_SENT | CLOSING | LOST) {
            EOF_QUEUED => self.end_writing(),
            bits if bits & (CLOSING | LOST) == CLOSING => self.lose(),
            _ => Actions::NONE,
        };
        Actions(actions.0 | self.end_flush().0)
    }

    /// Idempotent, and nothing when closing (B-TRN-30).
    pub(crate) fn pause_reading(&mut self, paused: bool) -> Actions {
        if self.is_closing() || self.has(PAUSED) == paused {
            return Actions::NONE;
        }
        self.0 ^= PAUSED;
        if self.has(MADE) { Actions::ARM } else { Actions::NONE }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open() -> State {
        let mut state = State::new();
        assert_eq!(state.made(), Actions::ARM);
        state
    }

    #[test]
    fn b_trn_02_every_way_into_lost_is_taken_once() {
        let mut state = open();
        assert_eq!(state.close(true), Actions::ARM);
        assert_eq!(state.close(true), Actions::NONE);
        assert_eq!(state.flushed(), Actions::LOSE);
        assert_eq!(state.flushed(), Actions::NONE);
        assert_eq!(state.lose(), Actions::NONE);

        let mut state = open();
        assert_eq!(state.close(false), Actions::LOSE);
        assert_eq!(state.lose(), Actions::NONE);

        let mut state = open();
        assert_eq!(state.close(true), Actions::ARM);
        assert_eq!(state.lose(), Actions::LOSE);
        assert_eq!(state.flushed(), Actions::NONE);
    }

    #[test]
    fn b_trn_23_the_write_side_ends_once_and_after_the_flush() {
        let mut state = open();
        assert_eq!(state.write_eof(true), Actions::NONE);
        assert!(!state.takes_writes(|| true));
        assert!(state.flushed().has(Actions::SHUTDOWN));
        assert!(!state.flushed().has(Actions::SHUTDOWN));
        assert_eq!(state.write_eof(false), Actions::NONE);
        assert!(state.is_reading(), "half closed");
    }

    #[test]
    fn nothing_is_registered_again_once_lost() {
        let mut state = open();
        assert_eq!(state.lose(), Actions::LOSE);
        assert_eq!(state.eof_kept_open(), Actions::NONE);
        assert_eq!(state.made(), Actions::NONE);
        assert_eq!(state.pause_reading(true), Actions::NONE);
        assert_eq!(state.write_eof(false), Actions::NONE);
        state.set_buffered(true);
        assert_eq!(state.interest(), None);
    }

    #[test]
    fn b_trn_27_nothing_is_read_after_the_peers_end() {
        let mut state = open();
        assert_eq!(state.eof_kept_open(), Actions::ARM);
        assert!(!state.is_reading());
        state.pause_reading(true);
        state.pause_reading(false);
        assert_eq!(state.interest(), None);
        state.set_buffered(true);
        assert_eq!(state.interest(), Some(Interest::WRITE));
    }
}
