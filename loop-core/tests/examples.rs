//! The examples run, and do what they say.

mod common;

#[path = "../examples/busy_poll.rs"]
#[allow(dead_code)]
mod busy_poll;
#[path = "../examples/by_hand.rs"]
#[allow(dead_code)]
mod by_hand;
#[path = "../examples/crawler.rs"]
mod crawler;
#[path = "../examples/embedded.rs"]
mod embedded;
#[path = "../examples/hello.rs"]
mod hello;
#[path = "../examples/pstree.rs"]
#[allow(dead_code)]
mod pstree;
#[path = "../examples/threadsafe.rs"]
#[allow(dead_code)]
mod threadsafe;
#[path = "../examples/worker_pool.rs"]
mod worker_pool;

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

#[test]
fn busy_poll_serves_every_request_either_way() {
    let _watchdog = watchdog();
    for limit in [Duration::ZERO, Duration::from_micros(50)] {
        let (elapsed, _) = busy_poll::measure(limit, 20).unwrap();
        assert!(elapsed > Duration::ZERO);
    }
}

#[test]
fn crawler_finds_what_there_is_in_no_time() {
    let _watchdog = watchdog();
    let (findings, took) = crawler::run().unwrap();
    let texts: Vec<String> =
        findings.iter().map(|(page, found)| format!("{page} {found:?}")).collect();
    assert_eq!(
        texts,
        [
            "/ Ok(1)",
            "/blog Err(\"connection reset\")",
            "/docs Ok(1)",
            "/docs/slow Err(\"the deadline has passed\")",
            "/docs/tasks Ok(3)",
            "/lost Err(\"entity not found\")",
        ]
    );
    assert!((13..60).contains(&took.as_secs()), "{took:?}");
}

#[test]
fn embedded_answers_every_click() {
    let _watchdog = watchdog();
    let mut shown = match embedded::run() {
        Ok(shown) => shown,
        Err(error) => {
            let unsupported = std::io::ErrorKind::Unsupported;
            let kind = error.downcast_ref::<std::io::Error>().map(std::io::Error::kind);
            assert_eq!(kind, Some(unsupported), "{error}");
            return eprintln!("skipped: {error}");
        }
    };
    shown.sort();
    assert_eq!(shown, ["2: 4", "2: working", "3: 9", "3: working"]);
}

#[test]
fn worker_pool_finishes_what_it_has_taken_in() {
    use loop_core::{EventLoop, Runner, current_task};
    let _watchdog = watchdog();
    let pace = Duration::from_secs(1);
    let simulated = || EventLoop::builder().simulated()?.build();
    let mut runner = Runner::builder().loop_factory(simulated).build();
    let summary = runner.run(worker_pool::serve(3, 20, pace)).unwrap().unwrap();
    assert_eq!((summary.taken, summary.interrupted), (20, false));
    assert_eq!(summary.done.iter().sum::<u32>(), 20);
    assert!(summary.done.iter().all(|done| *done >= 6), "{summary:?}");
    // As Ctrl-C would.
    let summary = runner.run(async {
        let itself = current_task().unwrap();
        loop_core::LoopRef::current().call_later(pace * 10 + pace / 2, move || {
            itself.cancel();
        });
        worker_pool::serve(3, 20, pace).await
    });
    let summary = summary.unwrap().unwrap();
    assert_eq!((summary.taken, summary.interrupted), (10, true));
    assert_eq!(summary.done.iter().sum::<u32>(), 10, "what was queued is finished");
    runner.close().unwrap();
}
