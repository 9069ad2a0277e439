//! A sleep that begins in a task's step is counted from the end of that step at the latest, on the machine's clock.

mod common;

use std::cell::{Cell, RefCell};
use std::future::{Future, pending, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use common::{Trace, turn, virtual_loop, watchdog};
use loop_core::{
    EventLoop, LoopAbort, LoopError, LoopRef, Sleep, run, sleep, sleep_until, spawn, yield_now,
};

const HOUR: Duration = Duration::from_secs(3_600);

/// Polls once, as `select!` does.
async fn begin(sleep: &mut Pin<Box<Sleep>>) {
    let over = poll_fn(|cx| Poll::Ready(sleep.as_mut().poll(cx).is_ready())).await;
    assert!(!over);
}

/// The same for one that others hold too.
async fn begin_kept(sleep: &RefCell<Pin<Box<Sleep>>>) {
    let over = poll_fn(|cx| Poll::Ready(sleep.borrow_mut().as_mut().poll(cx).is_ready())).await;
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
    let now = Rc::new(Cell::new(None));
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
fn one_that_comes_after_a_dropped_one_is_nobody_elses() {
    let _watchdog = watchdog();
    run(async {
        begin(&mut Box::pin(sleep(HOUR))).await;
        let eager = loop_core::TaskBuilder::new().eager(true);
        let eager = eager.spawn(sleep(Duration::from_millis(1)));
        begin(&mut Box::pin(sleep(HOUR))).await;
        sleep(Duration::from_millis(1)).await;
        eager.await.unwrap();
        // And what a dropped one left is gone at the end of the step.
        begin(&mut Box::pin(sleep(HOUR))).await;
        yield_now().await;
        let timers = LoopRef::current().dump().timers;
        assert!(timers.is_empty(), "{timers:?}");
    })
    .unwrap();
}

#[test]
fn the_steps_after_its_own_do_not_delay_it() {
    let mut event_loop = EventLoop::new().unwrap();
    let sleeper = event_loop.spawn(sleep(HOUR));
    let begun = Rc::new(Cell::new(None));
    let seen = begun.clone();
    let busy = event_loop.spawn(async move {
        seen.set(Some(Instant::now()));
        tick();
    });
    turn(&mut event_loop);
    assert!(event_loop.next_deadline().unwrap() <= begun.get().unwrap() + HOUR);
    drop((sleeper, busy));
}

#[test]
fn an_abort_in_its_step_does_not_delay_it() {
    let abort_in_task = |event_loop: &mut EventLoop, kept: Kept| {
        let task = event_loop.spawn(async move {
            begin_kept(&kept).await;
            LoopAbort { code: 1 }.raise()
        });
        task.detach();
        event_loop.run_forever()
    };
    let abort_in_root = |event_loop: &mut EventLoop, kept: Kept| {
        event_loop.run_until_complete(async {
            begin_kept(&kept).await;
            LoopAbort { code: 1 }.raise()
        })
    };
    type Kept = Rc<RefCell<Pin<Box<Sleep>>>>;
    type Run = dyn Fn(&mut EventLoop, Kept) -> Result<(), LoopError>;
    for run in [&abort_in_task as &Run, &abort_in_root] {
        let mut event_loop = EventLoop::new().unwrap();
        let kept = Rc::new(RefCell::new(Box::pin(sleep(HOUR))));
        let aborted = catch_unwind(AssertUnwindSafe(|| run(&mut event_loop, kept.clone())));
        assert!(aborted.is_err());
        let after = Instant::now();
        tick();
        assert!(event_loop.next_deadline().unwrap() <= after + HOUR);
    }
}

#[test]
fn whoever_looks_at_the_timers_sees_it_and_no_dropped_one() {
    let checked = Rc::new(Cell::new(false));
    let done = checked.clone();
    deadline_after(|lp| async move {
        let before = Instant::now();
        begin(&mut Box::pin(sleep(HOUR))).await;
        assert_eq!(lp.next_deadline(), None);
        begin(&mut Box::pin(sleep(HOUR))).await;
        assert!(lp.dump().timers.is_empty());
        let mut stays = Box::pin(sleep(HOUR));
        begin(&mut stays).await;
        let deadline = lp.next_deadline().unwrap();
        assert!(before + HOUR <= deadline && deadline <= Instant::now() + HOUR);
        begin(&mut Box::pin(sleep(HOUR))).await;
        assert_eq!(lp.dump().timers.len(), 1);
        assert_eq!(lp.next_deadline(), Some(deadline));
        done.set(true);
    });
    assert!(checked.get());
}

#[test]
fn a_dropped_one_steps_no_task() {
    let mut event_loop = EventLoop::new().unwrap();
    let polls = Rc::new(Cell::new(0));
    let counted = polls.clone();
    let task = event_loop.spawn(poll_fn(move |cx| {
        counted.set(counted.get() + 1);
        let mut short = Box::pin(sleep(Duration::from_nanos(1)));
        assert!(short.as_mut().poll(cx).is_pending());
        Poll::<()>::Pending
    }));
    for _ in 0..3 {
        turn(&mut event_loop);
        tick();
    }
    assert_eq!((polls.get(), event_loop.statistics().timers), (1, 0));
    drop(task);
}

#[test]
fn the_timer_of_one_that_another_task_dropped_steps_its_new_task() {
    let _watchdog = watchdog();
    let mut event_loop = EventLoop::new().unwrap();
    let polls = Rc::new(Cell::new(0));
    let counted = polls.clone();
    let drops = event_loop.spawn(poll_fn(move |cx| {
        counted.set(counted.get() + 1);
        assert!(Box::pin(sleep(HOUR)).as_mut().poll(cx).is_pending());
        Poll::<()>::Pending
    }));
    let sleeps = event_loop.spawn(sleep(Duration::from_millis(1)));
    event_loop.run_until_complete(sleeps).unwrap().unwrap();
    assert_eq!(polls.get(), 1);
    drop(drops);
}

#[derive(Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Relaxed);
    }
}

#[test]
fn one_that_somebody_elses_waker_polls_in_its_step_wakes_that() {
    let _watchdog = watchdog();
    let mut event_loop = EventLoop::new().unwrap();
    let counter = Arc::new(Count::default());
    let wakes = Waker::from(counter.clone());
    let kept = Rc::new(RefCell::new(Box::pin(sleep(Duration::from_millis(1)))));
    let begun = kept.clone();
    let task = event_loop.spawn(async move {
        begin_kept(&begun).await;
        let mut cx = Context::from_waker(&wakes);
        assert!(begun.borrow_mut().as_mut().poll(&mut cx).is_pending());
    });
    event_loop.run_until_complete(task).unwrap().unwrap();
    let begun = event_loop.statistics().polls;
    while counter.0.load(Relaxed) == 0 {
        event_loop.run_once(None).unwrap();
    }
    assert_eq!(event_loop.statistics().polls, begun, "no task was stepped");
    drop(kept);
}

#[test]
fn a_future_of_a_run_that_panics_leaves_one_that_ends() {
    let _watchdog = watchdog();
    let mut event_loop = EventLoop::new().unwrap();
    let mut kept = Box::pin(sleep(Duration::from_millis(1)));
    let panicked = catch_unwind(AssertUnwindSafe(|| {
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
