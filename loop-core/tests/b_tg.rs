//! Task groups.

mod common;

use std::cell::{Cell, RefCell};
use std::future::{pending, poll_fn, ready};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use common::{Trace, keep, reports, turn, virtual_loop, watchdog};
use loop_core::{
    ChildError, ContextVar, EventLoop, GroupError, LoopAbort, LoopFuture, LoopRef, Task,
    TaskBuilder, TaskGroup, catch_cancelled, current_task, on_cancel, protect, raise_cancelled,
    run, sleep, spawn, timeout, yield_now,
};

const MS: Duration = Duration::from_millis(1);

type Outcome<R> = Result<R, GroupError<&'static str>>;

fn new_loop() -> EventLoop {
    EventLoop::new().unwrap()
}

fn turns(event_loop: &mut EventLoop, count: usize) {
    for _ in 0..count {
        turn(event_loop);
    }
}

fn errors<R: std::fmt::Debug>(outcome: Outcome<R>) -> Vec<String> {
    outcome.unwrap_err().errors.iter().map(ToString::to_string).collect()
}

fn outcome<T>(task: &Task<T>) -> T {
    task.take_result().expect("it has ended").expect("with a value")
}

/// A child that takes two steps to clean up after itself.
async fn tidy(trace: Trace, name: &'static str) -> Result<(), &'static str> {
    let log = trace.clone();
    on_cancel(pending::<()>(), async move {
        yield_now().await;
        yield_now().await;
        log.push(format!("{name} cleaned"));
    })
    .await;
    unreachable!("it is pending")
}

#[test]
fn b_tg_01_the_scope_ends_after_every_child() {
    let mut event_loop = new_loop();
    let trace = Trace::new();
    let log = trace.clone();
    let task = event_loop.spawn(async move {
        let outcome: Outcome<i32> = TaskGroup::scope(async |group| {
            for steps in [3, 1] {
                let log = log.clone();
                group.spawn(async move {
                    for _ in 0..steps {
                        yield_now().await;
                    }
                    log.push(format!("child {steps}"));
                    Ok(())
                });
            }
            log.push("body");
            Ok(7)
        })
        .await;
        log.push("after");
        outcome.unwrap()
    });
    turns(&mut event_loop, 8);
    assert_eq!(trace.take(), ["body", "child 1", "child 3", "after"]);
    assert_eq!(outcome(&task), 7);
    // Without children it does not even suspend.
    let mut scope = pin!(TaskGroup::<()>::scope(async |_| Ok(1)));
    let polled = event_loop.run_until_complete(poll_fn(|cx| {
        use std::future::Future;
        Poll::Ready(scope.as_mut().poll(cx).is_ready())
    }));
    assert!(polled.unwrap());
}

#[test]
fn b_tg_02_the_first_error_cancels_the_others_and_the_body_and_all_are_returned() {
    let mut event_loop = new_loop();
    let trace = Trace::new();
    let log = trace.clone();
    let task = event_loop.spawn(async move {
        let outcome: Outcome<()> = TaskGroup::scope(async |group| {
            group.spawn(tidy(log.clone(), "one"));
            group.spawn(async {
                on_cancel(pending::<()>(), yield_now()).await;
                Ok(())
            });
            group.spawn(async {
                let _cancelled = catch_cancelled(pending::<()>()).await;
                yield_now().await;
                Err::<(), _>("late")
            });
            group.spawn(async {
                yield_now().await;
                Err::<(), _>("first")
            });
            let value = log.on_drop("body dropped");
            pending::<()>().await;
            keep(&value);
            Ok(())
        })
        .await;
        log.push("after");
        errors(outcome)
    });
    turns(&mut event_loop, 10);
    assert_eq!(trace.take(), ["body dropped", "one cleaned", "after"]);
    assert_eq!(outcome(&task), ["first", "late"]);
}

#[test]
fn b_tg_03_a_cancelled_child_is_no_error() {
    let mut event_loop = new_loop();
    let task = event_loop.spawn(async {
        let outcome: Outcome<bool> = TaskGroup::scope(async |group| {
            let child = group.spawn(async {
                pending::<()>().await;
                Ok(())
            });
            let other = group.spawn(async { Ok(5) });
            yield_now().await;
            child.cancel();
            assert_eq!(other.await.unwrap(), 5);
            Ok(child.await.unwrap_err().is_cancelled())
        })
        .await;
        outcome.unwrap()
    });
    turns(&mut event_loop, 8);
    assert!(outcome(&task));
}

#[test]
fn b_tg_04_the_bodys_error_joins_those_of_the_children() {
    let mut event_loop = new_loop();
    let trace = Trace::new();
    let log = trace.clone();
    let task = event_loop.spawn(async move {
        let outcome: Outcome<()> = TaskGroup::scope(async |group| {
            group.spawn(tidy(log.clone(), "child"));
            group.spawn(async {
                let _cancelled = catch_cancelled(pending::<()>()).await;
                Err::<(), _>("child")
            });
            yield_now().await;
            Err("body")
        })
        .await;
        errors(outcome)
    });
    turns(&mut event_loop, 8);
    assert_eq!(trace.take(), ["child cleaned"]);
    assert_eq!(outcome(&task), ["body", "child"]);
}

#[test]
fn b_tg_05_the_code_behind_a_failed_group_is_not_cancelled() {
    let mut event_loop = new_loop();
    let task = event_loop.spawn(async {
        let failed: Outcome<()> = TaskGroup::scope(async |group| {
            group.spawn(async { Err::<(), _>("no") });
            pending::<()>().await;
            Ok(())
        })
        .await;
        assert!(failed.is_err());
        yield_now().await;
        current_task().unwrap().cancelling()
    });
    turns(&mut event_loop, 6);
    assert_eq!(outcome(&task), 0);
}

// python/cpython#95289: a group whose body had caught its request left the task with one too many.
#[test]
fn s22_a_group_that_failed_leaves_no_stray_request_behind() {
    let mut event_loop = EventLoop::builder().simulated().unwrap().build().unwrap();
    let task = event_loop.spawn(async {
        let failed: Outcome<()> = TaskGroup::scope(async |group| {
            group.spawn(async {
                yield_now().await;
                Err::<(), _>("E")
            });
            catch_cancelled(pending::<()>()).await.unwrap_err().swallow();
            Ok(())
        })
        .await;
        assert_eq!(errors(failed), ["E"]);
        assert_eq!(current_task().unwrap().cancelling(), 0);
        let before = LoopRef::current().now();
        sleep(Duration::from_millis(10)).await;
        assert_eq!(LoopRef::current().now() - before, Duration::from_millis(10));
    });
    event_loop.run_until_complete(task).unwrap().unwrap();
}

#[test]
fn b_tg_06_a_request_from_outside_cancels_the_children_and_goes_on() {
    for body_done in [false, true] {
        let mut event_loop = new_loop();
        let trace = Trace::new();
        let log = trace.clone();
        let task = event_loop.spawn(async move {
            let _: Outcome<()> = TaskGroup::scope(async |group| {
                group.spawn(tidy(log.clone(), "child"));
                if !body_done {
                    pending::<()>().await;
                }
                Ok(())
            })
            .await;
            log.push("not reached");
        });
        turns(&mut event_loop, 2);
        task.cancel_with("outside");
        turns(&mut event_loop, 2);
        assert!(!task.is_done(), "the child cleans up");
        turns(&mut event_loop, 6);
        assert_eq!(trace.take(), ["child cleaned"]);
        let error = task.take_result().unwrap().unwrap_err();
        assert_eq!(error.to_string(), "the task was cancelled: outside");
    }
}

/// A group that has passed a request on waits to be dropped. It must not hurry those who still clean up.
#[test]
fn b_tg_06_the_request_that_it_passes_on_waits_for_the_clean_ups_beside_it() {
    for child in [false, true] {
        let (mut event_loop, clock) = virtual_loop();
        let trace = Trace::new();
        let log = trace.clone();
        let task = event_loop.spawn(async move {
            let group = TaskGroup::scope(async |group| {
                if child {
                    group.spawn(pending::<Result<(), &str>>());
                }
                pending::<Result<(), &str>>().await
            });
            let beside = on_cancel(pending::<()>(), async {
                sleep(MS).await;
                log.push("cleaned up");
            });
            futures::join!(group, beside).0
        });
        turns(&mut event_loop, 2);
        task.cancel();
        turns(&mut event_loop, 6);
        assert!(!task.is_done(), "{child}: the clean-up takes its time");
        clock.advance(MS);
        turns(&mut event_loop, 6);
        assert!(task.is_cancelled());
        assert_eq!(trace.take(), ["cleaned up"], "{child}");
    }
}

#[test]
fn b_tg_07_with_errors_of_children_they_are_returned_and_the_request_arrives_later() {
    let mut event_loop = new_loop();
    let trace = Trace::new();
    let log = trace.clone();
    let task = event_loop.spawn(async move {
        let outcome: Outcome<()> = TaskGroup::scope(async |group| {
            group.spawn(async {
                let _cancelled = catch_cancelled(pending::<()>()).await;
                Err::<(), _>("while ending")
            });
            pending::<()>().await;
            Ok(())
        })
        .await;
        log.push(errors(outcome).join(","));
        ready(()).await;
        log.push("suspends");
        let cancelled = catch_cancelled(pending::<()>()).await.unwrap_err();
        log.push(cancelled.reason().unwrap().to_owned());
        assert_eq!(current_task().unwrap().cancelling(), 1);
        cancelled.propagate().await
    });
    turns(&mut event_loop, 2);
    task.cancel_with("outside");
    turns(&mut event_loop, 8);
    assert_eq!(trace.take(), ["while ending", "suspends", "outside"]);
    assert!(task.is_cancelled());
}

#[test]
fn b_tg_08_more_requests_do_not_abandon_the_children() {
    let mut event_loop = new_loop();
    let trace = Trace::new();
    let log = trace.clone();
    let counts = Rc::new(Cell::new(0));
    let count = counts.clone();
    let task = event_loop.spawn(async move {
        let _: Outcome<()> = TaskGroup::scope(async |group| {
            group.spawn(tidy(log.clone(), "child"));
            let (log, count) = (log.clone(), count.clone());
            group.spawn(async move {
                let cancelled = catch_cancelled(pending::<()>()).await.unwrap_err();
                for _ in 0..6 {
                    yield_now().await;
                }
                count.set(current_task().unwrap().cancelling());
                log.push("slow cleaned");
                cancelled.swallow();
                Ok(())
            });
            pending::<()>().await;
            Ok(())
        })
        .await;
    });
    turns(&mut event_loop, 2);
    for _ in 0..6 {
        task.cancel();
        turn(&mut event_loop);
    }
    assert!(!task.is_done());
    turns(&mut event_loop, 8);
    assert_eq!(trace.take(), ["child cleaned", "slow cleaned"]);
    assert_eq!(counts.get(), 1, "children are asked once");
    assert!(task.is_cancelled());
}

/// A request that was propagated beside a group waits for that group's children too, also if the group is
/// ending by itself already.
#[test]
fn b_tg_08_a_request_from_beside_does_not_abandon_the_children_of_a_group_that_ends() {
    let (mut event_loop, clock) = virtual_loop();
    let trace = Trace::new();
    let (log, child_log, fail) = (trace.clone(), trace.clone(), event_loop.create_future());
    let fails: LoopFuture<(), ()> = fail.clone();
    let task = event_loop.spawn(async move {
        // Propagates after two milliseconds, but nothing may act on that before `slow` is done, after three.
        let raises = async {
            raise_cancelled("beside").await;
        };
        let propagates = on_cancel(raises, sleep(2 * MS));
        let slow = timeout(MS, on_cancel(pending::<()>(), sleep(2 * MS)));
        let group = async {
            let outcome: Outcome<()> = TaskGroup::scope(async |group| {
                group.spawn(async move {
                    fails.await.unwrap();
                    Err::<(), _>("failed")
                });
                group.spawn(async move {
                    on_cancel(pending::<()>(), async {
                        sleep(3 * MS).await;
                        child_log.push("child cleaned up");
                    })
                    .await;
                    Ok(())
                });
                pending().await
            })
            .await;
            log.push(errors(outcome).join(" "));
        };
        let _ = futures::join!(propagates, slow, group);
    });
    for now in 0..7 {
        if now == 2 {
            fail.set_result(()).unwrap();
        }
        turns(&mut event_loop, 8);
        clock.advance(MS);
    }
    assert_eq!(trace.take(), ["child cleaned up", "failed"]);
    assert_eq!(
        task.take_result().unwrap().unwrap_err().to_string(),
        "the task was cancelled: beside"
    );
}

#[test]
fn b_tg_09_nested_groups_pass_the_outer_request_on() {
    let mut event_loop = new_loop();
    let trace = Trace::new();
    let log = trace.clone();
    let task = event_loop.spawn(async move {
        let outcome: Result<(), GroupError<String>> = TaskGroup::scope(async |outer| {
            let log = log.clone();
            outer.spawn(async move {
                let inner: Outcome<()> = TaskGroup::scope(async |inner| {
                    inner.spawn(tidy(log.clone(), "inner child"));
                    inner.spawn(async {
                        yield_now().await;
                        Err::<(), _>("inner")
                    });
                    pending::<()>().await;
                    Ok(())
                })
                .await;
                inner.map_err(|error| error.to_string())
            });
            pending::<()>().await;
            Ok(())
        })
        .await;
        outcome.unwrap_err().errors[0].to_string()
    });
    turns(&mut event_loop, 12);
    assert_eq!(trace.take(), ["inner child cleaned"]);
    assert_eq!(outcome(&task), "the task group failed: inner");
    // Both levels in one task, cancelled from outside.
    let log = trace.clone();
    let task = event_loop.spawn(async move {
        let _: Outcome<()> = TaskGroup::scope(async |outer| {
            outer.spawn(tidy(log.clone(), "outer child"));
            let _: Outcome<()> = TaskGroup::scope(async |inner| {
                inner.spawn(tidy(log.clone(), "inner child"));
                pending::<()>().await;
                Ok(())
            })
            .await;
            unreachable!("the request goes on");
        })
        .await;
        unreachable!("to the end");
    });
    turns(&mut event_loop, 2);
    task.cancel();
    turns(&mut event_loop, 16);
    assert_eq!(trace.take(), ["inner child cleaned", "outer child cleaned"]);
    let task: Task<()> = task;
    assert!(task.is_cancelled());
}

#[test]
fn b_tg_10_a_loop_abort_passes_through_at_once() {
    let mut event_loop = new_loop();
    let task = event_loop.spawn(async {
        let _: Outcome<()> = TaskGroup::scope(async |group| {
            group.spawn(async { if true { LoopAbort { code: 3 }.raise() } else { Ok(()) } });
            pending::<()>().await;
            Ok(())
        })
        .await;
    });
    let unwound = catch_unwind(AssertUnwindSafe(|| turns(&mut event_loop, 4)));
    assert_eq!(unwound.unwrap_err().downcast_ref(), Some(&LoopAbort { code: 3 }));
    task.abort();
    turns(&mut event_loop, 4);
    assert!(task.is_done() && event_loop.tasks().is_empty());
}

static VAR: ContextVar<u32> = ContextVar::new();

#[test]
fn b_tg_11_children_start_siblings_and_options_are_passed_on() {
    let mut event_loop = new_loop();
    let trace = Trace::new();
    let log = trace.clone();
    let task = event_loop.spawn(async move {
        VAR.set(1);
        let outcome: Outcome<()> = TaskGroup::scope(async |group| {
            let (siblings, log) = (group.clone(), log.clone());
            let child = TaskBuilder::new().name("elder");
            group.spawn_with(child, async move {
                log.push(format!("{} {:?}", current_task().unwrap().name(), VAR.get()));
                yield_now().await;
                let log = log.clone();
                siblings.spawn(async move {
                    yield_now().await;
                    log.push("younger");
                    Ok(())
                });
                Ok(())
            });
            Ok(())
        })
        .await;
        outcome.unwrap();
    });
    turns(&mut event_loop, 8);
    assert_eq!(trace.take(), ["elder Some(1)", "younger"]);
    assert!(task.is_done() && !task.is_cancelled());
}

#[test]
fn b_tg_12_a_group_that_ends_or_has_ended_takes_no_more() {
    let mut event_loop = new_loop();
    let trace = Trace::new();
    let log = trace.clone();
    let task = event_loop.spawn(async move {
        let kept = RefCell::new(None);
        let refused = |group: &TaskGroup<&'static str>, why: &'static str| {
            let (value, polled) = (log.on_drop(why), log.clone());
            let task = group.spawn(async move {
                polled.push("polled");
                keep(&value);
                Ok(())
            });
            log.push("offered");
            task
        };
        let outcome: Outcome<()> = TaskGroup::scope(async |group| {
            *kept.borrow_mut() = Some(group.clone());
            group.spawn(async { Err::<(), _>("no") });
            let _cancelled = catch_cancelled(pending::<()>()).await;
            let task = refused(&group, "while ending");
            let error = task.await.unwrap_err();
            assert_eq!(error.to_string(), "the task was cancelled: the group takes no more");
            Ok(())
        })
        .await;
        assert!(outcome.is_err());
        let group = kept.take().unwrap();
        assert!(refused(&group, "after the end").await.is_err());
    });
    turns(&mut event_loop, 12);
    assert_eq!(trace.take(), ["while ending", "offered", "after the end", "offered"]);
    outcome(&task);
}

#[test]
fn b_tg_13_a_panic_of_a_child_is_an_error_and_one_of_the_body_comes_after_the_children() {
    let mut event_loop = new_loop();
    let trace = Trace::new();
    let log = reports(&event_loop);
    let task = event_loop.spawn(async move {
        let outcome: Outcome<()> = TaskGroup::scope(async |group| {
            group.spawn(async {
                let _cancelled = catch_cancelled(pending::<()>()).await;
                if true { panic!("child") } else { Ok(()) }
            });
            Err("body")
        })
        .await;
        errors(outcome)
    });
    turns(&mut event_loop, 6);
    assert_eq!(outcome(&task), ["body"], "a child that never ran is dropped unpolled");
    let cleaned = trace.clone();
    let task = event_loop.spawn(async move {
        let _: Outcome<()> = TaskGroup::scope(async |group| {
            group.spawn(tidy(cleaned.clone(), "child"));
            group.spawn(async { if true { panic!("child") } else { Ok(()) } });
            let _cancelled = catch_cancelled(pending::<()>()).await;
            panic!("body")
        })
        .await;
    });
    turns(&mut event_loop, 8);
    assert_eq!(trace.take(), ["child cleaned"]);
    let error = task.take_result().unwrap().unwrap_err();
    assert_eq!(error.to_string(), "panic \"body\"");
    let task = event_loop.spawn(async move {
        let outcome: Outcome<()> = TaskGroup::scope(async |group| {
            group.spawn(async { if true { panic!("child") } else { Ok(()) } });
            Ok(())
        })
        .await;
        match &outcome.unwrap_err().errors[..] {
            [ChildError::Panicked(panic)] => panic.message().to_owned(),
            other => panic!("{other:?}"),
        }
    });
    turns(&mut event_loop, 6);
    assert_eq!(outcome(&task), "child");
    assert_eq!(log.take(), Vec::<String>::new());
}

#[test]
fn b_tg_14_a_child_that_fails_in_spawn_ends_the_group_but_not_its_caller() {
    let mut event_loop = new_loop();
    let trace = Trace::new();
    let log = trace.clone();
    let task = event_loop.spawn(async move {
        let outcome: Outcome<()> = TaskGroup::scope(async |group| {
            group.spawn(tidy(log.clone(), "elder"));
            yield_now().await;
            let eager = TaskBuilder::new().eager(true);
            let child = group.spawn_with(eager, async { Err::<(), _>("eager") });
            log.push("spawn returned");
            let error = child.await.unwrap_err();
            assert!(error.is_cancelled());
            log.push("body is not interrupted before it suspends twice");
            Ok(())
        })
        .await;
        errors(outcome)
    });
    turns(&mut event_loop, 10);
    assert_eq!(trace.take()[0], "spawn returned");
    assert_eq!(outcome(&task), ["eager"]);
}

#[test]
fn b_tg_15_cancel_ends_the_group_without_an_error() {
    let mut event_loop = new_loop();
    let trace = Trace::new();
    // The body has its value.
    let log = trace.clone();
    let task = event_loop.spawn(async move {
        let outcome: Outcome<i32> = TaskGroup::scope(async |group| {
            group.spawn(tidy(log.clone(), "child"));
            let canceller = group.clone();
            group.spawn(async move {
                yield_now().await;
                canceller.cancel();
                Ok(())
            });
            Ok(5)
        })
        .await;
        yield_now().await;
        outcome.unwrap()
    });
    turns(&mut event_loop, 10);
    assert_eq!(trace.take(), ["child cleaned"]);
    assert_eq!(outcome(&task), 5);
    // The body is interrupted.
    let task = event_loop.spawn(async move {
        let outcome: Outcome<()> = TaskGroup::scope(async |group| {
            group.cancel();
            yield_now().await;
            unreachable!("it was cancelled");
        })
        .await;
        let error = outcome.unwrap_err();
        (error.errors.len(), error.to_string())
    });
    turns(&mut event_loop, 5);
    assert_eq!(outcome(&task), (0, "the task group was cancelled".to_owned()));
    // By an eager child that the group does not know yet.
    let task = event_loop.spawn(async move {
        let outcome: Outcome<()> = TaskGroup::scope(async |group| {
            let canceller = group.clone();
            let eager = TaskBuilder::new().eager(true);
            group.spawn_with(eager, async move {
                canceller.cancel();
                pending::<()>().await;
                Ok(())
            });
            Ok(())
        })
        .await;
        outcome.is_ok()
    });
    turns(&mut event_loop, 5);
    assert!(outcome(&task));
}

#[test]
fn b_tg_16_a_request_from_outside_after_cancel_goes_on() {
    for requests_first in [false, true] {
        let mut event_loop = new_loop();
        let trace = Trace::new();
        let log = trace.clone();
        let place = Rc::new(RefCell::new(None));
        let stored = place.clone();
        let task = event_loop.spawn(async move {
            let _: Outcome<()> = TaskGroup::scope(async |group| {
                *stored.borrow_mut() = Some(group.clone());
                group.spawn(tidy(log.clone(), "child"));
                Ok(())
            })
            .await;
            unreachable!("the request goes on");
        });
        turns(&mut event_loop, 2);
        let group = place.take().unwrap();
        if requests_first {
            task.cancel_with("outside");
            group.cancel();
        } else {
            group.cancel();
            turn(&mut event_loop);
            task.cancel_with("outside");
        }
        turns(&mut event_loop, 8);
        assert_eq!(trace.take(), ["child cleaned"]);
        let task: Task<()> = task;
        let error = task.take_result().unwrap().unwrap_err();
        assert_eq!(error.to_string(), "the task was cancelled: outside");
    }
}

#[test]
fn b_tg_17_errors_that_come_when_the_parent_is_gone_are_reported() {
    let mut event_loop = new_loop();
    let log = Trace::new();
    let told = log.clone();
    event_loop.set_exception_handler(Some(Rc::new(move |_, context| {
        told.push(context.subject.clone().unwrap());
    })));
    let parent = event_loop.spawn(async {
        let _: Outcome<()> = TaskGroup::scope(async |group| {
            group.spawn(async {
                protect(async {
                    yield_now().await;
                    yield_now().await;
                })
                .await;
                Err::<(), _>("nobody waits")
            });
            pending::<()>().await;
            Ok(())
        })
        .await;
    });
    turns(&mut event_loop, 2);
    parent.abort();
    turn(&mut event_loop);
    assert!(parent.is_cancelled());
    turns(&mut event_loop, 6);
    assert_eq!(log.take(), ["Failed(\"nobody waits\")"]);
}

#[test]
fn b_tg_18_nothing_keeps_children_or_errors_alive_after_the_end() {
    let mut event_loop = new_loop();
    let alive = Rc::new(());
    let witness = alive.clone();
    let task = event_loop.spawn(async move {
        let outcome: Result<(), GroupError<Rc<()>>> = TaskGroup::scope(async |group| {
            let (inside, siblings) = (witness.clone(), group.clone());
            group.spawn(async move {
                keep(&inside);
                keep(&siblings);
                Err::<(), _>(inside)
            });
            let inside = witness.clone();
            group.spawn(async move {
                keep(&inside);
                pending::<()>().await;
                Ok(())
            });
            pending::<()>().await;
            Ok(())
        })
        .await;
        outcome.unwrap_err().errors.len()
    });
    turns(&mut event_loop, 8);
    assert_eq!(outcome(&task), 1);
    assert_eq!(Rc::strong_count(&alive), 1);
}

#[test]
fn b_tg_19_dropping_the_scope_cancels_the_children_and_reports_their_late_errors() {
    let mut event_loop = new_loop();
    let trace = Trace::new();
    let log = Trace::new();
    let told = log.clone();
    event_loop.set_exception_handler(Some(Rc::new(move |_, context| {
        told.push(format!("{} {:?}", context.message, context.subject));
    })));
    let cleaned = trace.clone();
    let task = event_loop.spawn(async move {
        let scope = TaskGroup::<&'static str>::scope(async |group| {
            group.spawn(tidy(cleaned.clone(), "child"));
            group.spawn(async {
                let _cancelled = catch_cancelled(pending::<()>()).await;
                Err::<(), _>("late")
            });
            pending::<()>().await;
            Ok(())
        });
        let mut scope = Box::pin(scope);
        poll_fn(|cx| {
            use std::future::Future;
            assert!(scope.as_mut().poll(cx).is_pending());
            Poll::Ready(())
        })
        .await;
        yield_now().await;
        drop(scope);
    });
    turns(&mut event_loop, 2);
    assert!(task.is_done(), "nobody waits");
    turns(&mut event_loop, 6);
    assert_eq!(trace.take(), ["child cleaned"]);
    assert_eq!(
        log.take(),
        ["a task failed after its group was gone Some(\"Failed(\\\"late\\\")\")"]
    );
    assert!(event_loop.tasks().is_empty());
}

