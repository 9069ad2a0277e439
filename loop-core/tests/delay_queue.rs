//! `DelayQueue`: order, stale keys, who is woken and how often.

mod common;

use std::cell::Cell;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use common::{OnDrop, Trace, turn, virtual_loop, watchdog};
use futures_core::Stream;
use loop_core::{DelayQueue, EventLoop, Expirations, VirtualClock, run};

const SECOND: Duration = Duration::from_secs(1);

/// Counts how often it is woken.
#[derive(Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Count {
    fn get(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

fn counter() -> (Arc<Count>, Waker) {
    let count = Arc::new(Count::default());
    (count.clone(), count.into())
}

fn poll<T>(expirations: &mut Expirations<'_, T>, waker: &Waker) -> Poll<Option<T>> {
    let polled = Pin::new(expirations).poll_next(&mut Context::from_waker(waker));
    polled.map(|item| item.map(|expired| expired.value))
}

fn queue<T>() -> (EventLoop, Rc<VirtualClock>, DelayQueue<T>) {
    let (event_loop, clock) = virtual_loop();
    let queue = DelayQueue::on(&event_loop);
    (event_loop, clock, queue)
}

/// tokio-rs/tokio#6751
#[test]
fn s06_removing_the_last_value_wakes_whoever_waits() {
    let (_event_loop, _clock, queue) = queue();
    let key = queue.insert("far", 100 * SECOND);
    let (woken, waker) = counter();
    let mut expirations = queue.expirations();
    assert_eq!(poll(&mut expirations, &waker), Poll::Pending);
    assert_eq!(queue.remove(key), Some("far"));
    assert_eq!(woken.get(), 1);
    assert_eq!(poll(&mut expirations, &waker), Poll::Ready(None));
    assert_eq!((woken.get(), queue.len()), (1, 0));
}

/// The same in a running loop, on the real clock: it must not take the hundred seconds.
#[test]
fn s06_a_task_that_waits_ends_when_the_last_value_is_removed() {
    let _watchdog = watchdog();
    run(async {
        let queue = Rc::new(DelayQueue::new());
        let key = queue.insert((), 100 * SECOND);
        let waiting = queue.clone();
        let task = loop_core::spawn(async move { waiting.next().await });
        loop_core::yield_now().await;
        assert!(!task.is_done());
        queue.remove(key);
        assert_eq!(task.await.unwrap(), None);
    })
    .unwrap();
}

#[test]
fn values_come_out_by_deadline_equal_ones_by_insertion() {
    let (mut event_loop, clock, queue) = queue();
    let queue = Rc::new(queue);
    let trace = Trace::new();
    let now = event_loop.now();
    for (value, seconds) in [("c", 3), ("a", 1), ("d", 3), ("b", 2)] {
        queue.insert_at(value, now + seconds * SECOND);
    }
    let (log, source) = (trace.clone(), queue.clone());
    let task = event_loop.spawn(async move {
        while let Some(expired) = source.next().await {
            log.push(expired.value);
        }
    });
    turn(&mut event_loop);
    for expected in [&["a"][..], &["b"], &["c", "d"]] {
        assert!(!task.is_done());
        clock.advance(SECOND);
        turn(&mut event_loop);
        assert_eq!(trace.take(), expected);
    }
    assert!(task.is_done());
}

#[test]
fn what_comes_out_says_when_it_was_due_and_its_key_is_stale() {
    let (event_loop, clock, queue) = queue();
    let deadline = event_loop.now() + SECOND;
    let key = queue.insert_at(7, deadline);
    assert_eq!(queue.deadline(key), Some(deadline));
    clock.advance(2 * SECOND);
    let mut next = pin!(queue.next());
    let Poll::Ready(Some(expired)) = next.as_mut().poll(&mut Context::from_waker(Waker::noop()))
    else {
        panic!("it is due");
    };
    assert_eq!((expired.value, expired.key, expired.deadline), (7, key, deadline));
    let other = queue.insert(8, SECOND); // takes the place that the first one had
    assert_ne!(other, key);
    assert_eq!(queue.remove(key), None);
    assert!(!queue.reset(key, SECOND));
    assert_eq!(queue.deadline(key), None);
    assert_eq!(queue.remove(other), Some(8));
    assert_eq!(queue.remove(other), None);
}

#[test]
fn an_earlier_value_and_a_reset_move_the_alarm_without_a_wake() {
    let (mut event_loop, clock, queue) = queue();
    let (woken, waker) = counter();
    let mut expirations = queue.expirations();
    let late = queue.insert("late", 100 * SECOND);
    assert_eq!(poll(&mut expirations, &waker), Poll::Pending);
    queue.insert("early", 10 * SECOND);
    assert!(queue.reset(late, 5 * SECOND));
    clock.advance(4 * SECOND);
    turn(&mut event_loop);
    assert_eq!(woken.get(), 0);
    clock.advance(SECOND);
    turn(&mut event_loop);
    assert_eq!(woken.get(), 1);
    assert_eq!(poll(&mut expirations, &waker), Poll::Ready(Some("late")));
    assert_eq!(poll(&mut expirations, &waker), Poll::Pending);
    clock.advance(5 * SECOND);
    turn(&mut event_loop);
    assert_eq!(woken.get(), 2);
    assert_eq!(poll(&mut expirations, &waker), Poll::Ready(Some("early")));
    assert_eq!(poll(&mut expirations, &waker), Poll::Ready(None));
}

#[test]
fn a_removal_that_leaves_others_wakes_nobody() {
    let (_event_loop, _clock, queue) = queue();
    let (woken, waker) = counter();
    let mut expirations = queue.expirations();
    let first = queue.insert(1, SECOND);
    queue.insert(2, 2 * SECOND);
    assert_eq!(poll(&mut expirations, &waker), Poll::Pending);
    assert_eq!(queue.remove(first), Some(1));
    assert_eq!(woken.get(), 0);
}

/// Whoever has the alarm may go, before it rings or after: the next one takes over.
#[test]
fn a_waiter_that_goes_leaves_the_alarm_to_the_next() {
    for rings_first in [false, true] {
        let (mut event_loop, clock, queue) = queue();
        queue.insert("value", SECOND);
        let (woken, [first, second]) = (counter(), [counter(), counter()]);
        let mut leaving = queue.expirations();
        let mut staying = queue.expirations();
        assert_eq!(poll(&mut leaving, &first.1), Poll::Pending);
        assert_eq!(poll(&mut staying, &second.1), Poll::Pending);
        if rings_first {
            clock.advance(SECOND);
            turn(&mut event_loop);
            assert_eq!((first.0.get(), second.0.get()), (1, 0));
        }
        drop(leaving);
        assert_eq!(second.0.get(), 1, "it is asked to look");
        if !rings_first {
            assert_eq!(poll(&mut staying, &woken.1), Poll::Pending);
            clock.advance(SECOND);
            turn(&mut event_loop);
            assert_eq!(woken.0.get(), 1);
        }
        assert_eq!(poll(&mut staying, &woken.1), Poll::Ready(Some("value")));
    }
}

/// The one that was woken to take over goes as well before it is polled.
#[test]
fn taking_over_can_be_passed_on() {
    let (_event_loop, clock, queue) = queue();
    queue.insert("value", SECOND);
    let counters = [counter(), counter(), counter()];
    let [mut first, mut second, mut third] = [(); 3].map(|()| queue.expirations());
    for (waiter, (_, waker)) in [&mut first, &mut second, &mut third].into_iter().zip(&counters) {
        assert_eq!(poll(waiter, waker), Poll::Pending);
    }
    drop(first);
    drop(second);
    assert_eq!(counters.each_ref().map(|(count, _)| count.get()), [0, 1, 1]);
    clock.advance(SECOND);
    assert_eq!(poll(&mut third, &counters[2].1), Poll::Ready(Some("value")));
}

#[test]
fn several_tasks_share_the_values_and_all_end_when_it_is_empty() {
    let (mut event_loop, clock, queue) = queue();
    let queue = Rc::new(queue);
    let taken = Rc::new(Cell::new(0));
    for n in 0..100 {
        queue.insert(n, n / 3 * SECOND);
    }
    let tasks: Vec<_> = (0..4)
        .map(|_| {
            let (queue, taken) = (queue.clone(), taken.clone());
            event_loop.spawn(async move {
                while queue.next().await.is_some() {
                    taken.set(taken.get() + 1);
                    loop_core::yield_now().await;
                }
            })
        })
        .collect();
    tasks[0].cancel(); // whoever it is, the others go on
    for _ in 0..34 {
        (0..8).for_each(|_| turn(&mut event_loop));
        clock.advance(SECOND);
    }
    (0..8).for_each(|_| turn(&mut event_loop));
    assert_eq!(taken.get(), 100);
    assert!(tasks.iter().all(|task| task.is_done()));
}

#[test]
fn deadlines_past_huge_and_beyond_the_end_of_time() {
    let (mut event_loop, clock, queue) = queue();
    queue.insert_at("past", event_loop.now() - SECOND);
    queue.insert("zero", Duration::ZERO);
    queue.insert("never", Duration::MAX);
    let mut expirations = queue.expirations();
    assert_eq!(poll(&mut expirations, Waker::noop()), Poll::Ready(Some("past")));
    assert_eq!(poll(&mut expirations, Waker::noop()), Poll::Ready(Some("zero")));
    let (woken, waker) = counter();
    assert_eq!(poll(&mut expirations, &waker), Poll::Pending);
    clock.advance(Duration::MAX);
    turn(&mut event_loop);
    assert_eq!(woken.get(), 0);
    assert_eq!(poll(&mut expirations, &waker), Poll::Pending);
}

#[test]
fn destructors_of_values_may_use_the_queue() {
    let (_event_loop, _clock, queue) = queue();
    let queue = Rc::new(queue);
    let weak = Rc::downgrade(&queue);
    let seen = Rc::new(Cell::new(usize::MAX));
    let log = seen.clone();
    let look = move || log.set(weak.upgrade().map_or(usize::MAX, |queue| queue.len()));
    queue.insert(OnDrop(Box::new(look) as Box<dyn FnMut()>), SECOND);
    queue.clear();
    assert_eq!(seen.get(), 0);
}

#[test]
fn a_queue_outlives_its_loop() {
    let (event_loop, clock, queue) = queue();
    queue.insert("value", SECOND);
    drop(event_loop);
    let mut expirations = queue.expirations();
    assert_eq!(poll(&mut expirations, Waker::noop()), Poll::Pending);
    clock.advance(SECOND);
    assert_eq!(poll(&mut expirations, Waker::noop()), Poll::Ready(Some("value")));
}
