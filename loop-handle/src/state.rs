//! What a handle remembers about itself, in two bytes.
//!
//! | flag | set when | cleared when | never with |
//! |---|---|---|---|
//! | `REPEATING` | the handle is made | never | `DONE` |
//! | `RUNNING` | a run starts | that run ends, also by a panic | `DONE` |
//! | `DONE` | the run of a one-shot handle ends | never | `REPEATING`, `RUNNING` |
//! | `CANCELLED` | the first `cancel` | never | - |
//!
//! A run starts only if none of `RUNNING`, `DONE` and `CANCELLED` is set. `CANCELLED` may join
//! `RUNNING` (a callback that cancels itself) and `DONE` (a cancel that came too late).

use std::cell::Cell;

const REPEATING: u8 = 1;
const RUNNING: u8 = 1 << 1;
const DONE: u8 = 1 << 2;
const CANCELLED: u8 = 1 << 3;

/// The flags of the table above, and the failures in a row.
pub(crate) struct State {
    flags: Cell<u8>,
    failures: Cell<u8>,
}

impl State {
    pub(crate) fn once() -> State {
        State { flags: Cell::new(0), failures: Cell::new(0) }
    }

    pub(crate) fn repeating() -> State {
        State { flags: Cell::new(REPEATING), failures: Cell::new(0) }
    }

    pub(crate) fn cancelled() -> State {
        State { flags: Cell::new(CANCELLED), failures: Cell::new(0) }
    }

    fn has(&self, any: u8) -> bool {
        self.flags.get() & any != 0
    }

    /// Starts a run if one may start. The run ends when the guard is dropped.
    pub(crate) fn start(&self) -> Option<Running<'_>> {
        if self.has(RUNNING | DONE | CANCELLED) {
            return None;
        }
        self.flags.set(self.flags.get() | RUNNING);
        Some(Running { state: self, clean: false })
    }

    /// Marks the handle cancelled; true for the first call only.
    pub(crate) fn cancel(&self) -> bool {
        let first = !self.has(CANCELLED);
        self.flags.set(self.flags.get() | CANCELLED);
        first
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.has(CANCELLED)
    }

    pub(crate) fn is_repeating(&self) -> bool {
        self.has(REPEATING)
    }

    pub(crate) fn is_done(&self) -> bool {
        self.has(DONE | CANCELLED) && !self.has(REPEATING | RUNNING)
    }

    pub(crate) fn failures(&self) -> u8 {
        self.failures.get()
    }
}

/// A run in progress. It counts as failed unless it was told otherwise, so a panic counts too.
pub(crate) struct Running<'a> {
    state: &'a State,
    clean: bool,
}

impl Running<'_> {
    pub(crate) fn end_clean(mut self) {
        self.clean = true;
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let State { flags, failures } = self.state;
        failures.set(if self.clean { 0 } else { failures.get().saturating_add(1) });
        let done = if self.state.is_repeating() { 0 } else { DONE };
        flags.set(flags.get() & !RUNNING | done);
    }
}
