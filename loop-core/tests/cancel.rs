//! Catch points: the rules C2 to C11 of the contract, one by one.

mod common;

use std::cell::{Cell, RefCell};
use std::future::{Future, pending, poll_fn, ready};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use common::{Trace, keep, turn, virtual_loop, watchdog};
use loop_core::{
    Cancelled, EventLoop, LoopError, Task, TaskError, catch_cancelled, current_task, on_cancel,
    protect, raise_cancelled, run, sleep, spawn, timeout, yield_now,
};

const MS: Duration = Duration::from_millis(1);

fn new_loop() -> EventLoop {
    EventLoop::new().unwrap()
}

fn turns(event_loop: &mut EventLoop, count: usize) {
    for _ in 0..count {
        turn(event_loop);
    }
}

fn reason<T: std::fmt::Debug>(task: &Task<T>) -> Option<String> {
    match task.take_result()?.unwrap_err() {
        TaskError::Cancelled { reason } => reason.as_deref().map(str::to_owned),
        other => panic!("{other}"),
    }
}

/// Polls two futures in one task until both are done, each at every poll.
async fn both<A: Future, B: Future>(a: A, b: B) -> (A::Output, B::Output) {
    let (mut a, mut b) = (pin!(a), pin!(b));
    let (mut left, mut right) = (None, None);
    poll_fn(|cx| {
        if left.is_none() {
            if let Poll::Ready(value) = a.as_mut().poll(cx) {
                left = Some(value);
            }
        }
        if right.is_none() {
            if let Poll::Ready(value) = b.as_mut().poll(cx) {
                right = Some(value);
            }
        }
        if left.is_some() && right.is_some() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    (left.unwrap(), right.unwrap())
}

#[test]
fn c2_the_innermost_point_acts_and_then_the_outer_one() {
    let mut event_loop = new_loop();
    let trace = Trace::new();
    let log = trace.clone();
    let task = event_loop.spawn(async move {
        let outer = catch_cancelled(async {
            let value = log.on_drop("inner dropped");
            let inner = catch_cancelled(async move {
                keep(&value);
                pending::<()>().await
            });
            let cancelled = inner.await.unwrap_err();
            log.push(format!("inner {:?}", cancelled.reason()));
            yield_now().await;
            log.push("inner clean");
            cancelled.propagate().await
        });
        let cancelled: Cancelled = match outer.await {
            Ok(never) => never,
            Err(cancelled) => cancelled,
        };
        log.push(format!("outer {:?}", cancelled.reason()));
        yield_now().await;
        log.push("outer clean");
        cancelled.propagate().await
    });
    turn(&mut event_loop);
    task.cancel_with("bye");
    turns(&mut event_loop, 8);
    let expected = [
        "inner dropped",
        "inner Some(\"bye\")",
        "inner clean",
        "outer Some(\"bye\")",
        "outer clean",
    ];
    assert_eq!(trace.take(), expected);
    assert_eq!(reason(&task).as_deref(), Some("bye"));
}

#[test]
fn c2_a_body_that_was_never_polled_is_dropped_unpolled() {
    let mut event_loop = new_loop();
    let trace = Trace::new();
    let log = trace.clone();
    let value = trace.on_drop("dropped");
    let task = event_loop.spawn(async move {
        log.push("polled");
        keep(&value);
        let _ = catch_cancelled(pending::<()>()).await;
    });
    task.cancel();
    turn(&mut event_loop);
    assert_eq!(trace.take(), ["dropped"]);
    assert!(task.is_cancelled());
}

#[test]
fn c3_a_request_that_is_dropped_undecided_arrives_at_the_next_suspension() {
    let mut event_loop = new_loop();
    let trace = Trace::new();
    let log = trace.clone();
    let task = event_loop.spawn(async move {
        drop(catch_cancelled(pending::<()>()).await);
        log.push("runs on");
        ready(()).await;
        log.push("suspends");
        let caught = catch_cancelled(pending::<()>()).await.unwrap_err();
        log.push(format!("again {:?}", caught.reason()));
        caught.swallow();
        yield_now().await;
        log.push("end");
    });
    turn(&mut event_loop);
    task.cancel_with("why");
    turns(&mut event_loop, 6);
    assert_eq!(trace.take(), ["runs on", "suspends", "again Some(\"why\")", "end"]);
    assert!(task.is_done() && !task.is_cancelled());
}

#[test]
fn c3_a_request_that_left_its_task_undecided_ends_with_it() {
    let mut event_loop = new_loop();
    let task = event_loop.spawn(catch_cancelled(pending::<()>()));
    turn(&mut event_loop);
    task.cancel();
    turn(&mut event_loop);
    let cancelled = task.take_result().unwrap().unwrap().unwrap_err();
    assert!(!task.is_cancelled());
    // Propagated elsewhere it ends who propagates it.
    let other = event_loop.spawn(async move { cancelled.propagate().await });
    turns(&mut event_loop, 3);
    assert!(other.is_cancelled());
}

#[test]
fn c4_the_task_ends_when_every_branch_has_decided() {
    let mut event_loop = new_loop();
    let trace = Trace::new();
    let log = trace.clone();
    let branch = move |name: &'static str, steps: usize| {
        let log = log.clone();
        async move {
            let cancelled = catch_cancelled(pending::<()>()).await.unwrap_err();
            for _ in 0..steps {
                yield_now().await;
            }
            log.push(name);
            cancelled.propagate().await
        }
    };
    let guarded = both(branch("short", 0), branch("long", 3));
    let log = trace.clone();
    let unguarded = async move {
        for step in ["one", "two", "three", "four", "five", "six"] {
            log.push(step);
            yield_now().await;
        }
        pending::<()>().await
    };
    let task = event_loop.spawn(async move {
        both(guarded, unguarded).await;
    });
    turn(&mut event_loop);
    task.cancel();
    turns(&mut event_loop, 10);
    assert_eq!(trace.take(), ["one", "short", "two", "three", "four", "long", "five"]);
    assert!(task.is_cancelled());
}

#[test]
fn c4_a_swallowing_branch_does_not_revoke_the_other_ones_propagate() {
    for swallows in [[true, false], [false, true], [true, true]] {
        let mut event_loop = new_loop();
        let branch = |swallow: bool| async move {
            let cancelled = catch_cancelled(pending::<()>()).await.unwrap_err();
            yield_now().await;
            if !swallow {
                cancelled.propagate().await
            }
            cancelled.swallow();
            yield_now().await;
        };
        let task = event_loop.spawn(async move {
            both(branch(swallows[0]), branch(swallows[1])).await;
        });
        turn(&mut event_loop);
        task.cancel();
        turns(&mut event_loop, 8);
        assert!(task.is_done());
        assert_eq!(task.is_cancelled(), swallows != [true, true]);
    }
}

#[test]
fn c4_what_a_branch_began_after_the_request_is_asked_before_the_task_ends() {
    let mut event_loop = new_loop();
    let trace = Trace::new();
    let log = trace.clone();
    let task = event_loop.spawn(async move {
        let swallows = async {
            catch_cancelled(pending::<()>()).await.unwrap_err().swallow();
            let again = catch_cancelled(pending::<()>()).await.unwrap_err();
            log.push("asked again");
            again.propagate().await
        };
        let propagates = async {
            let cancelled = catch_cancelled(pending::<()>()).await.unwrap_err();
            yield_now().await;
            yield_now().await;
            log.push("propagates");
            cancelled.propagate().await
        };
        both(swallows, propagates).await;
    });
    turn(&mut event_loop);
    task.cancel();
    turns(&mut event_loop, 10);
    assert_eq!(trace.take(), ["propagates", "asked again"]);
    assert!(task.is_cancelled());
}

/// Polls the future once, then leaves it alone.
async fn begin<F: Future>(mut future: Pin<&mut F>) {
    poll_fn(|cx| {
        assert!(future.as_mut().poll(cx).is_pending());
        Poll::Ready(())
    })
    .await
}

#[test]
fn c5_a_point_that_is_not_being_awaited_is_not_waited_for() {
    let mut event_loop = new_loop();
    let quiet = event_loop.spawn(async {
        let mut left = pin!(catch_cancelled(pending::<()>()));
        begin(left.as_mut()).await;
        pending::<()>().await;
    });
    let busy = event_loop.spawn(async {
        let mut left = pin!(catch_cancelled(pending::<()>()));
        begin(left.as_mut()).await;
        loop {
            yield_now().await;
        }
    });
    turn(&mut event_loop);
    quiet.cancel();
    busy.cancel();
    turns(&mut event_loop, 3);
    assert!(quiet.is_cancelled());
    // One that is never quiet is given some steps to get there.
    turns(&mut event_loop, 64);
    assert!(quiet.is_cancelled() && busy.is_cancelled());
}

#[test]
fn c5_a_point_that_is_polled_elsewhere_in_its_task_moves() {
    let mut event_loop = new_loop();
    let trace = Trace::new();
    let log = trace.clone();
    let task = event_loop.spawn(async move {
        let mut inner = Box::pin(catch_cancelled(pending::<()>()));
        begin(inner.as_mut()).await;
        let outer = catch_cancelled(async {
            let cancelled = inner.await.unwrap_err();
            log.push("inner");
            cancelled.propagate().await
        });
        let cancelled: Cancelled = match outer.await {
            Ok(never) => never,
            Err(cancelled) => cancelled,
        };
        log.push("outer");
        cancelled.swallow();
    });
    turn(&mut event_loop);
    task.cancel();
    turns(&mut event_loop, 5);
    assert_eq!(trace.take(), ["inner", "outer"]);
    assert!(task.is_done() && !task.is_cancelled());
}

#[test]
fn c5_a_marked_point_that_moves_leaves_the_request_behind() {
    let mut event_loop = new_loop();
    let (place, go) = (Rc::new(RefCell::new(None)), Rc::new(Cell::new(false)));
    let (stored, flag) = (place.clone(), go.clone());
    let first = event_loop.spawn(async move {
        let mut point = Box::pin(catch_cancelled(pending::<()>()));
        begin(point.as_mut()).await;
        let mut point = Some(point);
        // In the very step of the request the point is given away.
        poll_fn(|_| {
            if flag.get() {
                *stored.borrow_mut() = point.take();
            }
            Poll::<()>::Pending
        })
        .await;
    });
    turn(&mut event_loop);
    go.set(true);
    first.cancel();
    let given = place.clone();
    let second = event_loop.spawn(async move {
        let point = given.take().expect("the first task has had its step");
        point.await.unwrap_err().swallow();
    });
    turns(&mut event_loop, 4);
    assert!(first.is_cancelled() && !second.is_done());
    second.cancel();
    turns(&mut event_loop, 3);
    assert!(second.is_done() && !second.is_cancelled());
}

#[test]
fn c5_a_point_that_moved_to_another_task_is_asked_there() {
    let mut event_loop = new_loop();
    let moved = Rc::new(RefCell::new(None));
    let place = moved.clone();
    let first = event_loop.spawn(async move {
        let mut point = Box::pin(catch_cancelled(pending::<()>()));
        begin(point.as_mut()).await;
        *place.borrow_mut() = Some(point);
        pending::<()>().await;
    });
    turn(&mut event_loop);
    let point = moved.take().unwrap();
    let second = event_loop.spawn(async move {
        point.await.unwrap_err().swallow();
        "swallowed"
    });
    turn(&mut event_loop);
    first.cancel();
    turns(&mut event_loop, 4);
    assert!(first.is_cancelled() && !second.is_done());
    second.cancel();
    turns(&mut event_loop, 4);
    assert_eq!(second.take_result().unwrap().unwrap(), "swallowed");
}

#[test]
fn c5_a_marked_point_that_a_combinator_drops_loses_no_request() {
    let mut event_loop = new_loop();
    let waker: Rc<RefCell<Option<Waker>>> = Rc::default();
    let (stored, done) = (waker.clone(), Rc::new(Cell::new(false)));
    let flag = done.clone();
    let task = event_loop.spawn(async move {
        // A `select!` whose first branch is done in the very step of the request.
        {
            let mut point = pin!(catch_cancelled(pending::<()>()));
            poll_fn(|cx| {
                if flag.get() {
                    return Poll::Ready(());
                }
                *stored.borrow_mut() = Some(cx.waker().clone());
                point.as_mut().poll(cx).map(|_| unreachable!("it is dropped first"))
            })
            .await;
        }
        pending::<()>().await;
    });
    turn(&mut event_loop);
    done.set(true);
    waker.take().unwrap().wake();
    task.cancel();
    turns(&mut event_loop, 3);
    assert!(task.is_cancelled());
}

#[test]
fn c6_requests_before_delivery_are_one_and_the_first_reason_stays() {
    let mut event_loop = new_loop();
    let task = event_loop.spawn(async {
        let cancelled = catch_cancelled(pending::<()>()).await.unwrap_err();
        let reason = cancelled.reason().map(str::to_owned);
        cancelled.swallow();
        yield_now().await;
        reason
    });
    turn(&mut event_loop);
    assert!(task.cancel_with("first") && task.cancel_with("second"));
    turns(&mut event_loop, 3);
    assert_eq!(task.cancelling(), 2);
    assert_eq!(task.take_result().unwrap().unwrap().as_deref(), Some("first"));
}

#[test]
fn c6_a_request_during_a_clean_up_interrupts_it_and_takes_its_target_over() {
    let (mut event_loop, clock) = virtual_loop();
    let trace = Trace::new();
    // Cancelled, then the deadline: the clean-up is interrupted, and it is the cancel that counts.
    let log = trace.clone();
    let task = event_loop.spawn(timeout(10 * MS, async move {
        let cancelled = catch_cancelled(pending::<()>()).await.unwrap_err();
        log.push("cleaning");
        sleep(20 * MS).await;
        log.push("cleaned");
        cancelled.propagate().await
    }));
    turn(&mut event_loop);
    task.cancel_with("outer");
    turn(&mut event_loop);
    clock.advance(10 * MS);
    turns(&mut event_loop, 4);
    assert_eq!(trace.take(), ["cleaning"]);
    assert_eq!(reason(&task).as_deref(), Some("outer"));
    // A guarded clean-up is asked, and may finish.
    let log = trace.clone();
    let task = event_loop.spawn(async move {
        let cancelled = catch_cancelled(pending::<()>()).await.unwrap_err();
        protect(async {
            yield_now().await;
            yield_now().await;
            log.push("cleaned");
        })
        .await;
        cancelled.propagate().await
    });
    turn(&mut event_loop);
    task.cancel();
    turn(&mut event_loop);
    task.cancel();
    turns(&mut event_loop, 5);
    assert_eq!(trace.take(), ["cleaned"]);
    assert!(task.is_cancelled());
}

#[test]
fn c6_what_is_protected_finishes_and_then_the_request_arrives() {
    let mut event_loop = new_loop();
    let trace = Trace::new();
    let log = trace.clone();
    let task = event_loop.spawn(async move {
        protect(async {
            // A point inside is not asked.
            let inner = catch_cancelled(async {
                for _ in 0..5 {
                    yield_now().await;
                }
            });
            assert!(inner.await.is_ok());
            log.push("finished");
        })
        .await;
        log.push("goes on");
        yield_now().await;
        log.push("not reached");
    });
    turn(&mut event_loop);
    for _ in 0..3 {
        task.cancel();
        turn(&mut event_loop);
    }
    turns(&mut event_loop, 5);
    assert_eq!(trace.take(), ["finished", "goes on"]);
    assert!(task.is_cancelled());
}

#[test]
fn c6_what_is_protected_can_end_itself() {
    let mut event_loop = new_loop();
    let task = event_loop.spawn(async {
        let cancelled = catch_cancelled(protect(async { raise_cancelled("enough").await }));
        let cancelled: Cancelled = match cancelled.await {
            Ok(never) => never,
            Err(cancelled) => cancelled,
        };
        let reason = cancelled.reason().map(str::to_owned);
        cancelled.swallow();
        reason
    });
    turns(&mut event_loop, 4);
    assert_eq!(task.take_result().unwrap().unwrap().as_deref(), Some("enough"));
}

#[test]
fn c6_abort_ends_what_swallows_for_ever() {
    let mut event_loop = new_loop();
    let task = event_loop.spawn(async {
        loop {
            if let Err(cancelled) = catch_cancelled(protect(pending::<()>())).await {
                cancelled.swallow();
            }
        }
    });
    turn(&mut event_loop);
    for _ in 0..5 {
        task.cancel();
        turn(&mut event_loop);
    }
    assert!(!task.is_done() && task.abort());
    turn(&mut event_loop);
    assert!(task.is_cancelled());
}

#[test]
fn c7_what_is_ready_sees_no_request_and_the_task_ends_cancelled_all_the_same() {
    let mut event_loop = new_loop();
    let trace = Trace::new();
    let log = trace.clone();
    let task = event_loop.spawn(async move {
        current_task().unwrap().cancel_with("itself");
        assert_eq!(catch_cancelled(ready(1)).await.unwrap(), 1);
        log.push("end");
    });
    turns(&mut event_loop, 2);
    assert_eq!(trace.take(), ["end"]);
    assert_eq!(reason(&task).as_deref(), Some("itself"));
    // Put back without a suspension behind it.
    let task = event_loop.spawn(async { drop(catch_cancelled(pending::<()>()).await) });
    turn(&mut event_loop);
    task.cancel();
    turns(&mut event_loop, 2);
    assert!(task.is_cancelled());
    // A panic wins.
    let task = event_loop.spawn(async {
        let _cancelled = catch_cancelled(pending::<()>()).await;
        panic!("while cleaning up");
    });
    turn(&mut event_loop);
    task.cancel();
    turns(&mut event_loop, 2);
    assert_eq!(task.take_result().unwrap().unwrap_err().to_string(), "panic \"while cleaning up\"");
}

#[test]
fn c7_a_propagate_counts_also_if_the_body_ends_by_itself_much_later() {
    let mut event_loop = new_loop();
    let task = event_loop.spawn(async {
        let propagates =
            async { catch_cancelled(pending::<()>()).await.unwrap_err().propagate().await };
        let keeps = async {
            let cancelled = catch_cancelled(pending::<()>()).await.unwrap_err();
            for _ in 0..5 {
                yield_now().await;
            }
            cancelled
        };
        let (mut propagates, mut keeps) = (pin!(propagates), pin!(keeps));
        // The undecided request leaves the task as its value.
        poll_fn(|cx| {
            let _: Poll<()> = propagates.as_mut().poll(cx);
            keeps.as_mut().poll(cx)
        })
        .await
    });
    turn(&mut event_loop);
    task.cancel();
    turns(&mut event_loop, 10);
    assert!(task.is_cancelled());
}

thread_local! {
    static MYSELF: RefCell<Option<loop_core::TaskRef>> = const { RefCell::new(None) };
}

#[test]
fn c1_a_waker_that_cancels_while_a_request_is_delivered_is_heard() {
    struct Cancels(Waker);
    impl std::task::Wake for Cancels {
        fn wake(self: std::sync::Arc<Self>) {
            if let Some(task) = MYSELF.take() {
                task.cancel_with("by the waker");
            }
            self.0.wake_by_ref();
        }
    }
    let mut event_loop = new_loop();
    let task = event_loop.spawn(async {
        {
            let mut point = pin!(catch_cancelled(pending::<()>()));
            let caught = poll_fn(|cx| {
                let waker = Waker::from(std::sync::Arc::new(Cancels(cx.waker().clone())));
                point.as_mut().poll(&mut Context::from_waker(&waker))
            });
            caught.await.unwrap_err().swallow();
        }
        pending::<()>().await;
    });
    turn(&mut event_loop);
    MYSELF.set(Some(task.task_ref()));
    task.cancel_with("first");
    turns(&mut event_loop, 3);
    assert_eq!(reason(&task).as_deref(), Some("by the waker"));
}

#[test]
fn a_point_that_is_dropped_on_another_thread_leaves_the_tree() {
    struct Counted(Waker);
    impl std::task::Wake for Counted {
        fn wake(self: std::sync::Arc<Self>) {
            self.0.wake_by_ref();
        }
    }
    let _watchdog = watchdog();
    let mut event_loop = new_loop();
    let kept: Rc<RefCell<Option<std::sync::Arc<Counted>>>> = Rc::default();
    let stored = kept.clone();
    let task = event_loop.spawn(async move {
        let mut limited = Box::pin(timeout(Duration::from_secs(3600), pending::<()>()));
        poll_fn(|cx| {
            let counted = std::sync::Arc::new(Counted(cx.waker().clone()));
            let waker = Waker::from(counted.clone());
            assert!(limited.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
            *stored.borrow_mut() = Some(counted);
            Poll::Ready(())
        })
        .await;
        std::thread::spawn(move || drop(limited)).join().unwrap();
        yield_now().await;
        pending::<()>().await;
    });
    turn(&mut event_loop);
    turns(&mut event_loop, 2);
    let counted = kept.take().unwrap();
    assert_eq!(std::sync::Arc::strong_count(&counted), 1, "the tree keeps no waker");
    task.cancel();
    turn(&mut event_loop);
    assert!(task.is_cancelled());
}

#[test]
fn c8_an_outer_cancel_beats_a_deadline_whichever_came_first() {
    for cancel_first in [true, false] {
        let (mut event_loop, clock) = virtual_loop();
        let task = event_loop.spawn(timeout(5 * MS, async {
            let cancelled = catch_cancelled(pending::<()>()).await.unwrap_err();
            cancelled.propagate().await
        }));
        turn(&mut event_loop);
        let lp = event_loop.loop_ref();
        if cancel_first {
            task.cancel_with("outer");
            clock.advance(5 * MS);
            turn(&mut event_loop);
        } else {
            // The deadline is asked before the step, the cancel comes in the same iteration.
            clock.advance(5 * MS);
            let handle = task.task_ref();
            lp.call_at(lp.now(), move || {
                handle.cancel_with("outer");
            });
            turn(&mut event_loop);
        }
        turns(&mut event_loop, 4);
        if cancel_first {
            assert_eq!(reason(&task).as_deref(), Some("outer"));
        } else {
            assert!(task.is_done());
        }
    }
}

#[test]
fn c8_a_deadline_asks_and_the_value_of_a_body_that_swallows_counts() {
    let (mut event_loop, clock) = virtual_loop();
    let swallows = event_loop.spawn(timeout(5 * MS, async {
        let cancelled = catch_cancelled(pending::<()>()).await.unwrap_err();
        assert_eq!(cancelled.reason(), None);
        yield_now().await;
        cancelled.swallow();
        yield_now().await;
        "value"
    }));
    let cleans_up = event_loop.spawn(timeout(5 * MS, on_cancel(pending::<()>(), sleep(2 * MS))));
    turn(&mut event_loop);
    clock.advance(5 * MS);
    turns(&mut event_loop, 4);
    assert_eq!(swallows.take_result().unwrap().unwrap(), Ok("value"));
    assert!(!cleans_up.is_done());
    clock.advance(2 * MS);
    turns(&mut event_loop, 3);
    assert!(cleans_up.take_result().unwrap().unwrap().is_err());
}

/// Until `limit`; then `loser` is dropped with no further poll.
async fn dropped_after<F: Future>(limit: Duration, loser: F) {
    let mut loser = Some(Box::pin(loser));
    let mut limit = pin!(sleep(limit));
    poll_fn(move |cx| {
        if limit.as_mut().poll(cx).is_ready() {
            loser = None;
            return Poll::Ready(());
        }
        loser.as_mut().map_or(Poll::Pending, |loser| loser.as_mut().poll(cx).map(drop))
    })
    .await;
}

#[test]
fn c8_a_deadline_cuts_no_clean_up_short_outside_its_scope() {
    type Scope = Pin<Box<dyn Future<Output = ()>>>;
    // The scope has part in the cancel when its time is up, and leaves the cancel behind when it ends.
    let scopes: [fn() -> Scope; 4] = [
        // It is dropped in the step in which its time is up.
        || Box::pin(dropped_after(5 * MS, timeout(5 * MS, protect(sleep(8 * MS))))),
        || Box::pin(dropped_after(6 * MS, timeout(5 * MS, protect(sleep(8 * MS))))),
        // It passes the cancel on: after what is protected, or at once.
        || Box::pin(async { _ = timeout(5 * MS, protect(sleep(8 * MS))).await }),
        || Box::pin(async { _ = timeout(5 * MS, on_cancel(pending::<()>(), sleep(8 * MS))).await }),
    ];
    for scope in scopes {
        let (mut event_loop, clock) = virtual_loop();
        let trace = Trace::new();
        let log = trace.clone();
        let cleanup = async move {
            sleep(10 * MS).await;
            log.push("cleaned");
        };
        let task = event_loop.spawn(both(on_cancel(pending::<()>(), cleanup), scope()));
        turn(&mut event_loop);
        task.cancel_with("outer");
        turns(&mut event_loop, 2);
        for _ in 0..10 {
            assert!(!task.is_done());
            clock.advance(MS);
            turns(&mut event_loop, 4);
        }
        assert_eq!(trace.take(), ["cleaned"]);
        assert_eq!(reason(&task).as_deref(), Some("outer"));
    }
}

#[test]
fn c8_what_a_scope_was_propagated_ends_nobody_outside_it() {
    let (mut event_loop, clock) = virtual_loop();
    let trace = Trace::new();
    let log = trace.clone();
    let outside = async move {
        for _ in 0..2 {
            catch_cancelled(pending::<()>()).await.unwrap_err().swallow();
            log.push("swallowed");
        }
        pending::<()>().await;
    };
    let inside = async {
        catch_cancelled(pending::<()>()).await.unwrap_err().swallow();
        // The deadline's: it stands, and waits for what is protected.
        on_cancel(pending::<()>(), ready(())).await;
    };
    let scope = timeout(5 * MS, both(protect(sleep(8 * MS)), inside));
    let task = event_loop.spawn(both(outside, dropped_after(6 * MS, scope)));
    turn(&mut event_loop);
    task.cancel();
    turns(&mut event_loop, 2);
    assert_eq!(trace.take(), ["swallowed"]);
    for _ in 0..6 {
        assert_eq!(trace.len(), 0);
        clock.advance(MS);
        turns(&mut event_loop, 4);
    }
    // What was protected comes back undecided: who was not asked is, and then it is over.
    assert_eq!(trace.take(), ["swallowed"]);
    assert!(!task.is_done());
    task.cancel();
    turns(&mut event_loop, 2);
    assert!(task.is_cancelled());
}

#[test]
fn c11_counts_and_uncancel() {
    let mut event_loop = new_loop();
    let task = event_loop.spawn(async {
        catch_cancelled(pending::<()>()).await.unwrap_err().swallow();
        pending::<()>().await;
    });
    turn(&mut event_loop);
    assert_eq!((task.cancelling(), task.uncancel()), (0, 0));
    // Withdrawn before it was delivered.
    task.cancel();
    task.cancel();
    assert_eq!((task.uncancel(), task.cancelling()), (1, 1));
    assert_eq!(task.uncancel(), 0);
    turns(&mut event_loop, 2);
    assert!(!task.is_done());
    // Delivered and swallowed: the count stays.
    task.cancel();
    turns(&mut event_loop, 2);
    assert_eq!((task.cancelling(), task.uncancel()), (1, 0));
    task.cancel();
    turns(&mut event_loop, 2);
    assert!(task.is_cancelled());
}

#[test]
fn c11_outside_a_task_a_catch_point_is_transparent() {
    let mut point = pin!(catch_cancelled(ready(1)));
    let polled = point.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(matches!(polled, Poll::Ready(Ok(1))));
    let mut guarded = pin!(protect(ready(2)));
    assert_eq!(guarded.as_mut().poll(&mut Context::from_waker(Waker::noop())), Poll::Ready(2));
}

#[test]
fn the_future_of_a_run_can_be_cancelled_and_catches() {
    let _watchdog = watchdog();
    let trace = Trace::new();
    let value = trace.on_drop("dropped");
    let outcome = run(async {
        let main = current_task().unwrap();
        spawn(async move { main.cancel_with("enough") }).detach();
        keep(&value);
        let cancelled = catch_cancelled(pending::<()>()).await.unwrap_err();
        trace.push("caught");
        cancelled.propagate().await
    });
    let outcome: Result<(), LoopError> = outcome;
    assert_eq!(outcome.unwrap_err().to_string(), "the run was cancelled: enough");
    drop(value);
    assert_eq!(trace.take(), ["caught", "dropped"]);
    let swallowed = run(async {
        current_task().unwrap().cancel();
        catch_cancelled(yield_now()).await.unwrap_err().swallow();
        5
    });
    assert_eq!(swallowed.unwrap(), 5);
}

#[test]
fn ten_thousand_points_are_asked_in_one_step() {
    let _watchdog = watchdog();
    let mut event_loop = new_loop();
    let cleaned = Rc::new(Cell::new(0));
    let count = cleaned.clone();
    let task = event_loop.spawn(async move {
        let mut points: Vec<_> = (0..10_000)
            .map(|number| {
                let count = count.clone();
                Box::pin(async move {
                    let cancelled = catch_cancelled(pending::<()>()).await.unwrap_err();
                    for _ in 0..number % 5 {
                        yield_now().await;
                    }
                    count.set(count.get() + 1);
                    cancelled.propagate().await
                })
            })
            .collect();
        poll_fn(|cx| {
            for point in &mut points {
                let _: Poll<()> = point.as_mut().poll(cx);
            }
            Poll::<()>::Pending
        })
        .await
    });
    turn(&mut event_loop);
    task.cancel();
    turns(&mut event_loop, 10);
    assert!(task.is_cancelled());
    assert_eq!(cleaned.get(), 10_000);
}
