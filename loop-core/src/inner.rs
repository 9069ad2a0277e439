//! The loop's fields. Nothing here runs user code.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use loop_handle::{Handle, HandlePool, TimerOwner};
use loop_selector::{Process, Selector};
use loop_timer::{TimerHeap, TimerKey};

use crate::before_wait::BeforeWait;
use crate::cancel::NodeId;
use crate::clock::Clock;
use crate::executor::{DefaultPool, Jobs};
use crate::fresh_sleep::FreshSleep;
use crate::inbox::Inbox;
use crate::io_table::IoTable;
use crate::ready::ReadyQueue;
use crate::report::ExceptionHandler;
use crate::signals::SignalTable;
use crate::stats::Counters;
use crate::task::{SpawnHook, TaskKey, TaskTable, TaskWaker};
#[cfg(feature = "tracing")]
use crate::trace;
use crate::watchdog::Pulse;

/// What happens when a timer is due.
pub(crate) enum TimerItem {
    /// A callback joins the ready queue.
    Callback(Handle),
    /// A task has its next step: it sleeps.
    Step(TaskKey),
    /// A waker is woken: something else sleeps.
    Wake(std::task::Waker),
    /// A scope of a task ends.
    Expire(TaskKey, NodeId),
}

impl TimerItem {
    /// Drops the closure now, also while a user holds its handle: for closing.
    pub(crate) fn cancel(self) {
        match self {
            TimerItem::Callback(handle) => handle.cancel(),
            TimerItem::Wake(waker) => drop(waker),
            TimerItem::Step(_) | TimerItem::Expire(..) => {}
        }
    }
}

/// Debug mode is on. Set and cleared by the user.
pub(crate) const DEBUG: u8 = 1 << 0;
/// There is a watchdog.
pub(crate) const WATCHDOG: u8 = 1 << 1;
/// The selector watches descriptors.
pub(crate) const DESCRIPTORS: u8 = 1 << 2;
/// There may be timers: set when one is added, cleared by the iteration that finds none.
pub(crate) const TIMERS: u8 = 1 << 3;

/// There is a sleep to [settle](Inner::settle).
pub(crate) const FRESH: u8 = 1 << 4;
/// There is a timer that the next such sleep takes over.
pub(crate) const SPARE: u8 = 1 << 5;

/// Something is put off until the end of the iteration.
pub(crate) const BEFORE_WAIT: u8 = 1 << 6;

/// Signals are, or were, handled.
pub(crate) const SIGNALS: u8 = 1 << 7;

/// Small fields, each borrowed for one statement and never across user code.
pub(crate) struct Inner {
    pub(crate) id: u64,
    /// Where it may run.
    pub(crate) process: Process,
    pub(crate) clock: Rc<dyn Clock>,
    pub(crate) start: Instant,
    pub(crate) handles: HandlePool,
    pub(crate) ready: ReadyQueue,
    pub(crate) timers: RefCell<TimerHeap<TimerItem, u64>>,
    pub(crate) fresh_sleep: FreshSleep,
    /// `None` once the loop is closed.
    pub(crate) selector: RefCell<Option<Box<dyn Selector>>>,
    pub(crate) selector_name: &'static str,
    pub(crate) io: RefCell<IoTable>,
    pub(crate) tasks: RefCell<TaskTable>,
    /// Lent to steps that do not come from the ready queue. Nobody holds it.
    pub(crate) spare_waker: Cell<Option<TaskWaker>>,
    pub(crate) spawn_hook: RefCell<Option<Rc<dyn SpawnHook>>>,
    pub(crate) inbox: Arc<Inbox>,
    pub(crate) signals: RefCell<SignalTable>,
    pub(crate) jobs: RefCell<Jobs>,
    pub(crate) executor: RefCell<DefaultPool>,
    pub(crate) handler: RefCell<Option<ExceptionHandler>>,
    /// How many events the latest wait has brought.
    pub(crate) events: Cell<usize>,
    /// Whether a batch runs.
    pub(crate) iterating: Cell<bool>,
    /// What follows it.
    pub(crate) before_wait: RefCell<Vec<Rc<dyn BeforeWait>>>,
    pub(crate) stopping: Cell<bool>,
    pub(crate) running: Cell<bool>,
    pub(crate) closed: Cell<bool>,
    /// What is to be looked at beside the ready queue, and who looks on: [`DEBUG`] and what follows it.
    pub(crate) marks: Cell<u8>,
    pub(crate) watchdog: RefCell<Option<Arc<Pulse>>>,
    pub(crate) counters: Counters,
    pub(crate) slow_callback_duration: Cell<Duration>,
}

