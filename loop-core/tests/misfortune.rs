//! User code that fails where the loop has more to do: the rest is done all the same.

mod common;

use std::future::{pending, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use common::{OnDrop, Trace, turn, watchdog};
use loop_core::sync::{Condition, Event, Lock, Semaphore};
use loop_core::{
    EventLoop, Executor, Interest, IoHandler, Job, LoopAbort, LoopFuture, Readiness, Refused,
    Runner, Task, TaskError, catch_cancelled, run, spawn, timeout, yield_now,
};

struct Panics;

impl Wake for Panics {
    fn wake(self: Arc<Self>) {
        panic_any("a waker of somebody else's");
    }
}

/// Polls once with a waker that panics.
fn wait_badly<F: Future>(future: F) -> Pin<Box<F>> {
    let mut future = Box::pin(future);
    let waker = Waker::from(Arc::new(Panics));
    assert!(future.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    future
}

#[test]
fn an_abort_by_a_destructor_while_closing_left_the_rest_open() {
    struct Handler(#[allow(dead_code)] OnDrop<Box<dyn FnMut()>>);
    impl IoHandler for Handler {
        fn ready(self: Rc<Self>, _: Readiness, _: &mut Vec<u8>) {}
    }
    let trace = Trace::new();
    let mut event_loop = EventLoop::new().unwrap();
    event_loop.set_exception_handler(Some(Rc::new(|_, _| {})));
    let aborts = |code| OnDrop(move || LoopAbort { code }.raise());
    for code in [1, 2] {
        let (value, after) = (aborts(code), trace.on_drop("task"));
        let task = event_loop.spawn(async move {
            let _kept = (value, after);
            pending::<()>().await
        });
        task.detach();
    }
    turn(&mut event_loop);
    let (value, after) = (aborts(3), trace.on_drop("ready"));
    event_loop.call_soon(move || drop((value, after)));
    let (value, after) = (aborts(4), trace.on_drop("timer"));
    event_loop.call_later(Duration::from_secs(1), move || drop((value, after)));
    let (ours, _theirs) = common::pair();
    let log = trace.clone();
    let dropped: Box<dyn FnMut()> = Box::new(move || log.push("handler"));
    event_loop.register_io(ours, Interest::READ, Rc::new(Handler(OnDrop(dropped)))).unwrap();
    event_loop.remote().call_soon(|| ()).unwrap();

    let aborted = catch_unwind(AssertUnwindSafe(|| event_loop.close())).unwrap_err();
    assert_eq!(aborted.downcast_ref(), Some(&LoopAbort { code: 1 }), "the first goes on");
    assert_eq!(trace.take(), ["task", "task", "ready", "timer", "handler"]);
    assert!(event_loop.is_closed() && event_loop.tasks().is_empty());
    event_loop.close();
}

#[test]
fn a_waker_that_panics_kept_others_from_their_turns() {
    let _watchdog = watchdog();
    run(async {
        let event = Event::new();
        let (bad, mut good) = (wait_badly(event.wait()), Box::pin(event.wait()));
        let noop = Waker::noop();
        assert!(good.as_mut().poll(&mut Context::from_waker(noop)).is_pending());
        assert!(catch_unwind(AssertUnwindSafe(|| event.set())).is_err());
        event.clear();
        good.await;
        bad.await;

        let semaphore = Semaphore::new(0);
        let (bad, mut good) = (wait_badly(semaphore.acquire()), Box::pin(semaphore.acquire()));
        assert!(good.as_mut().poll(&mut Context::from_waker(noop)).is_pending());
        assert!(catch_unwind(AssertUnwindSafe(|| semaphore.release(2))).is_err());
        drop((good.await, bad.await));
        assert_eq!(semaphore.available(), 2);

        let (lock, condition) = (Lock::new(), Condition::new());
        let first = lock.acquire().await;
        let bad = wait_badly(condition.wait(first));
        let second = lock.acquire().await;
        let mut good = Box::pin(condition.wait(second));
        assert!(good.as_mut().poll(&mut Context::from_waker(noop)).is_pending());
        let guard = lock.acquire().await;
        assert!(catch_unwind(AssertUnwindSafe(|| condition.notify_all(&guard))).is_err());
        drop(guard);
        drop(good.await);
        drop(bad.await);
    })
    .unwrap();
}

#[test]
fn a_job_that_its_executor_dropped_was_waited_for_for_ever() {
    struct Loses(mpsc::Sender<Job>);
    impl Executor for Loses {
        fn execute(&self, job: Job) -> Result<(), Refused> {
            // The receiver is there as long as the test.
            self.0.send(job).unwrap();
            Ok(())
        }
    }
    let _watchdog = watchdog();
    let (jobs, lost) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        for job in lost {
            drop(job);
        }
    });
    let dropped = Arc::new(());
    let held = dropped.clone();
    run(async move {
        let lp = loop_core::LoopRef::current();
        let outcome = lp.run_blocking_on(&Loses(jobs), move || drop(held)).await;
        let Err(TaskError::Cancelled { reason }) = outcome else { panic!("{outcome:?}") };
        assert!(reason.unwrap().contains("without running it"));
    })
    .unwrap();
    thread.join().unwrap();
    assert_eq!(Arc::strong_count(&dropped), 1, "the closure is gone");
}

#[test]
fn an_abort_while_another_unwinds_ended_the_process() {
    let aborts = |code| OnDrop(move || LoopAbort { code }.raise());
    let held = |value| async move {
        let _held = value;
        pending::<()>().await
    };
    let of_a_loop = catch_unwind(|| {
        let mut event_loop = EventLoop::new().unwrap();
        event_loop.spawn(held(aborts(2))).detach();
        event_loop.call_soon(|| LoopAbort { code: 1 }.raise());
        let _ = event_loop.run_forever();
    });
    let of_a_runner = catch_unwind(|| {
        let mut runner = Runner::new();
        let _ = runner.run(async {
            spawn(held(aborts(2))).detach();
            yield_now().await;
            LoopAbort { code: 1 }.raise()
        });
    });
    for aborted in [of_a_loop, of_a_runner] {
        assert_eq!(aborted.unwrap_err().downcast_ref(), Some(&LoopAbort { code: 1 }));
    }
}

#[test]
fn a_waker_that_aborts_kept_others_from_an_outcome() {
    struct Aborts;
    impl Wake for Aborts {
        fn wake(self: Arc<Self>) {
            LoopAbort { code: 1 }.raise()
        }
    }
    let _watchdog = watchdog();
    let mut event_loop = EventLoop::new().unwrap();
    let outcome: LoopFuture<u32> = event_loop.create_future();
    let mut bad = outcome.clone();
    let waker = Waker::from(Arc::new(Aborts));
    assert!(Pin::new(&mut bad).poll(&mut Context::from_waker(&waker)).is_pending());
    let good = event_loop.spawn(outcome.clone());
    turn(&mut event_loop);
    let aborted = catch_unwind(AssertUnwindSafe(|| outcome.set_result(1))).unwrap_err();
    assert_eq!(aborted.downcast_ref(), Some(&LoopAbort { code: 1 }));
    assert_eq!(event_loop.run_until_complete(good).unwrap().unwrap().unwrap(), 1);
}

/// A loop whose handler ends the run with whatever it is told.
fn strict_loop() -> EventLoop {
    let event_loop = EventLoop::new().unwrap();
    event_loop.set_exception_handler(Some(Rc::new(|_, _| LoopAbort { code: 7 }.raise())));
    event_loop
}

/// Runs, and once more after the abort.
fn run_to_the_abort_and_on<T>(event_loop: &mut EventLoop, task: Task<T>) -> Result<T, TaskError> {
    let aborted = catch_unwind(AssertUnwindSafe(|| event_loop.run_forever())).unwrap_err();
    assert_eq!(aborted.downcast_ref(), Some(&LoopAbort { code: 7 }));
    event_loop.run_until_complete(task).unwrap()
}

#[test]
fn a_handler_that_aborts_for_a_waker_left_a_task_that_never_ended() {
    let _watchdog = watchdog();
    let mut event_loop = strict_loop();
    let task = event_loop.spawn(async {
        let mut catching = Box::pin(catch_cancelled(pending::<()>()));
        let waker = Waker::from(Arc::new(Panics));
        poll_fn(|_| match catching.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(Err(cancelled)) => {
                cancelled.swallow();
                Poll::Ready(1)
            }
            Poll::Ready(Ok(())) => unreachable!(),
            Poll::Pending => Poll::Pending,
        })
        .await
    });
    turn(&mut event_loop);
    task.cancel();
    assert_eq!(run_to_the_abort_and_on(&mut event_loop, task).unwrap(), 1);
}

