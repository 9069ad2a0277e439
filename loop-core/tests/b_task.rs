//! Tasks.

mod common;

use std::cell::{Cell, RefCell};
use std::future::{Future, pending, poll_fn, ready};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use common::{OnDrop, Trace, keep, reports, turn, watchdog};
use loop_core::{
    ContextVar, EventLoop, LoopAbort, LoopFuture, LoopRef, SpawnHook, Task, TaskError,
    current_task, run, sleep, spawn, try_gather, yield_now,
};

const MS: Duration = Duration::from_millis(1);

fn new_loop() -> EventLoop {
    EventLoop::new().unwrap()
}

/// Counts how often the future inside is polled.
struct CountPolls<F>(Pin<Box<F>>, Rc<Cell<u32>>);

impl<F: Future> Future for CountPolls<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        self.1.set(self.1.get() + 1);
        self.0.as_mut().poll(cx)
    }
}

fn count_polls<F: Future>(future: F) -> (CountPolls<F>, Rc<Cell<u32>>) {
    let count = Rc::new(Cell::new(0));
    (CountPolls(Box::pin(future), count.clone()), count)
}

#[test]
fn b_task_01_the_first_step_is_queued_and_so_are_done_callbacks() {
    let mut event_loop = new_loop();
    let trace = Trace::new();
    event_loop.call_soon(trace.note("before"));
    let log = trace.clone();
    let task = event_loop.spawn(async move { log.push("body") });
    task.add_done_callback(trace.note("done"));
    event_loop.call_soon(trace.note("after"));
    assert_eq!(trace.len(), 0, "nothing runs inside spawn");
    turn(&mut event_loop);
    assert_eq!(trace.take(), ["before", "body", "after"]);
    turn(&mut event_loop);
    assert_eq!(trace.take(), ["done"]);
    task.add_done_callback(trace.note("late"));
    let removed = task.add_done_callback(trace.note("queued"));
    assert!(!task.remove_done_callback(removed));
    turn(&mut event_loop);
    assert_eq!(trace.take(), ["late", "queued"]);
}

#[test]
fn b_task_02_steps_of_tasks_take_turns() {
    let mut event_loop = new_loop();
    let trace = Trace::new();
    for name in ["a", "b", "c"] {
        let log = trace.clone();
        event_loop
            .spawn(async move {
                for _ in 0..3 {
                    log.push(name);
                    yield_now().await;
                }
            })
            .detach();
    }
    for _ in 0..4 {
        turn(&mut event_loop);
    }
    assert_eq!(trace.take().concat(), "abcabcabc");
}

#[test]
fn b_task_04_the_current_task_is_the_one_that_runs() {
    let mut event_loop = new_loop();
    let seen: Rc<RefCell<Vec<Option<u64>>>> = Rc::default();
    let look = {
        let seen = seen.clone();
        move || seen.borrow_mut().push(current_task().map(|task| task.id()))
    };
    let body = |look: &dyn Fn()| look();
    let (one, two) = (look.clone(), look.clone());
    let first = event_loop.spawn(async move {
        body(&one);
        yield_now().await;
        body(&one);
    });
    event_loop.call_soon(look);
    let second = event_loop.spawn(async move { body(&two) });
    turn(&mut event_loop);
    turn(&mut event_loop);
    let (first, second) = (Some(first.id()), Some(second.id()));
    assert_eq!(seen.take(), [first, None, second, first]);
    assert!(current_task().is_none());
}

#[test]
fn b_task_05_awaiting_oneself_or_another_loops_task_is_an_error() {
    let _watchdog = watchdog();
    let mut event_loop = new_loop();
    let other = new_loop();
    let myself: Rc<RefCell<Option<Task<()>>>> = Rc::default();
    let (handle, trace) = (myself.clone(), Trace::new());
    let (foreign, log) = (other.spawn(async {}), trace.clone());
    *myself.borrow_mut() = Some(event_loop.spawn(async move {
        let task = handle.borrow_mut().take().unwrap();
        log.push(task.await.unwrap_err().to_string());
        log.push(foreign.await.unwrap_err().to_string());
    }));
    turn(&mut event_loop);
    assert_eq!(trace.take(), ["the task awaits itself", "the task belongs to another event loop"]);
    assert!(event_loop.tasks().is_empty());
}

