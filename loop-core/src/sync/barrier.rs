//! `Barrier`: nobody goes on before everybody has come.

use std::cell::Cell;
use std::error::Error;
use std::fmt;
use std::io;
use std::num::NonZeroUsize;
use std::panic::Location;

use super::wait_list::{Turn, WaitList};

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// Waiting for the rest to come.
    Filling,
    /// All have come and are leaving; who comes now waits for the next round.
    Draining,
    /// As draining, but those inside leave with an error.
    Resetting,
    /// Everybody fails until a reset.
    Broken,
}

/// A meeting point of a fixed number of tasks, used again and again; asyncio's `Barrier`.
///
/// ```
/// # use loop_core::{run, spawn, sync::Barrier};
/// # use std::rc::Rc;
/// # run(async {
/// let barrier = Rc::new(Barrier::new(2.try_into().unwrap()));
/// let other = barrier.clone();
/// let task = spawn(async move { other.wait().await });
/// let (ours, theirs) = (barrier.wait().await.unwrap(), task.await.unwrap().unwrap());
/// assert_eq!(ours + theirs, 1); // one got 0, the other 1
/// # }).unwrap();
/// ```
pub struct Barrier {
    parties: NonZeroUsize,
    state: Cell<State>,
    inside: Cell<usize>,
    left: Cell<usize>,
    changed: WaitList,
}

impl Barrier {
    /// A barrier for `parties` tasks (B-BAR-07).
    #[track_caller]
    pub fn new(parties: NonZeroUsize) -> Self {
        Barrier {
            parties,
            state: Cell::new(State::Filling),
            inside: Cell::new(0),
            left: Cell::new(0),
            changed: WaitList::new("barrier", Location::caller()),
        }
    }

    /// Waits until all have come. Each gets another number, from 0 up (B-BAR-01). Who comes while the round
    /// before still leaves waits for the next (B-BAR-02).
    ///
    #[doc = lost!(barrier_wait)]
    ///
    /// # Errors
    /// [`BrokenBarrier`] after an [`abort`](Self::abort), or a [`reset`](Self::reset) meanwhile.
    pub async fn wait(&self) -> Result<usize, BrokenBarrier> {
        while matches!(self.state.get(), State::Draining | State::Resetting) {
            Turn::new(&self.changed, || ()).await;
        }
        if self.state.get() == State::Broken {
            return Err(BrokenBarrier);
        }
        let _inside = Inside::enter(self);
        if self.inside.get() == self.parties.get() {
            self.left.set(0);
            self.change(State::Draining);
        }
        while self.state.get() == State::Filling {
            Turn::new(&self.changed, || ()).await;
        }
        if self.state.get() != State::Draining {
            return Err(BrokenBarrier);
        }
        Ok(self.left.replace(self.left.get() + 1))
    }

    /// Fails those who wait and makes the barrier as new once they have left (B-BAR-04, B-BAR-05).
    pub fn reset(&self) {
        let inside = self.inside.get() > 0;
        self.change(if inside { State::Resetting } else { State::Filling });
    }

    /// Fails those who wait and those who will, until a [`reset`](Self::reset) (B-BAR-06).
    pub fn abort(&self) {
        self.change(State::Broken);
    }

    /// For how many tasks it is.
    pub fn parties(&self) -> NonZeroUsize {
        self.parties
    }

    /// How many wait for the rest: 0 unless it fills.
    pub fn n_waiting(&self) -> usize {
        if self.state.get() == State::Filling { self.inside.get() } else { 0 }
    }

    /// Whether it was aborted.
    pub fn is_broken(&self) -> bool {
        self.state.get() == State::Broken
    }

    fn change(&self, state: State) {
        self.state.set(state);
        self.changed.grant_all();
    }
}

/// Counts one task from its coming to its leaving.
struct Inside<'a> {
    barrier: &'a Barrier,
}

impl<'a> Inside<'a> {
    fn enter(barrier: &'a Barrier) -> Self {
        barrier.inside.set(barrier.inside.get() + 1);
        Inside { barrier }
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        let barrier = self.barrier;
        barrier.inside.set(barrier.inside.get() - 1);
        if barrier.inside.get() == 0
            && matches!(barrier.state.get(), State::Draining | State::Resetting)
        {
            barrier.change(State::Filling);
        }
    }
}

impl fmt::Debug for Barrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Barrier")
            .field("parties", &self.parties)
            .field("n_waiting", &self.n_waiting())
            .field("broken", &self.is_broken())
            .finish()
    }
}

/// The barrier was aborted, or reset while this task waited at it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BrokenBarrier;

impl fmt::Display for BrokenBarrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the barrier is broken")
    }
}

impl Error for BrokenBarrier {}

impl From<BrokenBarrier> for io::Error {
    fn from(error: BrokenBarrier) -> io::Error {
        io::Error::other(error)
    }
}
