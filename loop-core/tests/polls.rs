//! How often things are polled and woken, by somebody else's measure: `tokio_test` polls each future by hand and
//! counts. What is waited for takes two polls, one to begin and one to end, and one wake in between; a poll in
//! between changes nothing, and nobody is woken for nothing.

mod common;

use std::fmt::Debug;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use common::{pair, turn, virtual_loop};
use loop_core::sync::{Barrier, Condition, Event, Lock, Queue, Semaphore};
use loop_core::{
    DelayQueue, EventLoop, LoopFuture, Task, TaskGroup, as_completed, catch_cancelled, gather,
    protect, shield, sleep, timeout, wait, yield_now,
};
use tokio_test::task::{Spawn, spawn as by_hand};
use tokio_test::{assert_pending, assert_ready};

const SECOND: Duration = Duration::from_secs(1);

/// Polls `future` twice, calls `completes`, and polls once more.
#[track_caller]
fn waits<F: Future<Output: Debug>>(future: F, completes: impl FnOnce()) -> F::Output {
    let mut future = by_hand(future);
    assert_pending!(future.poll());
    assert_pending!(future.poll());
    assert!(!future.is_woken(), "woken for nothing");
    completes();
    assert!(future.is_woken(), "not woken");
    assert_ready!(future.poll())
}

/// Whoever is behind the first, who waits for the same.
fn behind<F: Future<Output: Debug>>(future: F) -> Spawn<F> {
    let mut future = by_hand(future);
    assert_pending!(future.poll());
    future
}

#[test]
fn primitives_wake_whose_turn_it_is_once() {
    let lock = Lock::new();
    let held = lock.try_acquire().unwrap();
    let guard = waits(lock.acquire(), || drop(held));
    let mut second = behind(lock.acquire());
    let mut third = behind(lock.acquire());
    drop(guard);
    assert!(second.is_woken() && !third.is_woken());
    let guard = assert_ready!(second.poll());
    drop(guard);
    drop(assert_ready!(third.poll()));

    let semaphore = Semaphore::new(0);
    drop(waits(semaphore.acquire(), || semaphore.release(1).unwrap()));
    let event = Event::new();
    waits(event.wait(), || event.set());
    assert_ready!(by_hand(event.wait()).poll());

    let queue = Queue::bounded(1.try_into().unwrap());
    assert_eq!(waits(queue.get(), || queue.try_put(1).unwrap()), Ok(1));
    waits(queue.join(), || queue.task_done());
    queue.try_put(2).unwrap();
    waits(queue.put(3), || assert_eq!(queue.try_get(), Ok(2))).unwrap();
    let (mut first, second) = (behind(queue.put(4)), behind(queue.put(5)));
    assert_eq!(queue.try_get(), Ok(3));
    assert!(first.is_woken() && !second.is_woken(), "there is room for one");
    assert_ready!(first.poll()).unwrap();

    let condition = Condition::new();
    let guard = lock.try_acquire().unwrap();
    let notify = || condition.notify(&lock.try_acquire().unwrap(), 1);
    drop(waits(condition.wait(guard), notify));

    let barrier = Barrier::new(2.try_into().unwrap());
    let first = waits(barrier.wait(), || assert!(by_hand(barrier.wait()).poll().is_ready()));
    assert!(first.is_ok());
}

