//! Futures that bring over what runs on another loop. Two loops of one thread take turns here, so nothing is
//! a matter of timing.

mod common;

use std::cell::Cell;
use std::future::pending;
use std::rc::Rc;

use common::{reports, turn};
use loop_core::{
    EventLoop, FutureError, LoopFuture, RemoteFuture, TaskError, catch_cancelled, yield_now,
};

/// Where the work is done, and where its outcome is wanted.
struct Loops {
    there: EventLoop,
    here: EventLoop,
}

impl Loops {
    fn new() -> Loops {
        Loops { there: EventLoop::new().unwrap(), here: EventLoop::new().unwrap() }
    }

    fn spawn<T: Send + 'static, F: Future<Output = T> + 'static>(
        &self,
        f: impl FnOnce() -> F + Send + 'static,
    ) -> RemoteFuture<T> {
        self.there.remote().spawn(f).unwrap()
    }

    fn turns(&mut self) {
        for _ in 0..8 {
            turn(&mut self.there);
            turn(&mut self.here);
        }
    }
}

#[test]
fn b_fut_17_value_and_error_come_over_to_all_who_wait() {
    let mut loops = Loops::new();
    let remote = loops.spawn(|| async {
        yield_now().await;
        7
    });
    let future = loops.here.wrap_future(remote);
    let calls = Rc::new(Cell::new(0));
    let count = calls.clone();
    future.add_done_callback(move || count.set(count.get() + 1));
    let tasks = [future.clone(), future.clone()].map(|future| loops.here.spawn(future));
    turn(&mut loops.here);
    assert!(!future.is_done());
    loops.turns();
    assert_eq!((future.result().unwrap(), calls.get()), (7, 1));
    for task in tasks {
        assert_eq!(task.take_result().unwrap().unwrap().unwrap(), 7);
    }

    let remote = loops.spawn(|| async { panic!("over there") });
    let future: LoopFuture<(), TaskError> = loops.here.wrap_future(remote);
    loops.turns();
    match future.result() {
        Err(FutureError::Failed(TaskError::Panicked(panic))) => {
            assert_eq!(panic.message(), "over there")
        }
        other => panic!("{other:?}"),
    }
    assert!(loops.here.tasks().is_empty() && loops.there.tasks().is_empty());
}

#[test]
fn b_fut_17_an_error_that_nobody_reads_is_reported_here_once() {
    let mut loops = Loops::new();
    let (there, here) = (reports(&loops.there), reports(&loops.here));
    let remote = loops.spawn(|| async { panic!("over there") });
    drop(loops.here.wrap_future::<()>(remote));
    loops.turns();
    assert_eq!(there.take(), Vec::<String>::new());
    assert_eq!(here.take(), ["the error of a future was never retrieved"]);
}

#[test]
fn b_fut_17_cancelling_the_future_cancels_the_task() {
    let mut loops = Loops::new();
    let remote = loops
        .spawn(|| async { catch_cancelled(pending::<()>()).await.unwrap_err().propagate().await });
    let future = loops.here.wrap_future(remote);
    loops.turns();
    assert_eq!(loops.there.tasks().len(), 1);
    assert!(future.cancel());
    loops.turns();
    assert!(loops.there.tasks().is_empty() && loops.here.tasks().is_empty());
    assert!(future.is_cancelled());
}

#[test]
fn b_fut_17_cancelling_who_waits_cancels_future_and_task() {
    let mut loops = Loops::new();
    let remote = loops.spawn(pending::<()>);
    let future = loops.here.wrap_future(remote);
    let waits = loops.here.spawn(future.clone());
    loops.turns();
    waits.cancel();
    loops.turns();
    assert!(waits.is_cancelled());
    // Another handle of the future is here still: only cancelling it cancels it.
    assert!(!future.is_done() && loops.there.tasks().len() == 1);
    future.cancel();
    loops.turns();
    assert!(loops.there.tasks().is_empty());
}

#[test]
fn b_fut_17_cancelling_the_task_cancels_the_future() {
    let mut loops = Loops::new();
    let remote = loops.spawn(pending::<()>);
    let future = loops.here.wrap_future(remote);
    loops.turns();
    loops.there.tasks()[0].cancel_with("over there");
    loops.turns();
    match future.result() {
        Err(FutureError::Cancelled { reason }) => assert_eq!(reason.as_deref(), Some("over there")),
        other => panic!("{other:?}"),
    }
}

#[test]
fn b_fut_17_the_bridge_cancelled_by_a_sweep_of_all_tasks_cancels_both() {
    let mut loops = Loops::new();
    let remote = loops.spawn(pending::<()>);
    let future = loops.here.wrap_future(remote);
    loops.turns();
    for task in loops.here.tasks() {
        assert_eq!(&*task.name(), "wrap_future");
        task.cancel();
    }
    loops.turns();
    assert!(future.is_cancelled() && loops.there.tasks().is_empty());
}

#[test]
fn b_fut_17_a_loop_that_closes_over_there_is_an_error() {
    let mut loops = Loops::new();
    let remote = loops.spawn(pending::<()>);
    let future = loops.here.wrap_future(remote);
    loops.turns();
    loops.there.set_exception_handler(Some(Rc::new(|_, _| ())));
    loops.there.close();
    turn(&mut loops.here);
    assert!(matches!(future.result(), Err(FutureError::Failed(TaskError::Closed))));
}

#[test]
fn b_fut_17_a_result_that_was_set_here_first_stays() {
    let mut loops = Loops::new();
    let log = reports(&loops.here);
    let remote = loops.spawn(|| async {
        for _ in 0..3 {
            yield_now().await;
        }
        7
    });
    let future = loops.here.wrap_future(remote);
    future.set_result(8).unwrap();
    loops.turns();
    assert_eq!(future.result().unwrap(), 8);
    assert_eq!(log.take(), Vec::<String>::new());
    assert!(loops.there.tasks().is_empty() && loops.here.tasks().is_empty());
}

#[test]
fn b_fut_18_what_comes_after_the_loop_closed_is_dropped() {
    let mut loops = Loops::new();
    let (there, here) = (reports(&loops.there), reports(&loops.here));
    let ended = Rc::new(Cell::new(false));
    SHARED.set(Some(ended.clone()));
    let remote = loops.spawn(|| async {
        let ended = SHARED.take().unwrap();
        for _ in 0..10 {
            yield_now().await;
        }
        ended.set(true);
        7
    });
    let future = loops.here.wrap_future(remote);
    loops.turns();
    loops.here.close();
    assert!(future.is_cancelled() && !ended.get());
    for _ in 0..6 {
        turn(&mut loops.there);
    }
    assert!(ended.get(), "it was left alone");
    assert!(loops.there.tasks().is_empty() && future.is_cancelled());
    assert_eq!(there.take(), Vec::<String>::new());
    assert_eq!(here.take(), ["task was destroyed while it was pending"]);
    // Wrapped by a loop that is closed already.
    let remote = loops.spawn(|| async { 7 });
    assert!(loops.here.wrap_future(remote).is_cancelled());
    turn(&mut loops.there);
    turn(&mut loops.there);
    assert!(loops.there.tasks().is_empty());
}

thread_local! {
    /// What the task over there gets: it runs on this thread, but must be `Send`.
    static SHARED: std::cell::RefCell<Option<Rc<Cell<bool>>>> = const { std::cell::RefCell::new(None) };
}
