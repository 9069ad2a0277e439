//! Error reporting.

mod common;

use std::cell::Cell;
use std::error::Error;
use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::rc::Rc;
use std::time::Duration;

use common::{OnDrop, Trace, keep, reports, turn};
use loop_core::sync::{Barrier, Queue, Semaphore, Shutdown};
use loop_core::{
    Context, ContextVar, EventLoop, ExceptionContext, Executor, ExecutorTimeout, Failure,
    LoopAbort, LoopFuture, LoopRef, Severity, TaskGroup, ThreadPool, catch_cancelled,
};

fn new_loop() -> EventLoop {
    EventLoop::new().unwrap()
}

/// Notes whole contexts in a user's own words.
fn set_handler(lp: &LoopRef, f: impl Fn(&LoopRef, &ExceptionContext) + 'static) {
    lp.set_exception_handler(Some(Rc::new(f)));
}

#[test]
fn b_exc_01_a_panic_or_an_error_is_reported_and_the_next_callback_runs() {
    let mut event_loop = new_loop();
    let trace = Trace::new();
    let log = trace.clone();
    set_handler(&event_loop, move |_, context| {
        let handle = context.handle.as_ref().unwrap();
        assert_eq!(handle.site().file(), file!());
        assert!(handle.name().contains("b_exc_01"));
        assert_eq!(context.severity, Severity::Error);
        match context.failure.as_ref().unwrap() {
            Failure::Panic(panic) => log.push(format!("{}: {}", context.message, panic.message())),
            Failure::Error(error) => log.push(format!("{}: {error}", context.message)),
            other => panic!("unknown failure {other:?}"),
        }
    });
    event_loop.call_soon(|| panic!("first"));
    event_loop.call_soon(trace.note("second"));
    event_loop.call_soon(|| Err("third"));
    event_loop.call_later(Duration::ZERO, || panic!("fourth {}", 4));
    turn(&mut event_loop);
    assert_eq!(
        trace.take(),
        ["callback failed: first", "second", "callback failed: third", "callback failed: fourth 4"]
    );
}

#[test]
fn b_exc_02_a_report_is_one_line_with_its_fields_in_order() {
    let mut context = ExceptionContext::new("something failed")
        .with_failure(Failure::Error("why".into()))
        .with_subject("fd 7");
    context.duration = Some(Duration::from_millis(1500));
    assert_eq!(
        context.to_string(),
        "something failed; duration 1.500 s; failure error \"why\"; subject fd 7"
    );
    assert_eq!(ExceptionContext::new("").to_string(), "unhandled error in the event loop");
}

#[test]
fn b_exc_03_the_handler_may_call_anything_and_none_restores_the_default() {
    let mut event_loop = new_loop();
    let trace = Trace::new();
    let log = trace.clone();
    set_handler(&event_loop, move |lp, context| {
        log.push(context.message.clone());
        assert!(lp.exception_handler().is_some());
        lp.set_exception_handler(None);
        lp.call_soon(log.note("scheduled by the handler"));
        lp.spawn(async {}).detach();
        lp.stop();
    });
    event_loop.call_soon(|| panic!("one"));
    event_loop.run_forever().unwrap();
    turn(&mut event_loop);
    assert_eq!(trace.take(), ["callback failed", "scheduled by the handler"]);
    assert!(event_loop.exception_handler().is_none());
}

#[test]
fn b_exc_04_a_handler_that_panics_ends_nothing() {
    let mut event_loop = new_loop();
    let trace = Trace::new();
    let calls = Rc::new(Cell::new(0));
    let counted = calls.clone();
    set_handler(&event_loop, move |_, _| {
        counted.set(counted.get() + 1);
        panic!("the handler itself");
    });
    event_loop.call_soon(|| panic!("one"));
    event_loop.call_soon(trace.note("goes on"));
    turn(&mut event_loop);
    assert_eq!(trace.take(), ["goes on"]);
    assert_eq!(calls.get(), 1, "the failure of the handler goes to the default report");
}

#[test]
fn b_exc_05_an_abort_from_a_handler_propagates() {
    let mut event_loop = new_loop();
    let trace = Trace::new();
    set_handler(&event_loop, |_, _| LoopAbort { code: 9 }.raise());
    event_loop.call_soon(|| panic!("one"));
    event_loop.call_soon(trace.note("kept"));
    let run = AssertUnwindSafe(|| event_loop.run_forever());
    assert_eq!(catch_unwind(run).unwrap_err().downcast_ref(), Some(&LoopAbort { code: 9 }));
    assert!(!event_loop.is_running());
    turn(&mut event_loop);
    assert_eq!(trace.take(), ["kept"]);
}

static USER: ContextVar<&str> = ContextVar::new();

