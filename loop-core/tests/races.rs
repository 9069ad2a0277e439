//! What a data race detector can judge although the standard library is not instrumented: threads that meet
//! in nothing but the inbox, its waker, and the handles of calls. No harness, no channels: what those order,
//! it cannot see. Without a detector it is a stress test.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Poll, Waker};
use std::thread::{self, JoinHandle};

use loop_core::{EventLoop, Remote};
use loop_selector::by_name;

fn main() {
    for name in ["epoll", "poll", "select"] {
        let Ok(selector) = by_name(name) else { continue };
        let event_loop = EventLoop::builder().selector(selector).build().unwrap();
        calls_arrive_with_what_they_own(event_loop);
        println!("{name}: calls: done");
    }
    cancels_race_with_runs();
    println!("cancels: done");
    wakes_from_elsewhere();
    println!("wakes: done");
    closing_races_with_calls();
    closing_races_with_wakes();
    println!("closing: done");
}

thread_local! {
    /// What ran on the loop's thread.
    static SUM: Cell<u64> = const { Cell::new(0) };
}

fn add(values: &[u64]) {
    SUM.set(SUM.get() + values.iter().sum::<u64>());
}

fn producers(
    count: u64,
    remote: &Remote,
    each: impl Fn(&Remote, u64) + Clone + Send + 'static,
) -> Vec<JoinHandle<()>> {
    let start = |_| {
        let (remote, each) = (remote.clone(), each.clone());
        thread::spawn(move || (1..=1_000).for_each(|n| each(&remote, n)))
    };
    (0..count).map(start).collect()
}

/// What a call owns was written by another thread, without any protection of its own.
fn calls_arrive_with_what_they_own(mut event_loop: EventLoop) {
    SUM.set(0);
    let threads = producers(2, &event_loop.remote(), |remote, n| {
        let mut values = vec![0; 4];
        values[3] = n;
        drop(remote.call_soon(move || add(&values)).unwrap());
    });
    while SUM.get() < 2 * 500_500 {
        event_loop.run_once(None).unwrap();
    }
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

/// Each call runs, or its cancel says that it never will.
fn cancels_race_with_runs() {
    SUM.set(0);
    let mut event_loop = EventLoop::new().unwrap();
    let (done, cancelled) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (count, total) = (done.clone(), cancelled.clone());
    let threads = producers(2, &event_loop.remote(), move |remote, n| {
        let values = vec![1; 1];
        let handle = remote.call_soon(move || add(&values)).unwrap();
        if n % 3 == 0 && handle.cancel() {
            total.fetch_add(1, Ordering::Relaxed);
        }
        count.fetch_add(1, Ordering::Relaxed);
        let _ = remote.call_soon(|| ());
    });
    while done.load(Ordering::Relaxed) < 2_000 {
        event_loop.run_once(None).unwrap();
    }
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    event_loop.run_once(Some(std::time::Duration::ZERO)).unwrap();
    assert_eq!(SUM.get() as usize + cancelled.load(Ordering::Relaxed), 2_000);
}

/// A task that is woken by another thread, which has its waker by a call's return.
fn wakes_from_elsewhere() {
    let mut event_loop = EventLoop::new().unwrap();
    let polls = Rc::new(Cell::new(0));
    let counted = polls.clone();
    let woken = std::future::poll_fn(move |cx| {
        counted.set(counted.get() + 1);
        if counted.get() == 500 {
            return Poll::Ready(());
        }
        let waker: Waker = cx.waker().clone();
        thread::spawn(move || {
            waker.wake_by_ref();
            waker.wake();
        });
        Poll::Pending
    });
    let task = event_loop.spawn(woken);
    event_loop.run_until_complete(task).unwrap().unwrap();
    assert_eq!(polls.get(), 500);
}

/// Wakes of a task whose loop closes meanwhile, and after that.
fn closing_races_with_wakes() {
    for _ in 0..20 {
        let mut event_loop = EventLoop::new().unwrap();
        event_loop.set_exception_handler(Some(Rc::new(|_, _| ())));
        let kept = Rc::new(Cell::new(None));
        let keeps = kept.clone();
        let task = event_loop.spawn(std::future::poll_fn(move |cx| {
            keeps.set(Some(cx.waker().clone()));
            Poll::<()>::Pending
        }));
        event_loop.run_once(None).unwrap();
        let waker: Waker = kept.take().unwrap();
        let wakes = |_| {
            let waker = waker.clone();
            thread::spawn(move || (0..1_000).for_each(|_| waker.wake_by_ref()))
        };
        let threads: Vec<_> = (0..2).map(wakes).collect();
        event_loop.run_once(None).unwrap();
        event_loop.close();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        waker.wake();
        assert!(task.is_done());
    }
}

/// What came too late is given back, and what came in time is dropped here.
fn closing_races_with_calls() {
    for _ in 0..20 {
        let mut event_loop = EventLoop::new().unwrap();
        let threads = producers(2, &event_loop.remote(), |remote, n| {
            let values = vec![n; 4];
            drop(remote.call_soon(move || add(&values)));
        });
        event_loop.run_once(None).unwrap();
        event_loop.close();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    }
}
