//! `Context` and `Snapshot`: the sets of variable values that a callback can run in.

use std::cell::Cell;
use std::error::Error;
use std::fmt;
use std::io;
use std::mem;
use std::rc::Rc;

use crate::values::{self, Entered, Shared, Values};

/// The values of all context variables at one moment.
///
/// What a closure writes while it [`run`](Snapshot::run)s inside is seen by that closure and by
/// what it calls or schedules, and is forgotten when it returns. This is what a callback gets when
/// it is scheduled without a [`Context`] of its own.
///
/// Taking, cloning and entering one is O(1); it is a null pointer while no variable is set.
#[derive(Clone, Default)]
pub struct Snapshot(Values);

impl Snapshot {
    /// The values that are current on this thread.
    pub fn current() -> Snapshot {
        Snapshot(values::current())
    }

    /// Whether no variable is set in it.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Runs `f` with these values, and forgets what it writes. The previous values are restored
    /// when `f` returns or panics.
    #[inline(always)]
    pub fn run<R>(&self, f: impl FnOnce() -> R) -> R {
        if values::is_trivial(&self.0) {
            let _forget = values::Forget;
            return f();
        }
        let _entered = self.enter();
        f()
    }

    /// [`run`](Snapshot::run)s `f` with each item: what it writes for one is not seen for the next.
    #[inline]
    pub fn run_each<T>(&self, items: impl IntoIterator<Item = T>, mut f: impl FnMut(T)) {
        if !values::is_trivial(&self.0) {
            return self.run_each_entered(&mut items.into_iter(), &mut f);
        }
        for item in items {
            let _forget = values::Forget;
            f(item);
        }
    }

    #[cold]
    fn run_each_entered<T>(&self, items: &mut dyn Iterator<Item = T>, f: &mut dyn FnMut(T)) {
        for item in items {
            self.run(|| f(item));
        }
    }

    /// Runs `f` with these values and keeps what it writes for the next run: how a task's steps see
    /// each other's writes and nobody else does. If `f` panics, the snapshot is left empty.
    #[inline(always)]
    pub fn run_keeping<R>(&mut self, f: impl FnOnce() -> R) -> R {
        if !values::is_trivial(&self.0) {
            let _entered = Entered::discarding(mem::take(&mut self.0));
            let result = f();
            self.0 = values::current();
            return result;
        }
        let forget = values::Forget;
        let result = f();
        if values::is_active() {
            self.0 = values::current();
            drop(forget);
        } else {
            // It would look once more.
            mem::forget(forget);
        }
        result
    }

    #[inline]
    pub(crate) fn enter(&self) -> Entered {
        Entered::discarding(self.0.clone())
    }
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snapshot").field("variables", &self.0.len()).finish()
    }
}

/// A set of variable values that keeps what is written to it: asyncio's `contextvars.Context`.
///
/// A clone is the same context; [`copy`](Context::copy) makes another. Callbacks that are
/// scheduled in one context see each other's writes.
#[derive(Clone)]
pub struct Context(Rc<Shared>);

impl Context {
    /// A context in which no variable is set.
    pub fn new() -> Context {
        Context::with(Values::EMPTY)
    }

    /// A context with the values that are current on this thread: `contextvars.copy_context()`.
    pub fn current() -> Context {
        Context::with(values::current())
    }

    /// A context with the same values, independent from now on. O(1).
    #[must_use]
    pub fn copy(&self) -> Context {
        Context::with(values::of(&self.0))
    }

    /// Runs `f` inside this context, which keeps what `f` writes, also when `f` panics.
    ///
    /// # Errors
    /// [`AlreadyEntered`], with `f` inside, if the context is entered already: further down this
    /// thread's stack something runs in it.
    pub fn run<R, F: FnOnce() -> R>(&self, f: F) -> Result<R, AlreadyEntered<F>> {
        match self.enter() {
            Some(_entered) => Ok(f()),
            None => Err(AlreadyEntered(f)),
        }
    }

    pub(crate) fn enter(&self) -> Option<Entered> {
        Entered::keeping(&self.0)
    }

    fn with(values: Values) -> Context {
        Context(Rc::new(Shared { values: Cell::new(values), entered: Cell::new(false) }))
    }
}

impl Default for Context {
    fn default() -> Context {
        Context::new()
    }
}

impl From<Snapshot> for Context {
    /// A context that starts with the snapshot's values.
    fn from(snapshot: Snapshot) -> Context {
        Context::with(snapshot.0)
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("variables", &values::of(&self.0).len())
            .field("entered", &self.0.entered.get())
            .finish()
    }
}

/// The error of entering a [`Context`] that is entered already; it gives the closure back.
pub struct AlreadyEntered<F = ()>(pub(crate) F);

impl<F> AlreadyEntered<F> {
    /// The closure that was not run.
    pub fn into_inner(self) -> F {
        self.0
    }
}

impl<F> fmt::Debug for AlreadyEntered<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AlreadyEntered")
    }
}

impl<F> fmt::Display for AlreadyEntered<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the context is entered already")
    }
}

impl<F> Error for AlreadyEntered<F> {}

impl<F> From<AlreadyEntered<F>> for io::Error {
    fn from(_: AlreadyEntered<F>) -> io::Error {
        io::Error::new(io::ErrorKind::Other, AlreadyEntered(()))
    }
}
