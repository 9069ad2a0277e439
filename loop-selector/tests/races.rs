//! What a data race detector can judge although the standard library is not instrumented: threads
//! that meet in nothing but this crate's atomics. No harness, no channels, no locks: what those
//! order, it cannot see. Without a detector it is a stress test.
//!
//! With the argument `plant` there is a race for the detector to find.

use std::cell::UnsafeCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use loop_selector::{Events, Selector, Signal, SignalWatcher, Waker, by_name, raise};

fn main() {
    if std::env::args().any(|argument| argument == "plant") {
        return plant();
    }
    for name in ["epoll", "poll", "select"] {
        if let Ok(selector) = by_name(name) {
            ping_pong(selector);
            println!("{name}: ping-pong: done");
        }
    }
    watchers_come_and_go();
    println!("watchers come and go: done");
}

/// A number without any protection of its own.
#[derive(Default)]
struct Plain(UnsafeCell<u64>);

// SAFETY: `ping_pong` touches it from one thread at a time: each waits for the other's wake. Whether
// that is so is what is tested. `plant` breaks the rule, for the detector to notice.
unsafe impl Sync for Plain {}

impl Plain {
    fn add_one(&self) -> u64 {
        // SAFETY: as above.
        unsafe {
            *self.0.get() += 1;
            *self.0.get()
        }
    }
}

/// Two threads take turns; nothing but wakes says whose turn it is, and publishes the number.
fn ping_pong(mut here: Box<dyn Selector>) {
    const TURNS: u64 = 2_000;
    let number = Arc::new(Plain::default());
    let (to_here, theirs) = (here.waker(), number.clone());
    let to_there = Arc::new(Waker::new().unwrap());
    let waker = to_there.clone();
    let there = thread::spawn(move || {
        for turn in 0..TURNS {
            wait(&waker);
            assert_eq!(theirs.add_one(), 2 * turn + 2);
            to_here.wake();
        }
    });
    let mut events = Events::new();
    for turn in 0..TURNS {
        assert_eq!(number.add_one(), 2 * turn + 1);
        to_there.wake();
        here.select(&mut events, None).unwrap();
    }
    there.join().unwrap();
}

/// Returns when there was a wake, and not before.
fn wait(waker: &Waker) {
    if waker.park() {
        while !waker.is_notified() {
            thread::yield_now();
        }
    }
    waker.unpark();
    waker.drain();
}

/// The handler's list, under signals from one thread and watchers from another. From no third: what
/// watchers do to each other is ordered by the standard library's locks.
fn watchers_come_and_go() {
    let signal = Signal::USR1;
    let watcher = || SignalWatcher::new(Waker::new().unwrap()).unwrap();
    let mut always = watcher();
    always.watch(signal).unwrap(); // else the signal would be deadly now and then
    drop(watcher()); // the list grows now, and not later, for the same reason
    let done = Arc::new(AtomicBool::new(false));
    let stop = done.clone();
    let sender = thread::spawn(move || {
        let mut raised = 0;
        while !stop.load(Ordering::Relaxed) {
            raise(signal).unwrap();
            raised += 1;
        }
        raised
    });
    let watchers = thread::spawn(move || {
        for _ in 0..500 {
            let mut short = watcher();
            short.watch(signal).unwrap();
            short.pending();
        }
    });
    watchers.join().unwrap();
    done.store(true, Ordering::Relaxed);
    let raised = sender.join().unwrap();
    assert_eq!(always.pending().iter().map(|(_, count)| count).sum::<u64>(), raised);
}

fn plant() {
    let number = Arc::new(Plain::default());
    let theirs = number.clone();
    let there = thread::spawn(move || (0..1_000).map(|_| theirs.add_one()).max());
    let here = (0..1_000).map(|_| number.add_one()).max();
    println!("{here:?} {:?}", there.join());
}
