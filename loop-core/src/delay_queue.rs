//! `DelayQueue`: values that come out when their time has come.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::poll_fn;
use std::panic::Location;
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use futures_core::Stream;
use loop_timer::{TimerHeap, TimerKey};

use crate::awaited::{Awaited, Listing};
use crate::clock::saturating_add;
use crate::introspect::WaitsFor;
use crate::loop_ref::LoopRef;
use crate::sleep::waking_timer;
use crate::waiters::Waiters;

/// Values with a deadline each, given out in the order of their deadlines, equal ones in the order of
/// their insertion.
///
/// Any number of values cost one timer of the loop. It is made for one thread: share it through an
/// `Rc`, insert and remove from anywhere, wait in as many tasks as you like; each value goes to one.
///
/// ```
/// # use loop_core::{DelayQueue, run};
/// # use std::time::Duration;
/// # run(async {
/// let sessions = DelayQueue::new();
/// let alice = sessions.insert("alice", Duration::from_millis(1));
/// let bob = sessions.insert("bob", Duration::from_millis(2));
/// sessions.reset(alice, Duration::from_millis(3)); // she is still there
///
/// while let Some(expired) = sessions.next().await {
///     println!("{} has left", expired.value);
/// }
/// assert_eq!(sessions.remove(bob), None); // the key is stale: bob has come out
/// # }).unwrap();
/// ```
pub struct DelayQueue<T> {
    lp: LoopRef,
    items: RefCell<TimerHeap<T, u64>>,
    waiting: Rc<Waiting>,
    /// Which waiter looks after the queue: it has the alarm, or was woken and has not been polled since.
    /// While there are values and waiters, one of them does.
    keeper: Cell<Option<u64>>,
    /// The timer that wakes the keeper at the earliest deadline.
    alarm: Cell<Option<TimerKey>>,
}

/// Who waits for a queue.
struct Waiting {
    /// The loop's number.
    home: u64,
    site: &'static Location<'static>,
    waiters: Waiters,
    listing: Listing,
}

impl Awaited for Waiting {
    fn each_wait(&self, visit: &mut dyn FnMut(&Waker, WaitsFor)) {
        let visit = &mut |waker: &Waker| visit(waker, WaitsFor::object("delay queue", self.site));
        self.waiters.each_waker(self.home, visit);
    }
}

/// A value in a [`DelayQueue`], by name. Once the value is out, the key is stale for ever: no method
/// takes it for another value's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DelayKey(TimerKey);

/// What a [`DelayQueue`] gives out.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Expired<T> {
    /// The value.
    pub value: T,
    /// The key that it had.
    pub key: DelayKey,
    /// When it was due, on the loop's clock; not before the loop's creation.
    pub deadline: Instant,
}

impl<T> DelayQueue<T> {
    /// An empty queue on the loop that runs on this thread.
    ///
    /// # Panics
    /// If no loop runs on this thread; [`on`](Self::on) takes one that does not run yet.
    #[track_caller]
    pub fn new() -> Self {
        Self::on(&LoopRef::current())
    }

    /// An empty queue on a loop's clock.
    #[track_caller]
    pub fn on(lp: &LoopRef) -> Self {
        let (site, listing) = (Location::caller(), Listing::new());
        DelayQueue {
            lp: lp.clone(),
            items: RefCell::new(TimerHeap::new()),
            waiting: Rc::new(Waiting {
                home: lp.inner.id,
                site,
                waiters: Waiters::default(),
                listing,
            }),
            keeper: Cell::new(None),
            alarm: Cell::new(None),
        }
    }

    /// Puts a value in, due once `delay` has passed. O(log n) at the worst.
    pub fn insert(&self, value: T, delay: Duration) -> DelayKey {
        self.insert_at(value, saturating_add(self.lp.now(), delay))
    }

    /// Puts a value in, due once the loop's clock reads `deadline`. A deadline beyond the end of time
    /// never comes.
    pub fn insert_at(&self, value: T, deadline: Instant) -> DelayKey {
        let ticks = self.lp.inner.ticks(deadline);
        let key = self.items.borrow_mut().insert(ticks, value);
        self.set_alarm();
        DelayKey(key)
    }

    /// Takes a value out before its time; `None` if the key is stale. Whoever waits for a queue that
    /// becomes empty by this is woken and gets `None`.
    pub fn remove(&self, key: DelayKey) -> Option<T> {
        let value = self.items.borrow_mut().cancel(key.0)?;
        self.set_alarm();
        Some(value)
    }

    /// Gives a value a new delay, counted from now; `false` if the key is stale.
    pub fn reset(&self, key: DelayKey, delay: Duration) -> bool {
        self.reset_at(key, saturating_add(self.lp.now(), delay))
    }

    /// Gives a value a new deadline; `false` if the key is stale. It comes out behind those that had
    /// this deadline already.
    pub fn reset_at(&self, key: DelayKey, deadline: Instant) -> bool {
        let ticks = self.lp.inner.ticks(deadline);
        let found = self.items.borrow_mut().reschedule(key.0, ticks);
        if found {
            self.set_alarm();
        }
        found
    }

    /// When a value is due; `None` if the key is stale.
    pub fn deadline(&self, key: DelayKey) -> Option<Instant> {
        self.items.borrow().deadline(key.0).map(|ticks| self.instant(ticks))
    }

