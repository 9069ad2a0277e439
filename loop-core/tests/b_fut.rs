//! `LoopFuture`.

mod common;

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use common::{Trace, keep, reports, turn, watchdog};
use loop_core::{CompleteError, ContextVar, EventLoop, FutureError, LoopFuture, yield_now};

type Fut = LoopFuture<u32, &'static str>;

fn new_loop() -> EventLoop {
    EventLoop::new().unwrap()
}

/// A future that is pending, failed, cancelled and done, in this order.
fn in_every_state(event_loop: &EventLoop) -> [Fut; 4] {
    let all: [Fut; 4] = std::array::from_fn(|_| event_loop.create_future());
    all[1].set_error("failed").unwrap();
    all[2].cancel_with("enough");
    all[3].set_result(3).unwrap();
    all
}

#[test]
fn b_fut_01_it_starts_pending() {
    let event_loop = new_loop();
    let future: Fut = event_loop.create_future();
    assert!(!future.is_done() && !future.is_cancelled());
    assert_eq!(future.result(), Err(FutureError::InvalidState));
    assert_eq!(future.take_result(), Err(FutureError::InvalidState));
    assert_eq!((future.site().file(), future.site().line()), (file!(), line!() - 4));
}

#[test]
fn b_fut_02_the_first_outcome_stays_and_the_second_comes_back() {
    let event_loop = new_loop();
    let [_, failed, cancelled, done] = in_every_state(&event_loop);
    for future in [&failed, &cancelled, &done] {
        assert_eq!(future.set_result(8), Err(CompleteError::InvalidState(8)));
        assert_eq!(future.set_error("late"), Err(CompleteError::InvalidState("late")));
    }
    let reason = Some(Arc::from("enough"));
    assert_eq!(failed.result(), Err(FutureError::Failed("failed")));
    assert_eq!(cancelled.result(), Err(FutureError::Cancelled { reason }));
    assert_eq!(done.result(), Ok(3));
}

#[test]
fn b_fut_03_cancel_works_once_and_only_on_a_pending_future() {
    let event_loop = new_loop();
    let [pending, failed, cancelled, done] = in_every_state(&event_loop);
    assert!(pending.cancel() && pending.is_cancelled() && pending.is_done());
    for future in [&pending, &failed, &cancelled, &done] {
        assert!(!future.cancel());
    }
    assert_eq!(done.result(), Ok(3));
}

#[test]
fn b_fut_04_a_cancelled_future_says_so_every_time_with_its_reason() {
    let mut event_loop = new_loop();
    let [.., cancelled, _] = in_every_state(&event_loop);
    let expected = Err(FutureError::Cancelled { reason: Some(Arc::from("enough")) });
    assert_eq!(cancelled.result(), expected);
    assert_eq!(cancelled.take_result(), expected);
    assert_eq!(cancelled.take_result(), expected);
    assert_eq!(event_loop.run_until_complete(cancelled.clone()).unwrap(), expected);
    assert_eq!(cancelled.result().unwrap_err().to_string(), "the future was cancelled: enough");
}

#[test]
fn b_fut_05_callbacks_are_queued_in_order_where_the_future_was_completed() {
    let complete: [fn(&Fut); 3] = [
        |future| future.set_result(1).unwrap(),
        |future| future.set_error("why").unwrap(),
        |future| assert!(future.cancel()),
    ];
    for complete in complete {
        let mut event_loop = new_loop();
        let future: Fut = event_loop.create_future();
        let trace = Trace::new();
        for name in ["first", "second", "third"] {
            future.add_done_callback(trace.note(name));
        }
        event_loop.call_soon(trace.note("before"));
        complete(&future);
        event_loop.call_soon(trace.note("after"));
        assert_eq!(trace.len(), 0, "never inline");
        turn(&mut event_loop);
        assert_eq!(trace.take(), ["before", "first", "second", "third", "after"]);
        let _ = future.result();
    }
}

