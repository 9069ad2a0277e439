//! What cancellation makes of tasks and of time limits: the behaviours that need a catch point.

mod common;

use std::cell::RefCell;
use std::future::{Future, pending, poll_fn, ready};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use common::{Trace, keep, reports, turn, virtual_loop};
use loop_core::{
    Elapsed, EventLoop, LoopFuture, LoopRef, Task, TaskError, TimeoutScope, VirtualClock,
    catch_cancelled, current_task, on_cancel, raise_cancelled, sleep, spawn, timeout, timeout_at,
    timeout_scope, wait_for, yield_now,
};

const MS: Duration = Duration::from_millis(1);

fn turns(event_loop: &mut EventLoop, count: usize) {
    for _ in 0..count {
        turn(event_loop);
    }
}

/// Advances the clock by a millisecond and runs what is due, so often.
fn pass(event_loop: &mut EventLoop, clock: &VirtualClock, millis: usize) {
    turns(event_loop, 6);
    for _ in 0..millis {
        clock.advance(MS);
        turns(event_loop, 6);
    }
}

fn value<T>(task: &Task<T>) -> T {
    task.take_result().expect("it has ended").expect("with a value")
}

#[test]
fn b_task_03_a_task_that_has_ended_can_neither_be_cancelled_nor_read_twice() {
    let (mut event_loop, _) = virtual_loop();
    let task = event_loop.spawn(ready(1));
    turn(&mut event_loop);
    assert!(!task.cancel() && !task.abort());
    assert_eq!(value(&task), 1);
    assert!(task.take_result().is_none());
    assert!(task.is_done() && !task.is_cancelled());
}

#[test]
fn b_task_16_a_task_that_swallows_goes_on_and_the_next_request_interrupts_it_again() {
    let (mut event_loop, _) = virtual_loop();
    let trace = Trace::new();
    let log = trace.clone();
    let task = event_loop.spawn(async move {
        for round in ["one", "two"] {
            let cancelled = catch_cancelled(pending::<()>()).await.unwrap_err();
            log.push(format!("{round} {}", cancelled.reason().unwrap()));
            cancelled.swallow();
        }
        pending::<()>().await;
    });
    turn(&mut event_loop);
    for reason in ["a", "b"] {
        task.cancel_with(reason);
        turns(&mut event_loop, 3);
        assert!(!task.is_done());
    }
    assert_eq!(trace.take(), ["one a", "two b"]);
    assert_eq!(task.cancelling(), 2);
    task.cancel();
    turn(&mut event_loop);
    assert!(task.is_cancelled());
}

#[test]
fn b_task_17_uncancel_lowers_the_count_and_withdraws_what_was_not_delivered() {
    let (mut event_loop, _) = virtual_loop();
    let task = event_loop.spawn(async {
        yield_now().await;
        current_task().unwrap().cancel();
        current_task().unwrap().uncancel();
        yield_now().await;
        "not cancelled"
    });
    turns(&mut event_loop, 4);
    assert_eq!(task.cancelling(), 0);
    assert_eq!(value(&task), "not cancelled");
    // What was delivered is the body's to decide.
    let task = event_loop.spawn(async {
        let cancelled = catch_cancelled(pending::<()>()).await.unwrap_err();
        assert_eq!(current_task().unwrap().uncancel(), 0);
        cancelled.propagate().await
    });
    turn(&mut event_loop);
    task.cancel();
    turns(&mut event_loop, 3);
    let task: Task<()> = task;
    assert!(task.is_cancelled());
}

#[test]
fn b_task_18_a_scope_passes_a_request_from_outside_on_and_keeps_its_own() {
    let (mut event_loop, clock) = virtual_loop();
    let trace = Trace::new();
    let body = |log: Trace| {
        on_cancel(pending::<()>(), async move {
            yield_now().await;
            log.push("cleaned");
        })
    };
    let inside = trace.clone();
    let outside = event_loop.spawn(timeout(9 * MS, body(trace.clone())));
    let own = event_loop.spawn(async move {
        let outcome = timeout(2 * MS, body(inside)).await;
        yield_now().await;
        (outcome, current_task().unwrap().cancelling())
    });
    turn(&mut event_loop);
    outside.cancel();
    pass(&mut event_loop, &clock, 2);
    assert!(outside.is_cancelled());
    assert_eq!(value(&own), (Err(Elapsed), 0));
    assert_eq!(trace.take(), ["cleaned", "cleaned"]);
}

