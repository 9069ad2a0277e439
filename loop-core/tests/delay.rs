//! Delays given as numbers of seconds.

mod common;

use std::io;
use std::time::Duration;

use common::{Trace, turn, virtual_loop};
use loop_core::{EventLoop, InvalidDelay, TimerHandle, delay_from_secs_f64};

const MS: Duration = Duration::from_millis(1);

fn call_later(event_loop: &EventLoop, secs: f64, trace: &Trace) -> io::Result<TimerHandle> {
    Ok(event_loop.call_later(delay_from_secs_f64(secs)?, trace.note("timer")))
}

// `call_later` took NaN for a delay, which has no place in an order: python/cpython#105331.
#[test]
fn s09_nan_is_refused_and_nothing_is_scheduled() {
    let (mut event_loop, clock) = virtual_loop();
    let trace = Trace::new();
    for nan in [f64::NAN, -f64::NAN] {
        let error = call_later(&event_loop, nan, &trace).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        assert!(error.get_ref().is_some_and(|inner| inner.is::<InvalidDelay>()));
        event_loop.call_later(MS, trace.note("b"));
        clock.advance(MS);
        turn(&mut event_loop);
        assert_eq!(trace.take(), ["b"], "{nan}");
    }
}

#[test]
fn s09_a_negative_delay_is_none() {
    let (mut event_loop, clock) = virtual_loop();
    let trace = Trace::new();
    for secs in [-1.0, -0.0, f64::MIN, f64::NEG_INFINITY, -f64::MIN_POSITIVE] {
        call_later(&event_loop, secs, &trace).unwrap();
        event_loop.call_later(MS, trace.note("b"));
        turn(&mut event_loop);
        assert_eq!(trace.take(), ["timer"], "{secs}");
        clock.advance(MS);
        turn(&mut event_loop);
        assert_eq!(trace.take(), ["b"], "{secs}");
    }
}

#[test]
fn s09_an_endless_delay_never_fires_and_can_be_cancelled() {
    let (mut event_loop, clock) = virtual_loop();
    let trace = Trace::new();
    for secs in [f64::INFINITY, 1e300, f64::MAX, u64::MAX as f64] {
        let timer = call_later(&event_loop, secs, &trace).unwrap();
        event_loop.call_later(MS, trace.note("b"));
        clock.advance(Duration::from_secs(1 << 31));
        turn(&mut event_loop);
        assert_eq!(trace.take(), ["b"], "{secs}");
        assert!(!timer.is_done() && timer.when() > event_loop.now() + MS);
        timer.cancel();
        assert!(timer.is_cancelled());
    }
}

#[test]
fn seconds_become_nanoseconds() {
    assert_eq!(delay_from_secs_f64(0.9e-3), Ok(Duration::from_micros(900)));
    assert_eq!(delay_from_secs_f64(2.7e-9), Ok(Duration::from_nanos(3)));
    assert_eq!(delay_from_secs_f64(1e15), Ok(Duration::from_secs(1_000_000_000_000_000)));
}
