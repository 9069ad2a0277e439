//! Which loops live on this thread, and which one runs.

use std::cell::{Cell, RefCell};
use std::mem::ManuallyDrop;
use std::ptr;
use std::rc::{Rc, Weak};

use crate::error::LoopError;
use crate::inner::Inner;
use crate::task::Outer;

thread_local! {
    /// Every loop alive on this thread. `Send` values hold a loop's id, never a pointer to it, and
    /// look it up here; elsewhere they find nothing and go through the inbox.
    static HOME: RefCell<Vec<(u64, Weak<Inner>)>> = const { RefCell::new(Vec::new()) };
    /// Without a destructor, for then a look at it does not have to ask whether that has run. What is
    /// put here is taken out by an [`EnterGuard`].
    static RUNNING: RefCell<Option<ManuallyDrop<Rc<Inner>>>> = const { RefCell::new(None) };
    /// Its number, 0 for none. Without a destructor, so that a look at it is a load.
    static RUNNING_ID: Cell<u64> = const { Cell::new(0) };
}

/// Makes a loop findable on its thread.
pub(crate) fn add(inner: &Rc<Inner>) {
    HOME.with(|home| home.borrow_mut().push((inner.id, Rc::downgrade(inner))));
}

/// Forgets a loop. O(n) in the loops of this thread.
pub(crate) fn remove(id: u64) {
    // A loop kept in a thread-local may outlive these two.
    let _ = HOME.try_with(|home| home.borrow_mut().retain(|(other, _)| *other != id));
}

/// The loop with this id, if this is its thread.
pub(crate) fn find(id: u64) -> Option<Rc<Inner>> {
    if let Some(inner) = running().filter(|inner| inner.id == id) {
        return Some(inner);
    }
    HOME.try_with(|home| {
        home.borrow().iter().find(|(other, _)| *other == id).and_then(|(_, weak)| weak.upgrade())
    })
    .ok()
    .flatten()
}

/// Whether the loop with this id is the one that runs on this thread.
#[inline]
pub(crate) fn runs(id: u64) -> bool {
    RUNNING_ID.get() == id
}

/// The number of the loop that runs on this thread; 0 for none, which is no loop's.
#[inline]
pub(crate) fn running_id() -> u64 {
    RUNNING_ID.get()
}

/// Does something to the loop with this id, if that is the one which runs on this thread: the quick form
/// of [`find`]. `f` calls no user code.
#[inline]
pub(crate) fn with_running<R>(id: u64, f: impl FnOnce(&Inner) -> R) -> Option<R> {
    RUNNING.with(|running| match &*running.borrow() {
        Some(inner) if inner.id == id => Some(f(inner)),
        _ => None,
    })
}

/// As [`with_running`], whichever that is; none in a child that a fork has copied it to.
#[inline]
pub(crate) fn with_current<R>(f: impl FnOnce(&Inner) -> Option<R>) -> Option<R> {
    RUNNING.with(|running| match &*running.borrow() {
        Some(inner) if !inner.process.is_forked() => f(inner),
        _ => None,
    })
}

/// The number of the loop that runs on this thread, if it is this one.
#[inline]
pub(crate) fn running_is(inner: *const Inner) -> Option<u64> {
    RUNNING.with(|running| {
        let running = running.borrow();
        running.as_ref().filter(|running| ptr::eq(Rc::as_ptr(running), inner)).map(|inner| inner.id)
    })
}

/// The loop that runs on this thread. One that a fork has copied does not run in the child (B-LOOP-27).
#[inline]
pub(crate) fn running() -> Option<Rc<Inner>> {
    let running = RUNNING.with(|running| running.borrow().as_deref().cloned());
    running.filter(|inner| !inner.process.is_forked())
}

/// Makes this the loop that runs; which one it was.
fn put(running: Option<Rc<Inner>>) -> Option<Rc<Inner>> {
    let new = running.map(ManuallyDrop::new);
    RUNNING.replace(new).map(ManuallyDrop::into_inner)
}

/// Keeps a loop current until dropped, then restores what was there before (B-LOOP-12, B-LOOP-26).
pub(crate) struct EnterGuard {
    previous: Option<Rc<Inner>>,
    previous_id: u64,
    /// A task of the previous loop is none of this one's.
    _no_task: Outer,
    /// Whether this is a run, whose end it is then.
    run: bool,
}

impl EnterGuard {
    /// Fails, and changes nothing, while another loop runs on this thread.
    pub(crate) fn enter(inner: &Rc<Inner>) -> Result<Self, LoopError> {
        if running().is_some() {
            return Err(LoopError::NestedLoop);
        }
        inner.running.set(true);
        let mut guard = Self::replace(inner);
        guard.run = true;
        Ok(guard)
    }

    /// Makes the loop current whatever is current now: closing and preparing a host's wait do this.
    pub(crate) fn replace(inner: &Rc<Inner>) -> Self {
        let previous = put(Some(inner.clone()));
        let previous_id = RUNNING_ID.replace(inner.id);
        EnterGuard { previous, previous_id, _no_task: Outer::leave(), run: false }
    }
}

impl Drop for EnterGuard {
    fn drop(&mut self) {
        RUNNING_ID.set(self.previous_id);
        let left = put(self.previous.take());
        if let (true, Some(left)) = (self.run, left) {
            left.settle();
            left.running.set(false);
            left.stopping.set(false);
        }
    }
}
