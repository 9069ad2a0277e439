//! Eager tasks, task builders and spawn hooks.

mod common;

use std::cell::{Cell, RefCell};
use std::future::{Future, pending};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context as PollContext, Poll, Waker};
use std::time::Duration;

use common::{Trace, reports, turn, virtual_loop, watchdog};
use loop_core::{
    Context, ContextVar, EagerSpawn, EventLoop, LoopAbort, LoopFuture, LoopRef, SpawnHook, Task,
    TaskBody, TaskBuilder, TaskRef, current_task, gather, run, sleep, spawn, yield_now,
};

fn eager<F: Future + 'static>(future: F) -> Task<F::Output> {
    TaskBuilder::new().eager(true).spawn(future)
}

#[test]
fn b_eager_01_the_first_step_runs_inside_spawn_in_the_tasks_context() {
    static VAR: ContextVar<u32> = ContextVar::new();
    let var = || VAR.get().unwrap_or_default();
    let set = |value| drop(VAR.set(value));
    run(async move {
        set(1);
        let outer = current_task().unwrap();
        let trace = Trace::new();
        let log = trace.clone();
        let parent = outer.id();
        let task = eager(async move {
            log.push("body");
            assert_ne!(current_task().unwrap().id(), parent);
            assert_eq!(var(), 1, "a copy of the context");
            set(2);
            yield_now().await;
            assert_eq!(var(), 2, "which it keeps");
            current_task().unwrap().id()
        });
        trace.push("after spawn");
        assert_eq!(trace.take(), ["body", "after spawn"]);
        assert_eq!(current_task().unwrap().id(), outer.id(), "restored");
        assert_eq!(var(), 1, "invisible outside");
        let id = task.id();
        assert_eq!(task.await.unwrap(), id);
    })
    .unwrap();
}

#[test]
fn b_eager_01_without_a_running_loop_it_is_queued() {
    let mut event_loop = EventLoop::new().unwrap();
    let ran = Rc::new(Cell::new(false));
    let flag = ran.clone();
    let task = TaskBuilder::new().eager(true).spawn_on(&event_loop, async move { flag.set(true) });
    assert!(!ran.get() && !task.is_done());
    turn(&mut event_loop);
    assert!(ran.get() && task.is_done());

    // Nor on a loop other than the one that runs.
    let other = EventLoop::new().unwrap();
    let other_ref = other.loop_ref();
    let task = event_loop
        .run_until_complete(async move {
            [TaskBuilder::new().eager(true).spawn_on(&other_ref, async {})]
        })
        .unwrap();
    assert!(!task[0].is_done());
}

#[test]
fn b_eager_02_a_body_that_does_not_suspend_never_enters_the_queue() {
    let (mut event_loop, _clock) = virtual_loop();
    event_loop
        .run_until_complete(async {
            let lp = LoopRef::current();
            let before = lp.tasks().len();
            let task = eager(async { LoopRef::current().tasks().len() });
            assert!(task.is_done() && !task.is_cancelled());
            assert_eq!(lp.tasks().len(), before);
            assert_eq!(task.await.unwrap(), before + 1, "it counts while it runs");

            let all = pin!(gather((0..3).map(|n| eager(async move { n }))));
            let polled = all.poll(&mut PollContext::from_waker(Waker::noop()));
            assert!(matches!(polled, Poll::Ready(Ok(results)) if results == [0, 1, 2]));
        })
        .unwrap();
}

#[test]
fn b_eager_03_a_suspended_one_is_like_any_other() {
    run(async {
        let trace = Trace::new();
        let (first, second) = (trace.clone(), trace.clone());
        let one = eager(async move {
            first.push("eager 1");
            yield_now().await;
            first.push("eager 2");
        });
        let two = spawn(async move { second.push("plain") });
        gather([one, two]).await.unwrap();
        assert_eq!(trace.take(), ["eager 1", "eager 2", "plain"]);
    })
    .unwrap();
}

#[test]
fn b_eager_04_a_panic_is_stored_and_not_raised() {
    run(async {
        let task = eager(async { panic!("in the eager step") });
        assert!(task.is_done());
        assert_eq!(task.await.unwrap_err().to_string(), "panic \"in the eager step\"");
        // P-28: what is current is right afterwards.
        let id = current_task().unwrap().id();
        yield_now().await;
        assert_eq!(current_task().unwrap().id(), id);
    })
    .unwrap();
}

