//! `statistics()`: each counter counts what it says.

mod common;

use std::io::Write;
use std::thread;
use std::time::Duration;

use common::{pair, turn, virtual_loop};
use loop_core::{sleep, yield_now};

#[test]
fn iterations_callbacks_and_polls_are_told_apart() {
    let (mut event_loop, _clock) = virtual_loop();
    let before = event_loop.statistics();
    assert_eq!((before.iterations, before.callbacks, before.polls), (0, 0, 0));
    (0..3).for_each(|_| drop(event_loop.call_soon(|| ())));
    event_loop.spawn(yield_now()).detach();
    turn(&mut event_loop);
    turn(&mut event_loop);
    let after = event_loop.statistics();
    assert_eq!((after.iterations, after.callbacks, after.polls), (2, 3, 2));
    assert_eq!((after.events, after.wakes, after.timers), (0, 0, 0));
}

#[test]
fn events_and_messages_of_other_threads_are_counted() {
    let (mut event_loop, _clock) = virtual_loop();
    let (ours, mut theirs) = pair();
    event_loop.add_reader(&ours, || ()).unwrap();
    theirs.write_all(b"x").unwrap();
    turn(&mut event_loop);
    turn(&mut event_loop); // nobody has read it
    let remote = event_loop.remote();
    let call = move || (0..5).for_each(|_| drop(remote.call_soon(|| ()).unwrap()));
    thread::spawn(call).join().unwrap();
    event_loop.remove_reader(&ours);
    turn(&mut event_loop);
    let statistics = event_loop.statistics();
    assert_eq!((statistics.events, statistics.wakes), (2, 5));
}

#[test]
fn timers_are_counted_with_how_late_they_were() {
    let (mut event_loop, clock) = virtual_loop();
    for millis in 1..=100 {
        event_loop.call_later(Duration::from_millis(millis), || ());
    }
    event_loop.call_later(Duration::from_secs(1), || ()).cancel();
    event_loop.spawn(sleep(Duration::from_millis(100))).detach();
    turn(&mut event_loop); // the task begins to sleep
    clock.advance(Duration::from_millis(101));
    turn(&mut event_loop);
    let statistics = event_loop.statistics();
    assert_eq!((statistics.timers, statistics.lag.count()), (101, 101));
    assert_eq!(statistics.lag.max(), Duration::from_millis(100));
    // Within a factor of two: half of them were less than 50 ms late.
    let half = statistics.lag.quantile(0.5);
    assert!(half >= Duration::from_millis(50) && half <= Duration::from_millis(100), "{half:?}");
    assert_eq!(statistics.lag.quantile(1.0), Duration::from_millis(100));
    assert!(format!("{:?}", statistics.lag).starts_with("LagHistogram { count: 101, p50: "));
}