#[test]
fn b_tg_19_errors_that_the_scope_had_are_reported_when_it_is_dropped() {
    let mut event_loop = new_loop();
    let log = Trace::new();
    let told = log.clone();
    event_loop.set_exception_handler(Some(Rc::new(move |_, context| {
        told.push(context.subject.clone().unwrap_or_default());
    })));
    let task = event_loop.spawn(async {
        let _: Outcome<()> = TaskGroup::scope(async |group| {
            group.spawn(async {
                protect(pending::<()>()).await;
                Ok(())
            });
            yield_now().await;
            group.spawn(async { Err::<(), _>("early") });
            Ok(())
        })
        .await;
    });
    turns(&mut event_loop, 4);
    task.abort();
    turns(&mut event_loop, 2);
    assert!(task.is_cancelled());
    assert_eq!(log.take(), ["Failed(\"early\")"]);
    event_loop.tasks()[0].abort();
    turn(&mut event_loop);
}

#[test]
fn c6_after_the_grace_a_group_aborts_and_tells_who_did_not_end() {
    for stubborn_body in [false, true] {
        let (mut event_loop, clock) = virtual_loop();
        let log = Trace::new();
        let told = log.clone();
        event_loop.set_exception_handler(Some(Rc::new(move |_, context| {
            told.push(context.subject.clone().unwrap());
        })));
        let task = event_loop.spawn(async move {
            let scope = TaskGroup::scope(async |group| {
                let stubborn = TaskBuilder::new().name("stubborn");
                group.spawn_with(stubborn, async {
                    protect(pending::<()>()).await;
                    Ok(())
                });
                yield_now().await;
                group.spawn(async { Err::<(), _>("no") });
                if stubborn_body {
                    protect(pending::<()>()).await;
                }
                Ok(())
            });
            errors(scope.grace(10 * MS).await)
        });
        turns(&mut event_loop, 6);
        clock.advance(9 * MS);
        turns(&mut event_loop, 3);
        assert!(!task.is_done());
        clock.advance(MS);
        turns(&mut event_loop, 4);
        assert_eq!(outcome(&task), ["no"]);
        let names = if stubborn_body { "the body, stubborn" } else { "stubborn" };
        assert_eq!(log.take(), [names]);
    }
}