#[test]
fn b_task_19_raising_ends_the_task_or_reaches_the_enclosing_point() {
    let (mut event_loop, _) = virtual_loop();
    let raises: Task<()> = event_loop.spawn(async { raise_cancelled("enough").await });
    let caught = event_loop.spawn(async {
        let never = catch_cancelled(async { raise_cancelled("inside").await });
        let cancelled = match never.await {
            Ok(never) => never,
            Err(cancelled) => cancelled,
        };
        let reason = cancelled.reason().map(str::to_owned);
        cancelled.swallow();
        yield_now().await;
        reason
    });
    turns(&mut event_loop, 4);
    let error = raises.take_result().unwrap().unwrap_err();
    assert_eq!(error.to_string(), "the task was cancelled: enough");
    assert_eq!(raises.cancelling(), 0);
    assert_eq!(value(&caught).as_deref(), Some("inside"));
}

#[test]
fn b_task_20_the_reason_reaches_the_body_and_whoever_awaits_the_task() {
    let (mut event_loop, _) = virtual_loop();
    let trace = Trace::new();
    let log = trace.clone();
    let task = event_loop.spawn(async move {
        let cancelled = catch_cancelled(pending::<()>()).await.unwrap_err();
        log.push(format!("body {:?}", cancelled.reason()));
        cancelled.propagate().await
    });
    let reference = task.task_ref();
    let task: Task<()> = task;
    let awaits = event_loop.spawn(async move { task.await.unwrap_err().to_string() });
    turn(&mut event_loop);
    reference.cancel_with("why not");
    turns(&mut event_loop, 4);
    assert_eq!(trace.take(), ["body Some(\"why not\")"]);
    assert_eq!(value(&awaits), "the task was cancelled: why not");
}

#[test]
fn b_task_21_a_panic_while_cleaning_up_is_the_outcome() {
    let (mut event_loop, _) = virtual_loop();
    let log = reports(&event_loop);
    let task = event_loop.spawn(async {
        let _cancelled = catch_cancelled(pending::<()>()).await.unwrap_err();
        yield_now().await;
        panic!("clean-up");
    });
    let task: Task<()> = task;
    turn(&mut event_loop);
    task.cancel();
    turns(&mut event_loop, 3);
    assert!(task.is_done() && !task.is_cancelled());
    assert_eq!(task.take_result().unwrap().unwrap_err().to_string(), "panic \"clean-up\"");
    assert_eq!(log.take(), Vec::<String>::new());
}

#[test]
fn b_task_31_what_a_catch_point_drops_may_use_the_loop_and_catch_again() {
    struct Spawns(Trace);
    impl Drop for Spawns {
        fn drop(&mut self) {
            let log = self.0.clone();
            log.push(current_task().unwrap().name().to_string());
            // A request of the destructor's is the next one, not this one.
            current_task().unwrap().cancel_with("by the destructor");
            spawn(async move { log.push("spawned") }).detach();
        }
    }
    let (mut event_loop, _) = virtual_loop();
    let trace = Trace::new();
    let log = trace.clone();
    let task = event_loop.spawn(async move {
        let value = Spawns(log.clone());
        let first = catch_cancelled(async move {
            keep(&value);
            pending::<()>().await;
        });
        let first = first.await.unwrap_err();
        log.push(format!("{:?}", first.reason()));
        first.swallow();
        let second = catch_cancelled(pending::<()>()).await.unwrap_err();
        log.push(format!("{:?}", second.reason()));
        second.propagate().await
    });
    let task: Task<()> = task;
    task.set_name("dying");
    turn(&mut event_loop);
    task.cancel_with("first");
    turns(&mut event_loop, 5);
    let expected = ["dying", "Some(\"first\")", "spawned", "Some(\"by the destructor\")"];
    assert_eq!(trace.take(), expected);
    assert!(task.is_cancelled());
}

#[test]
fn b_tmo_04_expired_tells_that_the_time_was_up_also_if_the_body_swallowed_it() {
    let (mut event_loop, clock) = virtual_loop();
    let handle: Rc<RefCell<Option<TimeoutScope>>> = Rc::default();
    let stored = handle.clone();
    let deadline = event_loop.now() + 2 * MS;
    let task = event_loop.spawn(timeout_scope(Some(deadline), async move |scope| {
        *stored.borrow_mut() = Some(scope.clone());
        assert!(!scope.expired());
        catch_cancelled(pending::<()>()).await.unwrap_err().swallow();
        assert!(scope.expired());
        assert!(scope.reschedule(None).unwrap_err().to_string().ends_with("expiring"));
        "swallowed"
    }));
    pass(&mut event_loop, &clock, 2);
    assert_eq!(value(&task), Ok("swallowed"));
    let handle = handle.take().unwrap();
    assert!(handle.expired());
    assert_eq!(handle.when(), Some(deadline));
    let in_time = event_loop.spawn(timeout_scope(None, async |scope| scope));
    turns(&mut event_loop, 2);
    assert!(!value(&in_time).unwrap().expired());
}

