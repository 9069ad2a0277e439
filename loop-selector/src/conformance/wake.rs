//! Waking from other threads.

use std::io::{Read, Write};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use super::Make;
use super::fixture::*;
use crate::selector::Selector;
use crate::waker::Waker;

/// A wake ends a wait without end, and is no event.
pub fn b_thr_01_wake_ends_an_endless_wait(make: Make<'_>) {
    let mut selector = create(make);
    let (a, _b) = pair();
    selector.register(rc(a), READ).unwrap();
    for _ in 0..20 {
        let waker = selector.waker();
        let thread = thread::spawn(move || {
            thread::sleep(Duration::from_millis(2));
            waker.wake();
        });
        assert_eq!(select(&mut *selector, None), []);
        thread.join().unwrap();
    }
    assert_eq!(selector.registry().len(), 1, "the waker is no registration");
}

/// A wake while nobody waits ends the next wait, and only that.
pub fn b_thr_03_wake_before_the_wait_is_kept(make: Make<'_>) {
    let mut selector = create(make);
    for _ in 0..3 {
        selector.waker().wake();
        assert!(selector.waker().is_notified());
        assert_eq!(select(&mut *selector, None), []);
        assert!(!selector.waker().is_notified());
        let timeout = Duration::from_millis(5);
        let (_, took) = timed(|| select(&mut *selector, Some(timeout)));
        assert!(took >= timeout, "one wake ended two waits");
    }
}

/// A wait with a zero timeout consumes a wake too.
pub fn b_thr_03_zero_timeout_consumes_a_wake(make: Make<'_>) {
    let mut selector = create(make);
    selector.waker().wake();
    assert_eq!(select(&mut *selector, ZERO), []);
    assert!(!selector.waker().is_notified());
}

/// Any number of wakes writes once while the loop is parked, and never while it is awake.
pub fn b_thr_05_many_wakes_write_once(make: Make<'_>) {
    let mut selector = create(make);
    let waker = selector.waker();
    wake_from_many(&waker, 4, 250);
    assert_eq!(writes(&waker), 0, "it was awake");
    assert_eq!(select(&mut *selector, ZERO), []);
    assert!(waker.park());
    wake_from_many(&waker, 4, 250);
    assert!(!waker.park(), "a wake is pending");
    assert_eq!(writes(&waker), 1);
    waker.unpark();
}

/// Parked by hand, as a host loop does it: the next wait un-parks, and drains what was written.
pub fn b_thr_05_wait_unparks_and_drains(make: Make<'_>) {
    let mut selector = create(make);
    let waker = selector.waker();
    assert!(waker.park());
    waker.wake();
    assert_eq!(select(&mut *selector, ZERO), []);
    assert_eq!(writes(&waker), 0, "the wait drained the descriptor");
    assert!(waker.park(), "the wait consumed the wake");
    assert_eq!(select(&mut *selector, ZERO), []);
    assert!(!waker.is_notified());
    let timeout = Duration::from_millis(5);
    assert!(timed(|| select(&mut *selector, Some(timeout))).1 >= timeout);
}

// epics-base/p4p#143: wakers blocked, or failed, once the pipe was full of their wakes.
/// Eight threads publish and wake, first while the loop is busy, then while it waits: nothing is
/// lost, nobody blocks, and the idle loop can still be woken afterwards.
pub fn s13_wakes_from_eight_threads(make: Make<'_>) {
    const THREADS: usize = 8;
    const EACH: usize = 5_000;
    let mut selector = create(make);
    let published = Arc::new(AtomicUsize::new(0));
    let threads: Vec<_> = (0..THREADS)
        .map(|_| {
            let (waker, published) = (selector.waker(), published.clone());
            thread::spawn(move || {
                for _ in 0..EACH {
                    published.fetch_add(1, Ordering::Relaxed);
                    waker.wake();
                }
            })
        })
        .collect();
    thread::sleep(Duration::from_millis(20));
    while published.load(Ordering::Relaxed) < THREADS * EACH {
        assert_eq!(select(&mut *selector, None), []);
    }
    for thread in threads {
        thread.join().unwrap();
    }
    while selector.waker().is_notified() {
        select(&mut *selector, ZERO);
    }
    let waker = selector.waker();
    let last = thread::spawn(move || waker.wake());
    assert_eq!(select(&mut *selector, None), []);
    last.join().unwrap();
}

/// A signal every 100 us, wakes from eight threads and messages, all at once: each message arrives
/// once, and nothing is an error.
pub fn s13_storm_of_signals_wakes_and_messages(make: Make<'_>) {
    const THREADS: usize = 8;
    const MESSAGES: usize = 300;
    let mut selector = create(make);
    let (reader, mut writer) = pair();
    let reader = Rc::new(reader);
    let token = selector.register(reader.clone(), READ).unwrap();
    let interrupter = Interrupter::start(Duration::from_micros(100));
    let stop = AtomicBool::new(false);
    let published = AtomicUsize::new(0);
    let wakers: Vec<_> = (0..THREADS).map(|_| selector.waker()).collect();
    thread::scope(|scope| {
        for waker in wakers {
            scope.spawn(|| {
                let waker = waker;
                loop {
                    published.fetch_add(1, Ordering::Relaxed);
                    waker.wake();
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    thread::yield_now();
                }
            });
        }
        let mut received = 0;
        for sent in 1..=MESSAGES {
            writer.write_all(b"x").unwrap();
            while received < sent {
                for (ready, readiness) in select(&mut *selector, Some(Duration::from_secs(60))) {
                    assert_eq!((ready, readiness), (token, READ.into()));
                    received += (&*reader).read(&mut [0; 16]).unwrap();
                }
            }
            assert_eq!(received, sent);
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert!(published.into_inner() >= THREADS);
    interrupter.finish();
    select(&mut *selector, ZERO);
    let waker = selector.waker();
    let last = thread::spawn(move || waker.wake());
    assert_eq!(select(&mut *selector, None), []);
    last.join().unwrap();
}

/// Waking what was dropped does nothing.
pub fn b_thr_07_wake_after_drop_is_harmless(make: Make<'_>) {
    let selector = create(make);
    let waker = selector.waker();
    drop(selector);
    for _ in 0..3 {
        waker.wake();
    }
    assert!(waker.is_notified());
}

/// Readiness and a wake in one wait: the events are reported.
pub fn wake_hides_no_event(make: Make<'_>) {
    let mut selector = create(make);
    let (a, _b) = ready_pair();
    let token = selector.register(rc(a), READ).unwrap();
    selector.waker().wake();
    assert_eq!(select(&mut *selector, None), [(token, READ.into())]);
    assert!(selector.waker().park());
    selector.waker().wake();
    assert_eq!(select(&mut *selector, None), [(token, READ.into())]);
}

fn wake_from_many(waker: &Waker, threads: usize, each: usize) {
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| (0..each).for_each(|_| waker.wake()));
        }
    });
}

/// How often the descriptor was written to since it was last read. Each write adds the number one
/// in eight bytes: an eventfd sums them up, a pipe keeps them all.
fn writes(waker: &Waker) -> u64 {
    let mut bytes = [0u8; 1024];
    let read = rustix::io::read(waker, &mut bytes).unwrap_or(0);
    bytes[..read].chunks(8).map(|one| u64::from_ne_bytes(one.try_into().unwrap())).sum()
}
