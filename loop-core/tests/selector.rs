//! Which selector a loop runs on: the one that the environment names.

use std::env;
use std::process::Command;
use std::time::Duration;

use loop_core::{EventLoop, sleep};
use loop_selector::{available, by_name, probe};

/// Prints the selector that this process's loops run on, whoever chose it.
#[test]
fn the_selector_that_loops_run_on() {
    let mut event_loop = EventLoop::new().unwrap();
    event_loop.run_until_complete(sleep(Duration::from_millis(1))).unwrap();
    let name = event_loop.selector_name();
    println!("loops run on {name}.");
    match env::var("LOOP_SELECTOR") {
        Ok(wanted) if !wanted.is_empty() => assert_eq!(name, wanted),
        _ => assert_eq!(Some(name), probe().unwrap().chosen()),
    }
}

#[test]
fn b_sel_30_loop_selector_names_the_selector_of_every_loop() {
    for name in available() {
        if let (&"uring", Some(error)) = (name, by_name(name).err()) {
            println!("{name}: skipped: {error}");
            continue;
        }
        let child = Command::new(env::current_exe().unwrap())
            .args(["--exact", "the_selector_that_loops_run_on", "--nocapture"])
            .env("LOOP_SELECTOR", name)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&child.stdout);
        assert!(
            child.status.success() && said.contains(&format!("loops run on {name}.")),
            "{said}"
        );
    }
}