#[test]
fn b_fut_06_a_callback_of_a_done_future_is_queued_at_once() {
    let mut event_loop = new_loop();
    let [.., done] = in_every_state(&event_loop);
    let trace = Trace::new();
    done.add_done_callback(trace.note("callback"));
    event_loop.call_soon(trace.note("after"));
    turn(&mut event_loop);
    assert_eq!(trace.take(), ["callback", "after"]);
}

#[test]
fn b_fut_07_and_08_callbacks_are_removed_by_id_until_they_are_queued() {
    let mut event_loop = new_loop();
    let future: Fut = event_loop.create_future();
    let trace = Trace::new();
    let value = trace.on_drop("dropped");
    let twice = trace.note("twice");
    let also = trace.note("twice");
    future.add_done_callback(twice);
    let removed = future.add_done_callback(move || keep(&value));
    let queued = future.add_done_callback(also);
    assert!(future.remove_done_callback(removed));
    assert_eq!(trace.take(), ["dropped"]);
    assert!(!future.remove_done_callback(removed));
    future.set_result(1).unwrap();
    assert!(!future.remove_done_callback(queued));
    turn(&mut event_loop);
    assert_eq!(trace.take(), ["twice", "twice"]);
}

#[test]
fn b_fut_09_callbacks_may_change_the_list() {
    let mut event_loop = new_loop();
    let future: Fut = event_loop.create_future();
    let trace = Trace::new();
    for _ in 0..3 {
        let (again, log) = (future.clone(), trace.clone());
        future.add_done_callback(move || {
            log.push("outer");
            let id = again.add_done_callback(log.note("inner"));
            assert!(!again.remove_done_callback(id), "it is queued");
        });
    }
    // Dropping a callback is user code, too.
    let again = future.clone();
    let value = common::OnDrop(move || {
        again.add_done_callback(|| ());
    });
    let removed = future.add_done_callback(move || keep(&value));
    assert!(future.remove_done_callback(removed));
    future.set_result(1).unwrap();
    turn(&mut event_loop);
    assert_eq!(trace.take(), ["outer"; 3]);
    turn(&mut event_loop);
    assert_eq!(trace.take(), ["inner"; 3]);
}

#[test]
fn b_fut_05_chains_and_crowds_of_100_000_callbacks_neither_nest_nor_take_quadratic_time() {
    const COUNT: usize = 100_000;
    let mut event_loop = new_loop();
    let count = Rc::new(Cell::new(0));
    // Each completes the next.
    let first: LoopFuture<usize, ()> = event_loop.create_future();
    let mut last = first.clone();
    for _ in 1..COUNT {
        let next: LoopFuture<usize, ()> = event_loop.create_future();
        let (this, sets) = (last.clone(), next.clone());
        last.add_done_callback(move || sets.set_result(this.result().unwrap() + 1).unwrap());
        last = next;
    }
    first.set_result(1).unwrap();
    assert_eq!(event_loop.run_until_complete(last).unwrap(), Ok(COUNT));
    // All of one future.
    let crowded: LoopFuture<usize, ()> = event_loop.create_future();
    for _ in 0..COUNT {
        let count = count.clone();
        crowded.add_done_callback(move || count.set(count.get() + 1));
    }
    crowded.set_result(0).unwrap();
    assert_eq!(count.get(), 0);
    turn(&mut event_loop);
    assert_eq!(count.get(), COUNT);
}

#[test]
fn b_fut_10_a_callback_runs_in_the_context_in_which_it_was_added() {
    static VAR: ContextVar<&str> = ContextVar::new();
    let mut event_loop = new_loop();
    let future: Fut = event_loop.create_future();
    let trace = Trace::new();
    for value in ["one", "two"] {
        VAR.set(value);
        let log = trace.clone();
        future.add_done_callback(move || log.push(VAR.get().unwrap()));
    }
    VAR.set("three");
    future.set_result(1).unwrap();
    turn(&mut event_loop);
    assert_eq!(trace.take(), ["one", "two"]);
}

