//! What is put off until the end of an iteration.

use std::rc::Rc;

use loop_handle::Snapshot;

use crate::guard::{self, Undeterred, hold_panic};
use crate::inner::BEFORE_WAIT;
use crate::loop_ref::LoopRef;

/// Somebody who gathers work while an iteration runs, and does it at its end; libuv's `prepare`, asked for each
/// time. See [`LoopRef::call_before_wait`].
pub trait BeforeWait {
    /// Called once for each time it was asked for, on the loop's thread, in an empty context. A panic is reported.
    /// The iteration is over for whatever this does: it cannot ask again.
    fn before_wait(self: Rc<Self>);
}

impl LoopRef {
    /// Calls somebody at the end of the iteration under way: behind all callbacks and tasks of its batch, and
    /// before the loop looks for I/O again, waits, or returns to whoever stepped it. Also if a
    /// [`LoopAbort`](crate::LoopAbort) ends the iteration.
    ///
    /// `false` if no iteration is under way: then nobody would call soon, and nobody does.
    ///
    /// ```
    /// use loop_core::{BeforeWait, EventLoop, LoopRef};
    /// use std::{cell::RefCell, rc::Rc};
    ///
    /// struct Log { lp: LoopRef, lines: RefCell<Vec<String>>, writes: RefCell<Vec<String>> }
    ///
    /// impl Log {
    ///     fn note(self: &Rc<Self>, line: &str) {
    ///         let first = self.lines.borrow().is_empty();
    ///         self.lines.borrow_mut().push(line.to_owned());
    ///         if first && !self.lp.call_before_wait(self.clone()) {
    ///             self.clone().before_wait(); // nobody else does, outside of the loop
    ///         }
    ///     }
    /// }
    ///
    /// impl BeforeWait for Log {
    ///     fn before_wait(self: Rc<Self>) {
    ///         self.writes.borrow_mut().push(self.lines.take().join(" "));
    ///     }
    /// }
    ///
    /// let mut event_loop = EventLoop::new()?;
    /// let log = Rc::new(Log {
    ///     lp: event_loop.loop_ref(), lines: RefCell::default(), writes: RefCell::default(),
    /// });
    /// for line in ["one", "two"] {
    ///     let log = log.clone();
    ///     event_loop.call_soon(move || log.note(line));
    /// }
    /// event_loop.run_once(None)?;
    /// log.note("three");
    /// assert_eq!(*log.writes.borrow(), ["one two", "three"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn call_before_wait(&self, who: Rc<dyn BeforeWait>) -> bool {
        let inner = &self.inner;
        let taken = inner.iterating.get();
        if taken {
            inner.before_wait.borrow_mut().push(who);
            inner.mark(BEFORE_WAIT);
        }
        taken
    }
}

/// The time in which a batch runs. Its end is that of the iteration, also when an abort unwinds.
pub(crate) struct Iteration<'a>(&'a LoopRef);

impl<'a> Iteration<'a> {
    #[inline(always)]
    pub(crate) fn begin(lp: &'a LoopRef) -> Self {
        lp.inner.iterating.set(true);
        Iteration(lp)
    }
}

impl Drop for Iteration<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        let inner = &self.0.inner;
        inner.iterating.set(false);
        if inner.is_marked(BEFORE_WAIT) {
            run(self.0);
        }
    }
}

#[inline(never)]
fn run(lp: &LoopRef) {
    let inner = &lp.inner;
    inner.unmark(BEFORE_WAIT);
    // Nothing is added meanwhile.
    inner.before_wait.borrow_mut().reverse();
    let next = || inner.before_wait.borrow_mut().pop();
    let mut all = Undeterred::default();
    while let Some(who) = next() {
        if let Err(panic) = hold_panic(|| call(lp, who)) {
            all.run(|| {
                guard::report_panic(lp, "what was put off until the loop waits failed", panic)
            });
        }
    }
    all.finish_in_unwind();
}

#[inline]
fn call(lp: &LoopRef, who: Rc<dyn BeforeWait>) {
    // A child that the iteration has forked is not to do its parent's work again (B-LOOP-27).
    if !lp.inner.process.is_forked() {
        Snapshot::default().run(|| who.before_wait());
    }
}
