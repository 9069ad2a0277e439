//! The iteration and run control.

mod common;

use std::cell::{Cell, RefCell};
use std::future::{pending, poll_fn, ready};
use std::io::{Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use common::{
    Call, OnDrop, Trace, for_each_backend, for_each_logged, keep, pair, reports,
    run_until_stopped_in_sleep, turn, watchdog,
};
use loop_core::{
    CompleteError, EventLoop, FutureError, LoopAbort, LoopError, LoopFuture, LoopRef, Signal,
    TaskError, current_task, sleep, yield_now,
};

const MS: Duration = Duration::from_millis(1);

fn new_loop() -> EventLoop {
    EventLoop::new().unwrap()
}

#[test]
fn b_loop_01_call_soon_is_first_in_first_out() {
    let mut event_loop = new_loop();
    let trace = Trace::new();
    for name in ["a", "b", "c", "d", "e"] {
        event_loop.call_soon(trace.note(name));
    }
    turn(&mut event_loop);
    assert_eq!(trace.take(), ["a", "b", "c", "d", "e"]);
}

#[test]
fn b_loop_02_what_a_callback_schedules_waits_for_the_next_poll() {
    for_each_logged(|mut event_loop, log| {
        let (ours, _theirs) = pair();
        event_loop.add_reader(&ours, || ()).unwrap(); // so that each iteration really polls
        let trace = Trace::new();
        let (lp, inner) = (event_loop.loop_ref(), trace.clone());
        event_loop.call_soon(move || {
            inner.push("outer");
            lp.call_soon(inner.note("inner"));
        });
        event_loop.call_soon(trace.note("sibling"));
        log.take();
        turn(&mut event_loop);
        assert_eq!(trace.take(), ["outer", "sibling"]);
        assert_eq!(log.take_waits().len(), 1);
        turn(&mut event_loop);
        assert_eq!(trace.take(), ["inner"]);
        assert_eq!(log.take_waits().len(), 1);
    });
}

#[test]
fn b_loop_03_ready_then_io_then_timers() {
    for_each_backend(|builder| {
        let mut event_loop = builder.build().unwrap();
        let (ours, mut theirs) = pair();
        theirs.write_all(b"x").unwrap();
        let trace = Trace::new();
        event_loop.call_at(Instant::now(), trace.note("timer"));
        event_loop.add_reader(&ours, trace.note("reader")).unwrap();
        event_loop.call_soon(trace.note("ready"));
        turn(&mut event_loop);
        assert_eq!(trace.take(), ["ready", "reader", "timer"]);
    });
}

#[test]
fn b_loop_04_the_reader_comes_before_the_writer() {
    for_each_backend(|builder| {
        let mut event_loop = builder.build().unwrap();
        let (ours, mut theirs) = pair();
        theirs.write_all(b"x").unwrap();
        let trace = Trace::new();
        event_loop.add_writer(&ours, trace.note("writer")).unwrap();
        event_loop.add_reader(&ours, trace.note("reader")).unwrap();
        turn(&mut event_loop);
        assert_eq!(trace.take(), ["reader", "writer"]);
    });
}

#[test]
fn b_loop_05_the_timeout_is_zero_or_the_nearest_deadline_or_the_cap() {
    for_each_logged(|mut event_loop, log| {
        let (ours, mut theirs) = pair();
        theirs.write_all(b"x").unwrap(); // no wait blocks
        event_loop.add_reader(&ours, || ()).unwrap();
        let waited = |event_loop: &mut EventLoop| {
            log.take();
            event_loop.run_once(None).unwrap();
            let waits = log.take_waits();
            assert_eq!(waits.len(), 1);
            waits[0].0
        };
        assert_eq!(waited(&mut event_loop), Duration::MAX); // nothing to wait for: no timeout
        let cancelled = event_loop.call_later(Duration::from_secs(1), || ());
        event_loop.call_later(Duration::from_secs(3), || ());
        cancelled.cancel();
        let timeout = waited(&mut event_loop);
        assert!(timeout > Duration::from_secs(2) && timeout <= Duration::from_secs(3));
        event_loop.call_soon(|| ());
        assert_eq!(waited(&mut event_loop), Duration::ZERO);
        event_loop.stop();
        assert_eq!(waited(&mut event_loop), Duration::ZERO);
        event_loop.call_at(Instant::now(), || ());
        assert_eq!(waited(&mut event_loop), Duration::ZERO);
    });
}

#[test]
fn b_loop_06_a_wait_is_capped_at_a_day() {
    for_each_logged(|mut event_loop, log| {
        let remote = event_loop.remote();
        let far = event_loop.call_later(Duration::from_secs(1 << 33), || ());
        let thread = std::thread::spawn(move || remote.stop().unwrap());
        event_loop.run_forever().unwrap();
        thread.join().unwrap();
        assert_eq!(log.take_waits()[0].0, Duration::from_secs(24 * 60 * 60));
        assert!(!far.is_done());
        // So is what a host asks for.
        let remote = event_loop.remote();
        std::thread::spawn(move || remote.call_soon(|| ()).unwrap()).join().unwrap();
        event_loop.run_once(Some(Duration::MAX)).unwrap();
        assert_eq!(log.take_waits(), [(Duration::from_secs(24 * 60 * 60), 0)]);
    });
}

#[test]
fn b_loop_07_a_full_ready_queue_does_not_keep_io_out() {
    fn again(lp: &LoopRef, count: Rc<Cell<u32>>) {
        count.set(count.get() + 1);
        assert!(count.get() < 1_000, "the reader starves");
        let lp_then = lp.clone();
        lp.call_soon(move || again(&lp_then, count));
    }
    for_each_backend(|builder| {
        let mut event_loop = builder.build().unwrap();
        let (ours, mut theirs) = pair();
        theirs.write_all(b"x").unwrap();
        let lp = event_loop.loop_ref();
        event_loop.add_reader(&ours, move || lp.stop()).unwrap();
        again(&event_loop, Rc::default());
        event_loop.run_forever().unwrap();
    });
}

#[test]
fn b_loop_08_stop_ends_the_run_after_the_iteration_and_keeps_what_it_scheduled() {
    for_each_backend(|builder| {
        let mut event_loop = builder.build().unwrap();
        let (ours, mut theirs) = pair();
        theirs.write_all(b"x").unwrap();
        let trace = Trace::new();
        let (lp, inner) = (event_loop.loop_ref(), trace.clone());
        event_loop.call_soon(move || {
            lp.stop();
            lp.call_soon(inner.note("next run"));
            inner.push("stop");
        });
        event_loop.call_soon(trace.note("same batch"));
        event_loop.add_reader(&ours, trace.note("reader")).unwrap();
        event_loop.run_forever().unwrap();
        // Events of the last poll are not lost.
        assert_eq!(trace.take(), ["stop", "same batch", "reader"]);
        event_loop.stop();
        event_loop.run_forever().unwrap();
        assert_eq!(trace.take(), ["next run", "reader"]);
    });
}

#[test]
fn b_loop_09_stop_before_a_run_makes_it_one_iteration() {
    let _watchdog = watchdog();
    let mut event_loop = new_loop();
    let trace = Trace::new();
    event_loop.call_soon(trace.note("ready"));
    for _ in 0..3 {
        event_loop.stop();
    }
    event_loop.run_forever().unwrap();
    assert_eq!(trace.take(), ["ready"]);
    event_loop.stop();
    event_loop.run_forever().unwrap(); // with nothing to do, and without waiting for it
    // The flag went with that run: the next one needs a stop of its own.
    let (lp, inner) = (event_loop.loop_ref(), trace.clone());
    event_loop.call_soon(move || {
        inner.push("first");
        let stop = lp.clone();
        lp.call_soon(move || stop.stop());
    });
    event_loop.run_forever().unwrap();
    assert_eq!(trace.take(), ["first"]);
    assert!(!event_loop.is_running());
}

#[test]
fn b_loop_10_a_closed_loop_does_not_run() {
    let mut event_loop = new_loop();
    event_loop.close();
    assert!(matches!(event_loop.run_forever(), Err(LoopError::Closed)));
    assert!(matches!(event_loop.run_until_complete(ready(())), Err(LoopError::Closed)));
    assert!(matches!(event_loop.run_once(None), Err(LoopError::Closed)));
}

#[test]
fn b_loop_11_and_12_a_nested_run_is_refused_and_changes_nothing() {
    let _watchdog = watchdog();
    let mut outer = new_loop();
    let lp = outer.loop_ref();
    let trace = Trace::new();
    let inner_trace = trace.clone();
    let outcome = outer.run_until_complete(async move {
        let mut inner = new_loop();
        inner.call_soon(inner_trace.note("never"));
        assert!(matches!(inner.run_forever(), Err(LoopError::NestedLoop)));
        assert!(matches!(inner.run_until_complete(ready(())), Err(LoopError::NestedLoop)));
        assert!(!inner.is_running() && lp.is_running());
        assert!(current_task().is_some());
        drop(inner); // closing makes the closing loop current, and the outer one again
        assert!(LoopRef::current().is_running());
        yield_now().await;
        "still running"
    });
    assert_eq!(outcome.unwrap(), "still running");
    assert_eq!(trace.take(), Vec::<String>::new());
}

#[test]
fn b_loop_13_a_finished_future_still_runs_one_iteration() {
    let mut event_loop = new_loop();
    let trace = Trace::new();
    event_loop.call_soon(trace.note("callback"));
    assert_eq!(event_loop.run_until_complete(ready(7)).unwrap(), 7);
    assert_eq!(trace.take(), ["callback"]);
    event_loop.stop(); // pending, and the future is done in that one iteration
    assert_eq!(event_loop.run_until_complete(ready(8)).unwrap(), 8);
}

#[test]
fn b_loop_14_stopped_early_leaves_the_future_to_be_run_again() {
    let _watchdog = watchdog();
    let mut event_loop = new_loop();
    let polls = Cell::new(0);
    let mut future = Box::pin(async {
        for _ in 0..3 {
            polls.set(polls.get() + 1);
            yield_now().await;
        }
        42
    });
    event_loop.stop();
    let early = event_loop.run_until_complete(future.as_mut());
    assert!(matches!(early, Err(LoopError::StoppedEarly)));
    assert_eq!(polls.get(), 1);
    assert_eq!(event_loop.run_until_complete(future).unwrap(), 42);
    assert_eq!(polls.get(), 3);
}

#[test]
fn b_loop_15_an_abandoned_future_does_not_stop_a_later_run() {
    let _watchdog = watchdog();
    let mut event_loop = new_loop();
    let future: LoopFuture<u32> = event_loop.create_future();
    event_loop.stop();
    assert!(event_loop.run_until_complete(future.clone()).is_err());
    future.set_result(1).unwrap(); // late
    let done = event_loop.run_until_complete(async {
        for _ in 0..5 {
            yield_now().await;
        }
        "all five"
    });
    assert_eq!(done.unwrap(), "all five");
}

#[test]
fn b_loop_16_a_future_of_another_loop_is_an_error_and_not_a_hang() {
    let _watchdog = watchdog();
    let (mut event_loop, other) = (new_loop(), new_loop());
    let foreign: LoopFuture<u32> = other.create_future();
    let outcome = event_loop.run_until_complete(foreign).unwrap();
    assert_eq!(outcome.unwrap_err().to_string(), "the future belongs to another event loop");
    let foreign = other.spawn(async { 1 });
    let outcome = event_loop.run_until_complete(foreign).unwrap();
    assert!(matches!(outcome, Err(TaskError::WrongLoop)));
}

#[test]
fn b_loop_17_the_root_is_polled_at_its_place_in_the_queue_and_may_borrow() {
    let mut event_loop = new_loop();
    let trace = Trace::new();
    event_loop.call_soon(trace.note("before"));
    let borrowed = &trace;
    let lp = event_loop.loop_ref();
    event_loop
        .run_until_complete(async move {
            lp.call_soon(borrowed.note("after"));
            borrowed.push("root");
            yield_now().await;
            borrowed.push("root again");
        })
        .unwrap();
    assert_eq!(trace.take(), ["before", "root", "after", "root again"]);
    // A root that is dropped pending is the caller's affair: nothing is reported.
    let log = reports(&event_loop);
    event_loop.stop();
    assert!(event_loop.run_until_complete(pending::<()>()).is_err());
    drop(event_loop);
    assert_eq!(log.take(), Vec::<String>::new());
}

#[test]
fn b_loop_18_an_abort_of_the_root_leaves_no_stop_behind() {
    let _watchdog = watchdog();
    let mut event_loop = new_loop();
    let run = AssertUnwindSafe(|| {
        event_loop.run_until_complete(async { LoopAbort { code: 3 }.raise() }).unwrap();
    });
    let payload = catch_unwind(run).unwrap_err();
    assert_eq!(payload.downcast_ref(), Some(&LoopAbort { code: 3 }));
    let turns = Cell::new(0);
    event_loop
        .run_until_complete(async {
            while turns.replace(turns.get() + 1) < 5 {
                yield_now().await;
            }
        })
        .unwrap();
    assert_eq!(turns.get(), 6);
}

#[test]
fn b_loop_19_an_abort_unwinds_at_once_and_leaves_the_batch_queued() {
    let _watchdog = watchdog();
    let mut event_loop = new_loop();
    let trace = Trace::new();
    event_loop.call_soon(trace.note("before"));
    event_loop.call_soon(|| LoopAbort { code: 1 }.raise());
    for name in ["after 1", "after 2"] {
        event_loop.call_soon(trace.note(name));
    }
    let run = AssertUnwindSafe(|| event_loop.run_forever());
    let payload = catch_unwind(run).unwrap_err();
    assert!(payload.is::<LoopAbort>());
    assert_eq!(trace.take(), ["before"]);
    assert!(!event_loop.is_running());
    assert!(LoopRef::try_current().is_none());
    for name in ["new 1", "new 2"] {
        event_loop.call_soon(trace.note(name));
    }
    event_loop.stop();
    event_loop.run_forever().unwrap();
    assert_eq!(trace.take(), ["after 1", "after 2", "new 1", "new 2"]);
}

/// A value whose destructor tries everything that a closed loop refuses.
fn uses_the_loop_when_dropped(
    lp: LoopRef,
    trace: &Trace,
    what: &'static str,
) -> impl Sized + use<> {
    let trace = trace.clone();
    OnDrop(move || {
        assert!(lp.is_closed());
        assert!(lp.call_soon(|| ()).is_cancelled());
        assert!(lp.call_later(MS, || ()).is_cancelled());
        assert!(lp.spawn(async {}).is_done());
        let (ours, _theirs) = pair();
        assert!(lp.add_reader(&ours, || ()).is_err());
        assert!(lp.add_signal_handler(Signal::WINCH, || ()).is_err());
        assert!(!lp.remove_reader(&*ours));
        assert!(lp.remote().call_soon(|| ()).is_err());
        lp.stop();
        trace.push(what);
    })
}

#[test]
fn b_loop_21_closing_drops_everything_in_a_fixed_order_and_runs_nothing() {
    for_each_backend(|builder| {
        let mut event_loop = builder.build().unwrap();
        let (trace, lp) = (Trace::new(), event_loop.loop_ref());
        let value = |what| uses_the_loop_when_dropped(lp.clone(), &trace, what);
        let (reader, signal) = (value("reader"), value("signal"));
        let (ready, timer, task) = (value("ready"), value("timer"), value("task"));
        let (ours, _theirs) = pair();
        event_loop.add_signal_handler(Signal::WINCH, move || keep(&signal)).unwrap();
        event_loop.add_reader(&ours, move || keep(&reader)).unwrap();
        event_loop.call_later(MS, move || drop(timer));
        event_loop.call_soon(move || drop(ready));
        event_loop
            .spawn(async move {
                pending::<()>().await;
                drop(task);
            })
            .detach();
        let log = reports(&event_loop);
        event_loop.close();
        assert_eq!(trace.take(), ["task", "ready", "timer", "reader", "signal"]);
        assert_eq!(log.take(), ["task was destroyed while it was pending"]);
        event_loop.close();
        assert_eq!(Rc::strong_count(&ours), 1, "the loop gave up its share of the source");
    });
}

#[test]
fn b_loop_21_a_destructor_that_panics_does_not_stop_the_closing() {
    let mut event_loop = new_loop();
    let trace = Trace::new();
    let log = reports(&event_loop);
    let fails = |what: &'static str| OnDrop(move || panic!("{what}"));
    let (a, b, c, d, e) =
        (fails("body"), fails("callback"), fails("timer"), fails("reader"), fails("done"));
    let (ours, _theirs) = pair();
    event_loop.add_reader(&ours, move || keep(&d)).unwrap();
    event_loop.call_later(MS, move || drop(b));
    event_loop.call_later(MS, trace.note("never"));
    event_loop.call_soon(move || drop(c));
    let task = event_loop.spawn(async move {
        pending::<()>().await;
        drop(a);
    });
    task.add_done_callback(move || drop(e));
    task.detach();
    let last = trace.on_drop("last");
    event_loop.call_later(Duration::from_secs(9), move || drop(last));
    event_loop.close();
    assert_eq!(trace.take(), ["last"]);
    assert_eq!(
        log.take(),
        [
            "task was destroyed while it was pending",
            "a destructor failed: panic \"body\"",
            "a destructor failed: panic \"done\"",
            "a destructor failed: panic \"timer\"",
            "a destructor failed: panic \"callback\"",
            "a destructor failed: panic \"reader\"",
        ]
    );
}

#[test]
fn b_loop_21_a_million_pending_tasks_are_dropped_at_close() {
    const COUNT: usize = 1_000_000;
    let mut event_loop = new_loop();
    let reports = Rc::new(Cell::new(0));
    let count = reports.clone();
    event_loop.set_exception_handler(Some(Rc::new(move |_, _| count.set(count.get() + 1))));
    // Each holds the handle of the one before.
    let mut last = event_loop.spawn(std::future::pending::<()>());
    for _ in 1..COUNT {
        last = event_loop.spawn(async move {
            std::future::pending::<()>().await;
            drop(last);
        });
    }
    turn(&mut event_loop);
    event_loop.close();
    assert!(last.is_done());
    assert_eq!(reports.get(), COUNT);
}

#[test]
fn b_loop_21_a_waker_woken_by_a_destructor_while_closing_polls_nobody() {
    let mut event_loop = new_loop();
    event_loop.set_exception_handler(Some(Rc::new(|_, _| ())));
    let wakers: Rc<RefCell<Vec<Waker>>> = Rc::default();
    let polls = Rc::new(Cell::new(0));
    let wakes_all = |wakers: &Rc<RefCell<Vec<Waker>>>| {
        let wakers = wakers.clone();
        OnDrop(move || wakers.borrow().iter().for_each(Waker::wake_by_ref))
    };
    let mut tasks = Vec::new();
    for _ in 0..3 {
        let (keeps, count, wakes) = (wakers.clone(), polls.clone(), wakes_all(&wakers));
        tasks.push(event_loop.spawn(poll_fn(move |cx| {
            keep(&wakes);
            count.set(count.get() + 1);
            keeps.borrow_mut().push(cx.waker().clone());
            Poll::<()>::Pending
        })));
    }
    turn(&mut event_loop);
    let wakes = wakes_all(&wakers);
    event_loop.call_later(MS, move || drop(wakes));
    event_loop.close();
    drop(wakes_all(&wakers));
    assert_eq!(polls.get(), 3, "the first poll of each");
    assert!(tasks.iter().all(|task| task.is_done()));
}

#[test]
fn b_loop_22_a_closed_loop_answers() {
    let mut event_loop = new_loop();
    let (ours, _theirs) = pair();
    let remote = event_loop.remote();
    event_loop.close();
    let lp = event_loop.loop_ref();
    let trace = Trace::new();

    let value = trace.on_drop("soon dropped");
    assert!(lp.call_soon(move || drop(value)).is_cancelled());
    let value = trace.on_drop("later dropped");
    assert!(lp.call_later(MS, move || drop(value)).is_cancelled());
    let value = trace.on_drop("at dropped");
    assert!(lp.call_at(Instant::now(), move || drop(value)).is_cancelled());
    let value = trace.on_drop("body dropped");
    let task = lp.spawn(async move { drop(value) });
    assert!(matches!(task.take_result(), Some(Err(TaskError::Closed))));
    assert_eq!(trace.take(), ["soon dropped", "later dropped", "at dropped", "body dropped"]);

    let error = lp.add_reader(&ours, || ()).unwrap_err();
    assert_eq!(error.to_string(), "the event loop is closed");
    assert_eq!(lp.add_writer(&ours, || ()).unwrap_err().to_string(), "the event loop is closed");
    assert!(lp.add_signal_handler(Signal::WINCH, || ()).is_err());
    assert!(!lp.remove_reader(&*ours) && !lp.remove_writer(&*ours));
    assert!(!lp.remove_signal_handler(Signal::WINCH));
    assert!(remote.is_closed() && remote.stop().is_err());
    let given_back = remote.call_soon(|| Err("given back")).unwrap_err();
    assert_eq!((given_back.0)(), Err("given back"));

    lp.stop();
    assert!(lp.is_closed() && !lp.is_running());
    assert!(lp.now() <= Instant::now());
    let log = reports(&lp);
    lp.report(&loop_core::ExceptionContext::new("late"));
    assert_eq!(log.take(), ["late"]);
}

#[test]
fn b_loop_23_completing_a_future_of_a_closed_loop() {
    let event_loop = new_loop();
    let (bare, heard): (LoopFuture<u32, ()>, LoopFuture<u32, ()>) =
        (event_loop.create_future(), event_loop.create_future());
    let trace = Trace::new();
    heard.add_done_callback(trace.note("never"));
    drop(event_loop);
    assert!(bare.set_result(1).is_ok());
    assert!(matches!(heard.set_result(2), Err(CompleteError::Closed)));
    assert_eq!((bare.result(), heard.result()), (Ok(1), Ok(2)));
    assert_eq!(trace.take(), Vec::<String>::new());
}

#[test]
fn b_loop_24_dropping_a_loop_closes_it_and_reports_only_pending_tasks() {
    let mut event_loop = new_loop();
    let log = reports(&event_loop);
    let lp = event_loop.loop_ref();
    event_loop.spawn(async {}).detach();
    let pending_task = event_loop.spawn(pending::<()>());
    pending_task.set_name("the slow one");
    let cancelled = event_loop.spawn(pending::<()>());
    cancelled.cancel();
    event_loop.call_soon(|| ());
    turn(&mut event_loop);
    drop(event_loop);
    assert!(lp.is_closed());
    assert_eq!(log.take(), ["task was destroyed while it was pending"]);
    assert!(matches!(pending_task.take_result(), Some(Err(TaskError::Closed))));
    assert!(cancelled.is_cancelled());
}

#[test]
fn a_handler_that_holds_its_loop_does_not_keep_it_alive() {
    let event_loop = new_loop();
    let alive = Rc::new(());
    let (lp, witness) = (event_loop.loop_ref(), alive.clone());
    event_loop.set_exception_handler(Some(Rc::new(move |_, _| {
        let _ = (&lp, &witness);
    })));
    drop(event_loop);
    assert_eq!(Rc::strong_count(&alive), 1);
}

#[test]
fn b_loop_25_now_is_monotonic_and_answers_when_nothing_runs() {
    let event_loop = new_loop();
    let mut last = event_loop.now();
    for _ in 0..1_000 {
        let now = event_loop.now();
        assert!(now >= last);
        last = now;
    }
}

#[test]
fn b_loop_26_the_current_loop_is_set_during_a_run_only() {
    let _watchdog = watchdog();
    assert!(LoopRef::try_current().is_none());
    assert!(current_task().is_none());
    let mut event_loop = new_loop();
    let seen = Rc::new(Cell::new(false));
    let (lp, flag) = (event_loop.loop_ref(), seen.clone());
    event_loop.call_soon(move || {
        assert!(LoopRef::current().is_running() && lp.is_running());
        assert!(current_task().is_none());
        // Per thread: another one has no current loop.
        assert!(std::thread::spawn(|| LoopRef::try_current().is_none()).join().unwrap());
        flag.set(true);
    });
    event_loop
        .run_until_complete(async {
            assert!(current_task().is_some());
            assert!(LoopRef::current().is_running());
            yield_now().await;
            assert!(current_task().is_some());
        })
        .unwrap();
    assert!(seen.get() && !event_loop.is_running());
    assert!(LoopRef::try_current().is_none());
    let run = AssertUnwindSafe(|| event_loop.run_until_complete(async { panic!("root") }));
    assert!(catch_unwind(run).is_err());
    assert!(LoopRef::try_current().is_none() && !event_loop.is_running());
}

#[test]
fn b_loop_28_a_host_can_step_the_loop() {
    for_each_backend(|builder| {
        let mut event_loop = builder.build().unwrap();
        let (ours, mut theirs) = pair();
        let trace = Trace::new();
        let (source, read) = (ours.clone(), trace.clone());
        event_loop
            .add_reader(&ours, move || {
                let mut byte = [0];
                (&*source).read_exact(&mut byte).unwrap();
                read.push("read");
            })
            .unwrap();
        let done = event_loop.spawn(async {
            sleep(2 * MS).await;
            "slept"
        });
        theirs.write_all(b"x").unwrap();
        event_loop.run_once(Some(Duration::ZERO)).unwrap();
        assert_eq!(trace.take(), ["read"]);
        assert!(!event_loop.is_running() && LoopRef::try_current().is_none());
        while !done.is_done() {
            event_loop.run_once(Some(Duration::from_secs(5))).unwrap();
        }
        assert_eq!(done.take_result().unwrap().unwrap(), "slept");
        // The limit is kept when nothing happens.
        let started = Instant::now();
        event_loop.run_once(Some(5 * MS)).unwrap();
        assert!(started.elapsed() >= 5 * MS);
    });
}

#[test]
fn b_loop_29_the_wakers_descriptor_is_not_a_users() {
    for_each_logged(|mut event_loop, log| {
        let (ours, _theirs) = pair();
        event_loop.add_reader(&ours, || ()).unwrap();
        assert!(event_loop.remove_reader(&*ours));
        assert_eq!(log.take_changes(), [Call::Register, Call::Deregister]);
        // Removing what users registered leaves waking alone.
        run_until_stopped_in_sleep(&mut event_loop);
        let waits = log.take_waits();
        assert!(waits.iter().all(|(_, events)| *events == 0), "{waits:?}");
    });
}

#[test]
fn b_loop_30_a_long_wait_is_a_handful_of_iterations() {
    for_each_logged(|mut event_loop, log| {
        let started = Instant::now();
        event_loop.run_until_complete(sleep(Duration::from_micros(30_300))).unwrap();
        assert!(started.elapsed() >= Duration::from_micros(30_300));
        assert!(log.take_waits().len() <= 4);
    });
}

#[test]
fn a_stop_ends_one_run_and_the_root_may_stop_its_own() {
    let _watchdog = watchdog();
    let mut event_loop = new_loop();
    let lp = event_loop.loop_ref();
    let outcome = event_loop.run_until_complete(poll_fn(move |_| {
        lp.stop();
        Poll::<()>::Pending
    }));
    assert!(matches!(outcome, Err(LoopError::StoppedEarly)));
    let late: RefCell<Option<FutureError<()>>> = RefCell::new(None);
    event_loop
        .run_until_complete(async {
            let future: LoopFuture<(), ()> = LoopRef::current().create_future();
            future.cancel();
            *late.borrow_mut() = future.await.err();
        })
        .unwrap();
    assert_eq!(late.take(), Some(FutureError::Cancelled { reason: None }));
}

#[test]
fn a_loop_in_a_thread_local_is_closed_when_its_thread_ends() {
    thread_local! {
        static KEPT: RefCell<Option<EventLoop>> = const { RefCell::new(None) };
    }
    let (sender, dropped) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut event_loop = new_loop();
        event_loop.set_exception_handler(Some(Rc::new(|_, _| ())));
        let remote = event_loop.remote();
        for what in ["callback", "timer", "task"] {
            let sender = sender.clone();
            let value = OnDrop(move || sender.send(what).unwrap());
            let (lp, remote) = (event_loop.loop_ref(), remote.clone());
            let uses = move || {
                keep(&value);
                let _ = (lp.is_closed(), remote.is_closed());
            };
            match what {
                "callback" => drop(event_loop.call_soon(uses)),
                "timer" => drop(event_loop.call_later(Duration::from_secs(3600), uses)),
                _ => event_loop
                    .spawn(async move {
                        pending::<()>().await;
                        uses();
                    })
                    .detach(),
            }
        }
        event_loop.run_once(Some(Duration::ZERO)).unwrap();
        event_loop.call_soon(|| ());
        KEPT.set(Some(event_loop));
    })
    .join()
    .unwrap();
    assert_eq!(dropped.iter().collect::<Vec<_>>(), ["callback", "task", "timer"]);
}

#[test]
fn two_loops_of_one_thread_take_turns_and_wake_each_other() {
    let _watchdog = watchdog();
    let (mut one, mut two) = (new_loop(), new_loop());
    let future: LoopFuture<u32, ()> = one.create_future();
    let (waits, trace) = (future.clone(), Trace::new());
    let log = trace.clone();
    let task = one.spawn(async move {
        waits.await.unwrap();
        sleep(MS).await;
        log.push("one goes on");
    });
    turn(&mut one);
    let (remote, log) = (one.remote(), trace.clone());
    let (home, callback) = (one.loop_ref(), trace.note("callback of one"));
    two.call_soon(move || {
        log.push("two runs");
        future.set_result(1).unwrap(); // wakes a task of the loop that does not run
        home.call_soon(callback);
        assert!(remote.call_soon(|| ()).is_ok());
    });
    turn(&mut two);
    assert_eq!(trace.take(), ["two runs"]);
    one.run_until_complete(task).unwrap().unwrap();
    assert_eq!(trace.take(), ["callback of one", "one goes on"]);
}
