//! Iterations that have nothing to do but to run what is ready look at nothing else, until there is something.

mod common;

use std::cell::Cell;
use std::io::Write;
use std::rc::Rc;
use std::thread;
use std::time::Duration;

use common::{LogSelector, pair, turn, watchdog};
use loop_core::{EventLoop, Interest, LoopRef, Signal};
use loop_selector::{available, by_name};
use rustix::process::{Signal as Kill, getpid, kill_process};

/// A callback that schedules itself for ever.
fn spin(lp: LoopRef) {
    lp.clone().call_soon(move || spin(lp));
}

/// A loop that always has something ready, and a selector that logs.
fn busy(name: &str) -> (EventLoop, common::Log) {
    let (selector, log) = LogSelector::new(name);
    let mut event_loop = EventLoop::builder().selector(selector).build().unwrap();
    spin(event_loop.loop_ref());
    (0..3).for_each(|_| turn(&mut event_loop));
    assert!(log.take().is_empty(), "{name}: with nothing registered there is nothing to ask");
    (event_loop, log)
}

fn counter() -> (Rc<Cell<u32>>, impl Fn() + Clone + 'static) {
    let count = Rc::new(Cell::new(0));
    let counted = count.clone();
    (count, move || counted.set(counted.get() + 1))
}

#[test]
fn a_descriptor_is_looked_at_in_the_iteration_after_it_is_registered() {
    for name in available() {
        let (mut event_loop, log) = busy(name);
        let (ours, mut theirs) = pair();
        theirs.write_all(b"x").unwrap();
        let (count, note) = counter();
        event_loop.add_reader(&ours, note).unwrap();
        turn(&mut event_loop);
        assert_eq!(count.get(), 1, "{name}");
        event_loop.remove_reader(&ours);
        turn(&mut event_loop);
        log.take();
        turn(&mut event_loop);
        assert!(log.take().is_empty(), "{name}: the last descriptor is gone");
    }
}

#[test]
fn a_selector_that_came_with_a_descriptor_is_asked_by_a_busy_loop() {
    for name in available() {
        let mut selector = by_name(name).unwrap();
        let (ours, mut theirs) = pair();
        theirs.write_all(b"x").unwrap();
        selector.register(Rc::new(ours), Interest::READ).unwrap();
        let mut event_loop = EventLoop::builder().selector(selector).build().unwrap();
        spin(event_loop.loop_ref());
        turn(&mut event_loop);
        assert_eq!(event_loop.statistics().events, 1, "{name}");
    }
}

#[test]
fn a_timer_comes_due_while_the_loop_is_busy() {
    let _watchdog = watchdog();
    for name in available() {
        let (mut event_loop, _log) = busy(name);
        let (count, note) = counter();
        event_loop.call_later(Duration::from_millis(1), note);
        while count.get() == 0 {
            turn(&mut event_loop);
        }
    }
}

#[test]
fn b_thr_01_a_call_comes_through_to_a_busy_loop_each_time() {
    let _watchdog = watchdog();
    for name in available() {
        let (mut event_loop, _log) = busy(name);
        for n in 1..=3 {
            let remote = event_loop.remote();
            thread::spawn(move || remote.call_soon(|| ()).map(drop).unwrap()).join().unwrap();
            turn(&mut event_loop);
            assert_eq!(event_loop.statistics().wakes, n, "{name}");
            turn(&mut event_loop);
        }
    }
}

#[test]
fn b_sig_01_a_signal_comes_through_to_a_busy_loop_each_time() {
    let _watchdog = watchdog();
    for name in available() {
        let (mut event_loop, _log) = busy(name);
        let (count, note) = counter();
        event_loop.add_signal_handler(Signal::WINCH, note).unwrap();
        for n in 1..=3 {
            kill_process(getpid(), Kill::WINCH).unwrap();
            while count.get() < n {
                turn(&mut event_loop);
            }
        }
        event_loop.remove_signal_handler(Signal::WINCH);
    }
}