impl Inner {
    /// Comes before anything runs: does what was put off until then, and tells whether anybody looks on. The one
    /// test that a callback pays for both.
    #[inline]
    pub(crate) fn before_next(&self) -> bool {
        !self.is_undisturbed() && self.settle_and_look()
    }

    /// Whether nothing comes before what runs next, and nobody looks on.
    #[inline]
    pub(crate) fn is_undisturbed(&self) -> bool {
        #[cfg(feature = "tracing")]
        if trace::is_on() {
            return false;
        }
        !self.is_marked(DEBUG | WATCHDOG | FRESH)
    }

    #[cold]
    fn settle_and_look(&self) -> bool {
        self.settle();
        !self.is_undisturbed()
    }

    /// Whether any of these marks is set.
    #[inline]
    pub(crate) fn is_marked(&self, marks: u8) -> bool {
        self.marks.get() & marks != 0
    }

    #[inline]
    pub(crate) fn mark(&self, marks: u8) {
        self.marks.set(self.marks.get() | marks);
    }

    pub(crate) fn unmark(&self, marks: u8) {
        self.marks.set(self.marks.get() & !marks);
    }

    /// The number of the present iteration; it wraps.
    #[inline]
    pub(crate) fn iteration(&self) -> u32 {
        self.counters.iterations.get() as u32
    }

    /// Whether an iteration has nothing to do but to run what is ready: no descriptor, timer or watchdog to
    /// look after, and nothing from other threads or signals, which wake whenever they bring something.
    #[inline]
    pub(crate) fn is_quiet(&self) -> bool {
        !self.is_marked(WATCHDOG | DESCRIPTORS | TIMERS)
            && self.ready.has_incoming()
            && !self.inbox.is_woken()
    }

    /// Nanoseconds from the loop's start to `when`: 0 for the past, `u64::MAX` for what lies beyond.
    pub(crate) fn ticks(&self, when: Instant) -> u64 {
        nanoseconds(when.saturating_duration_since(self.start))
    }

    /// As [`ticks`](Self::ticks), of the moment that comes after so many nanoseconds.
    #[inline]
    pub(crate) fn ticks_in(&self, delay: u64) -> u64 {
        self.ticks(self.now()).saturating_add(delay)
    }

    /// Up to which tick timers are due now: less than one step of the clock ahead (B-TMR-03).
    pub(crate) fn due(&self) -> u64 {
        self.due_at(self.ticks(self.now()))
    }

    pub(crate) fn due_at(&self, now: u64) -> u64 {
        let step = u64::try_from(self.clock.resolution().as_nanos()).unwrap_or(u64::MAX);
        let due = now.saturating_add(step.saturating_sub(1));
        // The end of time never comes: what was clamped there does not fire (D-5).
        due.min(u64::MAX - 1)
    }

    pub(crate) fn insert_timer(&self, when: Instant, item: TimerItem) -> TimerKey {
        self.insert_timer_at(self.ticks(when), item)
    }

    pub(crate) fn insert_timer_at(&self, ticks: u64, item: TimerItem) -> TimerKey {
        self.settle();
        self.mark(TIMERS);
        self.timers.borrow_mut().insert(ticks, item)
    }

    /// Takes a timer out. The caller drops what comes back with no borrow held.
    #[must_use]
    pub(crate) fn take_timer(&self, key: TimerKey) -> Option<TimerItem> {
        self.timers.borrow_mut().cancel(key)
    }
}

/// `u64::MAX` for what is longer.
#[inline]
pub(crate) fn nanoseconds(time: Duration) -> u64 {
    time.as_secs().saturating_mul(1_000_000_000).saturating_add(time.subsec_nanos().into())
}

impl TimerOwner for Inner {
    fn timer_cancelled(&self, id: u64) {
        let item = self.take_timer(TimerKey::from_bits(id));
        drop(item);
    }

    fn timer_rescheduled(&self, id: u64, when: Instant) -> bool {
        self.settle();
        let ticks = self.ticks(when);
        self.timers.borrow_mut().reschedule(TimerKey::from_bits(id), ticks)
    }
}
