//! Signal delivery. Signals belong to the process: each test has one of its own, or a child.

use std::io::{ErrorKind, Read};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use loop_selector::conformance::{usable, watched};
use loop_selector::{
    Events, Selector, Signal, SignalWatcher, Waker, by_name, raise, with_clear_mask,
};

fn watcher() -> SignalWatcher {
    SignalWatcher::new(Waker::new().unwrap()).unwrap()
}

/// The signal's handler, mask aside, as the kernel has it.
fn disposition(signal: Signal) -> (usize, libc::c_int) {
    // SAFETY: zero is a valid `sigaction`, and the call only fills it in.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        assert_eq!(libc::sigaction(signal.as_raw(), std::ptr::null(), &mut action), 0);
        (action.sa_sigaction, action.sa_flags)
    }
}

fn set_handler(signal: Signal, handler: usize) {
    // SAFETY: the handlers used below are SIG_IGN and `nothing`, which does nothing.
    assert_ne!(unsafe { libc::signal(signal.as_raw(), handler) }, libc::SIG_ERR);
}

extern "C" fn nothing(_: libc::c_int) {}

/// What a child is to do.
const JOB: &str = "LOOP_SELECTOR_TEST_JOB";

/// Runs the ignored test `name` of this file in a process of its own.
fn in_child(name: &str, job: &str) -> std::process::ExitStatus {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--ignored", "--test-threads=1"])
        .env(JOB, job)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            let mut output = String::new();
            child.stdout.take().unwrap().read_to_string(&mut output).unwrap();
            print!("{output}");
            return status;
        }
        if Instant::now() > deadline {
            child.kill().unwrap();
            panic!("the child still runs: {:?}", child.wait());
        }
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn b_sig_01_a_signal_ends_an_endless_wait_on_every_backend() {
    watched("b_sig_01", || {
        usable().iter().for_each(|name| {
            let mut selector = by_name(name).unwrap();
            let mut signals = SignalWatcher::new(selector.waker()).unwrap();
            signals.watch(Signal::HUP).unwrap();
            let mut events = Events::new();
            for _ in 0..20 {
                let sender = thread::spawn(|| {
                    thread::sleep(Duration::from_millis(1));
                    raise(Signal::HUP).unwrap();
                });
                selector.select(&mut events, None).unwrap();
                assert!(events.is_empty());
                sender.join().unwrap();
                assert_eq!(signals.pending(), [(Signal::HUP, 1)]);
            }
        })
    });
}

#[test]
fn b_sig_03_every_delivery_is_counted_once() {
    let mut signals = watcher();
    assert_eq!(signals.pending(), []);
    signals.watch(Signal::USR1).unwrap();
    for count in [3, 1] {
        for _ in 0..count {
            raise(Signal::USR1).unwrap();
        }
        assert_eq!(signals.pending(), [(Signal::USR1, count)]);
        assert_eq!(signals.pending(), []);
    }
}

#[test]
fn b_sig_04_unwatch_is_true_once_and_restores_what_was_there() {
    let signal = Signal::USR2;
    for before in [libc::SIG_IGN, nothing as *const () as usize] {
        set_handler(signal, before);
        let old = disposition(signal);
        let (mut one, mut two) = (watcher(), watcher());
        one.watch(signal).unwrap();
        one.watch(signal).unwrap(); // counts once
        two.watch(signal).unwrap();
        assert_ne!(disposition(signal).0, before);
        assert!(one.unwatch(signal));
        assert!(!one.unwatch(signal));
        assert_ne!(disposition(signal).0, before, "the other one still watches");
        raise(signal).unwrap();
        assert_eq!((one.pending(), two.pending()), (vec![], vec![(signal, 1)]));
        drop(two);
        assert_eq!(disposition(signal), old);
    }
}

#[test]
fn a_handler_that_replaced_ours_is_left_alone() {
    let signal = Signal::WINCH;
    let mut signals = watcher();
    signals.watch(signal).unwrap();
    set_handler(signal, nothing as *const () as usize);
    assert!(signals.unwatch(signal));
    assert_eq!(disposition(signal).0, nothing as *const () as usize);
    set_handler(signal, libc::SIG_DFL);
}

#[test]
fn b_sig_05_no_such_signal_and_no_such_handler_are_distinct_errors() {
    for number in [-1, 0, 65, i32::MAX] {
        assert_eq!(Signal::new(number).unwrap_err().kind(), ErrorKind::InvalidInput);
    }
    for number in [libc::SIGKILL, libc::SIGSTOP, libc::SIGSEGV] {
        assert_eq!(Signal::new(number).unwrap_err().kind(), ErrorKind::Unsupported);
    }
    assert_eq!(Signal::new(libc::SIGINT).unwrap(), Signal::INT);
    assert_eq!(Signal::INT.to_string(), "SIGINT");
}

