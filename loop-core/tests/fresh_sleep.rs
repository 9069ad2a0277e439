//! A sleep that begins in a task's step is counted from the end of that step at the latest, on the machine's clock.

mod common;

use std::future::{Future, pending, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::{Duration, Instant};

use common::{Trace, turn, virtual_loop, watchdog};
use loop_core::{EventLoop, LoopRef, Sleep, run, sleep, sleep_until, spawn, yield_now};

const HOUR: Duration = Duration::from_secs(3_600);

/// Polls once, as `select!` does.
async fn begin(sleep: &mut Pin<Box<Sleep>>) {
    let over = poll_fn(|cx| Poll::Ready(sleep.as_mut().poll(cx).is_ready())).await;
    assert!(!over);
}

/// Until the clock has moved on.
fn tick() {
    let start = Instant::now();
    while Instant::now() <= start {}
}

/// Where the only timer lies after a step of this task.
fn deadline_after<F: Future + 'static>(task: impl FnOnce(LoopRef) -> F) -> Option<Instant> {
    let mut event_loop = EventLoop::new().unwrap();
    let task = event_loop.spawn(task(event_loop.loop_ref()));
    turn(&mut event_loop);
    let deadline = event_loop.next_deadline();
    drop(task);
    deadline
}

#[test]
fn it_is_late_by_the_rest_of_the_step_at_most_and_never_early() {
    let before = Instant::now();
    let deadline = deadline_after(|_| async {
        let mut an_hour = Box::pin(sleep(HOUR));
        begin(&mut an_hour).await;
        tick();
        an_hour.await;
    });
    let deadline = deadline.unwrap();
    assert!(before + HOUR <= deadline && deadline <= Instant::now() + HOUR);
}

#[test]
fn whoever_reads_the_loops_time_does_so_after_it_began() {
    let now = Rc::new(std::cell::Cell::new(None));
    let seen = now.clone();
    let deadline = deadline_after(|lp| async move {
        let mut an_hour = Box::pin(sleep(HOUR));
        begin(&mut an_hour).await;
        seen.set(Some(lp.now()));
        tick();
        an_hour.await;
    });
    // The loop counts in nanoseconds, as the clock does here.
    assert_eq!(deadline, now.get().map(|now| now + HOUR));
}

#[test]
fn dropped_in_its_step_it_leaves_nothing() {
    let deadline = deadline_after(|_| async {
        for _ in 0..3 {
            begin(&mut Box::pin(sleep(HOUR))).await;
        }
        pending::<()>().await;
    });
    assert_eq!(deadline, None);
}

#[test]
fn timers_that_begin_later_in_the_step_come_after_it() {
    let _watchdog = watchdog();
    const SHORT: Duration = Duration::from_millis(2);
    let trace = Trace::new();
    let log = trace.clone();
    run(async move {
        let mut short = Box::pin(sleep(SHORT));
        begin(&mut short).await;
        LoopRef::current().call_later(SHORT, log.note("callback"));
        tick();
        short.await;
        log.push("task");
        sleep(2 * SHORT).await;
    })
    .unwrap();
    assert_eq!(trace.take(), ["task", "callback"]);
}

#[test]
fn every_sleep_of_a_step_ends() {
    let _watchdog = watchdog();
    run(async {
        let sleeps = (0..20).map(|n| sleep(Duration::from_micros(n * 50 + 1)));
        futures::future::join_all(sleeps).await;
        // One that is dropped, one that stays, and a deadline between them.
        drop(Box::pin(sleep(HOUR)));
        let mut stays = Box::pin(sleep(Duration::from_millis(1)));
        begin(&mut stays).await;
        let mut goes = Box::pin(sleep(HOUR));
        begin(&mut goes).await;
        let mut until = Box::pin(sleep_until(Instant::now() + HOUR));
        begin(&mut until).await;
        drop(goes);
        stays.await;
    })
    .unwrap();
}

#[test]
fn one_that_was_begun_by_another_task_ends_too() {
    let _watchdog = watchdog();
    run(async {
        let mut one = Box::pin(sleep(Duration::from_millis(1)));
        begin(&mut one).await;
        let eager = loop_core::TaskBuilder::new().eager(true).spawn(one);
        let mut two = Box::pin(sleep(Duration::from_millis(1)));
        begin(&mut two).await;
        let later = spawn(two);
        yield_now().await;
        eager.await.unwrap();
        later.await.unwrap();
    })
    .unwrap();
}

#[test]
fn a_future_of_a_run_that_panics_leaves_one_that_ends() {
    let _watchdog = watchdog();
    let mut event_loop = EventLoop::new().unwrap();
    let mut kept = Box::pin(sleep(Duration::from_millis(1)));
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        event_loop.run_until_complete(async {
            begin(&mut kept).await;
            std::panic::panic_any("as asked");
        })
    }));
    assert!(panicked.is_err());
    turn(&mut event_loop);
    let deadline = event_loop.next_deadline();
    assert!(deadline.is_none_or(|deadline| deadline <= Instant::now() + HOUR), "{deadline:?}");
    event_loop.run_until_complete(kept).unwrap();
}

#[test]
fn a_clock_of_the_users_is_read_when_it_begins() {
    let (mut event_loop, clock) = virtual_loop();
    let due = event_loop.now() + HOUR;
    let task = event_loop.spawn(async move {
        let mut an_hour = Box::pin(sleep(HOUR));
        begin(&mut an_hour).await;
        clock.advance(HOUR / 2);
        an_hour.await;
    });
    turn(&mut event_loop);
    assert_eq!(event_loop.next_deadline(), Some(due));
    drop(task);
}
