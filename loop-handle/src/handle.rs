//! `Handle`: a scheduled callback of this thread.

use std::fmt;
use std::panic::Location;
use std::rc::Rc;

use crate::callback::{Callback, Nothing, Once, Outcome, Repeating};
use crate::context::{AlreadyEntered, Context, Snapshot};
use crate::node::{Head, InScope, Inner, Node};
use crate::run::Run;
use crate::state::State;

/// A callback that a loop will run and anyone may cancel: asyncio's `Handle`.
///
/// A clone is the same callback. Dropping a handle cancels nothing (see
/// [`CancelOnDrop`](crate::CancelOnDrop)); when the last one goes, so does the closure. Flags,
/// context and closure share one allocation; running and re-queueing make no other.
///
/// A closure that owns a handle of itself is kept alive by it, until its one run or a cancel.
///
/// A handle stays on its thread; [`ThreadsafeHandle`](crate::ThreadsafeHandle) does not.
#[derive(Clone)]
pub struct Handle(Rc<dyn Node>);

impl Handle {
    /// A handle that runs `f` at most once, in a [`Snapshot`] of the current context.
    #[track_caller]
    pub fn once<F, R>(f: F) -> Handle
    where
        F: FnOnce() -> R + 'static,
        R: Outcome,
    {
        Handle::once_at(Location::caller(), None, f)
    }

    /// A handle that runs `f` at most once, in `context`.
    #[track_caller]
    pub fn once_in<F, R>(context: &Context, f: F) -> Handle
    where
        F: FnOnce() -> R + 'static,
        R: Outcome,
    {
        Handle::once_at(Location::caller(), Some(context), f)
    }

    /// A handle that runs `f` at most once, made on behalf of the code at `site`. Without a
    /// `context` it runs in a [`Snapshot`] of the current one.
    pub fn once_at<F, R>(
        site: &'static Location<'static>,
        context: Option<&Context>,
        f: F,
    ) -> Handle
    where
        F: FnOnce() -> R + 'static,
        R: Outcome,
    {
        Handle::with(State::once(), site, context, Once::new(f))
    }

    /// A handle that runs `f` as often as it is asked to, each time in the same [`Snapshot`] of
    /// the context that is current now.
    #[track_caller]
    pub fn repeating<F, R>(f: F) -> Handle
    where
        F: FnMut() -> R + 'static,
        R: Outcome,
    {
        Handle::repeating_at(Location::caller(), None, f)
    }

    /// A handle that runs `f` as often as it is asked to, in `context`.
    #[track_caller]
    pub fn repeating_in<F, R>(context: &Context, f: F) -> Handle
    where
        F: FnMut() -> R + 'static,
        R: Outcome,
    {
        Handle::repeating_at(Location::caller(), Some(context), f)
    }

    /// A handle that runs `f` as often as it is asked to, made on behalf of the code at `site`.
    /// Without a `context` it runs in a [`Snapshot`] of the current one.
    pub fn repeating_at<F, R>(
        site: &'static Location<'static>,
        context: Option<&Context>,
        f: F,
    ) -> Handle
    where
        F: FnMut() -> R + 'static,
        R: Outcome,
    {
        Handle::with(State::repeating(), site, context, Repeating::new(f))
    }

