//! The watchdog: what it reports, when, and how often. Its reports end the waits they are about.

mod common;

use std::cell::RefCell;
use std::io::Write;
use std::rc::Rc;
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use common::{pair, turn, watchdog};
use loop_core::{EventLoop, Interest, IoHandler, LoopAbort, Readiness, Stuck, Watchdog};

const LIMIT: Duration = Duration::from_millis(10);

/// A watched loop, and what is reported.
fn watched() -> (EventLoop, Rc<Receiver<Stuck>>, Watchdog) {
    let event_loop = EventLoop::new().unwrap();
    let (sender, reports) = mpsc::channel();
    let watchdog =
        event_loop.start_watchdog(LIMIT, move |stuck| sender.send(stuck.clone()).unwrap()).unwrap();
    (event_loop, Rc::new(reports), watchdog)
}

/// Where to put what a callback got.
type Slot = Rc<RefCell<Option<Stuck>>>;

fn take(slot: &Slot) -> Stuck {
    slot.take().expect("it was reported")
}

#[test]
fn a_callback_that_does_not_return_is_named_with_its_site() {
    let _watchdog = watchdog();
    let (mut event_loop, reports, _dog) = watched();
    let slot = Slot::default();
    let (seen, received) = (slot.clone(), reports.clone());
    event_loop.call_soon(|| ());
    let line = line!() + 1;
    event_loop.call_soon(move || *seen.borrow_mut() = Some(received.recv().unwrap()));
    turn(&mut event_loop);
    let stuck = take(&slot);
    assert!(stuck.elapsed >= LIMIT);
    let text = stuck.to_string();
    let callback = stuck.callback.unwrap();
    assert!(callback.name.contains("a_callback_that_does_not_return"), "{}", callback.name);
    let site = callback.site.unwrap();
    assert_eq!((site.file(), site.line()), (file!(), line));
    let start =
        format!("event loop {} is stuck: its iteration takes 0.0", event_loop.dump().loop_id);
    assert!(text.starts_with(&start), "{text}");
    assert!(text.contains(&format!(" of {site} since 0.0")), "{text}");
}

#[test]
fn a_task_and_an_io_handler_are_named() {
    let _watchdog = watchdog();
    let (mut event_loop, reports, _dog) = watched();
    let slot = Slot::default();
    let (seen, received) = (slot.clone(), reports.clone());
    let line = line!() + 1;
    let task = event_loop.spawn(async move { *seen.borrow_mut() = Some(received.recv().unwrap()) });
    task.set_name("digger");
    turn(&mut event_loop);
    let callback = take(&slot).callback.unwrap();
    assert_eq!((&*callback.name, callback.site.unwrap().line()), ("digger", line));

    struct Stubborn(Slot, Rc<Receiver<Stuck>>);
    impl IoHandler for Stubborn {
        fn ready(self: Rc<Self>, _: Readiness, _: &mut Vec<u8>) {
            *self.0.borrow_mut() = Some(self.1.recv().unwrap());
        }
    }
    let (ours, mut theirs) = pair();
    theirs.write_all(b"x").unwrap();
    let handler = Rc::new(Stubborn(slot.clone(), reports));
    event_loop.register_io(ours, Interest::READ, handler).unwrap();
    turn(&mut event_loop);
    let callback = take(&slot).callback.unwrap();
    assert!(callback.name.starts_with("I/O handler of fd "), "{}", callback.name);
    assert!(callback.site.is_none());
}

/// Many small callbacks can hold an iteration up as well.
#[test]
fn an_iteration_is_reported_once_and_the_next_one_again() {
    let _watchdog = watchdog();
    let (mut event_loop, reports, _dog) = watched();
    for _ in 0..2 {
        let received = reports.clone();
        event_loop.call_soon(move || drop(received.recv().unwrap()));
        let received = reports.clone();
        event_loop.call_soon(move || {
            // The same iteration: three times the limit, and nothing more to hear.
            assert!(received.recv_timeout(3 * LIMIT).is_err());
        });
        turn(&mut event_loop);
    }
}

/// A loop that waits for something to happen is not stuck.
#[test]
fn waiting_is_not_being_stuck() {
    let _watchdog = watchdog();
    let (mut event_loop, reports, _dog) = watched();
    event_loop.run_once(Some(5 * LIMIT)).unwrap();
    assert!(reports.try_recv().is_err());
}

fn abort() {
    LoopAbort { code: 1 }.raise();
}

#[test]
fn a_panic_that_ends_the_run_ends_the_iteration() {
    let _watchdog = watchdog();
    let (mut event_loop, reports, _dog) = watched();
    event_loop.call_soon(abort);
    let run = std::panic::AssertUnwindSafe(|| event_loop.run_forever());
    assert!(std::panic::catch_unwind(run).is_err());
    assert!(reports.recv_timeout(3 * LIMIT).is_err());
}

#[test]
fn the_last_watchdog_counts_and_a_dropped_one_is_silent() {
    let _watchdog = watchdog();
    let (mut event_loop, first, dog) = watched();
    let (sender, second) = mpsc::channel();
    let replacing =
        event_loop.start_watchdog(LIMIT, move |stuck| sender.send(stuck.clone()).unwrap()).unwrap();
    drop(dog); // the one that was replaced: it takes nothing with it
    event_loop.call_soon(move || drop(second.recv().unwrap()));
    turn(&mut event_loop);
    assert!(first.recv().is_err(), "its thread has ended and dropped the sender");
    drop(replacing);
    event_loop.call_soon(|| std::thread::sleep(2 * LIMIT));
    turn(&mut event_loop);
}
