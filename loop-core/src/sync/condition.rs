//! `Condition`: waiting, under a lock, for something to become true.

use std::fmt;
use std::panic::Location;

use super::lock::LockGuard;
use super::wait_list::{Turn, WaitList};
use crate::guard::Undeterred;

/// Lets tasks that hold a [`Lock`](super::Lock) wait for a change that others make under it; asyncio's
/// `Condition`. One lock may have several conditions.
///
/// Waiting takes the guard and gives it back with the lock held again. If the wait is dropped, by a timeout
/// say, the guard is gone with it and the lock is not held: the types say so.
///
/// ```
/// # use loop_core::{run, spawn, sync::{Condition, Lock}};
/// # use std::{cell::Cell, rc::Rc};
/// # run(async {
/// let shared = Rc::new((Lock::new(), Condition::new(), Cell::new(0)));
/// let other = shared.clone();
/// let task = spawn(async move {
///     let (lock, changed, level) = &*other;
///     let held = lock.acquire().await;
///     let _held = changed.wait_while(held, || level.get() < 3).await;
///     level.get()
/// });
/// let (lock, changed, level) = &*shared;
/// for _ in 0..3 {
///     let held = lock.acquire().await;
///     level.set(level.get() + 1);
///     changed.notify_all(&held);
/// }
/// assert_eq!(task.await.unwrap(), 3);
/// # }).unwrap();
/// ```
pub struct Condition {
    waiters: WaitList,
}

impl Condition {
    /// A condition that nobody waits for.
    #[track_caller]
    pub fn new() -> Self {
        Condition { waiters: WaitList::new("condition", Location::caller()) }
    }

    /// Releases the lock, sleeps until notified, and takes the lock again (B-COND-02).
    ///
    #[doc = lost!(condition_wait)]
    pub async fn wait<'a>(&self, guard: LockGuard<'a>) -> LockGuard<'a> {
        let lock = guard.lock();
        let mut turn = Turn::new(&self.waiters, || self.wake(1));
        turn.enter().await;
        drop(guard);
        turn.await;
        let notified = Notified { condition: self };
        let guard = lock.acquire().await;
        std::mem::forget(notified);
        guard
    }

    /// Waits, as often as need be, until `wait` says no more; it is asked under the lock (B-COND-06).
    ///
    #[doc = lost!(condition_wait_while)]
    pub async fn wait_while<'a>(
        &self,
        guard: LockGuard<'a>,
        mut wait: impl FnMut() -> bool,
    ) -> LockGuard<'a> {
        let mut guard = guard;
        while wait() {
            guard = self.wait(guard).await;
        }
        guard
    }

    /// Wakes the first `count` of those who wait; there may be fewer. The lock must be held, and the guard
    /// shows that it is (B-COND-01, B-COND-03).
    pub fn notify(&self, guard: &LockGuard<'_>, count: usize) {
        let _ = guard;
        self.wake(count);
    }

    /// Wakes all who wait.
    pub fn notify_all(&self, guard: &LockGuard<'_>) {
        self.notify(guard, self.waiters.waiting());
    }

    fn wake(&self, count: usize) {
        let mut wakes = Undeterred::default();
        for _ in 0..count.min(self.waiters.waiting()) {
            wakes.run(|| {
                self.waiters.grant();
            });
        }
        wakes.finish();
    }
}

/// A notification that was received and not acted on yet.
struct Notified<'a> {
    condition: &'a Condition,
}

impl Drop for Notified<'_> {
    fn drop(&mut self) {
        self.condition.wake(1);
    }
}

impl Default for Condition {
    #[track_caller]
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Condition").field("waiting", &self.waiters.waiting()).finish()
    }
}
