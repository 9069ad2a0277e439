//! The runner. What concerns SIGINT is in `b_run_interrupt.rs`.

mod common;

use std::cell::{Cell, RefCell};
use std::future::{IntoFuture, pending};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::time::Duration;

use common::{OnDrop, Trace, reports, watchdog};
use loop_core::{
    Context, ContextVar, EventLoop, LoopError, LoopRef, Runner, VirtualClock, catch_cancelled,
    current_task, run, sleep, spawn, to_thread, yield_now,
};

const MS: Duration = Duration::from_millis(1);

#[test]
fn b_run_01_the_output_comes_back_as_it_is() {
    struct NoDebug;
    let output: Result<NoDebug, &str> = run(async { Ok(NoDebug) }).unwrap();
    assert!(output.is_ok());
    assert_eq!(Runner::new().run(async { Err::<(), _>("no") }).unwrap(), Err("no"));
    let mut local = 1;
    run(async { local += 1 }).unwrap();
    assert_eq!(local, 2, "it may borrow");
}

#[test]
fn b_run_02_not_inside_a_running_loop() {
    let made = Rc::new(Cell::new(false));
    let flag = made.clone();
    run(async move {
        assert!(matches!(run(async {}), Err(LoopError::NestedLoop)));
        let mut runner = Runner::builder()
            .loop_factory(move || {
                flag.set(true);
                EventLoop::new()
            })
            .build();
        assert!(matches!(runner.run(async {}), Err(LoopError::NestedLoop)));
        assert!(LoopRef::current().is_running(), "nothing was changed");
    })
    .unwrap();
    assert!(!made.get(), "nor made");
}

#[test]
fn b_run_03_what_is_left_is_cancelled_cleaned_up_and_closed_in_order() {
    let _watchdog = watchdog();
    let trace = Trace::new();
    let log = trace.clone();
    let mut runner = Runner::new();
    let lp = runner.loop_ref().unwrap();
    runner
        .run(async move {
            let on_thread = log.clone();
            spawn(async move {
                let cancelled = catch_cancelled(pending::<()>()).await.unwrap_err();
                sleep(2 * MS).await;
                to_thread(|| ()).await.unwrap();
                on_thread.push("cleaned up, with the executor still there");
                let left = on_thread.clone();
                spawn(async move {
                    let _guard = left.on_drop("left behind by a clean-up");
                    pending::<()>().await;
                })
                .detach();
                cancelled.propagate().await
            })
            .detach();
            yield_now().await;
        })
        .unwrap();
    assert_eq!(trace.len(), 0, "a run leaves them alone");
    let closes = trace.clone();
    lp.call_later(Duration::from_secs(3600), {
        let guard = OnDrop(move || closes.push("closed"));
        move || common::keep(&guard)
    });
    runner.close().unwrap();
    assert!(lp.is_closed());
    assert_eq!(
        trace.take(),
        ["cleaned up, with the executor still there", "left behind by a clean-up", "closed"]
    );
}

#[test]
fn b_run_03_it_also_happens_when_the_body_panics_and_errors_are_reported() {
    let trace = Trace::new();
    let (log, mut runner) = (trace.clone(), Runner::new());
    let lp = runner.loop_ref().unwrap();
    let reports = reports(&lp);
    let payload = catch_unwind(AssertUnwindSafe(|| {
        runner.run(async move {
            spawn(async move {
                let _guard = log.on_drop("cancelled");
                let cancelled = catch_cancelled(pending::<()>()).await.unwrap_err();
                cancelled.swallow();
                panic!("while cleaning up");
            })
            .detach();
            yield_now().await;
            panic!("the body");
        })
    }))
    .unwrap_err();
    assert_eq!(payload.downcast_ref(), Some(&"the body"));
    assert_eq!(trace.len(), 0);
    drop(runner);
    assert_eq!(trace.take(), ["cancelled"]);
    assert_eq!(
        reports.take(),
        ["task panicked and nobody awaited it: panic \"while cleaning up\""]
    );
}

#[test]
fn b_run_03_tasks_that_swallow_for_ever_are_aborted_after_the_grace() {
    let _watchdog = watchdog();
    let clock = Rc::new(VirtualClock::new());
    let hands = clock.clone();
    let mut runner = Runner::builder()
        .grace(Duration::from_secs(60))
        .loop_factory(move || EventLoop::builder().clock(hands).build())
        .build();
    let lp = runner.loop_ref().unwrap();
    let reports = reports(&lp);
    let trace = Trace::new();
    let (log, swallowed) = (trace.clone(), Rc::new(Cell::new(0)));
    let count = swallowed.clone();
    runner
        .run(async move {
            let advance = clock.clone();
            spawn(async move {
                let _guard = log.on_drop("aborted");
                loop {
                    catch_cancelled(pending::<()>()).await.unwrap_err().swallow();
                    count.set(count.get() + 1);
                    // The time that the clean-up takes.
                    advance.advance(Duration::from_secs(40));
                    yield_now().await;
                    advance.advance(Duration::from_secs(40));
                }
            })
            .detach();
            yield_now().await;
        })
        .unwrap();
    runner.close().unwrap();
    assert_eq!(swallowed.get(), 1, "asked once");
    assert_eq!(trace.take(), ["aborted"]);
    assert_eq!(reports.take(), ["task did not end in its grace period and is aborted"]);
}