#[test]
fn b_task_06_names_are_unique_and_can_be_set() {
    let event_loop = new_loop();
    let (a, b) = (event_loop.spawn(async {}), event_loop.spawn(async {}));
    let number = |task: &Task<()>| task.name().strip_prefix("Task-").unwrap().parse::<u64>();
    assert!(number(&a).unwrap() < number(&b).unwrap());
    assert_ne!(a.id(), b.id());
    b.set_name("mine");
    assert_eq!((&*b.name(), &*b.task_ref().name()), ("mine", "mine"));
    let others: Vec<u64> = thread::spawn(|| {
        let event_loop = new_loop();
        (0..100).map(|_| event_loop.spawn(async {})).map(|task| task.id()).collect()
    })
    .join()
    .unwrap();
    assert!(!others.contains(&a.id()) && !others.contains(&b.id()));
    assert_eq!(a.task_ref().site().file(), file!());
}

#[test]
fn b_task_07_tasks_lists_what_has_not_ended() {
    let mut event_loop = new_loop();
    let short = event_loop.spawn(async {});
    let long = event_loop.spawn(pending::<()>());
    let ids = |lp: &LoopRef| lp.tasks().iter().map(|task| task.id()).collect::<Vec<_>>();
    assert_eq!(ids(&event_loop), [short.id(), long.id()]);
    turn(&mut event_loop);
    assert_eq!(ids(&event_loop), [long.id()]);
    let lp = event_loop.loop_ref();
    let counted = event_loop.run_until_complete(async move {
        assert!(!lp.tasks().iter().any(|task| task.is_done()));
        lp.tasks().len()
    });
    assert_eq!(counted.unwrap(), 2, "the root is listed while it runs");
    long.cancel();
    turn(&mut event_loop);
    assert_eq!(ids(&event_loop), [0; 0]);
}

#[test]
fn b_task_08_cancel_requests_and_the_next_step_ends_the_task() {
    let mut event_loop = new_loop();
    let task = event_loop.spawn(pending::<()>());
    turn(&mut event_loop);
    assert!(task.cancel());
    assert!(!task.is_done() && !task.is_cancelled(), "not yet");
    turn(&mut event_loop);
    assert!(task.is_done() && task.is_cancelled());
    assert!(!task.cancel() && !task.abort() && !task.task_ref().cancel());
    assert!(task.take_result().unwrap().unwrap_err().is_cancelled());
    let done = event_loop.spawn(ready(1));
    turn(&mut event_loop);
    assert!(!done.cancel());
    assert_eq!(done.take_result().unwrap().unwrap(), 1);
}

#[test]
fn b_task_09_a_cancelled_wait_gives_its_place_up() {
    let mut event_loop = new_loop();
    let future: LoopFuture<u32, ()> = event_loop.create_future();
    let waits = future.clone();
    let task = event_loop.spawn(async move { waits.await.is_ok() });
    turn(&mut event_loop);
    task.cancel();
    turn(&mut event_loop);
    assert!(task.is_cancelled());
    // The future is its owner's: it is not cancelled, and nobody waits for it any more.
    assert!(future.set_result(1).is_ok());
}

#[test]
fn b_task_10_a_request_is_forwarded_to_the_awaited_task() {
    let mut event_loop = new_loop();
    let trace = Trace::new();
    let value = trace.on_drop("child dropped");
    let child = event_loop.spawn(async move {
        pending::<()>().await;
        keep(&value);
    });
    let child_ref = child.task_ref();
    let parent = event_loop.spawn(async move { child.await.is_ok() });
    turn(&mut event_loop);
    parent.cancel();
    turn(&mut event_loop);
    assert!(parent.is_cancelled() && !child_ref.is_done(), "the parent does not wait for it");
    turn(&mut event_loop);
    assert!(child_ref.is_cancelled());
    assert_eq!(trace.take(), ["child dropped"]);
}

#[test]
fn b_task_10_detach_and_never_awaited_handles_forward_nothing() {
    let mut event_loop = new_loop();
    let never_awaited = event_loop.spawn(pending::<()>());
    let detached = event_loop.spawn(pending::<()>());
    let (a, b) = (never_awaited.task_ref(), detached.task_ref());
    let parent = event_loop.spawn(async move {
        let mut detached = detached;
        poll_fn(|cx| {
            assert!(Pin::new(&mut detached).poll(cx).is_pending());
            Poll::Ready(())
        })
        .await;
        detached.detach();
        pending::<()>().await;
        drop(never_awaited);
    });
    turn(&mut event_loop);
    parent.cancel();
    turn(&mut event_loop);
    turn(&mut event_loop);
    assert!(parent.is_cancelled() && !a.is_done() && !b.is_done());
    // Tied explicitly, dropping cancels, awaited or not.
    let tied = event_loop.spawn(pending::<()>()).cancel_on_drop();
    let tied_ref = tied.task_ref();
    let freed = event_loop.spawn(pending::<()>()).cancel_on_drop().into_inner();
    drop(tied);
    turn(&mut event_loop);
    assert!(tied_ref.is_cancelled() && !freed.is_done());
}

