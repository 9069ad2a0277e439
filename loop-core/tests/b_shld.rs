//! Shielded tasks, and who forwards a request to a task (C10).

mod common;

use std::future::{Future, pending, poll_fn};
use std::rc::Rc;
use std::task::Poll;

use common::{Trace, reports, turn};
use loop_core::{EventLoop, LoopFuture, Task, gather, shield, yield_now};

fn new_loop() -> EventLoop {
    EventLoop::new().unwrap()
}

fn turns(event_loop: &mut EventLoop, count: usize) {
    for _ in 0..count {
        turn(event_loop);
    }
}

#[test]
fn b_shld_01_the_outer_end_leaves_the_inner_running() {
    let mut event_loop = new_loop();
    let inner = event_loop.spawn(async {
        for _ in 0..4 {
            yield_now().await;
        }
        "done"
    });
    let done = inner.task_ref();
    let outer = event_loop.spawn(shield(inner));
    turn(&mut event_loop);
    outer.cancel();
    turn(&mut event_loop);
    assert!(outer.is_cancelled() && !done.is_done());
    assert_eq!(done.cancelling(), 0);
    turns(&mut event_loop, 4);
    assert!(done.is_done() && !done.is_cancelled());
}

#[test]
fn b_shld_02_the_inner_end_is_the_outer_outcome() {
    let mut event_loop = new_loop();
    let cancelled = event_loop.spawn(pending::<()>());
    let canceller = cancelled.task_ref();
    let outer = event_loop.spawn(shield(cancelled));
    let value = event_loop.spawn(shield(event_loop.spawn(async { 5 })));
    let panics = event_loop.spawn(shield(event_loop.spawn(async { panic!("inner") })));
    turn(&mut event_loop);
    canceller.cancel_with("inner");
    turns(&mut event_loop, 4);
    let error = outer.take_result().unwrap().unwrap().unwrap_err();
    assert_eq!(error.to_string(), "the task was cancelled: inner");
    assert!(!outer.is_cancelled(), "the awaiting code has the error in its hands");
    assert_eq!(value.take_result().unwrap().unwrap().unwrap(), 5);
    let panics: Task<Result<(), _>> = panics;
    assert!(panics.take_result().unwrap().unwrap().is_err());
    // A gather of shields.
    let children = [event_loop.spawn(async { 1 }), event_loop.spawn(async { 2 })];
    let both = gather(children.map(|child| event_loop.spawn(shield(child))));
    let sum = event_loop.run_until_complete(async { both.await.unwrap() }).unwrap();
    let sum: Vec<i32> = sum.into_iter().map(Result::unwrap).collect();
    assert_eq!(sum, [1, 2]);
}

#[test]
fn b_shld_03_a_task_that_has_ended_gives_its_outcome_at_once() {
    let mut event_loop = new_loop();
    let inner = event_loop.spawn(async { 5 });
    turn(&mut event_loop);
    let mut shielded = Box::pin(shield(inner));
    let polled = event_loop
        .run_until_complete(poll_fn(|cx| Poll::Ready(shielded.as_mut().poll(cx))))
        .unwrap();
    assert!(matches!(polled, Poll::Ready(Ok(5))));
}

#[test]
fn b_shld_04_a_shield_that_is_dropped_leaves_nothing_with_the_task() {
    let mut event_loop = new_loop();
    let future: LoopFuture<(), ()> = event_loop.create_future();
    let inner = event_loop.spawn({
        let future = future.clone();
        async move { future.await.is_ok() }
    });
    let inner_ref = inner.task_ref();
    let watchers: Vec<Task<()>> = (0..100)
        .map(|_| {
            let watch = inner_ref.watch();
            event_loop.spawn(watch)
        })
        .collect();
    let outer = event_loop.spawn(shield(inner));
    turn(&mut event_loop);
    for task in &watchers {
        task.cancel();
    }
    outer.cancel();
    turn(&mut event_loop);
    assert_eq!(inner_ref.cancelling(), 0);
    // Its end wakes nobody who is gone: each of the tasks is off the table by now.
    assert_eq!(event_loop.tasks().len(), 1);
    future.set_result(()).unwrap();
    turns(&mut event_loop, 3);
    assert!(inner_ref.is_done());
}

#[test]
fn b_shld_05_a_panic_behind_a_dropped_shield_is_reported_once() {
    let mut event_loop = new_loop();
    let log = reports(&event_loop);
    let inner = event_loop.spawn(async {
        yield_now().await;
        yield_now().await;
        panic!("late");
    });
    let outer = event_loop.spawn(shield::<()>(inner));
    turn(&mut event_loop);
    outer.cancel();
    turns(&mut event_loop, 5);
    assert_eq!(log.take(), ["task panicked and nobody awaited it: panic \"late\""]);
}

#[test]
fn c10_an_awaited_task_gets_one_request_and_a_detached_or_watched_one_none() {
    let mut event_loop = new_loop();
    let trace = Trace::new();
    type Awaits = fn(Task<()>) -> std::pin::Pin<Box<dyn Future<Output = ()>>>;
    let ways: [(&str, u32, Awaits); 6] = [
        ("by value", 1, |task| Box::pin(async move { task.await.unwrap() })),
        ("by reference", 1, |mut task| {
            Box::pin(async move {
                (&mut task).await.unwrap();
            })
        }),
        ("dropped later", 1, |mut task| {
            Box::pin(async move {
                poll_fn(|cx| {
                    assert!(std::pin::Pin::new(&mut task).poll(cx).is_pending());
                    Poll::Ready(())
                })
                .await;
                pending::<()>().await;
                drop(task);
            })
        }),
        ("never polled", 0, |task| {
            Box::pin(async move {
                pending::<()>().await;
                drop(task);
            })
        }),
        ("watched", 0, |task| Box::pin(async move { task.watch().await })),
        ("shielded", 0, |task| Box::pin(async move { shield(task).await.unwrap() })),
    ];
    for (name, expected, awaits) in ways {
        let child = event_loop.spawn(pending::<()>());
        let seen = child.task_ref();
        let parent = event_loop.spawn(awaits(child));
        turns(&mut event_loop, 2);
        parent.cancel();
        parent.cancel();
        turns(&mut event_loop, 3);
        assert!(parent.is_cancelled());
        assert_eq!(seen.cancelling(), expected, "{name}");
        assert_eq!(seen.is_cancelled(), expected == 1, "{name}");
        trace.push(name);
    }
    assert_eq!(trace.len(), 6);
    let kept = Rc::new(event_loop.spawn(pending::<()>()));
    assert_eq!(kept.cancelling(), 0);
}