#[test]
fn b_eager_04_an_abort_is_raised() {
    let mut event_loop = EventLoop::new().unwrap();
    let after = Rc::new(Cell::new(false));
    let flag = after.clone();
    event_loop.call_soon(move || {
        eager(async { LoopAbort { code: 3 }.raise() }).detach();
        flag.set(true);
    });
    let aborted = catch_unwind(AssertUnwindSafe(|| event_loop.run_forever())).unwrap_err();
    assert_eq!(aborted.downcast_ref::<LoopAbort>().unwrap().code, 3);
    assert!(!after.get() && event_loop.tasks().is_empty());
}

#[test]
fn b_eager_05_cancelling_an_eager_task() {
    run(async {
        assert!(!eager(async {}).cancel(), "it has ended");
        let dropped = Trace::new();
        let guard = dropped.on_drop("dropped");
        let task = eager(async move {
            let _guard = guard;
            pending::<()>().await;
        });
        assert!(task.cancel());
        assert_eq!(dropped.len(), 0, "not yet");
        assert!(task.await.unwrap_err().is_cancelled());
        assert_eq!(dropped.take(), ["dropped"]);
        // A body that cancels itself in its eager step and does not suspend.
        let task = eager(async { assert!(current_task().unwrap().cancel()) });
        assert!(task.is_done() && task.is_cancelled());
    })
    .unwrap();
}

#[test]
fn b_eager_06_a_future_awaited_in_the_eager_step_wakes_it() {
    let _watchdog = watchdog();
    run(async {
        let future: LoopFuture<u32> = LoopRef::current().create_future();
        let task = eager(future.clone());
        assert!(!task.is_done());
        LoopRef::current().call_soon(move || future.set_result(7));
        assert_eq!(task.await.unwrap().unwrap(), 7);
        // One that wakes itself inside the eager step.
        eager(yield_now()).await.unwrap();
        eager(sleep(Duration::from_millis(1))).await.unwrap();
    })
    .unwrap();
}

#[test]
fn b_eager_07_eager_bodies_nest() {
    fn nest(depth: u32) -> Task<u32> {
        eager(async move {
            match depth {
                0 => 0,
                _ => nest(depth - 1).await.unwrap() + 1,
            }
        })
    }
    run(async {
        let task = nest(100);
        assert!(task.is_done());
        assert_eq!(task.await.unwrap(), 100);
    })
    .unwrap();
}

#[test]
fn b_task_06_a_builder_names_the_task() {
    run(async {
        let task = TaskBuilder::new().name("fetch").spawn(async { current_task().unwrap().name() });
        assert_eq!(&*task.name(), "fetch");
        assert_eq!(&*task.await.unwrap(), "fetch");
    })
    .unwrap();
}

#[test]
fn b_task_28_an_explicit_context_keeps_what_the_body_writes() {
    static VAR: ContextVar<u32> = ContextVar::new();
    let var = || VAR.get().unwrap_or_default();
    let set = |value| drop(VAR.set(value));
    run(async move {
        let context = Context::new();
        let builder = TaskBuilder::new().context(context.clone());
        let late = Rc::new(Cell::new(0));
        let seen = late.clone();
        let task = builder.clone().spawn(async move {
            set(1);
            yield_now().await;
            let _seen = common::OnDrop(move || seen.set(var()));
            set(var() + 1);
        });
        yield_now().await;
        assert_eq!((context.run(var).unwrap(), var()), (1, 0));
        task.await.unwrap();
        assert_eq!(context.run(var).unwrap(), 2);
        assert_eq!(late.get(), 2, "the body is dropped there too");
        let shared = builder.clone().eager(true).spawn(async move { var() });
        assert_eq!(shared.await.unwrap(), 2);

        // Entered once at a time: the eager start inside waits for its turn.
        let inner = builder.clone().eager(true);
        let task = builder.spawn(async move {
            let task = inner.spawn(async move { var() });
            assert!(!task.is_done());
            task.await.unwrap()
        });
        assert_eq!(task.await.unwrap(), 2);
    })
    .unwrap();
}

#[test]
fn a_task_whose_context_is_entered_when_its_turn_comes_panics() {
    let mut event_loop = EventLoop::new().unwrap();
    let context = Context::new();
    let task = TaskBuilder::new().context(context.clone()).spawn_on(&event_loop, async {});
    context.run(|| turn(&mut event_loop)).unwrap();
    let error = task.take_result().unwrap().unwrap_err();
    assert!(error.to_string().contains("entered"), "{error}");
}

/// Notes what it is asked, and wraps bodies so that they note their ends.
struct Noting(Trace);

impl SpawnHook for Noting {
    fn wrap(&self, task: &TaskRef, body: TaskBody) -> TaskBody {
        let (trace, name) = (self.0.clone(), task.name());
        trace.push(format!("{name} starts"));
        Box::pin(async move {
            body.await;
            trace.push(format!("{name} ends"));
        })
    }
}

