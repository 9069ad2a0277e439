//! The loop's part of handles and contexts.

mod common;

use std::cell::RefCell;
use std::io::Write;
use std::rc::Rc;
use std::time::Duration;

use common::{Trace, keep, pair, reports, turn};
use loop_core::{Context, ContextVar, EventLoop, Handle};

static VAR: ContextVar<u32> = ContextVar::new();

fn new_loop() -> EventLoop {
    EventLoop::new().unwrap()
}

/// A callback that notes what it sees, and writes what the next one must not see.
fn note(trace: &Trace, what: &'static str) -> impl Fn() + 'static + use<> {
    let trace = trace.clone();
    move || {
        trace.push(format!("{what} {:?}", VAR.get()));
        VAR.set(99);
    }
}

#[test]
fn b_hnd_03_and_04_a_cancelled_handle_drops_its_closure_at_once_and_is_skipped() {
    let mut event_loop = new_loop();
    let trace = Trace::new();
    let value = trace.on_drop("dropped");
    let victim = event_loop.call_soon(move || keep(&value));
    victim.cancel();
    assert_eq!(trace.take(), ["dropped"]);
    let later: Rc<RefCell<Option<Handle>>> = Rc::default();
    let target = later.clone();
    event_loop.call_soon(move || target.take().unwrap().cancel());
    *later.borrow_mut() = Some(event_loop.call_soon(trace.note("same batch")));
    turn(&mut event_loop);
    assert_eq!(trace.take(), Vec::<String>::new());
}

#[test]
fn b_hnd_05_and_06_every_kind_of_callback_runs_in_the_context_of_its_scheduling() {
    let mut event_loop = new_loop();
    let (ours, mut theirs) = pair();
    theirs.write_all(b"x").unwrap();
    let trace = Trace::new();
    VAR.set(1);
    event_loop.call_soon(note(&trace, "soon"));
    VAR.set(2);
    event_loop.call_soon(note(&trace, "soon"));
    VAR.set(3);
    event_loop.add_reader(&ours, note(&trace, "reader")).unwrap();
    VAR.set(4);
    event_loop.call_at(event_loop.now(), note(&trace, "timer"));
    VAR.set(5);
    let (task, body) = (note(&trace, "task"), note(&trace, "task again"));
    event_loop
        .spawn(async move {
            task();
            body();
        })
        .detach();
    VAR.set(6);
    turn(&mut event_loop);
    assert_eq!(
        trace.take(),
        [
            "soon Some(1)",
            "soon Some(2)",
            "task Some(5)",
            "task again Some(99)",
            "reader Some(3)",
            "timer Some(4)"
        ]
    );
    turn(&mut event_loop);
    assert_eq!(trace.take(), ["reader Some(3)"], "a repeating callback starts afresh each time");
    assert_eq!(VAR.get(), Some(6));
}

#[test]
fn b_hnd_06_an_explicit_context_is_shared() {
    let mut event_loop = new_loop();
    let context = Context::new();
    let trace = Trace::new();
    event_loop.call_soon_in(&context, note(&trace, "first"));
    event_loop.call_soon_in(&context, note(&trace, "second"));
    turn(&mut event_loop);
    assert_eq!(trace.take(), ["first None", "second Some(99)"]);
    assert_eq!(VAR.get(), None);
}

#[test]
fn b_hnd_07_a_context_that_is_entered_is_a_reported_failure() {
    let mut event_loop = new_loop();
    let log = reports(&event_loop);
    let context = Context::new();
    event_loop.call_soon_in(&context, || panic!("must not run"));
    context.run(|| turn(&mut event_loop)).unwrap();
    assert_eq!(log.take(), ["callback failed: error \"the context is entered already\""]);
}

#[test]
fn b_hnd_09_and_11_handles_know_their_site_and_deadline_to_the_end() {
    let mut event_loop = new_loop();
    let when = event_loop.now() + Duration::from_secs(60);
    let handle = event_loop.call_soon(|| ());
    let line = line!() - 1;
    let timer = event_loop.call_at(when, || ());
    turn(&mut event_loop);
    timer.cancel();
    assert_eq!((handle.site().file(), handle.site().line()), (file!(), line));
    assert_eq!(timer.site().line(), line + 2);
    assert_eq!(timer.when(), when);
    assert!(handle.is_done() && !handle.is_cancelled());
}

#[test]
fn b_hnd_11_dropping_a_handle_cancels_nothing() {
    let mut event_loop = new_loop();
    let trace = Trace::new();
    drop(event_loop.call_soon(trace.note("soon")));
    drop(event_loop.call_later(Duration::ZERO, trace.note("later")));
    turn(&mut event_loop);
    assert_eq!(trace.take(), ["soon", "later"]);
}

#[test]
fn a_repeating_handle_is_queued_as_often_as_it_is_asked_for() {
    let mut event_loop = new_loop();
    let trace = Trace::new();
    let handle = Handle::repeating(trace.note("again"));
    event_loop.call_handle(&handle);
    event_loop.call_handle(&handle);
    turn(&mut event_loop);
    assert_eq!(trace.take(), ["again", "again"]);
    event_loop.close();
    event_loop.call_handle(&handle);
    assert!(handle.is_cancelled());
}
