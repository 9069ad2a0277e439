//! Sleeping and time limits.

mod common;

use std::future::{Future, pending, poll_fn, ready};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

use common::{Trace, keep, turn, virtual_loop, watchdog};
use loop_core::{
    EventLoop, VirtualClock, run, sleep, sleep_until, spawn, timeout, timeout_at, yield_now,
};

const MS: Duration = Duration::from_millis(1);

/// Advances the clock by a millisecond a turn until the task is done.
fn drive<T: 'static>(
    event_loop: &mut EventLoop,
    clock: &VirtualClock,
    future: impl Future<Output = T> + 'static,
) -> T {
    let task = event_loop.spawn(future);
    for _ in 0..1_000 {
        turn(event_loop);
        if let Some(result) = task.take_result() {
            return result.unwrap();
        }
        clock.advance(MS);
    }
    panic!("not done after a second");
}

#[test]
fn b_sleep_01_a_zero_sleep_gives_way_for_exactly_one_iteration() {
    let mut event_loop = EventLoop::new().unwrap();
    let trace = Trace::new();
    let log = trace.clone();
    event_loop
        .spawn(async move {
            for step in ["one", "two", "three"] {
                log.push(step);
                sleep(Duration::ZERO).await;
            }
        })
        .detach();
    for expected in ["one", "two", "three"] {
        event_loop.call_soon(trace.note("other"));
        turn(&mut event_loop);
        assert_eq!(trace.take(), [expected, "other"]);
    }
}

#[test]
fn b_sleep_02_a_sleep_is_never_too_short() {
    let _watchdog = watchdog();
    run(async {
        for micros in [1, 10, 100, 900, 1_000, 1_100, 2_500] {
            let delay = Duration::from_micros(micros);
            let started = Instant::now();
            sleep(delay).await;
            assert!(started.elapsed() >= delay);
        }
    })
    .unwrap();
}

#[test]
fn b_sleep_02_the_delay_counts_from_the_first_poll_and_the_deadline_from_the_clock() {
    let (mut event_loop, clock) = virtual_loop();
    let (start, late) = (event_loop.now(), clock.clone());
    let lp = event_loop.loop_ref();
    drive(&mut event_loop, &clock, async move {
        let (relative, absolute) = (sleep(10 * MS), sleep_until(start + 10 * MS));
        late.advance(5 * MS);
        absolute.await;
        assert_eq!(lp.now() - start, 10 * MS);
        relative.await;
        assert_eq!(lp.now() - start, 20 * MS);
    });
}

/// Its clones are counted by the `Arc`.
struct Nobody;

impl Wake for Nobody {
    fn wake(self: Arc<Self>) {}
}

#[test]
fn b_sleep_03_dropping_a_sleep_frees_its_timer_from_any_thread() {
    let mut event_loop = EventLoop::new().unwrap();
    let nobody = Arc::new(Nobody);
    let waker = Waker::from(nobody.clone());
    let mut poll_one = || {
        let mut one = Box::pin(sleep(Duration::from_secs(3600)));
        let polling = poll_fn(|_| {
            assert!(one.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
            Poll::Ready(())
        });
        event_loop.run_until_complete(polling).unwrap();
        one
    };
    let (here, elsewhere) = (poll_one(), poll_one());
    assert_eq!(Arc::strong_count(&nobody), 4, "two of them in the loop's timers");
    drop(here);
    assert_eq!(Arc::strong_count(&nobody), 3);
    thread::spawn(move || drop(elsewhere)).join().unwrap();
    turn(&mut event_loop);
    assert_eq!(Arc::strong_count(&nobody), 2);
}

#[test]
fn b_tmo_01_the_body_is_dropped_then_elapsed_is_returned() {
    let (mut event_loop, clock) = virtual_loop();
    let trace = Trace::new();
    let value = trace.on_drop("body dropped");
    let log = trace.clone();
    let start = event_loop.now();
    let lp = event_loop.loop_ref();
    drive(&mut event_loop, &clock, async move {
        let body = async move {
            pending::<()>().await;
            drop(value);
        };
        assert!(timeout(5 * MS, body).await.is_err());
        log.push("elapsed");
        assert_eq!(lp.now() - start, 5 * MS);
        // A deadline instead of a limit.
        assert!(timeout_at(start + 8 * MS, pending::<()>()).await.is_err());
        assert_eq!(lp.now() - start, 8 * MS);
    });
    assert_eq!(trace.take(), ["body dropped", "elapsed"]);
}

#[test]
fn b_tmo_02_a_body_that_is_done_first_gives_its_value() {
    let (mut event_loop, clock) = virtual_loop();
    let value = drive(&mut event_loop, &clock, async {
        let body = async {
            sleep(3 * MS).await;
            "value"
        };
        assert_eq!(timeout(5 * MS, body).await, Ok("value"));
        timeout(Duration::MAX, async {
            sleep(MS).await;
            "never fires"
        })
        .await
    });
    assert_eq!(value, Ok("never fires"));
}

#[test]
fn b_tmo_03_a_deadline_that_has_passed_interrupts_the_first_suspension() {
    let (mut event_loop, clock) = virtual_loop();
    let trace = Trace::new();
    let log = trace.clone();
    let start = event_loop.now();
    drive(&mut event_loop, &clock, async move {
        let body = |name: &'static str, log: &Trace| {
            let log = log.clone();
            async move {
                log.push(name);
                yield_now().await;
                log.push("not reached");
            }
        };
        assert!(timeout(Duration::ZERO, body("zero", &log)).await.is_err());
        assert!(timeout_at(start, body("past", &log)).await.is_err());
        assert_eq!(timeout(Duration::ZERO, ready("ready")).await, Ok("ready"));
        assert_eq!(timeout_at(start, ready("ready")).await, Ok("ready"));
    });
    assert_eq!(trace.take(), ["zero", "past"]);
}