#[test]
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn b_sig_06_a_failed_installation_leaves_nothing_behind() {
    let mut signals = watcher();
    let reserved = Signal::new(33).unwrap(); // glibc keeps it for itself
    assert!(signals.watch(reserved).is_err());
    assert!(!signals.unwatch(reserved));
    assert_eq!(reserved.to_string(), "signal 33");
}

#[test]
fn b_sig_08_interrupted_calls_elsewhere_are_restarted() {
    let mut signals = watcher();
    signals.watch(Signal::CHLD).unwrap();
    let flags = libc::SA_RESTART | libc::SA_ONSTACK;
    assert_eq!(disposition(Signal::CHLD).1 & flags, flags);
}

#[test]
fn b_sig_09_every_watcher_of_every_thread_sees_every_delivery() {
    let signal = Signal::QUIT;
    let mut mine = watcher();
    mine.watch(signal).unwrap();
    let barrier = std::sync::Barrier::new(4);
    watched("b_sig_09", || {
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    let mut selector = by_name("poll").unwrap();
                    let mut theirs = SignalWatcher::new(selector.waker()).unwrap();
                    theirs.watch(signal).unwrap();
                    barrier.wait();
                    let mut seen = 0;
                    while seen < 100 {
                        selector.select(&mut Events::new(), None).unwrap();
                        seen += theirs.pending().iter().map(|(_, count)| count).sum::<u64>();
                    }
                    assert_eq!(seen, 100);
                });
            }
            barrier.wait();
            (0..100).for_each(|_| raise(signal).unwrap());
        })
    });
    assert_eq!(mine.pending(), [(signal, 100)]);
}

#[test]
fn b_sig_09_two_loops_on_any_two_backends_both_see_a_burst() {
    let signal = Signal::new(libc::SIGURG).unwrap();
    watched("b_sig_09_two_loops", || {
        let names = usable();
        for (first, second) in names.iter().zip(names.iter().cycle().skip(1)) {
            let ready = std::sync::Barrier::new(3);
            thread::scope(|scope| {
                let loops = [first, second].map(|name| {
                    let ready = &ready;
                    scope.spawn(move || {
                        let mut selector = by_name(name).unwrap();
                        let mut signals = SignalWatcher::new(selector.waker()).unwrap();
                        signals.watch(signal).unwrap();
                        ready.wait();
                        let (mut seen, mut events) = (0, Events::new());
                        while seen < 1_000 {
                            selector.select(&mut events, None).unwrap();
                            seen += signals.pending().iter().map(|(_, count)| count).sum::<u64>();
                        }
                        seen
                    })
                });
                ready.wait();
                (0..1_000).for_each(|_| raise(signal).unwrap());
                assert_eq!(loops.map(|thread| thread.join().unwrap()), [1_000; 2]);
            });
        }
    });
}

#[test]
fn what_is_not_watched_wakes_nobody() {
    let waker = Waker::new().unwrap();
    let mut signals = SignalWatcher::new(waker.clone()).unwrap();
    let mut other = watcher();
    other.watch(Signal::PIPE).unwrap();
    raise(Signal::PIPE).unwrap();
    assert!(!waker.is_notified());
    assert_eq!(signals.pending(), []);
    assert_eq!(other.pending(), [(Signal::PIPE, 1)]);
}

#[test]
fn a_child_started_with_a_clear_mask_can_be_stopped() {
    watched("with_clear_mask", || {
        thread::spawn(|| {
            block(Signal::TERM);
            let sleeper = || Command::new("sleep").arg("60").spawn().unwrap();
            let mut child = with_clear_mask(sleeper).unwrap();
            assert!(is_blocked(Signal::TERM), "the mask came back");
            terminate(&child);
            assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGTERM));
            let panic = std::panic::catch_unwind(|| with_clear_mask(|| panic!("as expected")));
            assert!(panic.is_err() && is_blocked(Signal::TERM));
        })
        .join()
        .unwrap();
    });
}

fn block(signal: Signal) {
    // SAFETY: the set is written to before it is read.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, signal.as_raw());
        libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut());
    }
}

fn is_blocked(signal: Signal) -> bool {
    // SAFETY: without a new set the call only fills in the old one.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), &mut set);
        libc::sigismember(&set, signal.as_raw()) == 1
    }
}

fn terminate(child: &std::process::Child) {
    // SAFETY: it takes no pointers, and the child has not been waited for, so the number is its own.
    unsafe { libc::kill(child.id() as libc::pid_t, libc::SIGTERM) };
}

