//! Which loops live on this thread, and which one runs.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};

use crate::error::LoopError;
use crate::inner::Inner;
use crate::task::Running;

thread_local! {
    /// Every loop alive on this thread. `Send` values hold a loop's id, never a pointer to it, and
    /// look it up here; elsewhere they find nothing and go through the inbox.
    static HOME: RefCell<Vec<(u64, Weak<Inner>)>> = const { RefCell::new(Vec::new()) };
    static RUNNING: RefCell<Option<Rc<Inner>>> = const { RefCell::new(None) };
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

/// Does something to the loop with this id, if that is the one which runs on this thread: the quick form
/// of [`find`]. `f` calls no user code.
#[inline]
pub(crate) fn with_running<R>(id: u64, f: impl FnOnce(&Inner) -> R) -> Option<R> {
    let done = RUNNING.try_with(|running| match &*running.borrow() {
        Some(inner) if inner.id == id => Some(f(inner)),
        _ => None,
    });
    done.ok().flatten()
}

/// The loop that runs on this thread. One that a fork has copied does not run in the child (B-LOOP-27).
#[inline]
pub(crate) fn running() -> Option<Rc<Inner>> {
    let running = RUNNING.try_with(|running| running.borrow().clone()).ok().flatten();
    running.filter(|inner| !inner.process.is_forked())
}

/// Keeps a loop current until dropped, then restores what was there before (B-LOOP-12, B-LOOP-26).
pub(crate) struct EnterGuard {
    previous: Option<Rc<Inner>>,
    previous_id: u64,
    /// A task of the previous loop is none of this one's.
    _no_task: Running,
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
        let previous =
            RUNNING.try_with(|running| running.borrow_mut().replace(inner.clone())).ok().flatten();
        let previous_id = RUNNING_ID.replace(inner.id);
        EnterGuard { previous, previous_id, _no_task: Running::nothing(), run: false }
    }
}

impl Drop for EnterGuard {
    fn drop(&mut self) {
        let previous = self.previous.take();
        RUNNING_ID.set(self.previous_id);
        let left =
            RUNNING.try_with(|running| std::mem::replace(&mut *running.borrow_mut(), previous));
        if let (true, Ok(Some(left))) = (self.run, left) {
            left.running.set(false);
            left.stopping.set(false);
        }
    }
}