#[test]
fn b_tmo_10_after_a_timeout_the_task_goes_on() {
    let (mut event_loop, clock) = virtual_loop();
    let rounds = drive(&mut event_loop, &clock, async {
        let mut rounds = 0;
        for _ in 0..3 {
            timeout(MS, pending::<()>()).await.unwrap_err();
            sleep(MS).await;
            rounds += 1;
        }
        rounds
    });
    assert_eq!(rounds, 3);
}

#[test]
fn b_tmo_14_dropping_the_scope_cancels_its_timer_and_its_body() {
    let (mut event_loop, clock) = virtual_loop();
    let trace = Trace::new();
    let value = trace.on_drop("body dropped");
    let task = event_loop.spawn(timeout(5 * MS, async move {
        pending::<()>().await;
        keep(&value);
    }));
    turn(&mut event_loop);
    task.cancel();
    turn(&mut event_loop);
    assert_eq!(trace.take(), ["body dropped"]);
    assert!(task.is_cancelled());
    clock.advance(Duration::from_secs(1));
    turn(&mut event_loop);
}

#[test]
fn nested_timeouts_convert_only_their_own() {
    let (mut event_loop, clock) = virtual_loop();
    drive(&mut event_loop, &clock, async {
        let inner_first = timeout(9 * MS, timeout(4 * MS, pending::<()>()));
        assert!(inner_first.await.is_ok_and(|inner| inner.is_err()));
        let outer_first = timeout(4 * MS, timeout(9 * MS, pending::<()>()));
        assert!(outer_first.await.is_err());
    });
}

#[test]
fn a_sleep_polled_in_another_task_wakes_that_one() {
    let _watchdog = watchdog();
    run(async {
        let mut moved = Box::pin(sleep(5 * MS));
        poll_fn(|cx| {
            assert!(moved.as_mut().poll(cx).is_pending());
            Poll::Ready(())
        })
        .await;
        spawn(moved).await.unwrap();
    })
    .unwrap();
}

#[test]
#[should_panic(expected = "outside an event loop")]
fn a_sleep_polled_outside_a_loop_panics() {
    let mut sleep = pin!(sleep(MS));
    let _ = sleep.as_mut().poll(&mut Context::from_waker(Waker::noop()));
}

// tokio-rs/tokio#5183: a guard on the addition alone let the conversion overflow.
#[test]
fn s05_a_delay_beyond_the_end_of_time_never_fires_and_can_be_cancelled() {
    let far = [
        Duration::from_secs(u64::MAX / 10),
        Duration::from_secs(u64::MAX),
        Duration::MAX,
        Duration::from_nanos(u64::MAX),
    ];
    for delay in far {
        let (mut event_loop, clock) = virtual_loop();
        let trace = Trace::new();
        let timer = event_loop.call_later(delay, trace.note("far"));
        event_loop.call_later(5 * MS, trace.note("near"));
        let sleeper = event_loop.spawn(sleep(delay));
        assert!(timer.when() > event_loop.now() + Duration::from_secs(1 << 33));
        clock.advance(5 * MS);
        turn(&mut event_loop);
        assert_eq!(trace.take(), ["near"]);
        clock.advance(Duration::MAX); // the end of time
        turn(&mut event_loop);
        turn(&mut event_loop);
        assert_eq!(trace.take(), Vec::<String>::new());
        assert!(!sleeper.is_done());
        timer.cancel();
        assert!(timer.is_cancelled());
    }
}
