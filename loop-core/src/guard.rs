//! Where user code is called: the one place that catches panics.
//!
//! A panic is caught, reported, and the loop goes on. A destructor that panics while another panic
//! already unwinds through it aborts the process; no guard can help there.

use std::any::Any;
use std::fmt;
use std::panic::{self, AssertUnwindSafe};
use std::thread;

use loop_handle::{Handle, Run, ThreadsafeHandle};

use crate::debug::Timing;
use crate::error::{LoopAbort, PanicError};
use crate::loop_ref::LoopRef;
use crate::report::{ExceptionContext, Failure};

/// Runs `f`; a panic becomes an error. [`LoopAbort`] passes through.
///
/// Code built on the loop (a transport that calls a protocol's hooks, say) uses this to keep one
/// user's panic from ending everybody's loop.
///
/// # Errors
/// The panic, if `f` panicked.
///
/// # Panics
/// Goes on unwinding when the payload is a [`LoopAbort`].
pub fn catch_panic<R>(f: impl FnOnce() -> R) -> Result<R, PanicError> {
    hold_panic(f).map_err(HeldPanic::into_error)
}

/// Runs `f` and holds a panic back, [`LoopAbort`] too, until what `f` was lent is put back.
///
/// # Errors
/// The panic, if `f` panicked.
#[inline]
pub fn hold_panic<R>(f: impl FnOnce() -> R) -> Result<R, HeldPanic> {
    panic::catch_unwind(AssertUnwindSafe(f)).map_err(HeldPanic)
}

/// A panic that is held back: [`hold_panic`].
#[must_use = "a panic that nobody looks at may be the loop's abort"]
pub struct HeldPanic(Box<dyn Any + Send>);

impl HeldPanic {
    /// The panic as an error.
    ///
    /// # Panics
    /// Goes on unwinding when the payload is a [`LoopAbort`].
    #[cold]
    pub fn into_error(self) -> PanicError {
        if self.0.is::<LoopAbort>() {
            panic::resume_unwind(self.0);
        }
        PanicError::new(self.0)
    }

    /// Goes on unwinding.
    pub fn resume(self) -> ! {
        panic::resume_unwind(self.0)
    }

    /// Ends here. What was raised is a user's value: dropping it may raise something else.
    #[cold]
    fn discard(self) {
        let mut raised = Some(self);
        while let Some(panic) = raised {
            raised = hold_panic(|| drop(panic)).err();
        }
    }
}

impl fmt::Debug for HeldPanic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HeldPanic")
    }
}

/// Runs one thing after another, also when one of them panics: the first panic goes on after the last.
#[derive(Default)]
pub(crate) struct Undeterred(Option<HeldPanic>);

impl Undeterred {
    #[inline]
    pub(crate) fn run(&mut self, f: impl FnOnce()) {
        if let Err(panic) = hold_panic(f) {
            self.hold(panic);
        }
    }

    #[cold]
    fn hold(&mut self, panic: HeldPanic) {
        match self.0 {
            None => self.0 = Some(panic),
            Some(_) => panic.discard(),
        }
    }

    /// # Panics
    /// If one of them has.
    #[inline]
    pub(crate) fn finish(self) {
        if let Some(panic) = self.0 {
            panic.resume();
        }
    }

    /// The same where a panic may be under way as it is: that one goes on alone, for two would end the process.
    #[inline]
    pub(crate) fn finish_in_unwind(self) {
        if let Some(panic) = self.0 {
            if thread::panicking() { panic.discard() } else { panic.resume() }
        }
    }
}

/// What a panic in a destructor is reported as.
pub(crate) const DESTRUCTOR: &str = "a destructor failed";

/// What a panic of a waker is reported as.
pub(crate) const WAKER: &str = "a waker failed";

/// Runs a handle of the ready queue.
#[inline(never)]
pub(crate) fn run_handle(lp: &LoopRef, handle: Handle) {
    let timing = Timing::start(lp, |context| context.handle = Some(handle.clone()));
    match catch_panic(|| handle.run()) {
        // What it still holds is its user's: a repeating closure, the values of a context.
        Ok(Run::Done | Run::Skipped) => {
            guarded(lp, DESTRUCTOR, || lp.inner.handles.recycle(handle));
        }
        Ok(Run::Failed(error)) => handle_failed(lp, handle, Failure::Error(error)),
        Err(panic) => handle_failed(lp, handle, Failure::Panic(panic)),
    }
    timing.finish(lp);
}

#[cold]
fn handle_failed(lp: &LoopRef, handle: Handle, failure: Failure) {
    let mut context = ExceptionContext::new("callback failed");
    context.failure = Some(failure);
    context.handle = Some(handle.clone());
    report(lp, context);
    discard(lp, handle);
}

/// Runs a call that came from another thread.
pub(crate) fn run_remote(lp: &LoopRef, handle: ThreadsafeHandle) {
    let (name, site) = (handle.name(), handle.site());
    let timing = Timing::start(lp, |context| context.set_callback(name, site));
    let failure = match catch_panic(|| handle.run()) {
        Ok(Run::Done | Run::Skipped) => None,
        Ok(Run::Failed(error)) => Some(Failure::Error(error)),
        Err(panic) => Some(Failure::Panic(panic)),
    };
    if failure.is_some() {
        let mut context = ExceptionContext::new("callback failed");
        context.failure = failure;
        context.set_callback(name, site);
        report(lp, context);
    }
    timing.finish(lp);
}

/// Reports, then drops what was raised: a user's value.
pub(crate) fn report(lp: &LoopRef, context: ExceptionContext) {
    lp.report(&context);
    discard(lp, context);
}

/// Wakes a waker that may not be ours.
pub(crate) fn wake(lp: &LoopRef, waker: std::task::Waker) {
    guarded(lp, WAKER, || waker.wake());
}

/// Drops a value whose destructor is user code.
pub(crate) fn discard<T>(lp: &LoopRef, value: T) {
    guarded(lp, DESTRUCTOR, || drop(value));
}

/// Runs `f`; a panic is reported under `message`.
#[inline(always)]
pub(crate) fn guarded(lp: &LoopRef, message: &'static str, f: impl FnOnce()) {
    if let Err(panic) = hold_panic(f) {
        report_panic(lp, message, panic);
    }
}

#[cold]
pub(crate) fn report_panic(lp: &LoopRef, message: &'static str, panic: HeldPanic) {
    let mut context = ExceptionContext::new(message);
    context.failure = Some(Failure::Panic(panic.into_error()));
    report(lp, context);
}
