//! The default report: what a program that sets no handler finds on standard error.
#![cfg(not(feature = "tracing"))] // with it, reports are events

use std::panic;
use std::process::Command;
use std::time::Duration;

use loop_core::{EventLoop, ExceptionContext, LoopFuture};

/// Not a test of its own: what the next one runs in a process of its own. The line numbers below
/// are those of the calls here.
#[test]
fn child_fails_in_every_way() {
    if std::env::var_os("LOOP_CORE_CHILD").is_none() {
        return;
    }
    panic::set_hook(Box::new(|_| ())); // the loop's lines alone
    let mut event_loop = EventLoop::builder().debug(false).build().unwrap();
    event_loop.call_soon(panicking_callback);
    event_loop.call_soon(failing_callback);
    event_loop.remote().call_soon(failing_callback).unwrap();
    let task = event_loop.spawn(async { panic!("nobody looks") });
    task.set_name("lonely");
    task.detach();
    let future: LoopFuture<(), &str> = event_loop.create_future();
    future.set_error("unread").unwrap();
    drop(future);
    event_loop.run_once(Some(Duration::ZERO)).unwrap();
    event_loop.spawn(std::future::pending::<()>()).set_name("unfinished");
    event_loop.report(&ExceptionContext::warning("a library's own").with_subject("fd 7"));
    event_loop.report(&ExceptionContext::new(""));
    drop(event_loop);
}

fn panicking_callback() {
    panic!("no {}", "way");
}

fn failing_callback() -> Result<(), String> {
    Err("not today".into())
}

#[test]
fn b_exc_02_every_failure_is_one_line_with_name_site_and_payload() {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child_fails_in_every_way", "--nocapture"])
        .env("LOOP_CORE_CHILD", "1")
        .output()
        .unwrap();
    assert!(output.status.success());
    let source = include_str!("default_report.rs");
    // Where `call` is made: file, line and column, as the compiler counts them.
    let site = |call: &str| {
        let line = source.lines().position(|line| line.contains(call)).unwrap();
        let text = source.lines().nth(line).unwrap();
        let method = call.rsplit('.').next().unwrap().split('(').next().unwrap();
        let column = text.find(call).unwrap() + call.rfind(method).unwrap();
        format!("{}:{}:{}", file!(), line + 1, column + 1)
    };
    let expected = [
        format!(
            "event loop error: the error of a future was never retrieved; subject \"unread\", future created at {}",
            site("event_loop.create_future")
        ),
        format!(
            "event loop error: callback failed; callback default_report::panicking_callback created at {}; failure panic \"no way\"",
            site("event_loop.call_soon(panicking")
        ),
        format!(
            "event loop error: callback failed; callback default_report::failing_callback created at {}; failure error \"not today\"",
            site("event_loop.call_soon(failing")
        ),
        format!(
            "event loop error: callback failed; callback default_report::failing_callback created at {}; failure error \"not today\"",
            site("event_loop.remote().call_soon")
        ),
        format!(
            "event loop error: task panicked and nobody awaited it; failure panic \"nobody looks\"; task lonely spawned at {}",
            site("event_loop.spawn(async")
        ),
        "event loop warning: a library's own; subject fd 7".to_string(),
        "event loop error: unhandled error in the event loop".to_string(),
        format!(
            "event loop error: task was destroyed while it was pending; task unfinished spawned at {}",
            site("event_loop.spawn(std")
        ),
    ];
    let stderr = String::from_utf8(output.stderr).unwrap();
    for (line, expected) in stderr.lines().zip(&expected) {
        assert_eq!(line, expected);
    }
    assert_eq!(stderr.lines().count(), expected.len(), "{stderr}");
}