#[test]
fn b_task_11_a_request_beats_a_wake_that_was_not_seen() {
    let mut event_loop = new_loop();
    let future: LoopFuture<u32, ()> = event_loop.create_future();
    let task = event_loop.spawn(future.clone());
    turn(&mut event_loop);
    future.set_result(1).unwrap();
    task.cancel();
    turn(&mut event_loop);
    assert!(task.is_cancelled());
}

#[test]
fn b_task_12_cancelled_before_its_first_step_a_body_never_runs() {
    let mut event_loop = new_loop();
    let trace = Trace::new();
    let (log, value) = (trace.clone(), trace.on_drop("dropped"));
    let task = event_loop.spawn(async move {
        keep(&value);
        log.push("ran");
    });
    assert!(task.cancel_with("too late"));
    turn(&mut event_loop);
    assert_eq!(trace.take(), ["dropped"]);
    let error = task.take_result().unwrap().unwrap_err();
    assert_eq!(error.to_string(), "the task was cancelled: too late");
}

#[test]
fn b_task_13_a_task_that_cancels_itself_is_cancelled_however_it_ends() {
    let mut event_loop = new_loop();
    let trace = Trace::new();
    let value = trace.on_drop("value dropped");
    let returns = event_loop.spawn(async move {
        assert!(current_task().unwrap().cancel());
        value
    });
    turn(&mut event_loop);
    assert!(returns.is_cancelled());
    assert_eq!(trace.take(), ["value dropped"]);
    let panics = event_loop.spawn(async {
        current_task().unwrap().cancel();
        panic!("wins");
    });
    let log = trace.clone();
    let suspends = event_loop.spawn(async move {
        current_task().unwrap().cancel();
        log.push("before");
        yield_now().await;
        log.push("not reached");
    });
    turn(&mut event_loop);
    assert!(matches!(panics.take_result(), Some(Err(TaskError::Panicked(_)))));
    turn(&mut event_loop);
    assert!(suspends.is_cancelled());
    assert_eq!(trace.take(), ["before"]);
}

#[test]
fn b_task_14_what_is_ready_without_suspending_never_sees_a_request() {
    let mut event_loop = new_loop();
    let trace = Trace::new();
    let log = trace.clone();
    let task = event_loop.spawn(async move {
        current_task().unwrap().cancel();
        ready(()).await;
        ready(()).await;
        log.push("all of it");
    });
    turn(&mut event_loop);
    assert_eq!(trace.take(), ["all of it"]);
    assert!(task.is_cancelled());
}

#[test]
fn b_task_15_several_requests_are_one_and_the_first_reason_stays() {
    let mut event_loop = new_loop();
    let (body, polls) = count_polls(pending::<()>());
    let task = event_loop.spawn(body);
    turn(&mut event_loop);
    assert!(task.cancel_with("first") && task.cancel_with("second") && task.abort());
    let child = event_loop.spawn(task);
    turn(&mut event_loop);
    turn(&mut event_loop);
    let error = child.take_result().unwrap().unwrap().unwrap_err();
    assert_eq!(error.to_string(), "the task was cancelled: first"); // b_task_20
    assert_eq!(polls.get(), 1);
}

#[test]
fn b_task_19_a_cancelled_child_does_not_make_its_parent_cancelled() {
    let mut event_loop = new_loop();
    let child = event_loop.spawn(pending::<()>());
    child.cancel();
    let parent = event_loop.spawn(async move { child.await.is_err_and(|e| e.is_cancelled()) });
    turn(&mut event_loop);
    turn(&mut event_loop);
    assert!(!parent.is_cancelled());
    assert!(parent.take_result().unwrap().unwrap());
}

