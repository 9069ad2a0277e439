//! `CancelOnDrop`: for callbacks and tasks that must not outlive a scope.

use std::future::Future;
use std::ops::{Deref, DerefMut};
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::handle::Handle;
use crate::threadsafe::ThreadsafeHandle;
use crate::timer_handle::TimerHandle;

/// What [`CancelOnDrop`] can wrap: the handles of this crate, and those of a loop's tasks.
pub trait Cancel {
    /// Cancels; harmless when repeated or too late.
    fn cancel(&self);
}

impl Cancel for Handle {
    fn cancel(&self) {
        Handle::cancel(self);
    }
}

impl Cancel for TimerHandle {
    fn cancel(&self) {
        TimerHandle::cancel(self);
    }
}

impl Cancel for ThreadsafeHandle {
    fn cancel(&self) {
        ThreadsafeHandle::cancel(self);
    }
}

/// Cancels the handle inside when it is dropped; it derefs to that handle, and can be awaited if that can.
///
/// ```
/// use loop_handle::{CancelOnDrop, Handle};
///
/// let handle = Handle::once(|| ());
/// drop(CancelOnDrop::new(handle.clone()));
/// assert!(handle.is_cancelled());
/// ```
#[derive(Debug)]
#[must_use = "dropping it cancels what is inside"]
pub struct CancelOnDrop<H: Cancel>(Option<H>);

impl<H: Cancel> CancelOnDrop<H> {
    /// Wraps a handle.
    pub fn new(handle: H) -> CancelOnDrop<H> {
        CancelOnDrop(Some(handle))
    }

    /// Takes the handle out without cancelling it.
    pub fn into_inner(mut self) -> H {
        self.0.take().expect(FULL)
    }
}

/// Only `into_inner` empties the option, and it consumes the wrapper.
const FULL: &str = "the handle is inside until into_inner";

impl<H: Cancel> Deref for CancelOnDrop<H> {
    type Target = H;

    fn deref(&self) -> &H {
        self.0.as_ref().expect(FULL)
    }
}

impl<H: Cancel> DerefMut for CancelOnDrop<H> {
    fn deref_mut(&mut self) -> &mut H {
        self.0.as_mut().expect(FULL)
    }
}

impl<H: Cancel + Future + Unpin> Future for CancelOnDrop<H> {
    type Output = H::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<H::Output> {
        Pin::new(&mut **self).poll(cx)
    }
}

impl<H: Cancel> Drop for CancelOnDrop<H> {
    fn drop(&mut self) {
        if let Some(handle) = self.0.take() {
            handle.cancel();
        }
    }
}
