//! How long a wait lasts. Lower bounds are exact; upper ones leave room for a busy machine.

use std::io::Write;
use std::time::{Duration, Instant};

use super::Make;
use super::fixture::*;
use crate::interest::Readiness;

/// Long enough that only a lost wake-up or a wrong timeout takes it.
const LONG: Duration = Duration::from_secs(5);

/// Zero does not block; none waits until something happens.
pub fn b_sel_14_zero_and_no_timeout(make: Make<'_>) {
    let mut selector = create(make);
    let (a, mut b) = pair();
    let token = selector.register(rc(a), READ).unwrap();
    let (events, took) = timed(|| select(&mut *selector, ZERO));
    assert_eq!(events, []);
    assert!(took < LONG, "a zero timeout took {took:?}");
    let writer = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(30));
        b.write_all(b"x").unwrap();
        b
    });
    assert_eq!(select(&mut *selector, None), [(token, Readiness::READABLE)]);
    drop(writer.join().unwrap());
}

/// A timeout is never shortened, not even one that is no whole number of milliseconds.
pub fn b_sel_15_timeouts_are_rounded_up(make: Make<'_>) {
    let mut selector = create(make);
    for micros in [1, 400, 1_000, 1_100, 2_900, 10_000] {
        let timeout = Duration::from_micros(micros);
        let (events, took) = timed(|| select(&mut *selector, Some(timeout)));
        assert_eq!(events, []);
        assert!(took >= timeout, "{timeout:?} took only {took:?}");
        assert!(took < LONG, "{timeout:?} took {took:?}");
    }
}

/// With nothing registered a wait still lasts as long as asked.
pub fn b_sel_16_empty_selector_sleeps(make: Make<'_>) {
    let mut selector = create(make);
    let timeout = Duration::from_millis(50);
    let (events, took) = timed(|| select(&mut *selector, Some(timeout)));
    assert_eq!(events, []);
    assert!(took >= timeout && took < LONG, "{took:?}");
}

// smol-rs/smol#109: 900 us cut down to 0 ms turned each sleep into hundreds of polls.
/// A loop that waits for a deadline under a millisecond away blocks once or twice, and never spins.
pub fn s03_sub_millisecond_waits_do_not_spin(make: Make<'_>) {
    let mut selector = create(make);
    let mut waits = 0;
    for _ in 0..200 {
        let deadline = Instant::now() + Duration::from_micros(900);
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            assert_eq!(select(&mut *selector, Some(left)), []);
            waits += 1;
        }
    }
    assert!(waits <= 400, "{waits} waits for 200 deadlines");
}

// twisted/twisted#6259: 1e15 ms did not fit into the kernel's timeout.
/// Huge timeouts neither fail, nor wrap round to a short wait, nor hide what becomes ready.
pub fn s04_huge_timeouts_are_clamped(make: Make<'_>) {
    let seconds = [1_000_000_000_000, u64::MAX / 1000, u64::MAX / 10, u64::MAX];
    let seconds = [24 * 3600].into_iter().chain(seconds).map(Duration::from_secs);
    for timeout in seconds.chain([Duration::MAX]) {
        let mut selector = create(make);
        let (a, mut b) = pair();
        let token = selector.register(rc(a), READ).unwrap();
        let delay = Duration::from_millis(20);
        let writer = std::thread::spawn(move || {
            std::thread::sleep(delay);
            b.write_all(b"x").unwrap();
            b
        });
        assert_eq!(select(&mut *selector, Some(timeout)), [(token, Readiness::READABLE)]);
        drop(writer.join().unwrap());
    }
}

/// A wait that a signal interrupts returns early, `Ok` and empty.
pub fn b_sel_17_interrupted_wait_returns_no_error(make: Make<'_>) {
    let mut selector = create(make);
    let interrupter = Interrupter::start(Duration::from_millis(20));
    let (events, took) = timed(|| select(&mut *selector, Some(LONG)));
    assert_eq!(events, []);
    assert!(took < LONG, "the signal was not noticed");
    interrupter.finish();
}

// oven-sh/bun#34780: each retry after EINTR began the whole timeout anew.
/// Signals every few milliseconds neither postpone a deadline nor bring it forward.
pub fn s14_signals_do_not_move_a_deadline(make: Make<'_>) {
    let mut selector = create(make);
    let interrupter = Interrupter::start(Duration::from_millis(10));
    let (start, timeout) = (Instant::now(), Duration::from_millis(300));
    let mut waits = 0;
    while let Some(left) = timeout.checked_sub(start.elapsed()).filter(|left| !left.is_zero()) {
        assert_eq!(select(&mut *selector, Some(left)), []);
        waits += 1;
    }
    assert!(start.elapsed() < LONG);
    let sent = interrupter.finish();
    assert!(waits <= sent + 5, "{waits} waits for {sent} signals");
}
