//! Loops made to order.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::io;
use std::num::NonZeroU32;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use loop_selector::{Process, Selector, default_selector};
use loop_timer::TimerHeap;

use crate::awaited;
use crate::clock::{Clock, MonotonicClock};
use crate::current;
use crate::event_loop::EventLoop;
use crate::fresh_sleep::FreshSleep;
use crate::inbox::Inbox;
use crate::inner::{DEBUG, DESCRIPTORS, Inner};
use crate::io_table::IoTable;
use crate::loop_ref::LoopRef;
use crate::loops;
use crate::pace::Pace;
use crate::ready::ReadyQueue;
use crate::run_once::Scratch;
use crate::signals::SignalTable;
use crate::sim::{AutoJump, Holds, SimSelector};
use crate::stats::Counters;
use crate::task::TaskTable;

static NEXT_ID: AtomicU64 = AtomicU64::new(1);

/// How a loop is made; from [`EventLoop::builder`].
///
/// ```
/// use loop_core::EventLoop;
/// use loop_selector::PollSelector;
///
/// let event_loop = EventLoop::builder()
///     .selector(Box::new(PollSelector::new()?))
///     .debug(true)
///     .build()?;
/// assert_eq!(event_loop.selector_name(), "poll");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Default)]
#[must_use = "nothing is built before `build()`"]
pub struct Builder {
    selector: Option<Box<dyn Selector>>,
    clock: Option<Rc<dyn Clock>>,
    /// Those of a selector that jumps.
    holds: Option<Holds>,
    debug: Option<bool>,
    busy_poll: Duration,
    coalesce: Duration,
    poll_every: Option<NonZeroU32>,
}

impl Builder {
    /// Waits with this selector instead of [`default_selector`].
    pub fn selector(mut self, selector: Box<dyn Selector>) -> Self {
        self.holds = None;
        self.selector = Some(selector);
        self
    }

