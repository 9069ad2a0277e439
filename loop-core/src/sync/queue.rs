//! `Queue`, `LifoQueue`, `PriorityQueue`: items from some tasks to others.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::num::NonZeroUsize;
use std::panic::Location;

use super::queue_error::{PutError, QueueShutDown, TryGetError, TryPutError};
use super::queue_store::{Fifo, Lifo, QueueStore, Smallest};
use super::wait_list::{Turn, WaitList};
use crate::guard::{Undeterred, hold_panic};

/// What happens to the items that are left when a queue is shut down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Shutdown {
    /// They can still be got (B-QUE-09).
    Drain,
    /// They are dropped, and each counts as done (B-QUE-11).
    Immediate,
}

/// A queue between tasks, whose `S` decides what comes out next: [`Queue`], [`LifoQueue`] or
/// [`PriorityQueue`].
///
/// One put wakes one task that waits to get, one get wakes one that waits to put, in the order in which
/// they came (B-QUE-04). A task that is cancelled after it was woken wakes the next: no item is lost and
/// nobody sleeps beside one (B-QUE-05, B-QUE-06).
///
/// ```
/// # use loop_core::{run, spawn, sync::Queue};
/// # use std::rc::Rc;
/// # run(async {
/// let queue = Rc::new(Queue::bounded(2.try_into().unwrap()));
/// let source = queue.clone();
/// let producer = spawn(async move {
///     for n in 0..5 {
///         source.put(n).await.unwrap(); // waits while two items are in it
///     }
/// });
/// for n in 0..5 {
///     assert_eq!(queue.get().await, Ok(n));
///     queue.task_done();
/// }
/// queue.join().await; // every item was marked done
/// producer.await.unwrap();
/// # }).unwrap();
/// ```
pub struct QueueOf<T, S: QueueStore<T>> {
    items: RefCell<S>,
    max_size: Option<NonZeroUsize>,
    unfinished: Cell<usize>,
    shut_down: Cell<Option<Shutdown>>,
    getters: WaitList,
    putters: WaitList,
    joiners: WaitList,
    kind: std::marker::PhantomData<T>,
}

/// A queue that gives the oldest item out first; asyncio's `Queue`.
pub type Queue<T> = QueueOf<T, Fifo<T>>;

/// A queue that gives the newest item out first; asyncio's `LifoQueue`.
pub type LifoQueue<T> = QueueOf<T, Lifo<T>>;

/// A queue that gives the smallest item out first; asyncio's `PriorityQueue`. Its items' `Ord` must not
/// use the queue.
pub type PriorityQueue<T> = QueueOf<T, Smallest<T>>;

impl<T, S: QueueStore<T>> QueueOf<T, S> {
    /// A queue without a bound (B-QUE-02).
    #[track_caller]
    pub fn new() -> Self {
        Self::with_max_size(None)
    }

    /// A queue of at most `max_size` items.
    #[track_caller]
    pub fn bounded(max_size: NonZeroUsize) -> Self {
        Self::with_max_size(Some(max_size))
    }

    #[track_caller]
    fn with_max_size(max_size: Option<NonZeroUsize>) -> Self {
        let site = Location::caller();
        QueueOf {
            items: RefCell::default(),
            max_size,
            unfinished: Cell::new(0),
            shut_down: Cell::new(None),
            getters: WaitList::new("item of a queue", site),
            putters: WaitList::new("room in a queue", site),
            joiners: WaitList::new("end of a queue's work", site),
            kind: std::marker::PhantomData,
        }
    }

    /// How many items are in it.
    pub fn len(&self) -> usize {
        self.items.borrow().len()
    }

    /// Whether no item is in it.
    pub fn is_empty(&self) -> bool {
        self.items.borrow().is_empty()
    }

    /// Whether it has all the items it may have; never, without a bound.
    pub fn is_full(&self) -> bool {
        self.max_size.is_some_and(|max_size| self.len() >= max_size.get())
    }

    /// How many items it may have.
    pub fn max_size(&self) -> Option<NonZeroUsize> {
        self.max_size
    }

    /// Puts an item in, and waits while the queue is full (B-QUE-03).
    ///
    #[doc = lost!(queue_put)]
    ///
    /// # Errors
    /// [`PutError`] with the item, once the queue is shut down.
    pub async fn put(&self, item: T) -> Result<(), PutError<T>> {
        let mut item = item;
        loop {
            match self.try_put(item) {
                Ok(()) => return Ok(()),
                Err(TryPutError::ShutDown(item)) => return Err(PutError(item)),
                Err(TryPutError::Full(back)) => item = back,
            }
            Turn::new(&self.putters, || self.pass_on_put()).await;
        }
    }

