//! Where user code is called: the one place that catches panics.
//!
//! A panic is caught, reported, and the loop goes on. A destructor that panics while another panic
//! already unwinds through it aborts the process; no guard can help there.

use std::panic::{self, AssertUnwindSafe};

use loop_handle::{Handle, Run, ThreadsafeHandle};

use crate::error::{LoopAbort, PanicError};
use crate::io_table;
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
    match panic::catch_unwind(AssertUnwindSafe(f)) {
        Ok(value) => Ok(value),
        Err(payload) if payload.is::<LoopAbort>() => panic::resume_unwind(payload),
        Err(payload) => Err(PanicError::new(payload)),
    }
}

/// How often in a row a reader or writer may fail before its descriptor is let go (B-FD-10).
const MAX_FAILURES: u8 = 16;

/// Runs a handle of the ready queue.
pub(crate) fn run_handle(lp: &LoopRef, handle: Handle) {
    let failure = match catch_panic(|| handle.run()) {
        Ok(Run::Failed(error)) => Failure::Error(error),
        Err(payload) => Failure::Panic(payload),
        Ok(_) => {
            // Only a repeating handle still owns its closure here, and only when this was the last
            // reference: its reader was removed meanwhile.
            if handle.is_repeating() {
                discard(lp, handle);
            }
            return;
        }
    };
    let mut context = ExceptionContext::new("callback failed");
    context.failure = Some(failure);
    context.handle = Some(handle.clone());
    lp.report(&context);
    drop(context);
    if handle.failures() >= MAX_FAILURES && io_table::forget_callback(lp, &handle) {
        let mut context =
            ExceptionContext::new("callback removed: it failed 16 times without a clean run");
        context.handle = Some(handle.clone());
        lp.report(&context);
    }
    discard(lp, handle);
}

/// Runs a call that came from another thread.
pub(crate) fn run_remote(lp: &LoopRef, handle: ThreadsafeHandle) {
    let failure = match catch_panic(|| handle.run()) {
        Ok(Run::Failed(error)) => Failure::Error(error),
        Err(payload) => Failure::Panic(payload),
        Ok(_) => return,
    };
    let mut context = ExceptionContext::new("callback failed");
    context.failure = Some(failure);
    context.set_callback(handle.name(), handle.site());
    lp.report(&context);
}

/// Wakes a waker that may not be ours.
pub(crate) fn wake(lp: &LoopRef, waker: std::task::Waker) {
    guarded(lp, "a waker failed", || waker.wake());
}

/// Drops a value whose destructor is user code.
pub(crate) fn discard<T>(lp: &LoopRef, value: T) {
    guarded(lp, "a destructor failed", || drop(value));
}

/// Runs `f`; a panic is reported under `message`.
pub(crate) fn guarded(lp: &LoopRef, message: &'static str, f: impl FnOnce()) {
    if let Err(panic) = catch_panic(f) {
        let mut context = ExceptionContext::new(message);
        context.failure = Some(Failure::Panic(panic));
        lp.report(&context);
    }
}
