//! `ThreadsafeHandle`: a callback made on one thread, run on another, cancelled on any.

use std::any::{Any, type_name};
use std::error::Error;
use std::fmt;
use std::panic::Location;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::callback::Outcome;
use crate::context::Snapshot;
use crate::run::Run;

/// A one-shot callback that crosses threads: what asyncio's `call_soon_threadsafe` returns.
///
/// Whoever takes the closure out decides its fate: [`run`](ThreadsafeHandle::run) or
/// [`cancel`](ThreadsafeHandle::cancel), never both. No lock is held while the closure runs or is
/// dropped. It runs in a [`Snapshot`] of the context of the thread that made it.
///
/// A clone is the same callback; dropping one cancels nothing. When the last one goes, so does a
/// closure that never ran, on that thread.
#[derive(Clone)]
pub struct ThreadsafeHandle(Arc<Inner<dyn Slot>>);

struct Inner<S: ?Sized> {
    /// Set under the slot's lock by the cancel that takes the closure.
    cancelled: AtomicBool,
    site: &'static Location<'static>,
    snapshot: Snapshot,
    slot: S,
}

/// An erased closure that leaves its lock before it is run or dropped.
trait Slot: Send + Sync {
    /// Runs the closure; `None` if it is gone.
    fn call(&self) -> Option<Result<(), Box<dyn Error>>>;
    /// Drops the closure, after `note` was called under the lock; false if it is gone.
    fn release(&self, note: &dyn Fn()) -> bool;
    fn name(&self) -> &'static str;
    fn as_any(&self) -> &dyn Any;
}

impl<F, R> Slot for Mutex<Option<F>>
where
    F: FnOnce() -> R + Send + 'static,
    R: Outcome,
{
    fn call(&self) -> Option<Result<(), Box<dyn Error>>> {
        let f = self.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        Some(f().into_result())
    }

    fn release(&self, note: &dyn Fn()) -> bool {
        let f = {
            let mut slot = self.lock().unwrap_or_else(PoisonError::into_inner);
            if slot.is_some() {
                note();
            }
            slot.take()
        };
        f.is_some()
    }

    fn name(&self) -> &'static str {
        type_name::<F>()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl ThreadsafeHandle {
    /// A handle that runs `f` at most once.
    #[track_caller]
    pub fn new<F, R>(f: F) -> ThreadsafeHandle
    where
        F: FnOnce() -> R + Send + 'static,
        R: Outcome,
    {
        ThreadsafeHandle::new_at(Location::caller(), f)
    }

    /// A handle that runs `f` at most once, made on behalf of the code at `site`.
    pub fn new_at<F, R>(site: &'static Location<'static>, f: F) -> ThreadsafeHandle
    where
        F: FnOnce() -> R + Send + 'static,
        R: Outcome,
    {
        ThreadsafeHandle(Arc::new(Inner {
            cancelled: AtomicBool::new(false),
            site,
            snapshot: Snapshot::current(),
            slot: Mutex::new(Some(f)),
        }))
    }

    /// Runs the callback on this thread, unless it was cancelled or taken by an earlier run.
    ///
    /// # Panics
    /// A panic of the callback unwinds through.
    pub fn run(&self) -> Run {
        let _entered = self.0.snapshot.enter();
        self.0.slot.call().map_or(Run::Skipped, Run::from)
    }

    /// Cancels the callback, from any thread. True means that it never started and never will;
    /// its closure has been dropped, by this call or by an earlier cancel. False means that it is
    /// running or has run.
    pub fn cancel(&self) -> bool {
        let cancelled = &self.0.cancelled;
        self.0.slot.release(&|| cancelled.store(true, Ordering::Release)) || self.is_cancelled()
    }

    /// Takes the closure back out, if it is still there and of this type: how a queue that refuses a
    /// call returns what it was offered. The handle counts as run from then on.
    pub fn take<F: 'static>(&self) -> Option<F> {
        let slot = self.0.slot.as_any().downcast_ref::<Mutex<Option<F>>>()?;
        slot.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// True once a [`cancel`](ThreadsafeHandle::cancel) has succeeded.
    pub fn is_cancelled(&self) -> bool {
        self.0.cancelled.load(Ordering::Acquire)
    }

    /// The type name of the closure.
    pub fn name(&self) -> &'static str {
        self.0.slot.name()
    }

    /// Where the callback was scheduled.
    pub fn site(&self) -> &'static Location<'static> {
        self.0.site
    }

    /// Runs `f` in the context that the callback runs in, cancelled or not.
    pub fn in_context<R>(&self, f: impl FnOnce() -> R) -> R {
        self.0.snapshot.run(f)
    }

    /// True if both are handles of the same callback.
    pub fn ptr_eq(&self, other: &ThreadsafeHandle) -> bool {
        // The data address alone: vtable addresses of one type may differ.
        std::ptr::eq(Arc::as_ptr(&self.0).cast::<()>(), Arc::as_ptr(&other.0).cast())
    }
}

impl fmt::Debug for ThreadsafeHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cancelled = if self.is_cancelled() { ", cancelled" } else { "" };
        write!(f, "ThreadsafeHandle({} at {}{})", self.name(), self.site(), cancelled)
    }
}