    /// Puts an item in if there is room.
    ///
    /// # Errors
    /// The item comes back if the queue is full or shut down.
    pub fn try_put(&self, item: T) -> Result<(), TryPutError<T>> {
        if self.shut_down.get().is_some() {
            return Err(TryPutError::ShutDown(item));
        }
        if self.is_full() {
            return Err(TryPutError::Full(item));
        }
        let before = self.len();
        let pushed = hold_panic(|| self.items.borrow_mut().push(item));
        // An item whose `Ord` has panicked is in all the same.
        if self.len() > before {
            self.unfinished.set(self.unfinished.get() + 1);
            self.getters.grant();
        }
        pushed.unwrap_or_else(|panic| panic.resume());
        Ok(())
    }

    /// Takes the next item, and waits while there is none.
    ///
    #[doc = lost!(queue_get)]
    ///
    /// # Errors
    /// [`QueueShutDown`] once the queue is shut down and, if it drains, empty.
    pub async fn get(&self) -> Result<T, QueueShutDown> {
        loop {
            match self.try_get() {
                Ok(item) => return Ok(item),
                Err(TryGetError::ShutDown) => return Err(QueueShutDown),
                Err(TryGetError::Empty) => {}
            }
            Turn::new(&self.getters, || self.pass_on_get()).await;
        }
    }

    /// Takes the next item if there is one.
    ///
    /// # Errors
    /// If there is none, or will be none any more.
    pub fn try_get(&self) -> Result<T, TryGetError> {
        match self.pop() {
            Some(item) => {
                self.putters.grant();
                Ok(item)
            }
            None if self.shut_down.get().is_some() => Err(TryGetError::ShutDown),
            None => Err(TryGetError::Empty),
        }
    }

    /// The next item. If an `Ord` panics, it is lost: nobody will mark it as done, and there is room.
    fn pop(&self) -> Option<T> {
        let before = self.len();
        let popped = hold_panic(|| self.items.borrow_mut().pop());
        popped.unwrap_or_else(|panic| {
            if self.len() < before {
                self.finish(1);
                self.putters.grant();
            }
            panic.resume()
        })
    }

    /// A getter went without using its turn: the next one gets it if there is something to get.
    fn pass_on_get(&self) {
        if !self.is_empty() || self.shut_down.get().is_some() {
            self.getters.grant();
        }
    }

    fn pass_on_put(&self) {
        if !self.is_full() || self.shut_down.get().is_some() {
            self.putters.grant();
        }
    }

    /// Marks one item that was got as done.
    ///
    /// # Panics
    /// If more items are marked than were put in: a bug in the caller (B-QUE-08).
    pub fn task_done(&self) {
        let unfinished = self.unfinished.get();
        assert!(unfinished > 0, "task_done was called more often than items were put in");
        self.finish(1);
    }

    fn finish(&self, count: usize) {
        let left = self.unfinished.get().saturating_sub(count);
        self.unfinished.set(left);
        if left == 0 {
            self.joiners.grant_all();
        }
    }

    /// Waits until every item that was put in was marked done; returns at once if that is so
    /// (B-QUE-08).
    ///
    #[doc = lost!(queue_join)]
    pub async fn join(&self) {
        while self.unfinished.get() > 0 {
            Turn::new(&self.joiners, || ()).await;
        }
    }

    /// Ends the queue: putting fails from now on, getting fails once nothing is left. Everybody who waits
    /// is woken to see it. Draining may be followed by [`Shutdown::Immediate`], not the other way round
    /// (B-QUE-09 to 12).
    pub fn shutdown(&self, how: Shutdown) {
        self.shut_down.set(self.shut_down.get().max(Some(how)));
        let mut all = Undeterred::default();
        let mut more = how == Shutdown::Immediate;
        while more {
            // One by one and unborrowed: destructors are user code, and may use the queue (B-QUE-13).
            let (before, mut item) = (self.len(), None);
            all.run(|| item = self.pop());
            more = item.is_some() || self.len() < before;
            if item.is_some() {
                all.run(|| drop(item));
                all.run(|| self.finish(1));
            }
        }
        all.run(|| self.getters.grant_all());
        all.run(|| self.putters.grant_all());
        all.finish();
    }
}

impl<T, S: QueueStore<T>> Default for QueueOf<T, S> {
    #[track_caller]
    fn default() -> Self {
        Self::new()
    }
}

impl<T, S: QueueStore<T>> fmt::Debug for QueueOf<T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue")
            .field("len", &self.len())
            .field("max_size", &self.max_size)
            .field("unfinished", &self.unfinished.get())
            .field("shut_down", &self.shut_down.get())
            .finish()
    }
}