#[test]
fn a_clean_up_that_stops_the_loop_does_not_cut_the_others_short() {
    let _watchdog = watchdog();
    let trace = Trace::new();
    let log = trace.clone();
    run(async move {
        for name in ["a", "b"] {
            let log = log.clone();
            spawn(async move {
                let cancelled = catch_cancelled(pending::<()>()).await.unwrap_err();
                LoopRef::current().stop();
                sleep(2 * MS).await;
                log.push(name);
                cancelled.propagate().await
            })
            .detach();
        }
        yield_now().await;
    })
    .unwrap();
    assert_eq!(trace.take(), ["a", "b"]);
}

#[test]
fn b_run_04_the_flag_wins_over_the_factory() {
    for flag in [true, false] {
        let mut runner = Runner::builder()
            .debug(flag)
            .loop_factory(move || EventLoop::builder().debug(!flag).build())
            .build();
        assert_eq!(runner.run(async { LoopRef::current().debug() }).unwrap(), flag);
    }
    let factory = || EventLoop::builder().debug(true).build();
    let mut runner = Runner::builder().loop_factory(factory).build();
    assert!(runner.run(async { LoopRef::current().debug() }).unwrap(), "left alone");
}

#[test]
fn b_run_05_the_loop_is_made_when_it_is_needed_by_the_factory() {
    let made = Rc::new(Cell::new(0));
    let count = made.clone();
    let factory = move || {
        count.set(count.get() + 1);
        EventLoop::new()
    };
    let mut runner = Runner::builder().loop_factory(factory).build();
    assert_eq!(made.get(), 0);
    runner.run(async {}).unwrap();
    runner.run(async {}).unwrap();
    runner.loop_ref().unwrap();
    assert_eq!(made.get(), 1);
    let refuses = || Err(std::io::Error::other("no selector today"));
    let mut runner = Runner::builder().loop_factory(refuses).build();
    let error = runner.run(async {}).unwrap_err();
    assert!(error.to_string().contains("no selector today"), "{error}");
    Runner::new().close().unwrap();
}

#[test]
fn b_run_06_runs_share_a_loop_and_a_context() {
    static VAR: ContextVar<u32> = ContextVar::new();
    drop(VAR.set(1));
    let mut runner = Runner::new();
    let lp = runner.loop_ref().unwrap();
    let task = runner
        .run(async {
            assert_eq!(VAR.get(), Some(1), "a copy of the one that was current");
            drop(VAR.set(2));
            [spawn(async { VAR.get() })]
        })
        .unwrap();
    assert_eq!(VAR.get(), Some(1), "invisible outside");
    let [task] = task;
    let (kept, current) = runner.run(async { (VAR.get(), LoopRef::current().now()) }).unwrap();
    assert_eq!(kept, Some(2));
    assert!(current <= lp.now());
    assert_eq!(runner.run(task).unwrap().unwrap(), Some(2), "a task runs on in the next run");
    let other = Context::new();
    runner.run_in(&other, async { drop(VAR.set(9)) }).unwrap();
    assert_eq!(other.run(|| VAR.get()).unwrap(), Some(9));
    assert_eq!(runner.run(async { VAR.get() }).unwrap(), Some(2));
}

#[test]
fn b_run_07_closing_is_by_value_and_dropping_closes_too() {
    let mut runner = Runner::new();
    let lp = runner.loop_ref().unwrap();
    drop(runner);
    assert!(lp.is_closed());
    let mut runner = Runner::new();
    runner.run(async {}).unwrap();
    let outcome = Rc::new(RefCell::new(None));
    let slot = outcome.clone();
    let lp = runner.loop_ref().unwrap();
    // Closed inside another running loop, it is closed all the same.
    run(async move { drop(slot.replace(Some(runner.close()))) }).unwrap();
    assert!(matches!(outcome.take(), Some(Err(LoopError::NestedLoop))));
    assert!(lp.is_closed());
}

#[test]
fn b_run_08_whatever_becomes_a_future_can_be_run() {
    struct Becomes(u32);
    impl IntoFuture for Becomes {
        type Output = u32;
        type IntoFuture = std::future::Ready<u32>;
        fn into_future(self) -> Self::IntoFuture {
            assert!(LoopRef::try_current().is_some(), "inside the loop");
            std::future::ready(self.0)
        }
    }
    assert_eq!(run(Becomes(3)).unwrap(), 3);
    assert_eq!(Runner::new().run(Becomes(4)).unwrap(), 4);
}

#[test]
fn b_run_12_a_run_that_somebody_cancels_is_cancelled() {
    let mut runner = Runner::builder().name("main").build();
    let trace = Trace::new();
    let log = trace.clone();
    let error = runner
        .run(async move {
            let itself = current_task().unwrap();
            assert_eq!(&*itself.name(), "main");
            spawn(async move { itself.cancel_with("enough") }).detach();
            let _guard = log.on_drop("dropped");
            pending::<()>().await;
        })
        .unwrap_err();
    assert!(
        matches!(&error, LoopError::Cancelled { reason: Some(reason) } if &**reason == "enough")
    );
    assert_eq!(trace.take(), ["dropped"]);
    assert_eq!(runner.run(async { 1 }).unwrap(), 1, "the loop goes on");
}
