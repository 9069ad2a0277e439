//! Signal handlers. Signals belong to the process, so these tests take turns.

mod common;

use std::cell::Cell;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::rc::Rc;
use std::sync::{Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;

use common::{Sleeper, Trace, for_each_backend, keep, reports, turn, watchdog};
use loop_core::{EventLoop, LoopRef, Signal, interrupted};
use loop_selector::raise;

fn one_at_a_time() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

#[test]
fn b_sig_01_a_signal_ends_the_wait_and_its_handler_is_a_callback() {
    let _turn = one_at_a_time();
    for_each_backend(|builder| {
        let mut event_loop = builder.build().unwrap();
        let here = thread::current().id();
        event_loop
            .add_signal_handler(Signal::USR1, move || {
                assert_eq!(thread::current().id(), here);
                LoopRef::current().stop();
            })
            .unwrap();
        let waits = Sleeper::this_thread();
        let thread = thread::spawn(move || {
            waits.wait();
            raise(Signal::USR1).unwrap(); // on this thread, which is not the loop's
        });
        event_loop.run_forever().unwrap();
        thread.join().unwrap();
    });
}

#[test]
fn b_sig_02_a_second_handler_replaces_the_first() {
    let _turn = one_at_a_time();
    let mut event_loop = EventLoop::new().unwrap();
    let trace = Trace::new();
    let value = trace.on_drop("first dropped");
    let first = event_loop.add_signal_handler(Signal::USR1, move || keep(&value)).unwrap();
    event_loop.add_signal_handler(Signal::USR1, trace.note("second")).unwrap();
    assert!(first.is_cancelled());
    raise(Signal::USR1).unwrap();
    turn(&mut event_loop);
    assert_eq!(trace.take(), ["first dropped", "second"]);
}

#[test]
fn b_sig_03_each_delivery_is_one_run() {
    let _turn = one_at_a_time();
    let mut event_loop = EventLoop::new().unwrap();
    let trace = Trace::new();
    event_loop.add_signal_handler(Signal::USR1, trace.note("usr1")).unwrap();
    raise(Signal::USR1).unwrap(); // raise returns after the handler ran: these are not merged
    raise(Signal::USR1).unwrap();
    turn(&mut event_loop);
    assert_eq!(trace.take(), ["usr1", "usr1"]);
    turn(&mut event_loop);
    assert_eq!(trace.take(), Vec::<String>::new());
}

#[test]
fn b_sig_04_removing_works_once_and_a_removed_handler_does_not_run() {
    let _turn = one_at_a_time();
    let mut event_loop = EventLoop::new().unwrap();
    let other = EventLoop::new().unwrap(); // keeps the signal from killing this process
    other.add_signal_handler(Signal::USR1, || ()).unwrap();
    let trace = Trace::new();
    assert!(!event_loop.remove_signal_handler(Signal::USR1));
    let handle = event_loop.add_signal_handler(Signal::USR1, trace.note("never")).unwrap();
    raise(Signal::USR1).unwrap();
    assert!(event_loop.remove_signal_handler(Signal::USR1));
    assert!(!event_loop.remove_signal_handler(Signal::USR1));
    assert!(handle.is_cancelled());
    raise(Signal::USR1).unwrap();
    turn(&mut event_loop);
    assert_eq!(trace.take(), Vec::<String>::new());
    event_loop.add_signal_handler(Signal::USR1, trace.note("fresh")).unwrap();
    turn(&mut event_loop);
    assert_eq!(trace.take(), Vec::<String>::new(), "what came before is not for the new one");
    raise(Signal::USR1).unwrap();
    turn(&mut event_loop);
    assert_eq!(trace.take(), ["fresh"]);
}

#[test]
fn b_sig_05_and_06_what_cannot_be_handled_is_an_error_and_leaves_nothing() {
    let _turn = one_at_a_time();
    let kind = |number| Signal::new(number).map_err(|error| error.kind());
    assert_eq!(kind(9), Err(std::io::ErrorKind::Unsupported));
    assert_eq!(kind(0), Err(std::io::ErrorKind::InvalidInput));
    assert_eq!(kind(100), Err(std::io::ErrorKind::InvalidInput));
    if cfg!(all(target_os = "linux", target_env = "gnu")) {
        let reserved = Signal::new(32).unwrap(); // glibc keeps it for itself
        let event_loop = EventLoop::new().unwrap();
        let alive = Rc::new(());
        for _ in 0..2 {
            let witness = alive.clone();
            assert!(event_loop.add_signal_handler(reserved, move || keep(&witness)).is_err());
            assert_eq!(Rc::strong_count(&alive), 1);
        }
        assert!(!event_loop.remove_signal_handler(reserved));
    }
}

#[test]
fn b_sig_07_a_handler_cancelled_through_its_handle_is_let_go() {
    let _turn = one_at_a_time();
    let mut event_loop = EventLoop::new().unwrap();
    let trace = Trace::new();
    let handle = event_loop.add_signal_handler(Signal::USR1, trace.note("never")).unwrap();
    handle.cancel();
    raise(Signal::USR1).unwrap();
    turn(&mut event_loop);
    assert_eq!(trace.take(), Vec::<String>::new());
    assert!(!event_loop.remove_signal_handler(Signal::USR1), "it is gone already");
}

#[test]
fn b_sig_09_every_loop_that_handles_a_signal_hears_of_it() {
    let _turn = one_at_a_time();
    let _watchdog = watchdog();
    let (ready, all_ready) = mpsc::channel();
    let threads: Vec<_> = (0..3)
        .map(|_| {
            let ready = ready.clone();
            thread::spawn(move || {
                let mut event_loop = EventLoop::new().unwrap();
                let lp = event_loop.loop_ref();
                event_loop.add_signal_handler(Signal::USR2, move || lp.stop()).unwrap();
                ready.send(()).unwrap();
                event_loop.run_forever().unwrap();
            })
        })
        .collect();
    for _ in &threads {
        all_ready.recv().unwrap();
    }
    raise(Signal::USR2).unwrap();
    for thread in threads {
        thread.join().unwrap();
    }
}

// dabeaz/curio#118: signals whose bytes did not fit into the wake-up pipe were lost.
#[test]
fn b_sig_10_and_s12_no_signal_is_lost_behind_a_full_pipe() {
    let _turn = one_at_a_time();
    for_each_backend(|builder| {
        let mut event_loop = builder.build().unwrap();
        let (one, two) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
        let (first, second) = (one.clone(), two.clone());
        event_loop.add_signal_handler(Signal::USR1, move || first.set(first.get() + 1)).unwrap();
        event_loop.add_signal_handler(Signal::USR2, move || second.set(second.get() + 1)).unwrap();
        let remote = event_loop.remote();
        thread::spawn(move || (0..70_000).for_each(|_| drop(remote.call_soon(|| ()).unwrap())))
            .join()
            .unwrap();
        for _ in 0..50 {
            raise(Signal::USR1).unwrap();
        }
        raise(Signal::USR2).unwrap();
        turn(&mut event_loop);
        assert_eq!((one.get(), two.get()), (50, 1));
        let remote = event_loop.remote();
        let thread = thread::spawn(move || remote.stop().unwrap());
        event_loop.run_forever().unwrap();
        thread.join().unwrap();
    });
}

fn handles_no_request(lp: &LoopRef) -> bool {
    ![Signal::INT, Signal::TERM].into_iter().any(|signal| lp.remove_signal_handler(signal))
}

#[test]
fn everybody_who_waits_for_the_end_is_told_on_every_loop() {
    let _turn = one_at_a_time();
    let _watchdog = watchdog();
    for signal in [Signal::INT, Signal::TERM] {
        let (begun, waits) = mpsc::channel();
        let other = thread::spawn(move || {
            let mut event_loop = EventLoop::new().unwrap();
            let waiting = event_loop.spawn(interrupted());
            turn(&mut event_loop);
            begun.send(()).unwrap();
            event_loop.run_until_complete(waiting).unwrap().unwrap().unwrap()
        });
        waits.recv().unwrap();
        let mut event_loop = EventLoop::new().unwrap();
        let gone = event_loop.spawn(interrupted());
        let tasks = [event_loop.spawn(interrupted()), event_loop.spawn(interrupted())];
        turn(&mut event_loop);
        gone.cancel();
        turn(&mut event_loop);
        raise(signal).unwrap();
        assert_eq!(other.join().unwrap(), signal);
        for task in tasks {
            assert_eq!(event_loop.run_until_complete(task).unwrap().unwrap().unwrap(), signal);
        }
        assert!(handles_no_request(&event_loop));
        // The next wait is for the next signal.
        let next = event_loop.spawn(interrupted());
        turn(&mut event_loop);
        assert!(!next.is_done());
        next.cancel();
        turn(&mut event_loop);
        assert!(handles_no_request(&event_loop), "nobody waits any more");
    }
}

#[test]
fn a_wait_for_the_end_takes_signals_over_and_is_taken_over() {
    let _turn = one_at_a_time();
    let mut event_loop = EventLoop::new().unwrap();
    let trace = Trace::new();
    let before = event_loop.add_signal_handler(Signal::TERM, trace.note("before")).unwrap();
    let first = event_loop.spawn(interrupted());
    turn(&mut event_loop);
    assert!(before.is_cancelled());
    let meanwhile = event_loop.add_signal_handler(Signal::INT, trace.note("meanwhile")).unwrap();
    raise(Signal::INT).unwrap();
    turn(&mut event_loop);
    turn(&mut event_loop);
    assert_eq!(trace.take(), ["meanwhile"]);
    assert!(!first.is_done() && !meanwhile.is_cancelled());
    // The next who waits takes it over again, for both.
    let second = event_loop.spawn(interrupted());
    turn(&mut event_loop);
    raise(Signal::INT).unwrap();
    turn(&mut event_loop);
    turn(&mut event_loop);
    for task in [first, second] {
        assert_eq!(task.take_result().unwrap().unwrap().unwrap(), Signal::INT);
    }
    assert!(trace.take().is_empty() && handles_no_request(&event_loop));
}

#[test]
fn a_signal_handler_that_fails_stays() {
    let _turn = one_at_a_time();
    let mut event_loop = EventLoop::new().unwrap();
    let log = reports(&event_loop);
    event_loop.add_signal_handler(Signal::USR1, || Err("again")).unwrap();
    for _ in 0..20 {
        raise(Signal::USR1).unwrap();
        turn(&mut event_loop);
    }
    assert_eq!(log.take(), ["callback failed: error \"again\""; 20]);
    assert!(event_loop.remove_signal_handler(Signal::USR1));
}

/// Not a test of its own: what the next one runs in a process of its own. It ends by a signal.
#[test]
fn child_dies_by_signal() {
    let Ok(how) = std::env::var("LOOP_CORE_CHILD") else { return };
    let (name, way) = how.split_once(' ').unwrap();
    let signal = if name == "TERM" { Signal::TERM } else { Signal::INT };
    let mut event_loop = EventLoop::new().unwrap();
    let trace = Trace::new();
    event_loop.add_signal_handler(signal, trace.note("handled")).unwrap();
    raise(signal).unwrap();
    turn(&mut event_loop);
    assert_eq!(trace.take(), ["handled"]);
    match way {
        "remove" => {
            assert!(event_loop.remove_signal_handler(signal));
            assert!(!event_loop.remove_signal_handler(signal));
        }
        _ => drop(event_loop),
    }
    raise(signal).unwrap();
}

/// Whether this process was started with a signal ignored, as programs in the background of a script are with
/// INT. Then that is what a child finds, and what must be back.
fn is_ignored(number: i32) -> bool {
    let Ok(status) = std::fs::read_to_string("/proc/self/status") else { return false };
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
    u64::from_str_radix(mask.trim(), 16).unwrap() >> (number - 1) & 1 == 1
}

// tokio-rs/tokio#7905, denoland/deno#22724: the disposition was not restored.
#[test]
fn s25_the_default_action_is_back_when_a_handler_or_its_loop_is_gone() {
    let _watchdog = watchdog();
    // A child would inherit the default action of what is ignored here, while another test handles it.
    let _turn = one_at_a_time();
    for (name, number) in [("TERM", 15), ("INT", 2)] {
        for way in ["remove", "drop"] {
            let status = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "child_dies_by_signal", "--nocapture"])
                .env("LOOP_CORE_CHILD", format!("{name} {way}"))
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status()
                .unwrap();
            let expected = (!is_ignored(number)).then_some(number);
            assert_eq!(status.signal(), expected, "{name}, {way}");
        }
    }
}
