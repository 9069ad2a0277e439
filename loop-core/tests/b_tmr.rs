//! The loop's part of timers.

mod common;

use std::cell::RefCell;
use std::io::Write;
use std::rc::Rc;
use std::time::{Duration, Instant};

use common::{Trace, for_each_backend, pair, turn, virtual_loop};
use loop_core::{Clock, EventLoop, TimerHandle};

const MS: Duration = Duration::from_millis(1);

#[test]
fn b_tmr_01_and_02_timers_run_by_deadline_and_equal_ones_by_creation() {
    let (mut event_loop, clock) = virtual_loop();
    let trace = Trace::new();
    let start = event_loop.now();
    for (delay, name) in [(3, "c"), (1, "a1"), (2, "b1"), (1, "a2"), (2, "b2"), (1, "a3")] {
        event_loop.call_at(start + delay * MS, trace.note(name));
    }
    clock.advance(2 * MS);
    turn(&mut event_loop);
    assert_eq!(trace.take(), ["a1", "a2", "a3", "b1", "b2"]);
    clock.advance(MS);
    turn(&mut event_loop);
    assert_eq!(trace.take(), ["c"]);
}

#[test]
fn b_tmr_03_a_timer_is_due_less_than_a_step_of_the_clock_ahead() {
    /// A clock that stands still and has coarse steps.
    struct Coarse(Instant);
    impl Clock for Coarse {
        fn now(&self) -> Instant {
            self.0
        }
        fn resolution(&self) -> Duration {
            10 * MS
        }
    }
    let now = Instant::now();
    let mut event_loop = EventLoop::builder().clock(Rc::new(Coarse(now))).build().unwrap();
    let trace = Trace::new();
    event_loop.call_at(now + 10 * MS - Duration::from_nanos(1), trace.note("due"));
    event_loop.call_at(now + 10 * MS, trace.note("not yet"));
    turn(&mut event_loop);
    assert_eq!(trace.take(), ["due"]);
}

#[test]
fn b_tmr_03_the_clock_is_read_after_the_wait() {
    for_each_backend(|builder| {
        let mut event_loop = builder.build().unwrap();
        let lp = event_loop.loop_ref();
        let when = event_loop.now() + 3 * MS;
        event_loop.call_at(when, move || {
            assert!(lp.now() >= when, "never early");
            lp.stop();
        });
        event_loop.run_forever().unwrap();
    });
}

#[test]
fn b_tmr_08_a_due_timer_can_be_cancelled_by_an_earlier_callback_of_the_batch() {
    let (mut event_loop, clock) = virtual_loop();
    let trace = Trace::new();
    let later: Rc<RefCell<Option<TimerHandle>>> = Rc::default();
    let (victim, log) = (later.clone(), trace.clone());
    event_loop.call_later(MS, move || {
        log.push("first");
        victim.take().unwrap().cancel();
    });
    *later.borrow_mut() = Some(event_loop.call_later(2 * MS, trace.note("cancelled")));
    event_loop.call_later(2 * MS, trace.note("last"));
    clock.advance(5 * MS);
    turn(&mut event_loop);
    assert_eq!(trace.take(), ["first", "last"]);
}

#[test]
fn b_tmr_09_and_10_the_past_is_legal_and_comes_after_ready_and_io() {
    let (mut event_loop, clock) = virtual_loop();
    let (ours, mut theirs) = pair();
    theirs.write_all(b"x").unwrap();
    let trace = Trace::new();
    clock.advance(Duration::from_secs(10));
    let now = event_loop.now();
    event_loop.call_at(now, trace.note("now"));
    event_loop.call_at(now - 5 * MS, trace.note("past"));
    event_loop.call_at(now - 9 * MS, trace.note("longer past"));
    event_loop.add_reader(&ours, trace.note("reader")).unwrap();
    event_loop.call_soon(trace.note("ready"));
    turn(&mut event_loop);
    assert_eq!(trace.take(), ["ready", "reader", "longer past", "past", "now"]);
    event_loop.remove_reader(&*ours);
    // Scheduled while nothing runs, its time passes meanwhile.
    event_loop.call_later(MS, trace.note("overdue"));
    clock.advance(Duration::from_secs(10));
    turn(&mut event_loop);
    assert_eq!(trace.take(), ["overdue"]);
}