#[test]
fn b_task_22_an_abort_is_the_outcome_and_ends_the_run() {
    let _watchdog = watchdog();
    let mut event_loop = new_loop();
    let trace = Trace::new();
    let value = trace.on_drop("body dropped");
    let aborts = event_loop.spawn(async move {
        yield_now().await;
        keep(&value);
        LoopAbort { code: 5 }.raise();
    });
    let waits = event_loop.spawn(aborts);
    let run = AssertUnwindSafe(|| event_loop.run_forever());
    assert_eq!(catch_unwind(run).unwrap_err().downcast_ref(), Some(&LoopAbort { code: 5 }));
    assert_eq!(trace.take(), ["body dropped"]);
    assert!(current_task().is_none() && !event_loop.is_running());
    assert_eq!(event_loop.tasks().len(), 1, "the task has ended");
    let outcome = event_loop.run_until_complete(waits).unwrap().unwrap();
    let Err(TaskError::Panicked(panic)) = outcome else { panic!("{outcome:?}") };
    assert_eq!(panic.take_payload().unwrap().downcast_ref(), Some(&LoopAbort { code: 5 }));
}

#[test]
fn b_task_22_an_abort_of_a_destructor_ends_the_run_and_the_task() {
    let _watchdog = watchdog();
    let mut event_loop = new_loop();
    let value = OnDrop(|| LoopAbort { code: 6 }.raise());
    let task = event_loop.spawn(async move {
        pending::<()>().await;
        keep(&value);
    });
    turn(&mut event_loop);
    task.cancel();
    let run = AssertUnwindSafe(|| event_loop.run_forever());
    assert_eq!(catch_unwind(run).unwrap_err().downcast_ref(), Some(&LoopAbort { code: 6 }));
    assert!(task.is_cancelled() && event_loop.tasks().is_empty());
    assert!(current_task().is_none());
}

#[test]
fn b_task_23_a_panic_that_nobody_can_see_is_reported() {
    let mut event_loop = new_loop();
    let log = reports(&event_loop);
    let message = |text: &str| format!("task panicked and nobody awaited it: panic \"{text}\"");
    event_loop.spawn(async { panic!("detached") }).detach();
    turn(&mut event_loop);
    assert_eq!(log.take(), [message("detached")]);
    let dropped_later = event_loop.spawn(async { panic!("dropped") });
    turn(&mut event_loop);
    assert_eq!(log.take(), Vec::<String>::new(), "its handle can still see it");
    drop(dropped_later);
    assert_eq!(log.take(), [message("dropped")]);

    let observed = event_loop.spawn(async { panic!("observed") });
    let outcome = event_loop.run_until_complete(observed).unwrap();
    assert_eq!(outcome.unwrap_err().to_string(), "panic \"observed\"");
    let cancelled = event_loop.spawn(pending::<()>());
    cancelled.cancel();
    turn(&mut event_loop);
    drop(cancelled);
    assert_eq!(log.take(), Vec::<String>::new());
}

