//! The examples run, and do what they say.

mod common;

#[path = "../examples/by_hand.rs"]
#[allow(dead_code)]
mod by_hand;
#[path = "../examples/hello.rs"]
mod hello;
#[path = "../examples/threadsafe.rs"]
#[allow(dead_code)]
mod threadsafe;

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