/// A handler that notes the variable it sees.
fn note_user(lp: &LoopRef) -> Trace {
    let trace = Trace::new();
    let log = trace.clone();
    set_handler(lp, move |_, _| log.push(USER.get().unwrap_or("nobody")));
    trace
}

#[test]
fn b_exc_06_the_handler_runs_in_the_context_of_the_callback() {
    let mut event_loop = new_loop();
    let seen = note_user(&event_loop);
    let context = Context::new();
    context.run(|| USER.set("explicit")).ok();
    USER.set("captured");
    event_loop.call_soon(|| panic!());
    event_loop.call_soon_in(&context, || panic!());
    USER.set("outside");
    turn(&mut event_loop);
    assert_eq!(seen.take(), ["captured", "explicit"]);
}

#[test]
fn b_exc_06_the_handler_runs_in_the_context_of_the_task() {
    let mut event_loop = new_loop();
    let seen = note_user(&event_loop);
    let pending = async || {
        USER.set("the task's");
        std::future::pending::<()>().await;
    };
    event_loop.spawn(pending()).detach();
    turn(&mut event_loop);
    event_loop.close();
    assert_eq!(seen.take(), ["the task's"]);
}

#[test]
fn b_exc_06_the_handler_runs_in_the_context_of_a_task_that_panicked() {
    let mut event_loop = new_loop();
    let seen = note_user(&event_loop);
    let panics = async || {
        USER.set("the task's");
        panic!("unobserved");
    };
    event_loop.spawn(panics()).detach();
    turn(&mut event_loop);
    assert_eq!(seen.take(), ["the task's"]);
}

#[test]
fn b_exc_07_the_fields_that_apply_are_set() {
    let mut event_loop = EventLoop::builder().debug(true).build().unwrap();
    event_loop.set_slow_callback_duration(Duration::ZERO);
    let trace = Trace::new();
    let log = trace.clone();
    set_handler(&event_loop, move |_, context| {
        let fields = [
            ("handle", context.handle.is_some()),
            ("task", context.task.is_some()),
            ("callback", context.callback.is_some()),
            ("failure", context.failure.is_some()),
            ("duration", context.duration.is_some()),
            ("subject", context.subject.is_some()),
        ];
        let set: Vec<&str> = fields.iter().filter(|(_, set)| *set).map(|(name, _)| *name).collect();
        log.push(set.join(" "));
    });
    event_loop.call_soon(|| ());
    event_loop.remote().call_soon(|| Err("x")).unwrap();
    event_loop.spawn(async { std::future::pending::<()>().await }).detach();
    turn(&mut event_loop);
    let mut sets = trace.take();
    sets.sort(); // whether a failure or its slowness is reported first is not promised
    assert_eq!(sets, ["callback duration", "callback failure", "handle duration", "task duration"]);
}

#[test]
fn b_exc_08_a_payload_that_is_no_string_is_named_and_kept() {
    let mut event_loop = new_loop();
    let trace = Trace::new();
    let log = trace.clone();
    set_handler(&event_loop, move |_, context| {
        let Some(Failure::Panic(panic)) = &context.failure else { unreachable!() };
        assert!(panic.message().starts_with("a payload of TypeId("));
        let payload = panic.take_payload().unwrap();
        log.push(format!("{:?}", payload.downcast_ref::<u32>()));
        assert!(panic.take_payload().is_none());
    });
    event_loop.call_soon(|| panic_any(7_u32));
    turn(&mut event_loop);
    assert_eq!(trace.take(), ["Some(7)"]);
}

#[test]
fn b_exc_08_a_panic_while_formatting_is_contained() {
    #[derive(Debug)]
    struct Unprintable;
    impl fmt::Display for Unprintable {
        fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
            panic!("cannot be shown");
        }
    }
    impl std::error::Error for Unprintable {}

    let mut event_loop = new_loop();
    let trace = Trace::new();
    event_loop.call_soon(|| Err(Unprintable)); // the default report formats it
    event_loop.call_soon(trace.note("goes on"));
    turn(&mut event_loop);
    assert_eq!(trace.take(), ["goes on"]);
}