#[test]
fn b_fut_11_several_tasks_are_woken_in_await_order_and_a_done_future_does_not_yield() {
    let mut event_loop = new_loop();
    let future: Fut = event_loop.create_future();
    let trace = Trace::new();
    for name in ["a", "b", "c"] {
        let (future, trace) = (future.clone(), trace.clone());
        event_loop
            .spawn(async move {
                assert_eq!(future.await, Ok(5));
                trace.push(name);
            })
            .detach();
    }
    turn(&mut event_loop);
    future.set_result(5).unwrap();
    let (done, log) = (future.clone(), trace.clone());
    event_loop
        .spawn(async move {
            for _ in 0..3 {
                assert_eq!(done.clone().await, Ok(5));
            }
            log.push("in one step");
        })
        .detach();
    turn(&mut event_loop);
    assert_eq!(trace.take(), ["a", "b", "c", "in one step"]);
}

#[test]
fn b_fut_12_the_result_can_be_read_any_number_of_times_or_taken_once() {
    let event_loop = new_loop();
    let [_, failed, _, done] = in_every_state(&event_loop);
    for _ in 0..3 {
        assert_eq!(done.result(), Ok(3));
        assert_eq!(failed.result(), Err(FutureError::Failed("failed")));
    }
    assert_eq!(done.take_result(), Ok(3));
    assert_eq!(done.take_result(), Err(FutureError::InvalidState));
    assert!(done.is_done());
}

#[test]
fn b_fut_12_a_clone_that_panics_or_looks_back_leaves_the_result_where_it_is() {
    struct Odd(Rc<RefCell<Option<LoopFuture<Odd, ()>>>>, Rc<Cell<u32>>);
    impl Clone for Odd {
        fn clone(&self) -> Odd {
            self.1.set(self.1.get() + 1);
            if let Some(future) = &*self.0.borrow() {
                assert!(future.is_done() && !future.cancel());
                assert!(matches!(future.take_result(), Err(FutureError::InvalidState)));
            }
            assert!(self.1.get() > 1, "the first clone panics");
            Odd(self.0.clone(), self.1.clone())
        }
    }
    let event_loop = new_loop();
    let future: LoopFuture<Odd, ()> = event_loop.create_future();
    let (myself, clones) = (Rc::new(RefCell::new(None)), Rc::new(Cell::new(0)));
    assert!(future.set_result(Odd(myself.clone(), clones)).is_ok());
    *myself.borrow_mut() = Some(future.clone());
    let result = std::panic::AssertUnwindSafe(|| future.result().is_ok());
    assert!(std::panic::catch_unwind(result).is_err());
    assert!(future.result().is_ok());
    myself.take();
}

#[test]
fn b_fut_13_only_an_error_that_nobody_read_is_reported_once() {
    let mut event_loop = new_loop();
    let log = reports(&event_loop);
    let [pending, failed, cancelled, done] = in_every_state(&event_loop);
    let copy = failed.clone();
    failed.add_done_callback(|| ()); // b_fut_14: not a reader
    turn(&mut event_loop);
    drop((pending, failed, cancelled, done));
    assert_eq!(log.take(), Vec::<String>::new());
    drop(copy);
    assert_eq!(log.take(), ["the error of a future was never retrieved"]);
}

#[test]
fn b_fut_13_the_report_shows_the_error_and_where_the_future_was_created() {
    let event_loop = new_loop();
    let trace = Trace::new();
    let log = trace.clone();
    event_loop.set_exception_handler(Some(Rc::new(move |_, context| {
        log.push(context.subject.clone().unwrap());
    })));
    let future: Fut = event_loop.create_future();
    let line = line!() - 1;
    future.set_error("lost").unwrap();
    drop(future);
    assert!(
        trace.take()[0].starts_with(&format!("\"lost\", future created at {}:{line}:", file!()))
    );
}

#[test]
fn b_fut_14_and_15_reading_awaiting_taking_or_cancelling_silences_the_report() {
    let mut event_loop = new_loop();
    let log = reports(&event_loop);
    let failed = |event_loop: &EventLoop| {
        let future: Fut = event_loop.create_future();
        future.set_error("failed").unwrap();
        future
    };
    assert!(failed(&event_loop).result().is_err());
    assert!(failed(&event_loop).take_result().is_err());
    assert!(!failed(&event_loop).cancel());
    let awaited = failed(&event_loop);
    assert!(event_loop.run_until_complete(awaited).unwrap().is_err());
    assert_eq!(log.take(), Vec::<String>::new());
}