    /// Drops every value.
    pub fn clear(&self) {
        let items = std::mem::replace(&mut *self.items.borrow_mut(), TimerHeap::new());
        self.set_alarm();
        drop(items);
    }

    /// How many values are in it, due ones included.
    pub fn len(&self) -> usize {
        self.items.borrow().len()
    }

    /// Whether no value is in it.
    pub fn is_empty(&self) -> bool {
        self.items.borrow().is_empty()
    }

    /// Waits for the next value that is due; `None` if the queue is empty or becomes so. A task that is to go on
    /// then waits for the next insertion by other means, a [`sync::Event`](crate::sync::Event) say.
    ///
    #[doc = lost!(delay_queue_next)]
    pub async fn next(&self) -> Option<Expired<T>> {
        let mut expirations = self.expirations();
        poll_fn(|cx| expirations.poll(cx)).await
    }

    /// The values that come due, as a stream. It ends when the queue is empty, and goes on if it is
    /// polled again after another insertion. Dropping it loses no value.
    pub fn expirations(&self) -> Expirations<'_, T> {
        Expirations { queue: self, ticket: None }
    }

    fn instant(&self, ticks: u64) -> Instant {
        saturating_add(self.lp.inner.start, Duration::from_nanos(ticks))
    }

    fn pop_due(&self) -> Option<Expired<T>> {
        if self.is_empty() {
            return None;
        }
        let due = self.lp.inner.due();
        let (ticks, key, value) = self.items.borrow_mut().pop_due(due)?;
        Some(Expired { value, key: DelayKey(key), deadline: self.instant(ticks) })
    }

    /// After a change: an alarm that is set rings at the earliest deadline; if nothing is left to wait
    /// for, everybody is told.
    fn set_alarm(&self) {
        let deadline = self.items.borrow_mut().next_deadline();
        match (deadline, self.alarm.get()) {
            (Some(ticks), Some(alarm)) => {
                self.lp.inner.timers.borrow_mut().reschedule(alarm, ticks);
            }
            (Some(_), None) => {}
            (None, _) => {
                self.stop_alarm();
                self.keeper.set(None);
                self.waiting.waiters.complete(Some(&self.lp));
            }
        }
    }

    /// Sets the alarm for the keeper.
    fn start_alarm(&self, cx: &Context<'_>) {
        self.stop_alarm();
        let deadline = self.items.borrow_mut().next_deadline();
        if let Some(ticks) = deadline.filter(|_| !self.lp.is_closed()) {
            let item = waking_timer(&self.lp.inner, cx);
            self.alarm.set(Some(self.lp.inner.insert_timer_at(ticks, item)));
        }
    }

    fn stop_alarm(&self) {
        if let Some(alarm) = self.alarm.take() {
            let item = self.lp.inner.take_timer(alarm);
            drop(item);
        }
    }

    /// The keeper goes: the longest waiting of the others is woken to take over.
    fn hand_over(&self) {
        self.stop_alarm();
        let next = self.waiting.waiters.take_first_awaiter();
        self.keeper.set(next.as_ref().map(|(ticket, _)| *ticket));
        if let Some((_, awaiter)) = next {
            awaiter.wake(self.waiting.home);
        }
    }

    /// Takes a waiter off the list, who has what it wanted or is gone.
    fn leave(&self, ticket: &mut Option<u64>) {
        let Some(ticket) = ticket.take() else { return };
        self.waiting.waiters.deregister(ticket);
        if self.keeper.get() == Some(ticket) {
            self.hand_over();
        }
    }
}

impl<T> Default for DelayQueue<T> {
    /// As [`new`](Self::new).
    #[track_caller]
    fn default() -> Self {
        Self::new()
    }
}

impl<T> fmt::Debug for DelayQueue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DelayQueue").field("len", &self.len()).finish_non_exhaustive()
    }
}

/// The values of a [`DelayQueue`] as they come due; see [`DelayQueue::expirations`].
#[must_use = "streams do nothing unless they are polled"]
pub struct Expirations<'a, T> {
    queue: &'a DelayQueue<T>,
    ticket: Option<u64>,
}

impl<T> Expirations<'_, T> {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Expired<T>>> {
        let Expirations { queue, ticket } = self;
        let expired = queue.pop_due();
        if expired.is_some() || queue.is_empty() {
            if queue.is_empty() {
                queue.set_alarm(); // the others need not wait any longer
            }
            queue.leave(ticket);
            return Poll::Ready(expired);
        }
        let was_keeper = ticket.is_some() && *ticket == queue.keeper.get();
        let waiting = &queue.waiting;
        waiting.listing.enter(|| Rc::downgrade(waiting) as Weak<dyn Awaited>);
        waiting.waiters.register(waiting.home, ticket, cx.waker());
        if was_keeper || queue.keeper.get().is_none() {
            queue.keeper.set(*ticket);
            queue.start_alarm(cx);
        }
        Poll::Pending
    }
}

impl<T> Stream for Expirations<'_, T> {
    type Item = Expired<T>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Expired<T>>> {
        self.get_mut().poll(cx)
    }
}

impl<T> Drop for Expirations<'_, T> {
    fn drop(&mut self) {
        self.queue.leave(&mut self.ticket);
    }
}

impl<T> fmt::Debug for Expirations<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Expirations").field("queue", self.queue).finish_non_exhaustive()
    }
}
