//! `tokio::time::Sleep`: a future for each timer, registered by its first poll, on tokio's paused
//! clock. A timer that fires puts its number on a list, as a task would be put on a run queue.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use tokio::runtime::{EnterGuard, Runtime};
use tokio::time::{Instant, Sleep, advance, sleep_until};

use super::delay_queue::RUNTIME;
use super::timer_store::TimerStore;

#[derive(Default)]
struct Fired {
    /// Slots, the first to be taken at the end.
    slots: Vec<usize>,
    waits: Option<Waker>,
}

struct Timer {
    slot: usize,
    fired: Arc<Mutex<Fired>>,
}

impl Wake for Timer {
    fn wake(self: Arc<Self>) {
        let mut fired = self.fired.lock().unwrap();
        fired.slots.push(self.slot);
        let waits = fired.waits.take();
        drop(fired);
        waits.into_iter().for_each(Waker::wake);
    }
}

/// A sleep, the waker that it was polled with, and the timer's number.
type Registered = (Pin<Box<Sleep>>, Waker, u32);

pub(crate) struct Sleeps {
    sleeps: Vec<Option<Registered>>,
    free: Vec<usize>,
    fired: Arc<Mutex<Fired>>,
    due: std::vec::IntoIter<usize>,
    origin: Instant,
    now: u64,
    runtime: &'static Runtime,
    _inside: EnterGuard<'static>,
}

impl Sleeps {
    fn deadline(&self, when: u64) -> Instant {
        self.origin + Duration::from_millis(when)
    }

    fn take_due(&mut self) -> Option<u32> {
        loop {
            if self.due.as_slice().is_empty() {
                self.due = std::mem::take(&mut self.fired.lock().unwrap().slots).into_iter();
            }
            let slot = self.due.next()?;
            if let Some((_sleep, _waker, id)) = self.sleeps[slot].take() {
                self.free.push(slot);
                return Some(id);
            }
        }
    }
}

impl TimerStore for Sleeps {
    const NAME: &'static str = "tokio/sleep";
    const FIFO: bool = false;
    type Key = usize;

    fn new() -> Self {
        let runtime = RUNTIME.with(|&runtime| runtime);
        let inside = runtime.enter();
        Self {
            sleeps: Vec::new(),
            free: Vec::new(),
            fired: Arc::default(),
            due: Vec::new().into_iter(),
            origin: Instant::now(),
            now: 0,
            runtime,
            _inside: inside,
        }
    }

    fn insert(&mut self, when: u64, id: u32) -> usize {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.sleeps.push(None);
            self.sleeps.len() - 1
        });
        let waker = Waker::from(Arc::new(Timer { slot, fired: Arc::clone(&self.fired) }));
        let mut sleep = Box::pin(sleep_until(self.deadline(when)));
        if sleep.as_mut().poll(&mut Context::from_waker(&waker)).is_ready() {
            waker.wake_by_ref();
        }
        self.sleeps[slot] = Some((sleep, waker, id));
        slot
    }

    fn cancel(&mut self, key: usize) -> Option<u32> {
        let (_sleep, _waker, id) = self.sleeps[key].take()?;
        self.free.push(key);
        Some(id)
    }

    fn reschedule(&mut self, key: usize, when: u64) -> usize {
        let deadline = self.deadline(when);
        let (sleep, waker, _) =
            self.sleeps[key].as_mut().expect("the workload moves live timers only");
        sleep.as_mut().reset(deadline);
        _ = sleep.as_mut().poll(&mut Context::from_waker(waker));
        key
    }

    fn pop(&mut self, now: u64) -> Option<u32> {
        if let Some(id) = self.take_due() {
            return Some(id);
        }
        if now > self.now {
            self.now = now;
            let ahead = self.deadline(now).saturating_duration_since(Instant::now());
            self.runtime.block_on(advance(ahead));
            return self.take_due();
        }
        None
    }

    fn pop_first(&mut self) -> Option<u32> {
        if let Some(id) = self.take_due() {
            return Some(id);
        }
        let fired = Arc::clone(&self.fired);
        // A paused clock moves to the next timer by itself when the runtime has nothing to do.
        self.runtime.block_on(poll_fn(|cx| {
            let mut fired = fired.lock().unwrap();
            if fired.slots.is_empty() {
                fired.waits = Some(cx.waker().clone());
                return Poll::Pending;
            }
            Poll::Ready(())
        }));
        self.take_due()
    }
}