#[test]
fn b_tmo_09_time_limits_around_and_inside_a_group() {
    let (mut event_loop, clock) = virtual_loop();
    let trace = Trace::new();
    let log = trace.clone();
    let around = event_loop.spawn(timeout(5 * MS, async move {
        let _: Outcome<()> = TaskGroup::scope(async |group| {
            group.spawn(tidy(log.clone(), "child"));
            Ok(())
        })
        .await;
    }));
    let inside = event_loop.spawn(async {
        let outcome: Outcome<bool> = TaskGroup::scope(async |group| {
            let child = group.spawn(async { Ok(timeout(5 * MS, pending::<()>()).await.is_err()) });
            assert!(timeout(5 * MS, pending::<()>()).await.is_err());
            Ok(child.await.unwrap())
        })
        .await;
        outcome.unwrap()
    });
    turns(&mut event_loop, 3);
    clock.advance(5 * MS);
    turns(&mut event_loop, 8);
    assert_eq!(trace.take(), ["child cleaned"]);
    assert!(outcome(&around).is_err());
    assert!(outcome(&inside));
}

#[test]
fn a_group_runs_in_the_future_of_a_run() {
    let _watchdog = watchdog();
    let total = run(async {
        let outcome: Outcome<u32> = TaskGroup::scope(async |group| {
            let tasks: Vec<Task<u32>> = (1..=4)
                .map(|number| {
                    group.spawn(async move {
                        sleep(MS).await;
                        Ok(number)
                    })
                })
                .collect();
            let mut total = 0;
            for task in tasks {
                total += task.await.unwrap();
            }
            Ok(total)
        })
        .await;
        spawn(async {}).await.unwrap();
        outcome.unwrap()
    });
    assert_eq!(total.unwrap(), 10);
}