#[test]
fn b_tmr_11_call_later_zero_comes_after_all_that_is_ready() {
    let mut event_loop = EventLoop::new().unwrap();
    let trace = Trace::new();
    event_loop.call_later(Duration::ZERO, trace.note("later"));
    event_loop.call_soon(trace.note("soon"));
    turn(&mut event_loop);
    assert_eq!(trace.take(), ["soon", "later"]);
}

#[test]
fn b_tmr_12_the_deadline_is_set_when_the_call_is_made_and_saturates() {
    let (event_loop, clock) = virtual_loop();
    let start = event_loop.now();
    clock.advance(MS);
    assert_eq!(event_loop.call_later(2 * MS, || ()).when(), start + 3 * MS);
    let never = event_loop.call_later(Duration::MAX, || ());
    assert!(never.when() > start + Duration::from_secs(1 << 40));
}

#[test]
fn b_tmr_13_cancelled_timers_do_not_pile_up() {
    struct Counted(Rc<()>);
    let (mut event_loop, _clock) = virtual_loop();
    let alive = Rc::new(());
    for round in 0..1_000 {
        let timers: Vec<TimerHandle> = (0..100)
            .map(|n| {
                let value = Counted(alive.clone());
                event_loop.call_later(Duration::from_secs(n), move || drop(value.0))
            })
            .collect();
        timers.iter().for_each(TimerHandle::cancel);
        assert_eq!(Rc::strong_count(&alive), 1, "round {round}: captures go at once");
        turn(&mut event_loop);
    }
}

#[test]
fn b_tmr_14_a_timer_is_put_off_or_comes_earlier_while_it_is_in_the_heap() {
    let (mut event_loop, clock) = virtual_loop();
    let (start, trace) = (event_loop.now(), Trace::new());
    let mut timers =
        ["a", "b", "c"].map(|name| event_loop.call_at(start + 5 * MS, trace.note(name)));
    let clone = timers[0].clone();
    // The last among equals, later, earlier.
    assert!(timers[0].reschedule(start + 5 * MS));
    assert!(timers[1].reschedule(start + 9 * MS));
    assert!(timers[2].reschedule(start + 2 * MS));
    event_loop.call_at(start + 5 * MS, trace.note("new"));
    assert_eq!(timers[1].when(), start + 9 * MS);
    assert_eq!(event_loop.next_deadline(), Some(start + 2 * MS));
    for (now, ran) in [(2, &["c"][..]), (4, &[]), (5, &["a", "new"]), (8, &[]), (9, &["b"])] {
        clock.advance((start + now * MS) - event_loop.now());
        turn(&mut event_loop);
        assert_eq!(trace.take(), ran, "at {now}");
    }
    // It has run.
    assert!(!timers[1].reschedule(start + 20 * MS));
    assert_eq!(timers[1].when(), start + 9 * MS);
    assert_eq!(clone.when(), start + 5 * MS);
    drop(timers);

    // A clone is the same timer; put off a thousand times it is still one, and may be cancelled.
    let mut timer = event_loop.call_later(MS, trace.note("never"));
    for round in 1..1_000 {
        assert!(timer.clone().reschedule(event_loop.now() + round * MS));
    }
    assert_eq!(event_loop.dump().timers.len(), 1);
    assert!(timer.reschedule(start + Duration::from_secs(1 << 40)), "it never comes");
    assert!(timer.reschedule(start), "in the past");
    timer.cancel();
    assert!(!timer.reschedule(event_loop.now()));

    // Due, and behind a callback of the same batch.
    let late = Rc::new(RefCell::new(None::<TimerHandle>));
    let (other, log, then) = (late.clone(), trace.clone(), event_loop.now() + 50 * MS);
    event_loop.call_later(MS, move || {
        let moved = other.borrow_mut().as_mut().unwrap().reschedule(then);
        log.push(format!("moved {moved}"));
    });
    *late.borrow_mut() = Some(event_loop.call_later(MS, trace.note("due")));
    clock.advance(MS);
    turn(&mut event_loop);
    assert_eq!(trace.take(), ["moved false", "due"]);

    let mut timer = event_loop.call_later(MS, || ());
    event_loop.close();
    assert!(!timer.reschedule(start));
    drop(event_loop);
    assert!(!timer.reschedule(start));
}
