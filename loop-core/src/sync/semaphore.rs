//! `Semaphore`: so many at a time.

use std::cell::Cell;
use std::error::Error;
use std::fmt;
use std::io;
use std::panic::Location;
use std::rc::Rc;

use super::wait_list::{Turn, WaitList};
use crate::guard::Undeterred;

/// A number of permits; asyncio's `Semaphore` and `BoundedSemaphore`.
///
/// First come, first served; nobody overtakes a task that waits (B-SEM-02). A permit that comes back while
/// somebody waits goes to the first of them at once (B-SEM-03); if that one is cancelled before it runs,
/// it goes on to the next (B-SEM-04).
///
/// ```
/// # use loop_core::{run, sync::Semaphore};
/// # run(async {
/// let downloads = Semaphore::new(2);
/// let first = downloads.acquire().await;
/// let _second = downloads.acquire().await;
/// assert!(downloads.try_acquire().is_none());
/// drop(first);
/// assert!(downloads.try_acquire().is_some());
/// # }).unwrap();
/// ```
pub struct Semaphore {
    free: Cell<usize>,
    bound: Option<usize>,
    waiters: WaitList,
}

impl Semaphore {
    /// `permits` to begin with, and no upper bound; 0 makes everybody wait (B-SEM-01).
    #[track_caller]
    pub fn new(permits: usize) -> Self {
        Semaphore {
            free: Cell::new(permits),
            bound: None,
            waiters: WaitList::new("semaphore", Location::caller()),
        }
    }

    /// `permits` to begin with and at the most.
    #[track_caller]
    pub fn bounded(permits: usize) -> Self {
        Semaphore { bound: Some(permits), ..Self::new(permits) }
    }

    /// Waits for a permit.
    ///
    #[doc = lost!(semaphore_acquire)]
    pub async fn acquire(&self) -> Permit<'_> {
        match self.try_acquire() {
            Some(permit) => permit,
            None => {
                Turn::new(&self.waiters, || self.give_back(1)).await;
                Permit { semaphore: self }
            }
        }
    }

    /// Waits for a permit that shares the semaphore's ownership, to be given to another task: a program that waits
    /// for one before it spawns has no more tasks than there are permits.
    ///
    /// ```
    /// # use loop_core::{run, spawn, sync::Semaphore, yield_now};
    /// # use std::rc::Rc;
    /// # run(async {
    /// # async fn fetch(page: u32) { yield_now().await }
    /// let downloads = Rc::new(Semaphore::new(2));
    /// for page in 0..5 {
    ///     let permit = downloads.clone().acquire_owned().await; // while two are under way
    ///     spawn(async move {
    ///         fetch(page).await;
    ///         drop(permit);
    ///     })
    ///     .detach();
    /// }
    /// # }).unwrap();
    /// ```
    ///
    #[doc = lost!(semaphore_acquire_owned)]
    pub async fn acquire_owned(self: Rc<Self>) -> OwnedPermit {
        self.acquire().await.forget();
        OwnedPermit { semaphore: self, permits: 1 }
    }

    /// Takes a permit if one is free and nobody waits for it.
    pub fn try_acquire(&self) -> Option<Permit<'_>> {
        if self.is_locked() {
            return None;
        }
        self.free.set(self.free.get() - 1);
        Some(Permit { semaphore: self })
    }

    /// Whether [`acquire`](Self::acquire) would wait: no permit is free, or others wait.
    pub fn is_locked(&self) -> bool {
        self.free.get() == 0 || !self.waiters.is_empty()
    }

    /// How many permits are free.
    pub fn available(&self) -> usize {
        self.free.get()
    }

    /// Adds permits: the counterpart of [`Permit::forget`].
    ///
    /// # Errors
    /// [`TooManyReleases`] if a bounded semaphore would have more than it began with (B-SEM-06). Nothing
    /// is added then.
    pub fn release(&self, permits: usize) -> Result<(), TooManyReleases> {
        let free = self.free.get().checked_add(permits).ok_or(TooManyReleases)?;
        if self.bound.is_some_and(|bound| free > bound) {
            return Err(TooManyReleases);
        }
        self.give_back(permits);
        Ok(())
    }

    /// Permits go to those who wait, and the rest are free.
    fn give_back(&self, permits: usize) {
        self.free.set(self.free.get() + permits);
        let mut wakes = Undeterred::default();
        while self.free.get() > 0 && self.waiters.waiting() > 0 {
            // Taken before the grant: waking is user code.
            self.free.set(self.free.get() - 1);
            wakes.run(|| {
                self.waiters.grant();
            });
        }
        wakes.finish();
    }
}

impl fmt::Debug for Semaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Semaphore")
            .field("available", &self.available())
            .field("bound", &self.bound)
            .field("waiting", &self.waiters.waiting())
            .finish()
    }
}

/// One permit of a [`Semaphore`]; dropping it gives the permit back.
#[must_use = "the permit is given back when this is dropped"]
pub struct Permit<'a> {
    semaphore: &'a Semaphore,
}

impl Permit<'_> {
    /// Keeps the permit for good; [`Semaphore::release`] may bring it back.
    pub fn forget(self) {
        std::mem::forget(self);
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        self.semaphore.give_back(1);
    }
}

impl fmt::Debug for Permit<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit").finish_non_exhaustive()
    }
}

/// One permit, as [`Permit`], for a task of its own; from [`Semaphore::acquire_owned`].
#[must_use = "the permit is given back when this is dropped"]
pub struct OwnedPermit {
    semaphore: Rc<Semaphore>,
    /// None once it is forgotten.
    permits: usize,
}

impl OwnedPermit {
    /// As [`Permit::forget`].
    pub fn forget(mut self) {
        self.permits = 0;
    }
}

impl Drop for OwnedPermit {
    fn drop(&mut self) {
        self.semaphore.give_back(self.permits);
    }
}

impl fmt::Debug for OwnedPermit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnedPermit").finish_non_exhaustive()
    }
}

/// More permits were released than a bounded semaphore began with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooManyReleases;

impl fmt::Display for TooManyReleases {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("more permits were released than the semaphore began with")
    }
}

impl Error for TooManyReleases {}

impl From<TooManyReleases> for io::Error {
    fn from(error: TooManyReleases) -> io::Error {
        io::Error::other(error)
    }
}
