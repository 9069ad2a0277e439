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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Open,
    /// Closed by the user; what is buffered still goes out.
    Draining,
    Lost,
}

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

    pub(crate) fn has(self, other: Actions) -> bool {
        self.0 & other.0 != 0
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct State {
    phase: Phase,
    /// `connection_made` has returned; nothing is read before.
    made: bool,
    /// The user paused reading.
    paused: bool,
    /// The peer's end of file was seen and the connection kept open.
    eof_seen: bool,
    /// The user ended our side; it is shut down once the buffer is flushed.
    eof_queued: bool,
    eof_sent: bool,
}

impl State {
    pub(crate) fn new() -> Self {
        State {
            phase: Phase::Open,
            made: false,
            paused: false,
            eof_seen: false,
            eof_queued: false,
            eof_sent: false,
        }
    }

    pub(crate) fn is_lost(self) -> bool {
        self.phase == Phase::Lost
    }

    pub(crate) fn is_closing(self) -> bool {
        self.phase != Phase::Open
    }

    /// After a kept-open end of file nothing is read any more (B-TRN-27).
    pub(crate) fn is_reading(self) -> bool {
        self.phase == Phase::Open && self.made && !self.paused && !self.eof_seen
    }

    /// Data written after `close` is still taken while older data drains (B-TRN-19).
    pub(crate) fn takes_writes(self, buffered: bool) -> bool {
        !self.eof_queued
            && match self.phase {
                Phase::Open => true,
                Phase::Draining => buffered,
                Phase::Lost => false,
            }
    }

    pub(crate) fn interest(self, buffered: bool) -> Option<Interest> {
        match (self.is_reading(), buffered && !self.is_lost()) {
            (true, true) => Some(Interest::READ | Interest::WRITE),
            (true, false) => Some(Interest::READ),
            (false, true) => Some(Interest::WRITE),
            (false, false) => None,
        }
    }

    pub(crate) fn made(&mut self) -> Actions {
        self.made = true;
        match self.phase {
            Phase::Lost => Actions::NONE,
            _ => Actions::ARM,
        }
    }

    pub(crate) fn close(&mut self, buffered: bool) -> Actions {
        match (self.phase, buffered) {
            (Phase::Open, true) => {
                self.phase = Phase::Draining;
                Actions::ARM
            }
            (Phase::Open, false) => self.lose(),
            (Phase::Draining | Phase::Lost, _) => Actions::NONE,
        }
    }

    /// Aborts, or ends after an error.
    pub(crate) fn lose(&mut self) -> Actions {
        if self.is_lost() {
            return Actions::NONE;
        }
        self.phase = Phase::Lost;
        Actions::LOSE
    }

    pub(crate) fn eof_kept_open(&mut self) -> Actions {
        self.eof_seen = true;
        Actions::ARM
    }

    /// `None` if there is nothing more to end: when closing, or the second time (B-TRN-23).
    pub(crate) fn write_eof(&mut self, buffered: bool) -> Actions {
        if self.is_closing() || self.eof_queued {
            return Actions::NONE;
        }
        self.eof_queued = true;
        if buffered { Actions::NONE } else { self.end_writing() }
    }

    fn end_writing(&mut self) -> Actions {
        self.eof_sent = true;
        Actions::SHUTDOWN
    }

    /// The buffer is empty (again) (B-TRN-11).
    pub(crate) fn flushed(&mut self) -> Actions {
        match self.phase {
            Phase::Draining => self.lose(),
            Phase::Open if self.eof_queued && !self.eof_sent => self.end_writing(),
            Phase::Open | Phase::Lost => Actions::NONE,
        }
    }

    /// Idempotent, and nothing when closing (B-TRN-30).
    pub(crate) fn pause_reading(&mut self, paused: bool) -> Actions {
        if self.is_closing() || self.paused == paused {
            return Actions::NONE;
        }
        self.paused = paused;
        if self.made { Actions::ARM } else { Actions::NONE }
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
        assert!(!state.takes_writes(true));
        assert!(state.flushed().has(Actions::SHUTDOWN));
        assert!(!state.flushed().has(Actions::SHUTDOWN));
        assert_eq!(state.write_eof(false), Actions::NONE);
        assert!(state.is_reading(), "half closed");
    }

    #[test]
    fn b_trn_27_nothing_is_read_after_the_peers_end() {
        let mut state = open();
        assert_eq!(state.eof_kept_open(), Actions::ARM);
        assert!(!state.is_reading());
        state.pause_reading(true);
        state.pause_reading(false);
        assert_eq!(state.interest(false), None);
        assert_eq!(state.interest(true), Some(Interest::WRITE));
    }
}