/// Not a test of its own: what the next one runs in a process in which no panic unwinds. An abort from the
/// hook is what `panic = "abort"` does.
#[test]
fn child_without_unwinding() {
    let Ok(how) = std::env::var("LOOP_CORE_CHILD") else { return };
    std::panic::set_hook(Box::new(|_| std::process::abort()));
    let mut event_loop = new_loop();
    let log = reports(&event_loop);
    event_loop.call_soon(|| Err("callback"));
    event_loop.call_later(Duration::ZERO, || Err("timer"));
    let task = event_loop.spawn(async { Err::<(), _>("task") });
    let group = event_loop.spawn(TaskGroup::scope(async |group: TaskGroup<&str>| {
        group.spawn(async { Err::<(), _>("child") });
        std::future::pending::<()>().await;
        Ok(())
    }));
    let cancelled = event_loop.spawn(async {
        let cancelled = catch_cancelled(std::future::pending::<()>()).await.unwrap_err();
        cancelled.propagate().await
    });
    for _ in 0..5 {
        turn(&mut event_loop);
        cancelled.cancel();
    }
    assert_eq!(
        log.take(),
        ["callback failed: error \"callback\"", "callback failed: error \"timer\""]
    );
    assert_eq!(task.take_result().unwrap().unwrap(), Err("task"));
    assert!(group.take_result().unwrap().unwrap().is_err());
    assert!(cancelled.take_result().unwrap().unwrap_err().is_cancelled());
    println!("errors are reported.");
    if how == "panic" {
        event_loop.call_soon(|| panic!("it does not unwind"));
        turn(&mut event_loop);
        println!("caught.");
    }
}

#[test]
fn b_exc_09_where_panics_abort_errors_are_still_reported() {
    use std::os::unix::process::ExitStatusExt;
    for (how, signal) in [("errors", None), ("panic", Some(6))] {
        let output = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child_without_unwinding", "--nocapture"])
            .env("LOOP_CORE_CHILD", how)
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert_eq!(output.status.signal(), signal, "{how}: {text}");
        assert!(text.contains("errors are reported.") && !text.contains("caught."), "{text}");
    }
}

#[test]
fn a_destructor_that_panics_is_reported_wherever_the_loop_drops() {
    let mut event_loop = new_loop();
    event_loop.set_debug(true); // its measurements hold what ran, too
    event_loop.set_slow_callback_duration(Duration::MAX);
    let log = reports(&event_loop);
    let fails = || OnDrop(|| panic!("destructor"));
    let once = fails();
    event_loop.call_soon(move || keep(&once));
    let repeating = fails();
    event_loop.call_handle(&loop_core::Handle::repeating(move || keep(&repeating)));
    let body = fails();
    event_loop.spawn(async move { keep(&body) }).detach();
    event_loop.spawn(async { OnDrop(|| panic!("destructor")) }).detach();
    event_loop.call_soon(|| panic_any(OnDrop(|| panic!("destructor"))));
    turn(&mut event_loop);
    let lines = log.take();
    assert_eq!(lines[0], "callback failed: panic \"destructor\"");
    assert_eq!(lines[1], "a destructor failed: panic \"destructor\"");
    assert_eq!(lines.len(), 6, "{lines:?}");
}

/// The contract's D-6: in a program that returns `io::Result`, a `?` is enough.
#[test]
fn every_error_becomes_an_io_error_that_says_the_same() {
    fn same<E: Error + Into<io::Error>>(error: E, kind: io::ErrorKind) {
        let text = error.to_string();
        let converted: io::Error = error.into();
        assert_eq!((converted.to_string(), converted.kind()), (text, kind));
    }
    use io::ErrorKind::{Other, TimedOut, WouldBlock};

    let queue = Queue::bounded(1.try_into().unwrap());
    same(queue.try_get().unwrap_err(), WouldBlock);
    queue.try_put(Rc::new(())).unwrap();
    same(queue.try_put(Rc::new(())).unwrap_err(), WouldBlock);
    queue.shutdown(Shutdown::Immediate);
    same(queue.try_get().unwrap_err(), Other);
    same(queue.try_put(Rc::new(())).unwrap_err(), Other);

    let mut event_loop = new_loop();
    let future: LoopFuture<_, String> = event_loop.create_future();
    same(future.result().unwrap_err(), Other);
    future.set_result(1).unwrap();
    same(future.set_result(2).unwrap_err(), Other);
    let semaphore = Semaphore::bounded(1);
    same(semaphore.release(1).unwrap_err(), Other);
    let barrier = Barrier::new(1.try_into().unwrap());
    barrier.abort();
    let (broken, put, got, failed) = event_loop
        .run_until_complete(async {
            let failed = TaskGroup::scope(async |_| Err::<(), _>("no".to_owned())).await;
            (barrier.wait().await, queue.put(Rc::new(())).await, queue.get().await, failed)
        })
        .unwrap();
    same(broken.unwrap_err(), Other);
    same(put.unwrap_err(), Other);
    same(got.unwrap_err(), Other);
    let failed = failed.unwrap_err();
    same(failed.errors[0].clone(), Other);
    same(failed, Other);
    same(loop_core::catch_panic(|| panic!("ouch")).unwrap_err(), Other);

    let pool = ThreadPool::new(1.try_into().unwrap());
    pool.shutdown();
    let refused: io::Error = pool.execute(Box::new(|| ())).unwrap_err().into();
    assert_eq!(refused.to_string(), "the thread pool is shut down");
    same(ExecutorTimeout, TimedOut);
}