    /// A handle that is cancelled from the start: what a closed loop returns. `f` is dropped
    /// before this returns; its name stays.
    pub fn new_cancelled<F: 'static>(site: &'static Location<'static>, f: F) -> Handle {
        drop(f);
        Handle::with(State::cancelled(), site, None, Nothing::<F>::new())
    }

    fn with<C: Callback + 'static>(
        state: State,
        site: &'static Location<'static>,
        context: Option<&Context>,
        callback: C,
    ) -> Handle {
        match context {
            None => Handle::within(state, site, Snapshot::current(), callback),
            Some(context) => Handle::within(state, site, context.clone(), callback),
        }
    }

    fn within<S, C>(state: State, site: &'static Location<'static>, scope: S, callback: C) -> Handle
    where
        S: InScope + 'static,
        C: Callback + 'static,
    {
        Handle(Rc::new(Inner { head: Head { state, site }, scope, callback }))
    }

    /// Prepares the handle for [`node_for`](Handle::node_for): drops what it holds. False if it may
    /// still run, has clones, or is not worth keeping. User code, destructors, may run here.
    #[inline]
    pub(crate) fn clear(&mut self) -> bool {
        Rc::get_mut(&mut self.0).map_or(false, |node| node.clear())
    }

    /// The node of a cleared handle, if it was made for a one-shot closure of type `F`.
    #[inline]
    pub(crate) fn node_for<F: 'static>(&mut self) -> Option<&mut Inner<Snapshot, Once<F>>> {
        Rc::get_mut(&mut self.0)?.as_any_mut().downcast_mut()
    }

    /// Runs the callback inside its context, unless it is cancelled, has run, or is running.
    ///
    /// If its explicit [`Context`] is entered already the callback does not run, and the result
    /// is [`Run::Failed`] with [`AlreadyEntered`]. A one-shot handle has then had its run: its
    /// closure is dropped.
    ///
    /// # Panics
    /// A panic of the callback unwinds through, counted as a [failure](Handle::failures). A
    /// repeating closure is put back first and can run again.
    #[inline]
    pub fn run(&self) -> Run {
        self.0.run()
    }

    /// Cancels the callback, and drops the closure with all that it captured before returning;
    /// if the callback is running, when that run returns.
    ///
    /// Harmless at any time and any number of times: before, during or after the run, and from
    /// the closure's own destructor.
    pub fn cancel(&self) {
        self.mark_cancelled();
        self.release();
    }

    /// The first half of `cancel`; true for the first call only.
    pub(crate) fn mark_cancelled(&self) -> bool {
        self.0.head().state.cancel()
    }

    /// The second half of `cancel`: user code, the closure's destructor, runs here.
    pub(crate) fn release(&self) {
        self.0.callback().release();
    }

    /// True from the first [`cancel`](Handle::cancel) on, for ever.
    pub fn is_cancelled(&self) -> bool {
        self.0.head().state.is_cancelled()
    }

    /// True if the callback may run more than once.
    pub fn is_repeating(&self) -> bool {
        self.0.head().state.is_repeating()
    }

    /// True if this is a one-shot handle whose run has ended, or that is cancelled and not
    /// running: nothing will happen any more.
    pub fn is_done(&self) -> bool {
        self.0.head().state.is_done()
    }

    /// How many runs in a row ended in a panic or an error, up to 255. A clean run resets it.
    pub fn failures(&self) -> u8 {
        self.0.head().state.failures()
    }

    /// The type name of the closure, which tells where it was written.
    pub fn name(&self) -> &'static str {
        self.0.callback().name()
    }

    /// Where the callback was scheduled.
    pub fn site(&self) -> &'static Location<'static> {
        self.0.head().site
    }

    /// Runs `f` inside the context of this handle, cancelled or not: an error handler sees the
    /// variables that the callback saw.
    ///
    /// # Errors
    /// [`AlreadyEntered`], with `f` inside, if that is an explicit [`Context`] that is entered.
    pub fn in_context<R, F: FnOnce() -> R>(&self, f: F) -> Result<R, AlreadyEntered<F>> {
        self.0.scope().run(f)
    }

    /// True if both are handles of the same callback.
    pub fn ptr_eq(&self, other: &Handle) -> bool {
        // The data address alone: vtable addresses of one type may differ.
        std::ptr::eq(Rc::as_ptr(&self.0).cast::<()>(), Rc::as_ptr(&other.0).cast())
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cancelled = if self.is_cancelled() { ", cancelled" } else { "" };
        write!(f, "Handle({} at {}{})", self.name(), self.site(), cancelled)
    }
}
