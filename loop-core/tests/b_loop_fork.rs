//! What a child of fork(2) may do. Without a test harness: a process that forks should have one thread.

mod common;

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use common::{pair, run_until_stopped_in_sleep};
use fork::{Fork, WEXITSTATUS, fork, waitpid};
use loop_core::{EventLoop, LoopError, LoopRef, Signal, run, sleep};
use loop_selector::{available, by_name, raise};
use std::io::Write;

fn main() {
    for name in available() {
        b_loop_27_an_inherited_loop_refuses_to_run(name);
        b_loop_27_a_child_of_a_running_loop_has_no_current_loop(name);
        s16_a_child_that_drops_the_loop_leaves_the_parents_waker(name);
    }
}

fn new_loop(name: &str) -> EventLoop {
    EventLoop::builder().selector(by_name(name).unwrap()).build().unwrap()
}

/// Runs `child` in a forked child, which ends without unwinding into its parent's frames, and checks that it says
/// yes.
fn in_child(child: impl FnOnce() -> bool) {
    match fork().unwrap() {
        Fork::Child => {
            let good = std::panic::catch_unwind(std::panic::AssertUnwindSafe(child));
            std::process::exit(if good.unwrap_or(false) { 0 } else { 1 });
        }
        Fork::Parent(child) => assert_eq!(WEXITSTATUS(waitpid(child).unwrap()), 0, "in the child"),
    }
}

/// A fresh loop does everything.
fn a_fresh_loop_works(name: &str) -> bool {
    let (ours, mut theirs) = pair();
    let signalled = Rc::new(Cell::new(false));
    let flag = signalled.clone();
    let mut fresh = new_loop(name);
    fresh.add_signal_handler(Signal::USR1, move || flag.set(true)).unwrap();
    let done = fresh.run_until_complete(async move {
        theirs.write_all(b"x").unwrap();
        LoopRef::current().readable(&ours).await.unwrap();
        raise(Signal::USR1).unwrap();
        sleep(Duration::from_millis(1)).await;
        LoopRef::current().run_blocking(|| 7).await.unwrap()
    });
    done.unwrap() == 7 && signalled.get() && run(async { 8 }).unwrap() == 8
}

fn b_loop_27_an_inherited_loop_refuses_to_run(name: &str) {
    let mut event_loop = new_loop(name);
    let (ours, mut theirs) = pair();
    let seen = Rc::new(Cell::new(0));
    let count = seen.clone();
    event_loop.add_reader(&ours, move || count.set(count.get() + 1)).unwrap();
    let ran = Rc::new(Cell::new(false));
    let flag = ran.clone();
    event_loop.call_soon(move || flag.set(true));
    in_child(|| {
        let refused = |result: Result<(), LoopError>| matches!(result, Err(LoopError::Forked));
        let once = refused(event_loop.run_once(Some(Duration::ZERO)).map(drop));
        let complete = refused(event_loop.run_until_complete(async {}));
        let none_ran = !ran.get() && LoopRef::try_current().is_none();
        // Closing the copy takes nothing from the parent.
        event_loop.close();
        once && complete && none_ran && a_fresh_loop_works(name)
    });
    theirs.write_all(b"x").unwrap();
    event_loop.run_once(None).unwrap();
    assert!(ran.get() && seen.get() == 1, "{name}: the parent's loop is as it was");
}

fn b_loop_27_a_child_of_a_running_loop_has_no_current_loop(name: &str) {
    let mut event_loop = new_loop(name);
    let own = name.to_owned();
    let lp = event_loop.loop_ref();
    event_loop.call_soon(move || {
        in_child(|| LoopRef::try_current().is_none() && a_fresh_loop_works(&own));
        assert!(LoopRef::try_current().is_some());
        lp.stop();
    });
    event_loop.run_forever().unwrap();
}

// eventlet/eventlet#68: the child's clean-up took the parent's registrations, and nothing woke the parent's loop.
fn s16_a_child_that_drops_the_loop_leaves_the_parents_waker(name: &str) {
    let event_loop = Cell::new(Some(new_loop(name)));
    in_child(|| {
        drop(event_loop.take());
        true
    });
    let mut event_loop = event_loop.take().unwrap();
    let in_time = Rc::new(Cell::new(true));
    let (late, lp) = (in_time.clone(), event_loop.loop_ref());
    event_loop.call_later(Duration::from_secs(30), move || {
        late.set(false);
        lp.stop();
    });
    run_until_stopped_in_sleep(&mut event_loop);
    assert!(in_time.get(), "{name}: nothing woke it");
}
