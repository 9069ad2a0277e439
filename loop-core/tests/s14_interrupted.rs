//! oven-sh/bun#34780: interrupted waits became longer, shorter or errors.
//!
//! A signal for the process goes to its main thread as a rule, so the loop runs there: this test has
//! no harness.

mod common;

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use loop_core::{EventLoop, Signal};
use loop_selector::{SignalWatcher, Waker, available, by_name};

fn main() {
    let _watchdog = common::watchdog();
    // Not the loop's own waker: nothing but EINTR tells the loop of these signals.
    let mut signals = SignalWatcher::new(Waker::new().unwrap()).unwrap();
    signals.watch(Signal::USR1).unwrap();
    for name in available() {
        // On a machine that has no time for the sender or for us, once more.
        while !s14_interruptions_change_nothing(name, &mut signals) {}
    }
}

/// Whether there were enough signals to show anything, and the wait was no longer than it had to be.
fn s14_interruptions_change_nothing(backend: &str, signals: &mut SignalWatcher) -> bool {
    let selector = by_name(backend).unwrap();
    let mut event_loop = EventLoop::builder().selector(selector).build().unwrap();
    let id = std::process::id();
    let mut killer = Command::new("sh")
        .args(["-c", &format!("while kill -USR1 {id}; do sleep 0.01; done")])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    signals.pending();
    let lp = event_loop.loop_ref();
    let started = Instant::now();
    event_loop.call_later(Duration::from_millis(300), move || lp.stop());
    event_loop.run_forever().unwrap();
    let took = started.elapsed();
    killer.kill().unwrap();
    killer.wait().unwrap();
    let seen: u64 = signals.pending().iter().map(|(_, deliveries)| deliveries).sum();
    println!("{backend}: {took:?}, {seen} signals");
    assert!(took >= Duration::from_millis(300), "{took:?}");
    took < Duration::from_millis(1500) && seen > 3
}