#[test]
fn b_task_23_an_error_that_nobody_reads_is_reported_where_that_was_asked_for() {
    async fn ends(outcome: Result<u32, &'static str>) -> Result<u32, &'static str> {
        outcome
    }
    let mut event_loop = new_loop();
    let log = reports(&event_loop);
    let message = |text: &str| format!("task failed and nobody awaited it: error \"{text}\"");
    event_loop.spawn(ends(Err("detached"))).report_errors().detach();
    turn(&mut event_loop);
    assert_eq!(log.take(), [message("detached")]);
    let dropped_later = event_loop.spawn(ends(Err("dropped"))).report_errors();
    turn(&mut event_loop);
    assert_eq!(log.take(), Vec::<String>::new(), "its handle can still read it");
    drop(dropped_later);
    assert_eq!(log.take(), [message("dropped")]);

    let read = event_loop.spawn(ends(Err("read"))).report_errors();
    assert_eq!(event_loop.run_until_complete(read).unwrap().unwrap(), Err("read"));
    let cancelled = event_loop.spawn(ends(Err("cancelled"))).report_errors();
    cancelled.cancel();
    event_loop.spawn(ends(Ok(1))).report_errors().detach();
    event_loop.spawn(ends(Err("not asked for"))).detach();
    let fails = |turns: u32| {
        let fails = async move {
            for _ in 0..turns {
                yield_now().await;
            }
            Err::<u32, _>(io::Error::other("of those gathered the others count as read"))
        };
        event_loop.spawn(fails).report_errors()
    };
    let gathered = event_loop.spawn(try_gather([fails(0), fails(3), fails(0)]));
    (0..6).for_each(|_| turn(&mut event_loop));
    assert!(gathered.is_done());
    drop((cancelled, gathered));
    assert_eq!(log.take(), Vec::<String>::new());
    // One whose value ends badly.
    let value = || OnDrop(|| panic!("a value"));
    event_loop.spawn(async move { Ok::<_, &str>(value()) }).report_errors().detach();
    turn(&mut event_loop);
    assert_eq!(log.take(), ["a destructor failed: panic \"a value\""]);
}

#[test]
fn b_task_24_what_is_pending_when_the_loop_goes_is_reported_by_name() {
    let mut event_loop = new_loop();
    let trace = Trace::new();
    let log = trace.clone();
    event_loop.set_exception_handler(Some(Rc::new(move |_, context| {
        let task = context.task.as_ref().unwrap();
        assert_eq!(task.site().file(), file!());
        log.push(format!("{}: {}", task.name(), context.message));
    })));
    let task = event_loop.spawn(sleep(MS));
    task.set_name("sleeper");
    turn(&mut event_loop);
    event_loop.close();
    assert_eq!(trace.take(), ["sleeper: task was destroyed while it was pending"]);
}

#[test]
fn b_task_25_a_queued_step_of_a_cancelled_task_is_one_step() {
    let mut event_loop = new_loop();
    let trace = Trace::new();
    let (body, polls) = count_polls(yield_now());
    let task = event_loop.spawn(body);
    task.add_done_callback(trace.note("done"));
    turn(&mut event_loop); // it is woken already
    task.cancel();
    for _ in 0..3 {
        turn(&mut event_loop);
    }
    assert_eq!((polls.get(), trace.take().len()), (1, 1));
}

#[test]
fn b_task_26_spurious_wakes_cost_one_poll_an_iteration() {
    let mut event_loop = new_loop();
    let waker: Rc<RefCell<Option<Waker>>> = Rc::default();
    let stored = waker.clone();
    let (body, polls) = count_polls(poll_fn(move |cx| {
        *stored.borrow_mut() = Some(cx.waker().clone());
        cx.waker().wake_by_ref(); // during the poll
        cx.waker().wake_by_ref();
        Poll::<()>::Pending
    }));
    let task = event_loop.spawn(body);
    for turns in 1..=5 {
        turn(&mut event_loop);
        assert_eq!(polls.get(), turns);
        for _ in 0..10 {
            waker.borrow().as_ref().unwrap().wake_by_ref();
        }
    }
    task.cancel();
    turn(&mut event_loop);
    let waker = waker.take().unwrap();
    waker.wake_by_ref(); // of a finished task
    turn(&mut event_loop);
    assert_eq!(polls.get(), 5);
    drop(event_loop);
    waker.wake_by_ref(); // of a loop that is gone
    thread::spawn(move || waker.wake()).join().unwrap();
}

#[test]
fn b_task_26_a_late_waker_does_not_wake_the_next_task_in_its_place() {
    let mut event_loop = new_loop();
    let waker: Rc<RefCell<Option<Waker>>> = Rc::default();
    let stored = waker.clone();
    event_loop
        .spawn(poll_fn(move |cx| {
            *stored.borrow_mut() = Some(cx.waker().clone());
            Poll::Ready(())
        }))
        .detach();
    turn(&mut event_loop);
    let (body, polls) = count_polls(pending::<()>());
    event_loop.spawn(body).detach();
    turn(&mut event_loop);
    waker.take().unwrap().wake();
    turn(&mut event_loop);
    assert_eq!(polls.get(), 1);
}

#[test]
fn b_task_27_a_wake_from_another_thread_ends_the_wait() {
    let _watchdog = watchdog();
    run(async {
        for _ in 0..100 {
            let done = Arc::new(Mutex::new((false, None::<Waker>)));
            let theirs = done.clone();
            let thread = thread::spawn(move || {
                let mut shared = theirs.lock().unwrap();
                shared.0 = true;
                let waker = shared.1.take();
                drop(shared);
                waker.inspect(Waker::wake_by_ref)
            });
            poll_fn(|cx| {
                let mut shared = done.lock().unwrap();
                if shared.0 {
                    return Poll::Ready(());
                }
                shared.1 = Some(cx.waker().clone());
                Poll::Pending
            })
            .await;
            thread.join().unwrap();
        }
    })
    .unwrap();
}

static VAR: ContextVar<u32> = ContextVar::new();

#[test]
fn b_task_28_a_task_has_a_context_of_its_own_that_lasts() {
    let mut event_loop = new_loop();
    VAR.set(1);
    let trace = Trace::new();
    let (log, on_drop) = (trace.clone(), trace.clone());
    let value = OnDrop(move || on_drop.push(format!("dropped {:?}", VAR.get())));
    let task = event_loop.spawn(async move {
        log.push(format!("start {:?}", VAR.get()));
        VAR.set(2);
        yield_now().await;
        log.push(format!("again {:?}", VAR.get()));
        keep(&value);
        pending::<()>().await;
    });
    VAR.set(3);
    turn(&mut event_loop);
    let log = trace.clone();
    event_loop.call_soon(move || log.push(format!("callback {:?}", VAR.get())));
    turn(&mut event_loop);
    task.cancel();
    turn(&mut event_loop);
    assert_eq!(
        trace.take(),
        ["start Some(1)", "again Some(2)", "callback Some(3)", "dropped Some(2)"]
    );
    assert_eq!(VAR.get(), Some(3));
}

#[test]
fn b_task_29_spawning_on_a_closed_loop_leaks_nothing() {
    let mut event_loop = new_loop();
    event_loop.close();
    let (body, polls) = count_polls(ready(()));
    let alive = Rc::new(());
    let witness = alive.clone();
    let task = event_loop.spawn(async move {
        body.await;
        keep(&witness);
    });
    assert_eq!((polls.get(), Rc::strong_count(&alive)), (0, 1));
    assert!(task.is_done() && event_loop.tasks().is_empty());
    assert!(matches!(task.take_result(), Some(Err(TaskError::Closed))));
}

#[test]
fn b_task_30_the_body_is_gone_before_done_callbacks_run() {
    let mut event_loop = new_loop();
    let trace = Trace::new();
    let value = trace.on_drop("body dropped");
    let log = trace.clone();
    let task = event_loop.spawn(async move {
        keep(&value);
        log.push("returns");
    });
    task.add_done_callback(trace.note("done"));
    let panics = trace.on_drop("panicking body dropped");
    let other = event_loop.spawn(async move {
        keep(&panics);
        panic!();
    });
    other.add_done_callback(trace.note("other done"));
    turn(&mut event_loop);
    turn(&mut event_loop);
    let expected = ["returns", "body dropped", "panicking body dropped", "done", "other done"];
    assert_eq!(trace.take(), expected);
    assert!(other.take_result().is_some());
}

#[test]
fn b_task_31_destructors_of_a_body_run_with_the_task_current_and_the_loop_usable() {
    let mut event_loop = new_loop();
    let trace = Trace::new();
    let (lp, log) = (event_loop.loop_ref(), trace.clone());
    let value = OnDrop(move || {
        log.push(current_task().unwrap().name().to_string());
        lp.call_soon(log.note("scheduled by the destructor"));
        let log = log.clone();
        lp.spawn(async move { log.push("spawned by the destructor") }).detach();
        assert!(!lp.is_closed() && lp.is_running());
    });
    let task = event_loop.spawn(async move {
        keep(&value);
        pending::<()>().await;
    });
    task.set_name("dying");
    turn(&mut event_loop);
    task.cancel();
    turn(&mut event_loop);
    turn(&mut event_loop);
    let scheduled = ["dying", "scheduled by the destructor", "spawned by the destructor"];
    assert_eq!(trace.take(), scheduled);
}

#[test]
fn chains_of_100_000_tasks_end_without_recursion() {
    let _watchdog = watchdog();
    const LENGTH: u32 = 100_000;
    fn chain(event_loop: &EventLoop) -> Task<u32> {
        let mut last = event_loop.spawn(async {
            pending::<()>().await;
            0
        });
        for _ in 1..LENGTH {
            last = event_loop.spawn(async move { last.await.unwrap_or(7) });
        }
        last
    }
    // Cancelled from its last link: each hop is a step.
    let mut event_loop = new_loop();
    let last = chain(&event_loop);
    turn(&mut event_loop);
    last.cancel();
    let mut turns = 0;
    while !event_loop.tasks().is_empty() {
        turn(&mut event_loop);
        turns += 1;
        if turns % 1_000 == 0 && turns > LENGTH + 10 {
            panic!("the chain does not end");
        }
        // Listing all tasks is O(n): go on without asking for a while.
        for _ in 0..999 {
            turn(&mut event_loop);
            turns += 1;
        }
    }
    assert!(last.is_cancelled());
    // Closed in the middle.
    let mut event_loop = new_loop();
    event_loop.set_exception_handler(Some(Rc::new(|_, _| ())));
    let last = chain(&event_loop);
    turn(&mut event_loop);
    drop(event_loop);
    assert!(last.is_done());
}

#[test]
fn b_run_01_run_returns_the_value_or_the_error() {
    let _watchdog = watchdog();
    assert_eq!(run(async { 5 }).unwrap(), 5);
    let outcome: Result<(), &str> = run(async { Err("the body's own") }).unwrap();
    assert_eq!(outcome, Err("the body's own"));
    let panics = catch_unwind(|| run(async { panic!("root") }));
    assert_eq!(panics.unwrap_err().downcast_ref(), Some(&"root"));
    assert!(LoopRef::try_current().is_none());
}

#[test]
fn b_run_02_run_is_refused_inside_a_loop() {
    let _watchdog = watchdog();
    let trace = Trace::new();
    let value = trace.on_drop("dropped");
    run(async {
        let refused = run(async move { keep(&value) });
        assert!(matches!(refused, Err(loop_core::LoopError::NestedLoop)));
        assert!(LoopRef::current().is_running());
    })
    .unwrap();
    assert_eq!(trace.take(), ["dropped"]);
}

/// A task that is left over, and notes its end.
fn leave_over(trace: &Trace) {
    let (value, log) = (trace.on_drop("body dropped"), trace.clone());
    let task = spawn(async move {
        keep(&value);
        pending::<()>().await;
    });
    task.add_done_callback(move || log.push("done"));
    task.detach();
}

#[test]
fn b_run_03_tasks_that_are_left_are_cancelled_and_waited_for() {
    let _watchdog = watchdog();
    let trace = Trace::new();
    let reported = Rc::new(RefCell::new(None));
    run(async {
        *reported.borrow_mut() = Some(reports(&LoopRef::current()));
        leave_over(&trace);
        // A destructor that spawns: its task is ended as well.
        let log = trace.clone();
        let value = OnDrop(move || leave_over(&log));
        spawn(async move {
            keep(&value);
            pending::<()>().await;
        })
        .detach();
        yield_now().await;
    })
    .unwrap();
    assert_eq!(trace.take(), ["body dropped", "done", "body dropped", "done"]);
    assert_eq!(reported.take().unwrap().take(), Vec::<String>::new());
    let run = AssertUnwindSafe(|| {
        run(async {
            leave_over(&trace);
            yield_now().await;
            panic!("the root fails");
        })
    });
    assert!(catch_unwind(run).is_err());
    assert_eq!(trace.take(), ["body dropped", "done"]);
}

/// Ends at once, and its destructor panics, or aborts the loop.
struct Ends {
    aborts: bool,
}

impl Future for Ends {
    type Output = u32;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<u32> {
        Poll::Ready(7)
    }
}

impl Drop for Ends {
    fn drop(&mut self) {
        if self.aborts {
            LoopAbort { code: 3 }.raise();
        }
        panic!("late");
    }
}

#[test]
fn b_task_31_a_destructor_that_panics_at_the_end_costs_no_output() {
    for hooked in [false, true] {
        let mut event_loop = EventLoop::new().unwrap();
        let log = reports(&event_loop);
        if hooked {
            struct Nothing;
            impl SpawnHook for Nothing {}
            event_loop.set_spawn_hook(Some(Rc::new(Nothing)));
        }
        // The second one has the memory of the first.
        for _ in 0..2 {
            let task = event_loop.spawn(Ends { aborts: false });
            turn(&mut event_loop);
            assert_eq!(task.take_result().unwrap().unwrap(), 7, "{hooked}");
            assert_eq!(log.take(), ["a destructor failed: panic \"late\""], "{hooked}");
        }
        let task = event_loop.spawn(Ends { aborts: true });
        let abort = catch_unwind(AssertUnwindSafe(|| turn(&mut event_loop))).unwrap_err();
        assert!(abort.is::<LoopAbort>(), "{hooked}");
        assert_eq!(task.take_result().unwrap().unwrap(), 7, "{hooked}");
        assert!(log.take().is_empty(), "{hooked}");
    }
}