#[test]
fn b_tmo_05_the_body_may_await_after_the_deadline_and_the_scope_still_elapses() {
    let (mut event_loop, clock) = virtual_loop();
    let lp = event_loop.loop_ref();
    let start = lp.now();
    let task = event_loop.spawn(async move {
        let outcome = timeout(2 * MS, on_cancel(pending::<()>(), sleep(3 * MS))).await;
        (outcome, lp.now() - start, current_task().unwrap().cancelling())
    });
    pass(&mut event_loop, &clock, 6);
    assert_eq!(value(&task), (Err(Elapsed), 5 * MS, 0));
}

#[test]
fn b_tmo_06_an_error_of_the_body_is_passed_on_and_a_panic_too() {
    let (mut event_loop, clock) = virtual_loop();
    let error = event_loop.spawn(timeout(2 * MS, async {
        let cancelled = catch_cancelled(pending::<()>()).await.unwrap_err();
        cancelled.swallow();
        Err::<(), _>("while cleaning up")
    }));
    let undecided = event_loop.spawn(timeout(2 * MS, async {
        let _cancelled = catch_cancelled(pending::<()>()).await.unwrap_err();
        Err::<(), _>("undecided")
    }));
    let panics: Task<Result<(), Elapsed>> = event_loop.spawn(timeout(2 * MS, async {
        let _cancelled = catch_cancelled(pending::<()>()).await.unwrap_err();
        panic!("body");
    }));
    pass(&mut event_loop, &clock, 3);
    assert_eq!(value(&error), Ok(Err("while cleaning up")));
    assert_eq!(value(&undecided), Ok(Err("undecided")), "its own request ends with the scope");
    assert!(matches!(panics.take_result(), Some(Err(TaskError::Panicked(_)))));
}

#[test]
fn b_tmo_07_a_cancel_that_is_not_its_own_is_never_elapsed() {
    let (mut event_loop, clock) = virtual_loop();
    let task = event_loop.spawn(async {
        let _ = timeout(9 * MS, pending::<()>()).await;
        unreachable!("the task was cancelled");
    });
    let task: Task<()> = task;
    pass(&mut event_loop, &clock, 3);
    task.cancel_with("outside");
    pass(&mut event_loop, &clock, 1);
    let error = task.take_result().unwrap().unwrap_err();
    assert_eq!(error.to_string(), "the task was cancelled: outside");
}

#[test]
fn b_tmo_08_deadline_and_cancel_in_one_iteration_are_a_cancel() {
    for cancel_first in [true, false] {
        let (mut event_loop, clock) = virtual_loop();
        let task = event_loop.spawn(async {
            let _ = timeout(2 * MS, pending::<()>()).await;
            unreachable!("the task was cancelled");
        });
        let task: Task<()> = task;
        turns(&mut event_loop, 2);
        clock.advance(2 * MS);
        let cancel = task.task_ref();
        if cancel_first {
            task.cancel();
        } else {
            // Due behind the scope's deadline, and before the task's step.
            let lp = event_loop.loop_ref();
            lp.call_soon(move || assert!(cancel.cancel()));
        }
        turns(&mut event_loop, 4);
        assert!(task.is_cancelled());
        assert_eq!(task.cancelling(), 1);
    }
}

#[test]
fn b_tmo_09_only_the_scope_whose_time_is_up_elapses_and_of_two_the_outer_one() {
    let (mut event_loop, clock) = virtual_loop();
    let scopes: Rc<RefCell<Vec<TimeoutScope>>> = Rc::default();
    let seen = scopes.clone();
    let deadline = event_loop.now() + 2 * MS;
    let both = event_loop.spawn(timeout_scope(Some(deadline), async move |outer| {
        let inner_seen = seen.clone();
        seen.borrow_mut().push(outer);
        let _ = timeout_scope(Some(deadline), async move |inner| {
            inner_seen.borrow_mut().push(inner);
            pending::<()>().await;
        })
        .await;
        unreachable!("the outer time is up as well");
    }));
    let both: Task<Result<(), Elapsed>> = both;
    let inner = event_loop.spawn(timeout(9 * MS, timeout(MS, pending::<()>())));
    turns(&mut event_loop, 2);
    clock.advance(3 * MS); // a busy loop: both are late
    let [outer_scope, inner_scope] = [0, 1].map(|index| scopes.borrow()[index].clone());
    turns(&mut event_loop, 6);
    assert_eq!(value(&both), Err(Elapsed));
    assert!(outer_scope.expired() && inner_scope.expired());
    assert_eq!(value(&inner), Ok(Err(Elapsed)));
}