#[test]
fn hooks_wrap_every_body_and_keep_the_output() {
    let trace = Trace::new();
    let mut event_loop = EventLoop::new().unwrap();
    event_loop.set_spawn_hook(Some(Rc::new(Noting(trace.clone()))));
    let output = event_loop
        .run_until_complete(async {
            TaskBuilder::new().name("a").spawn(async { String::from("output") }).await.unwrap()
        })
        .unwrap();
    assert_eq!(output, "output");
    assert_eq!(trace.take(), ["a starts", "a ends"]);
    event_loop.set_spawn_hook(None);
    let plain = event_loop.spawn(async {});
    turn(&mut event_loop);
    assert!(plain.is_done() && trace.len() == 0);
}

#[test]
fn a_hook_may_start_everything_eagerly_but_a_builder_has_the_last_word() {
    let mut event_loop = EventLoop::new().unwrap();
    event_loop.set_spawn_hook(Some(Rc::new(EagerSpawn)));
    event_loop
        .run_until_complete(async {
            assert!(spawn(async {}).is_done());
            assert!(!TaskBuilder::new().eager(false).spawn(async {}).is_done());
        })
        .unwrap();
}

#[test]
fn a_hook_that_ends_before_the_body_cancels_the_task() {
    struct Loses;
    impl SpawnHook for Loses {
        fn wrap(&self, _: &TaskRef, body: TaskBody) -> TaskBody {
            drop(body);
            Box::pin(async {})
        }
    }
    let mut event_loop = EventLoop::new().unwrap();
    event_loop.set_spawn_hook(Some(Rc::new(Loses)));
    let error =
        event_loop.run_until_complete(async { spawn(async {}).await.unwrap_err() }).unwrap();
    assert!(error.is_cancelled() && error.to_string().contains("spawn hook"), "{error}");
}

#[test]
fn a_body_that_panics_in_a_hooks_future_has_failed_and_one_whose_destructor_does_has_not() {
    struct Plain;
    impl SpawnHook for Plain {}
    struct Bomb;
    impl Future for Bomb {
        type Output = u8;
        fn poll(self: Pin<&mut Self>, _: &mut PollContext<'_>) -> Poll<u8> {
            Poll::Ready(7)
        }
    }
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("bomb");
        }
    }
    let mut event_loop = EventLoop::new().unwrap();
    let reports = reports(&event_loop);
    event_loop.set_spawn_hook(Some(Rc::new(Plain)));
    let fails = event_loop.spawn(async { panic!("body") });
    let succeeds = event_loop.spawn(Bomb);
    let (failed, succeeded) =
        event_loop.run_until_complete(async { (fails.await.map(|()| 0), succeeds.await) }).unwrap();
    assert!(failed.unwrap_err().to_string().contains("body"));
    assert_eq!(succeeded.unwrap(), 7);
    assert_eq!(reports.take(), ["a destructor failed: panic \"bomb\""]);
}

#[test]
fn a_hook_that_panics_makes_no_task_and_one_that_spawns_is_fine() {
    struct Panics(Cell<bool>);
    impl SpawnHook for Panics {
        fn eager(&self, _: &TaskRef) -> bool {
            assert!(!self.0.replace(true), "hook");
            spawn(async {}).detach();
            false
        }
    }
    struct Nests(RefCell<u32>);
    impl SpawnHook for Nests {
        fn wrap(&self, _: &TaskRef, body: TaskBody) -> TaskBody {
            let first = {
                *self.0.borrow_mut() += 1;
                *self.0.borrow() == 1
            };
            if first {
                spawn(async {}).detach();
            }
            body
        }
    }
    let mut event_loop = EventLoop::new().unwrap();
    let reports = reports(&event_loop);
    event_loop.set_spawn_hook(Some(Rc::new(Panics(Cell::new(false)))));
    event_loop.call_soon(|| spawn(async {}).detach());
    turn(&mut event_loop);
    assert_eq!(reports.take(), ["callback failed: panic \"hook\""]);
    assert!(event_loop.tasks().is_empty());
    let nests = Rc::new(Nests(RefCell::new(0)));
    event_loop.set_spawn_hook(Some(nests.clone()));
    event_loop.call_soon(|| spawn(async {}).detach());
    turn(&mut event_loop);
    assert_eq!(event_loop.tasks().len(), 2);
    turn(&mut event_loop);
    assert!(event_loop.tasks().is_empty());
    drop(event_loop);
    assert_eq!(Rc::strong_count(&nests), 1, "a closed loop lets go of its hook");
}
