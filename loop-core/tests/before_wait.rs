//! What is put off until the end of an iteration.

mod common;

use std::cell::Cell;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::time::Duration;

use common::{Trace, for_each_backend, pair, reports, turn};
use loop_core::{BeforeWait, ContextVar, EventLoop, LoopAbort, LoopRef, spawn, yield_now};

/// Notes that it was called, and then does what the test wants.
struct Noting<F>(Trace, &'static str, F);

impl<F: Fn()> BeforeWait for Noting<F> {
    fn before_wait(self: Rc<Self>) {
        self.0.push(self.1);
        (self.2)();
    }
}

fn noting(trace: &Trace, what: &'static str) -> Rc<dyn BeforeWait> {
    acting(trace, what, || {})
}

fn acting(trace: &Trace, what: &'static str, act: impl Fn() + 'static) -> Rc<dyn BeforeWait> {
    Rc::new(Noting(trace.clone(), what, act))
}

/// Asks in a callback.
fn ask_soon(lp: &LoopRef, who: Rc<dyn BeforeWait>) {
    let asks = lp.clone();
    lp.call_soon(move || assert!(asks.call_before_wait(who)));
}

#[test]
fn it_comes_behind_the_batch_and_before_what_that_schedules() {
    for_each_backend(|builder| {
        let mut event_loop = builder.build().unwrap();
        let (lp, trace) = (event_loop.loop_ref(), Trace::new());
        ask_soon(&lp, noting(&trace, "end"));
        let (next, schedules) = (trace.clone(), lp.clone());
        lp.call_soon(move || {
            schedules.call_soon(next.note("next"));
        });
        lp.call_soon(trace.note("callback"));
        turn(&mut event_loop);
        assert_eq!(trace.take(), ["callback", "end"]);
        turn(&mut event_loop);
        assert_eq!(trace.take(), ["next"]);
    });
}

#[test]
fn it_comes_before_the_wait_that_a_step_in_the_same_run_does() {
    for_each_backend(|builder| {
        let mut event_loop = builder.build().unwrap();
        let lp = event_loop.loop_ref();
        let (ours, theirs) = pair();
        let (stops, trace) = (lp.clone(), Trace::new());
        lp.add_reader(&ours, move || stops.stop()).unwrap();
        // Without the call the loop would wait for ever.
        ask_soon(&lp, acting(&trace, "end", move || (&theirs).write_all(b"x").unwrap()));
        event_loop.run_forever().unwrap();
        assert_eq!(trace.take(), ["end"]);
    });
}

#[test]
fn each_request_is_one_call_in_their_order() {
    let mut event_loop = EventLoop::new().unwrap();
    let (lp, trace) = (event_loop.loop_ref(), Trace::new());
    let (one, two) = (noting(&trace, "one"), noting(&trace, "two"));
    for who in [&one, &two, &one] {
        ask_soon(&lp, who.clone());
    }
    turn(&mut event_loop);
    assert_eq!(trace.take(), ["one", "two", "one"]);
    turn(&mut event_loop);
    assert_eq!(trace.len(), 0);
}

#[test]
fn nobody_is_called_for_who_asks_outside_of_an_iteration() {
    let mut event_loop = EventLoop::new().unwrap();
    let (lp, trace) = (event_loop.loop_ref(), Trace::new());
    let who = noting(&trace, "called");
    assert!(!lp.call_before_wait(who.clone()));
    {
        let mut scope = event_loop.enter().unwrap();
        assert!(!lp.call_before_wait(who.clone()));
        scope.run_once(Some(Duration::ZERO)).unwrap();
        assert!(!lp.call_before_wait(who.clone()));
    }
    let (asks, again) = (lp.clone(), who.clone());
    let end = acting(&trace, "end", move || assert!(!asks.call_before_wait(again.clone())));
    ask_soon(&lp, end);
    turn(&mut event_loop);
    event_loop.close();
    assert!(!lp.call_before_wait(who));
    assert_eq!(trace.take(), ["end"]);
}

#[test]
fn tasks_that_hand_over_to_each_other_have_an_end_each_iteration() {
    let mut event_loop = EventLoop::new().unwrap();
    let (lp, trace) = (event_loop.loop_ref(), Trace::new());
    let who = noting(&trace, "end");
    event_loop
        .run_until_complete(async {
            for turn in 1..=3 {
                assert!(lp.call_before_wait(who.clone()));
                yield_now().await;
                assert_eq!(trace.len(), turn);
            }
            spawn(async {}).await.unwrap();
        })
        .unwrap();
    assert_eq!(trace.len(), 3);
}

#[test]
fn a_panic_is_reported_and_the_others_are_called() {
    let mut event_loop = EventLoop::new().unwrap();
    let (lp, trace) = (event_loop.loop_ref(), Trace::new());
    let reports = reports(&lp);
    ask_soon(&lp, acting(&trace, "one", || panic!("on purpose")));
    ask_soon(&lp, noting(&trace, "two"));
    turn(&mut event_loop);
    assert_eq!(trace.take(), ["one", "two"]);
    assert_eq!(reports.len(), 1);
}

#[test]
fn a_panic_of_what_was_left_in_the_context_is_reported_and_the_others_are_called() {
    struct Bad;
    impl Drop for Bad {
        fn drop(&mut self) {
            panic!("on purpose");
        }
    }
    static VAR: ContextVar<Bad> = ContextVar::new();
    let mut event_loop = EventLoop::new().unwrap();
    let (lp, trace) = (event_loop.loop_ref(), Trace::new());
    let reports = reports(&lp);
    ask_soon(&lp, acting(&trace, "one", || drop(VAR.set(Bad))));
    ask_soon(&lp, noting(&trace, "two"));
    turn(&mut event_loop);
    assert_eq!(trace.take(), ["one", "two"]);
    assert_eq!(reports.len(), 1);
}

#[test]
fn an_abort_ends_the_iteration_like_any_other() {
    let mut event_loop = EventLoop::new().unwrap();
    let (lp, trace) = (event_loop.loop_ref(), Trace::new());
    ask_soon(&lp, acting(&trace, "one", || LoopAbort { code: 1 }.raise()));
    ask_soon(&lp, noting(&trace, "two"));
    lp.call_soon(|| LoopAbort { code: 2 }.raise());
    lp.call_soon(trace.note("left for the next run"));
    let run = |event_loop: &mut EventLoop| {
        catch_unwind(AssertUnwindSafe(|| event_loop.run_forever())).unwrap_err()
    };
    assert_eq!(run(&mut event_loop).downcast_ref(), Some(&LoopAbort { code: 2 }));
    assert_eq!(trace.take(), ["one", "two"]);

    ask_soon(&lp, acting(&trace, "three", || LoopAbort { code: 3 }.raise()));
    ask_soon(&lp, noting(&trace, "four"));
    assert_eq!(run(&mut event_loop).downcast_ref(), Some(&LoopAbort { code: 3 }));
    assert_eq!(trace.take(), ["left for the next run", "three", "four"]);
}

#[test]
fn whoever_asks_is_let_go_after_the_call() {
    let mut event_loop = EventLoop::new().unwrap();
    let (lp, trace, count) = (event_loop.loop_ref(), Trace::new(), Rc::new(Cell::new(0)));
    let counts = count.clone();
    ask_soon(&lp, acting(&trace, "end", move || counts.set(counts.get() + 1)));
    turn(&mut event_loop);
    assert_eq!((count.get(), Rc::strong_count(&count)), (1, 1));
}