// dabeaz/curio#118: the signal's number travelled in the self-pipe and was lost when that was full.
#[test]
#[cfg(any(target_os = "linux", target_os = "android"))]
fn s12_signals_survive_a_full_wake_up_descriptor() {
    watched("s12", signals_survive_a_full_wake_up_descriptor);
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn signals_survive_a_full_wake_up_descriptor() {
    use loop_selector::{EpollSelector, PollSelector, SelectSelector};
    for name in usable() {
        survive_a_full_descriptor(by_name(name).unwrap(), true);
    }
    for waker in [Waker::pipe, Waker::socketpair] {
        let waker = || waker().unwrap();
        let selectors: [Box<dyn Selector>; 3] = [
            Box::new(EpollSelector::with_waker(waker()).unwrap()),
            Box::new(PollSelector::with_waker(waker()).unwrap()),
            Box::new(SelectSelector::with_waker(waker()).unwrap()),
        ];
        selectors.into_iter().for_each(|selector| survive_a_full_descriptor(selector, false));
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn survive_a_full_descriptor(mut selector: Box<dyn Selector>, is_eventfd: bool) {
    let [first, second] = [Signal::new(34 + 3).unwrap(), Signal::new(34 + 4).unwrap()];
    let waker = selector.waker();
    let mut signals = SignalWatcher::new(waker.clone()).unwrap();
    signals.watch(first).unwrap();
    signals.watch(second).unwrap();
    fill(&waker, is_eventfd);
    assert!(waker.park());
    (0..50).for_each(|_| raise(first).unwrap());
    raise(second).unwrap();
    let mut events = Events::new();
    selector.select(&mut events, None).unwrap();
    let mut pending = signals.pending();
    pending.sort();
    assert_eq!(pending, [(first, 50), (second, 1)]);
    let wake = thread::spawn(move || waker.wake());
    selector.select(&mut events, None).unwrap();
    wake.join().unwrap();
}

/// Wakes until the descriptor takes nothing more: a wake writes whenever it meets a parked loop.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn fill(waker: &Waker, is_eventfd: bool) {
    if is_eventfd {
        rustix::io::write(waker, &(u64::MAX - 1).to_ne_bytes()).unwrap();
        assert!(rustix::io::write(waker, &1u64.to_ne_bytes()).is_err(), "it is full");
        return;
    }
    for _ in 0..20_000 {
        assert!(waker.park());
        waker.wake();
        waker.unpark();
    }
}

#[test]
fn watchers_come_and_go_while_signals_arrive() {
    let signal = Signal::ALRM;
    let mut always = watcher();
    always.watch(signal).unwrap(); // else the signal would be deadly now and then
    let done = AtomicBool::new(false);
    let raised = thread::scope(|scope| {
        let senders = [(); 2].map(|()| {
            scope.spawn(|| {
                let mut raised = 0;
                while !done.load(Ordering::Relaxed) {
                    raise(signal).unwrap();
                    raised += 1;
                }
                raised
            })
        });
        let watchers = [(); 3].map(|()| {
            scope.spawn(|| {
                for _ in 0..2_000 {
                    let mut short = watcher();
                    short.watch(signal).unwrap();
                    short.pending();
                }
            })
        });
        watchers.into_iter().for_each(|thread| thread.join().unwrap());
        done.store(true, Ordering::Relaxed);
        senders.into_iter().map(|thread| thread.join().unwrap()).sum::<u64>()
    });
    assert_eq!(always.pending(), [(signal, raised)]);
}

// tokio-rs/tokio#7905: the signal was swallowed for ever once it had been listened for.
#[test]
fn s25_after_the_last_unwatch_the_signal_is_deadly_again() {
    for backend in usable() {
        for signal in [Signal::INT, Signal::TERM] {
            for way in ["unwatch", "drop"] {
                let job = format!("{backend} {} {way}", signal.as_raw());
                let status = in_child("child_watches_and_raises", &job);
                assert_eq!(status.signal(), Some(signal.as_raw()), "{job}");
            }
        }
        println!("{backend}: the default action is back");
    }
}

#[test]
#[ignore = "run by s25_after_the_last_unwatch_the_signal_is_deadly_again"]
fn child_watches_and_raises() {
    let job = std::env::var(JOB).unwrap();
    let [backend, number, way] = job.split(' ').collect::<Vec<_>>()[..] else { panic!("{job}") };
    let signal = Signal::new(number.parse().unwrap()).unwrap();
    // A shell's background job inherits "ignored" for SIGINT.
    set_handler(signal, libc::SIG_DFL);
    let mut selector = by_name(backend).unwrap();
    let mut signals = SignalWatcher::new(selector.waker()).unwrap();
    signals.watch(signal).unwrap();
    raise(signal).unwrap();
    selector.select(&mut Events::new(), None).unwrap();
    assert_eq!(signals.pending(), [(signal, 1)]);
    match way {
        "unwatch" => {
            assert!(signals.unwatch(signal));
            assert!(!signals.unwatch(signal));
        }
        _ => drop((signals, selector)),
    }
    raise(signal).unwrap();
}
