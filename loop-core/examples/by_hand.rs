//! An event loop by hand, from the three leaves alone: a queue of callbacks (loop-handle), a heap of
//! deadlines (loop-timer), one selector with its self-pipe (loop-selector). This is the road from
//! `while True: select` to `run_once`; loop-core is where it leads.
//!
//! `cargo run -p loop-core --example by_hand`

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use loop_handle::{Handle, Run, ThreadsafeHandle};
use loop_selector::{Events, Selector, Waker, default_selector};
use loop_timer::TimerHeap;

struct Loop {
    ready: RefCell<VecDeque<Handle>>,
    timers: RefCell<TimerHeap<Handle, Instant>>,
    selector: RefCell<Box<dyn Selector>>,
    remote: Remote,
}

/// The way in from other threads.
#[derive(Clone)]
struct Remote {
    calls: Arc<Mutex<Vec<ThreadsafeHandle>>>,
    waker: Waker,
}

impl Remote {
    fn call_soon(&self, f: impl FnOnce() + Send + 'static) {
        self.calls.lock().unwrap().push(ThreadsafeHandle::new(f)); // publish first,
        self.waker.wake(); // then wake: no call is slept away
    }
}

impl Loop {
    fn new() -> io::Result<Loop> {
        let selector = default_selector()?;
        let remote = Remote { calls: Arc::default(), waker: selector.waker() };
        let (ready, timers) = (RefCell::default(), RefCell::new(TimerHeap::new()));
        Ok(Loop { ready, timers, selector: RefCell::new(selector), remote })
    }

    fn call_soon(&self, f: impl FnOnce() + 'static) {
        self.ready.borrow_mut().push_back(Handle::once(f));
    }

    fn call_later(&self, delay: Duration, f: impl FnOnce() + 'static) {
        self.timers.borrow_mut().insert(Instant::now() + delay, Handle::once(f));
    }

    fn run_once(&self, events: &mut Events) -> io::Result<()> {
        let timeout = match self.timers.borrow_mut().next_deadline() {
            _ if !self.ready.borrow().is_empty() => Some(Duration::ZERO),
            Some(when) => Some(when.saturating_duration_since(Instant::now())),
            None => None,
        };
        self.selector.borrow_mut().select(events, timeout)?;
        for call in std::mem::take(&mut *self.remote.calls.lock().unwrap()) {
            self.call_soon(move || drop(call.run()));
        }
        let now = Instant::now();
        while let Some((_, _, handle)) = self.timers.borrow_mut().pop_due(now) {
            self.ready.borrow_mut().push_back(handle);
        }
        // Exactly this batch: what it schedules waits for the next wait. And nothing is borrowed while
        // a callback runs, for it may call any of these methods.
        let batch = self.ready.borrow().len();
        for _ in 0..batch {
            let next = self.ready.borrow_mut().pop_front();
            if let Some(Run::Failed(error)) = next.map(|handle| handle.run()) {
                eprintln!("a callback failed: {error}");
            }
        }
        Ok(())
    }
}

/// Runs the example and returns what happened, in order.
pub fn run() -> io::Result<Vec<&'static str>> {
    let lp = Loop::new()?;
    let log = Rc::new(RefCell::new(Vec::new()));
    let note = |what| {
        let log = log.clone();
        move || log.borrow_mut().push(what)
    };
    lp.call_later(Duration::from_millis(5), note("later"));
    lp.call_soon(note("soon"));

    let stop = Arc::new(AtomicBool::new(false));
    let (remote, flag) = (lp.remote.clone(), stop.clone());
    let worker = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(20));
        // By now the loop waits, with nothing to wait for: only the self-pipe ends that.
        remote.call_soon(move || flag.store(true, Ordering::Relaxed));
    });
    let mut events = Events::new();
    while !stop.load(Ordering::Relaxed) {
        lp.run_once(&mut events)?;
    }
    note("stopped by a thread")();
    worker.join().expect("the worker does not panic");
    Ok(log.take())
}

fn main() -> io::Result<()> {
    for line in run()? {
        println!("{line}");
    }
    Ok(())
}
