//! The examples run, and do what they say.

mod common;

#[path = "../examples/by_hand.rs"]
#[allow(dead_code)]
mod by_hand;
#[path = "../examples/hello.rs"]
mod hello;
#[path = "../examples/pstree.rs"]
#[allow(dead_code)]
mod pstree;
#[path = "../examples/threadsafe.rs"]
#[allow(dead_code)]
mod threadsafe;

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use common::watchdog;

#[test]
fn by_hand_runs_in_order_and_is_woken_by_a_thread() {
    let _watchdog = watchdog();
    assert_eq!(by_hand::run().unwrap(), ["soon", "later", "stopped by a thread"]);
}

#[test]
fn hello_runs() {
    let _watchdog = watchdog();
    hello::main().unwrap();
}

#[test]
fn threadsafe_sees_every_call_in_order() {
    let _watchdog = watchdog();
    assert_eq!(threadsafe::run().unwrap(), [1, 2, 3]);
}

/// The program signals itself.
#[test]
fn pstree_shows_who_waits_for_whom_and_goes_on() {
    use loop_core::{EventLoop, Signal, yield_now};
    let _watchdog = watchdog();
    let mut event_loop = EventLoop::builder().debug(true).build().unwrap();
    let shown = Rc::new(RefCell::new(Vec::new()));
    let log = shown.clone();
    pstree::show_on_signal(&event_loop, move |dump| log.borrow_mut().push(dump.to_string()))
        .unwrap();
    let signals = event_loop.spawn(async {
        for _ in 0..2 {
            yield_now().await;
            yield_now().await;
            loop_selector::raise(Signal::USR1).unwrap();
        }
    });
    event_loop.run_until_complete(pstree::work(Duration::ZERO)).unwrap().unwrap();
    assert!(signals.is_done());
    let shown = shown.borrow();
    assert_eq!(shown.len(), 2);
    let tree: Vec<_> = shown[0].lines().filter(|line| !line.contains("Task-")).collect();
    let waits =
        "  main: waits for worker 1 or worker 2 or worker 3 or end of a queue's work created at ";
    assert!(tree[2].starts_with(waits), "{tree:?}");
    let workers = &tree[3..6];
    let holder = workers.iter().position(|line| line.contains(": ready; spawned at ")).unwrap();
    let held = format!(" and held by worker {}; spawned at ", holder + 1);
    for (number, line) in workers.iter().enumerate().filter(|(number, _)| *number != holder) {
        let start = format!("    worker {}: waits for lock created at ", number + 1);
        assert!(line.starts_with(&start) && line.contains(&held), "{tree:?}");
    }
}