#[test]
fn b_tmo_11_a_deadline_moves_while_it_is_in_force_and_only_then() {
    let (mut event_loop, clock) = virtual_loop();
    let start = event_loop.now();
    let handle: Rc<RefCell<Option<TimeoutScope>>> = Rc::default();
    let scoped = |stored: &Rc<RefCell<Option<TimeoutScope>>>, lp: LoopRef| {
        let stored = stored.clone();
        let mut future =
            Box::pin(timeout_scope(Some(start + 2 * MS), move |scope: TimeoutScope| {
                *stored.borrow_mut() = Some(scope);
                pending::<()>()
            }));
        async move {
            let outcome = future.as_mut().await;
            (outcome, lp.now() - start)
        }
    };
    // Later, then never, then at once.
    let task = event_loop.spawn(scoped(&handle, event_loop.loop_ref()));
    let scope = handle.take().unwrap();
    let refused = scope.reschedule(None).unwrap_err();
    assert_eq!(refused.to_string(), "the deadline cannot be moved: the scope is not entered yet");
    pass(&mut event_loop, &clock, 1);
    scope.reschedule(Some(start + 5 * MS)).unwrap();
    pass(&mut event_loop, &clock, 3);
    scope.reschedule(None).unwrap();
    assert_eq!(scope.when(), None);
    pass(&mut event_loop, &clock, 5);
    assert!(!task.is_done() && !scope.expired());
    scope.reschedule(Some(start)).unwrap();
    turns(&mut event_loop, 3);
    assert_eq!(value(&task), (Err(Elapsed), 9 * MS));
    assert!(scope.reschedule(None).unwrap_err().to_string().ends_with("expired"));
    let finished = event_loop.spawn(timeout_scope(None, async |scope| scope));
    turns(&mut event_loop, 2);
    let refused = value(&finished).unwrap().reschedule(None).unwrap_err();
    assert!(refused.to_string().ends_with("finished"));
}

#[test]
#[should_panic(expected = "outside a task")]
fn b_tmo_12_a_limit_needs_a_task() {
    let mut limited = pin!(timeout(MS, pending::<()>()));
    let _ = limited.as_mut().poll(&mut Context::from_waker(Waker::noop()));
}

#[test]
fn b_tmo_13_a_request_that_waits_already_is_not_turned_into_elapsed() {
    let (mut event_loop, _) = virtual_loop();
    let task = event_loop.spawn(async {
        current_task().unwrap().cancel_with("before");
        let _ = timeout(Duration::ZERO, pending::<()>()).await;
        unreachable!("the task was cancelled");
    });
    let task: Task<()> = task;
    turns(&mut event_loop, 4);
    let error = task.take_result().unwrap().unwrap_err();
    assert_eq!(error.to_string(), "the task was cancelled: before");
    // Put back, and then a limit of zero.
    let task = event_loop.spawn(async {
        drop(catch_cancelled(pending::<()>()).await);
        let now = LoopRef::current().now();
        let _ = timeout_at(now, pending::<()>()).await;
        unreachable!("the task was cancelled");
    });
    let task: Task<()> = task;
    turn(&mut event_loop);
    task.cancel();
    turns(&mut event_loop, 5);
    assert!(task.is_cancelled());
}

#[test]
fn b_tmo_14_a_limit_that_moves_to_another_task_keeps_its_deadline() {
    let (mut event_loop, clock) = virtual_loop();
    let start = event_loop.now();
    type Moved = Pin<Box<dyn Future<Output = Result<(), Elapsed>>>>;
    let moved: Rc<RefCell<Option<Moved>>> = Rc::default();
    let place = moved.clone();
    let first = event_loop.spawn(async move {
        let mut limited: Moved = Box::pin(timeout(5 * MS, pending::<()>()));
        poll_fn(|cx| {
            assert!(limited.as_mut().poll(cx).is_pending());
            Poll::Ready(())
        })
        .await;
        *place.borrow_mut() = Some(limited);
    });
    pass(&mut event_loop, &clock, 2);
    assert!(first.is_done());
    let (limited, lp) = (moved.take().unwrap(), event_loop.loop_ref());
    let second = event_loop.spawn(async move {
        let outcome = limited.await;
        (outcome, lp.now() - start)
    });
    pass(&mut event_loop, &clock, 6);
    assert_eq!(value(&second), (Err(Elapsed), 5 * MS));
}

