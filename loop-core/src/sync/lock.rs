//! `Lock`: one at a time, across awaits.

use std::cell::Cell;
use std::fmt;
use std::panic::Location;

use super::wait_list::{Turn, WaitList};

/// Mutual exclusion between tasks that await while they hold it; asyncio's `Lock`. It guards no data:
/// on one thread a `Cell` or `RefCell` beside it does that.
///
/// First come, first served: nobody overtakes a task that waits, not even in the iteration of the
/// release (B-LOCK-02). A task that is cancelled while it waits, or after its turn came, passes the turn
/// on (B-LOCK-04, B-LOCK-05).
///
/// ```
/// # use loop_core::{run, sleep, spawn, sync::Lock};
/// # use std::{rc::Rc, time::Duration};
/// # run(async {
/// let lock = Rc::new(Lock::new());
/// let held = lock.acquire().await;
/// let other = lock.clone();
/// let task = spawn(async move { drop(other.acquire().await) });
/// sleep(Duration::from_millis(1)).await; // nobody else gets in meanwhile
/// assert!(!task.is_done());
/// drop(held);
/// task.await.unwrap();
/// # }).unwrap();
/// ```
pub struct Lock {
    locked: Cell<bool>,
    waiters: WaitList,
}

impl Lock {
    /// An unlocked lock.
    #[track_caller]
    pub fn new() -> Self {
        Lock { locked: Cell::new(false), waiters: WaitList::new("lock", Location::caller()) }
    }

    /// Waits for the lock. A free lock that nobody waits for is taken without suspending (B-LOCK-01).
    ///
    #[doc = lost!(lock_acquire)]
    pub async fn acquire(&self) -> LockGuard<'_> {
        if !self.is_free() {
            Turn::new(&self.waiters, || self.pass_on()).await;
        }
        self.take()
    }

    /// Takes the lock if it is free and nobody waits for it.
    pub fn try_acquire(&self) -> Option<LockGuard<'_>> {
        self.is_free().then(|| self.take())
    }

    fn take(&self) -> LockGuard<'_> {
        self.locked.set(true);
        self.waiters.note_held();
        LockGuard { lock: self }
    }

    /// Whether somebody holds the lock: not between a release and the run of the next in turn
    /// (B-LOCK-03).
    pub fn is_locked(&self) -> bool {
        self.locked.get()
    }

    fn is_free(&self) -> bool {
        !self.locked.get() && self.waiters.is_empty()
    }

    fn pass_on(&self) {
        self.waiters.grant();
    }
}

impl Default for Lock {
    #[track_caller]
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Lock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lock")
            .field("locked", &self.is_locked())
            .field("waiting", &self.waiters.waiting())
            .finish()
    }
}

/// Holds a [`Lock`]; dropping it releases the lock (B-LOCK-06).
#[must_use = "the lock is released when the guard is dropped"]
pub struct LockGuard<'a> {
    lock: &'a Lock,
}

impl<'a> LockGuard<'a> {
    /// The lock that is held.
    pub(super) fn lock(&self) -> &'a Lock {
        self.lock
    }
}

impl Drop for LockGuard<'_> {
    fn drop(&mut self) {
        self.lock.locked.set(false);
        self.lock.waiters.note_released();
        self.lock.pass_on();
    }
}

impl fmt::Debug for LockGuard<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockGuard").finish_non_exhaustive()
    }
}