    /// Reads the time from this clock instead of [`MonotonicClock`].
    pub fn clock(mut self, clock: Rc<dyn Clock>) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Runs in virtual time over a real selector; see [`AutoJump`]. Replaces selector and clock.
    pub fn virtual_time<S: Selector + 'static>(mut self, time: AutoJump<S>) -> Self {
        self.clock = Some(time.clock());
        self.holds = Some(time.holds());
        self.selector = Some(Box::new(time));
        self
    }

    /// Runs in virtual time and with no outside world: [`AutoJump`] over a [`SimSelector`].
    ///
    /// ```
    /// use loop_core::{EventLoop, LoopError, sleep, sync::Event};
    /// use std::time::Duration;
    ///
    /// let mut event_loop = EventLoop::builder().simulated()?.build()?;
    /// event_loop.run_until_complete(sleep(Duration::from_secs(86_400)))?; // takes no time
    ///
    /// let never = event_loop.run_until_complete(async { Event::new().wait().await });
    /// assert!(matches!(never, Err(LoopError::Deadlock(_)))); // and not a hang
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`SimSelector::new`].
    pub fn simulated(self) -> io::Result<Self> {
        Ok(self.virtual_time(AutoJump::new(SimSelector::new()?)))
    }

    /// Turns debug mode on or off whatever `LOOP_DEBUG` says (B-RUN-04).
    pub fn debug(mut self, on: bool) -> Self {
        self.debug = Some(on);
        self
    }

    /// Before a run waits, it goes on asking without waiting for this long after the last activity. Off, which is
    /// zero, unless it is said here.
    ///
    /// A peer that answers within that time finds the loop awake, which saves both its wake-up and the wait's
    /// latency: for request and response over few connections it is the one big lever, if a processor is free
    /// for it (`examples/busy_poll.rs` measures it). A loop that idles longer spends the time once and then
    /// sleeps as ever. Some tens of microseconds are usual. [`EventLoop::run_once`] does not do it: it is one
    /// iteration, and the host decides.
    pub fn busy_poll(mut self, limit: Duration) -> Self {
        self.busy_poll = limit;
        self
    }

    /// Lets requests gather: when a wait has found several descriptors ready, and all that was ready has run, a run
    /// pauses for this long before it asks the selector again. Off, which is zero, unless it is said here.
    ///
    /// What becomes ready during the pause is found in one wait, as network cards coalesce interrupts. The loop waits
    /// less often, and those who write to it need not wake it. A server with many clients answers more requests with
    /// less processor time.
    ///
    /// The price: everything (descriptors, timers, signals, calls from other threads) is seen later, by up to the pause
    /// and what the system adds to a short sleep. Linux adds 50 µs, unless the thread's timer slack is changed. Some
    /// tens of microseconds are usual.
    ///
    /// A lone client that waits for each answer never meets a pause, and a few clients hardly ever: where a pause only
    /// makes all of them wait, by more than 5 µs each, the next 16 to 1,024 waits go without one.
    ///
    /// [`busy_poll`](Self::busy_poll) spends processor time where this spends the clients' time. Neither is for
    /// [`EventLoop::run_once`].
    pub fn coalesce(mut self, pause: Duration) -> Self {
        self.coalesce = pause;
        self
    }

    /// While callbacks are ready, asks the selector only in every `n`-th iteration; 1 unless it is said here.
    ///
    /// A loop that is kept busy by callbacks saves a system call in the others, and its descriptors, and only
    /// those, are seen up to `n - 1` iterations later. Timers, signals and calls from other threads are looked at
    /// in each (B-LOOP-07 holds for each `n`-th).
    pub fn poll_every(mut self, n: NonZeroU32) -> Self {
        self.poll_every = Some(n);
        self
    }

    /// Makes the loop.
    ///
    /// # Errors
    /// If no selector can be made; the error names it.
    pub fn build(self) -> io::Result<EventLoop> {
        let selector = match self.selector {
            Some(selector) => selector,
            None => default_selector()?,
        };
        let fresh_sleep = FreshSleep::new(self.clock.is_none());
        let clock = self.clock.unwrap_or_else(|| Rc::new(MonotonicClock));
        let debug =
            self.debug.unwrap_or_else(|| std::env::var_os("LOOP_DEBUG").is_some_and(|v| v == "1"));
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        let waker = selector.waker();
        if debug || self.holds.is_some() {
            awaited::note_holders();
        }
        let marks = Cell::new(if debug { DEBUG } else { 0 });
        if !selector.registry().is_empty() {
            marks.set(marks.get() | DESCRIPTORS);
        }
        let inner = Rc::new(Inner {
            id,
            process: Process::current()?,
            start: clock.now(),
            clock,
            handles: Default::default(),
            ready: ReadyQueue::default(),
            timers: RefCell::new(TimerHeap::new()),
            fresh_sleep,
            selector_name: selector.name(),
            selector: RefCell::new(Some(selector)),
            io: RefCell::new(IoTable::default()),
            tasks: RefCell::new(TaskTable::default()),
            spare_waker: Cell::new(None),
            spawn_hook: RefCell::new(None),
            inbox: Arc::new(Inbox::new(id, waker.clone(), self.holds.unwrap_or_default())),
            signals: RefCell::new(SignalTable::new(waker)),
            jobs: RefCell::default(),
            executor: RefCell::default(),
            handler: RefCell::new(None),
            events: Cell::new(0),
            iterating: Cell::new(false),
            before_wait: RefCell::default(),
            stopping: Cell::new(false),
            running: Cell::new(false),
            closed: Cell::new(false),
            marks,
            watchdog: RefCell::new(None),
            counters: Counters::default(),
            slow_callback_duration: Cell::new(Duration::from_millis(100)),
        });
        current::add(&inner);
        loops::enter(&inner.inbox);
        let scratch = Scratch::new(&inner, self.poll_every.map_or(1, NonZeroU32::get));
        let pace = Pace::new(self.busy_poll, self.coalesce);
        Ok(EventLoop::assemble(LoopRef { inner }, scratch, pace))
    }
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("selector", &self.selector.as_ref().map(|selector| selector.name()))
            .field("debug", &self.debug)
            .finish_non_exhaustive()
    }
}