#[test]
fn b_wf_01_without_a_limit_it_is_a_plain_await() {
    let (mut event_loop, clock) = virtual_loop();
    let ok = event_loop.spawn(wait_for(async { Ok::<_, ()>(1) }, None));
    let error = event_loop.spawn(wait_for(async { Err::<(), _>("no") }, None));
    let slow = event_loop.spawn(wait_for(sleep(50 * MS), None));
    pass(&mut event_loop, &clock, 60);
    assert_eq!((value(&ok), value(&error), value(&slow)), (Ok(Ok(1)), Ok(Err("no")), Ok(())));
}

#[test]
fn b_wf_02_and_03_the_inner_is_waited_for_and_its_value_or_error_counts() {
    let (mut event_loop, clock) = virtual_loop();
    let trace = Trace::new();
    let log = trace.clone();
    let waited = event_loop.spawn(async move {
        let inner = on_cancel(pending::<()>(), async {
            sleep(2 * MS).await;
            log.push("inner ended");
        });
        let outcome = wait_for(inner, Some(MS)).await;
        log.push("elapsed");
        outcome
    });
    pass(&mut event_loop, &clock, 4);
    assert_eq!(trace.take(), ["inner ended", "elapsed"]);
    assert_eq!(value(&waited), Err(Elapsed));
}

#[test]
fn b_wf_03_an_inner_that_swallows_gives_its_value_or_error() {
    let (mut event_loop, clock) = virtual_loop();
    for outcome in [Ok(1), Err("no")] {
        let task = event_loop.spawn(wait_for(
            async move {
                catch_cancelled(pending::<()>()).await.unwrap_err().swallow();
                yield_now().await;
                outcome
            },
            Some(MS),
        ));
        pass(&mut event_loop, &clock, 2);
        assert_eq!(value(&task), Ok(outcome));
    }
}

#[test]
fn b_wf_04_a_limit_of_zero_starts_nothing() {
    let (mut event_loop, _) = virtual_loop();
    let trace = Trace::new();
    let (log, dropped) = (trace.clone(), trace.on_drop("dropped"));
    let task = event_loop.spawn(async move {
        let body = async move {
            log.push("started");
            keep(&dropped);
        };
        wait_for(body, Some(Duration::ZERO)).await
    });
    turn(&mut event_loop);
    assert_eq!(trace.take(), ["dropped"]);
    assert_eq!(value(&task), Err(Elapsed));
}

#[test]
fn b_wf_05_an_outer_cancel_is_never_lost() {
    let (mut event_loop, _) = virtual_loop();
    // The inner completes in the iteration of the cancel.
    let future: LoopFuture<u32, ()> = event_loop.create_future();
    let inner = future.clone();
    let task = event_loop.spawn(async move { wait_for(inner, Some(9 * MS)).await.is_ok() });
    turn(&mut event_loop);
    future.set_result(1).unwrap();
    task.cancel();
    turns(&mut event_loop, 3);
    assert!(task.is_cancelled());
}

#[test]
fn b_wf_06_the_inner_runs_in_the_same_task() {
    let (mut event_loop, _) = virtual_loop();
    let task = event_loop.spawn(async {
        let inner = async {
            yield_now().await;
            current_task().unwrap().id()
        };
        (wait_for(inner, Some(9 * MS)).await, current_task().unwrap().id())
    });
    turns(&mut event_loop, 3);
    let (inner, outer) = value(&task);
    assert_eq!(inner, Ok(outer));
}

#[test]
fn b_wf_07_a_value_that_was_delivered_first_is_returned() {
    let (mut event_loop, clock) = virtual_loop();
    // In an earlier iteration, however late the deadline is noticed.
    let future: LoopFuture<u32, ()> = event_loop.create_future();
    let inner = future.clone();
    let task = event_loop.spawn(async move { wait_for(inner, Some(2 * MS)).await });
    turn(&mut event_loop);
    future.set_result(1).unwrap();
    turn(&mut event_loop);
    clock.advance(5 * MS);
    turns(&mut event_loop, 2);
    assert!(matches!(value(&task), Ok(Ok(1))));
}