#[test]
fn a_handler_that_aborts_for_an_output_left_its_task_without_an_end() {
    let _watchdog = watchdog();
    let mut event_loop = strict_loop();
    let task = event_loop.spawn(async {
        loop_core::current_task().unwrap().cancel();
        OnDrop(|| panic_any("an output nobody wants"))
    });
    let outcome = run_to_the_abort_and_on(&mut event_loop, task);
    assert!(outcome.is_err_and(|error| error.is_cancelled()));
}

#[test]
fn a_handler_that_aborts_for_a_scope_left_its_task_without_an_end() {
    struct PanicsInTheEnd(#[allow(dead_code)] std::sync::Mutex<OnDrop<Box<dyn FnMut() + Send>>>);
    impl Wake for PanicsInTheEnd {
        fn wake(self: Arc<Self>) {}
    }
    let _watchdog = watchdog();
    let mut event_loop = strict_loop();
    let kept = Rc::new(std::cell::RefCell::new(None));
    let keep = kept.clone();
    let task = event_loop.spawn(async move {
        let mut scope = Box::pin(timeout(Duration::from_secs(60), pending::<()>()));
        let panics: Box<dyn FnMut() + Send> = Box::new(|| panic_any("a waker's destructor"));
        let waker = Waker::from(Arc::new(PanicsInTheEnd(OnDrop(panics).into())));
        assert!(scope.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        *keep.borrow_mut() = Some(scope);
    });
    assert!(run_to_the_abort_and_on(&mut event_loop, task).is_ok());
    assert!(kept.borrow().is_some());
}

#[test]
fn what_a_waker_raised_kept_others_from_their_turns_when_it_was_dropped() {
    type Raised = OnDrop<Box<dyn FnMut() + Send>>;
    struct Raises;
    impl Wake for Raises {
        fn wake(self: Arc<Self>) {
            let raised: Raised = OnDrop(Box::new(|| panic_any("a payload's destructor")));
            panic_any(raised);
        }
    }
    let _watchdog = watchdog();
    run(async {
        let event = Event::new();
        let waker = Waker::from(Arc::new(Raises));
        let mut waits: Vec<_> = (0..3).map(|_| Box::pin(event.wait())).collect();
        for wait in &mut waits {
            assert!(wait.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        }
        let Err(raised) = catch_unwind(AssertUnwindSafe(|| event.set())) else { unreachable!() };
        assert!(catch_unwind(AssertUnwindSafe(|| drop(raised))).is_err());
        event.clear();
        for wait in waits {
            wait.await;
        }
    })
    .unwrap();
}