#[test]
fn b_fut_16_setting_a_result_unless_cancelled_is_to_ignore_the_refusal() {
    let event_loop = new_loop();
    let future: Fut = event_loop.create_future();
    future.cancel();
    assert_eq!(future.set_result(1), Err(CompleteError::InvalidState(1)));
    assert!(future.is_cancelled());
}

struct CountWakes(AtomicUsize);

impl Wake for CountWakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn counting() -> (Arc<CountWakes>, Waker) {
    let count = Arc::new(CountWakes(AtomicUsize::new(0)));
    (count.clone(), Waker::from(count))
}

fn poll<F: Future + Unpin>(future: &mut F, waker: &Waker) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(waker))
}

#[test]
fn b_fut_19_dropping_an_await_takes_its_waker_away_and_a_new_waker_replaces_the_old() {
    let event_loop = new_loop();
    let future: Fut = event_loop.create_future();
    let ((a, a_waker), (b, b_waker), (c, c_waker)) = (counting(), counting(), counting());
    let (mut dropped, mut kept) = (future.clone(), future.clone());
    assert!(poll(&mut dropped, &a_waker).is_pending());
    assert!(poll(&mut kept, &b_waker).is_pending());
    assert!(poll(&mut kept, &b_waker).is_pending());
    assert!(poll(&mut kept, &c_waker).is_pending());
    drop(dropped);
    assert_eq!(Arc::strong_count(&a), 2, "the local one and its waker");
    assert_eq!(Arc::strong_count(&b), 2);
    future.set_result(1).unwrap();
    let woken = [&a, &b, &c].map(|count| count.0.load(Ordering::Relaxed));
    assert_eq!(woken, [0, 0, 1]);
    assert_eq!(poll(&mut kept, &c_waker), Poll::Ready(Ok(1)));
}

#[test]
fn an_outcome_that_cannot_be_cloned_goes_to_who_awaits_it() {
    #[derive(Debug, PartialEq)]
    struct Unique(u32);
    let (mut event_loop, other) = (new_loop(), new_loop());
    let future: LoopFuture<Unique, Unique> = event_loop.create_future();
    let task = event_loop.spawn(future.clone().into_result());
    let late = event_loop.spawn(future.clone().into_result());
    turn(&mut event_loop);
    future.set_result(Unique(1)).unwrap();
    assert_eq!(event_loop.run_until_complete(task).unwrap().unwrap(), Ok(Unique(1)));
    let late = event_loop.run_until_complete(late).unwrap().unwrap();
    assert_eq!(late, Err(FutureError::InvalidState), "it was taken");

    let failed: LoopFuture<Unique, Unique> = event_loop.create_future();
    failed.set_error(Unique(2)).unwrap();
    let outcome = event_loop.run_until_complete(failed.into_result()).unwrap();
    assert_eq!(outcome, Err(FutureError::Failed(Unique(2))));
    let elsewhere: LoopFuture<Unique, Unique> = other.create_future();
    let outcome = event_loop.run_until_complete(elsewhere.into_result()).unwrap();
    assert_eq!(outcome, Err(FutureError::WrongLoop));
}

#[test]
fn b_fut_20_debug_shows_the_state() {
    let event_loop = new_loop();
    let states = in_every_state(&event_loop).map(|future| {
        let _ = future.result();
        let text = format!("{future:?}");
        text.split('"').nth(1).unwrap().to_string()
    });
    assert_eq!(states, ["pending", "failed", "cancelled", "done"]);
}

#[test]
fn a_future_set_by_one_task_wakes_another() {
    let _watchdog = watchdog();
    let mut event_loop = new_loop();
    let future: Fut = event_loop.create_future();
    let setter = future.clone();
    event_loop
        .spawn(async move {
            yield_now().await;
            setter.set_result(6).unwrap();
        })
        .detach();
    assert_eq!(event_loop.run_until_complete(future).unwrap(), Ok(6));
}