#[test]
fn futures_tasks_and_descriptors_wake_once() {
    let mut event_loop = EventLoop::new().unwrap();
    let future: LoopFuture<u32, ()> = event_loop.create_future();
    let sets = future.clone();
    assert_eq!(waits(future, || sets.set_result(7).unwrap()), Ok(7));

    let task = |event_loop: &EventLoop| event_loop.spawn(async { 7 });
    let ends = |event_loop: &mut EventLoop| turn(event_loop);
    let (one, two) = (task(&event_loop), task(&event_loop));
    assert_eq!(waits(one, || ends(&mut event_loop)).unwrap(), 7);
    waits(task(&event_loop).watch(), || ends(&mut event_loop));
    let shielded = shield(task(&event_loop));
    assert_eq!(waits(shielded, || ends(&mut event_loop)).unwrap(), 7);
    assert_eq!(two.take_result().unwrap().unwrap(), 7);

    // However many end in one iteration.
    let tasks = [(); 9].map(|()| task(&event_loop));
    assert_eq!(waits(gather(tasks), || ends(&mut event_loop)).unwrap(), [7; 9]);
    let tasks = [(); 9].map(|()| task(&event_loop));
    assert_eq!(waits(wait(tasks), || ends(&mut event_loop)).done.len(), 9);
    let mut stream = as_completed([task(&event_loop), task(&event_loop)]);
    assert!(waits(stream.next(), || ends(&mut event_loop)).is_some());
    assert!(assert_ready!(by_hand(stream.next()).poll()).is_some());

    let (ours, mut theirs) = pair();
    let lp = event_loop.loop_ref();
    let readable = lp.readable(&ours);
    let arrives = || {
        std::io::Write::write_all(&mut theirs, b"x").unwrap();
        turn(&mut event_loop);
    };
    waits(readable, arrives).unwrap();
}

#[test]
fn timers_wake_once_and_only_when_they_are_due() {
    let (mut event_loop, clock) = virtual_loop();
    let scope = event_loop.enter().unwrap();
    let mut slept = by_hand(sleep(SECOND));
    assert_pending!(slept.poll());
    let queue = DelayQueue::new();
    queue.insert("due", SECOND);
    let mut next = by_hand(queue.next());
    assert_pending!(next.poll());
    drop(scope);
    clock.advance(SECOND / 2);
    turn(&mut event_loop);
    assert!(!slept.is_woken() && !next.is_woken());
    clock.advance(SECOND / 2);
    turn(&mut event_loop);
    assert!(slept.is_woken() && next.is_woken());
    let _scope = event_loop.enter().unwrap();
    assert_ready!(slept.poll());
    assert_eq!(assert_ready!(next.poll()).unwrap().value, "due");

    let mut gives_way = by_hand(yield_now());
    assert_pending!(gives_way.poll());
    assert!(gives_way.is_woken());
    assert_ready!(gives_way.poll());
}

/// Polls what is inside as often as the task that it is in is polled, and is no wake of its own.
#[test]
fn scopes_and_catch_points_add_no_poll() {
    let (mut event_loop, clock) = virtual_loop();
    let event = Rc::new(Event::new());
    let polls = Rc::new(std::cell::Cell::new(0));
    let counted = |event: &Rc<Event>| {
        let (event, polls) = (event.clone(), polls.clone());
        async move {
            let mut waits = pin!(event.wait());
            std::future::poll_fn(|cx| {
                polls.set(polls.get() + 1);
                waits.as_mut().poll(cx)
            })
            .await
        }
    };
    let scopes: [(&str, Task<()>); 4] = [
        ("timeout", {
            let limited = timeout(SECOND, counted(&event));
            event_loop.spawn(async { limited.await.unwrap() })
        }),
        ("catch", {
            let caught = catch_cancelled(counted(&event));
            event_loop.spawn(async { caught.await.ok().unwrap() })
        }),
        ("protect", event_loop.spawn(protect(counted(&event)))),
        ("group", {
            let inside = counted(&event);
            event_loop.spawn(async {
                let scope = TaskGroup::<()>::scope(async |_| {
                    inside.await;
                    Ok(())
                });
                scope.await.unwrap()
            })
        }),
    ];
    for _ in 0..3 {
        turn(&mut event_loop);
        clock.advance(SECOND / 10);
    }
    assert_eq!(polls.get(), 4, "once each");
    let before = event_loop.statistics().polls;
    event.set();
    turn(&mut event_loop);
    assert_eq!(event_loop.statistics().polls - before, 4);
    assert_eq!(polls.get(), 8, "twice each");
    for (name, task) in scopes {
        assert!(task.take_result().unwrap().is_ok(), "{name}");
    }
}
