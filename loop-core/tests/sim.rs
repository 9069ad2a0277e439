//! Virtual time: what it jumps over, what it does not, and what it says when nothing can happen.

mod common;

use std::cell::RefCell;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use common::{Sleeper, Trace, pair, watchdog};
use loop_core::sync::{Lock, Queue};
use loop_core::{
    AutoJump, Clock, EventLoop, LoopError, LoopFuture, Runner, Signal, current_task,
    default_selector, sleep, spawn, yield_now,
};

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);

fn simulated() -> EventLoop {
    EventLoop::builder().simulated().unwrap().build().unwrap()
}

/// Virtual time over the default selector.
fn over_real() -> EventLoop {
    let time = AutoJump::new(default_selector().unwrap());
    EventLoop::builder().virtual_time(time).build().unwrap()
}

fn both(test: impl Fn(EventLoop)) {
    let _watchdog = watchdog();
    test(simulated());
    test(over_real());
}

#[test]
fn an_hour_of_timers_runs_in_no_time_and_in_order() {
    both(|mut event_loop| {
        let began = event_loop.now();
        let real = Instant::now();
        let fired = Rc::new(RefCell::new(Vec::new()));
        for second in (0..3600_u64).rev() {
            let (log, lp) = (fired.clone(), event_loop.loop_ref());
            event_loop.call_later(Duration::from_secs(second), move || {
                log.borrow_mut().push((second, lp.now() - began));
            });
        }
        event_loop.run_until_complete(sleep(HOUR)).unwrap();
        let expected: Vec<_> = (0..3600).map(|s| (s, Duration::from_secs(s))).collect();
        assert_eq!(*fired.borrow(), expected);
        assert_eq!(event_loop.now() - began, HOUR);
        assert!(real.elapsed() < 10 * SECOND, "an hour took {:?}", real.elapsed());
    });
}

#[test]
fn waits_longer_than_a_day_and_limits_of_a_host_jump_as_well() {
    both(|mut event_loop| {
        let began = event_loop.now();
        event_loop.run_until_complete(sleep(1000 * HOUR)).unwrap();
        assert_eq!(event_loop.now() - began, 1000 * HOUR);
        event_loop.run_once(Some(HOUR)).unwrap();
        assert_eq!(event_loop.now() - began, 1001 * HOUR);
        event_loop.run_once(Some(Duration::ZERO)).unwrap();
        assert_eq!(event_loop.now() - began, 1001 * HOUR);
    });
}

/// Two ends of a connection in one loop: data is delivered before time moves on.
#[test]
fn data_on_its_way_arrives_before_the_next_timer() {
    let _watchdog = watchdog();
    let mut event_loop = over_real();
    let (ours, mut theirs) = pair();
    let began = event_loop.now();
    let trace = Trace::new();
    let (log, lp, source) = (trace.clone(), event_loop.loop_ref(), ours.clone());
    event_loop
        .add_reader(&ours, move || {
            let mut byte = [0];
            (&*source).read_exact(&mut byte).unwrap();
            log.push(format!("{} at {:?}", byte[0], lp.now() - began));
        })
        .unwrap();
    event_loop
        .run_until_complete(async {
            for n in 0..100 {
                sleep(HOUR).await;
                theirs.write_all(&[n]).unwrap();
                let timer = sleep(Duration::from_nanos(1));
                timer.await;
            }
        })
        .unwrap();
    let expected: Vec<_> = (0..100_u32)
        .map(|n| format!("{n} at {:?}", (n + 1) * HOUR + n * Duration::from_nanos(1)))
        .collect();
    assert_eq!(trace.take(), expected);
}

/// A job on a thread is in flight: an hour passes after it, not instead of it.
#[test]
fn time_does_not_jump_over_blocking_work() {
    both(|mut event_loop| {
        let began = event_loop.now();
        let (go, wait) = mpsc::channel::<()>();
        let lp = event_loop.loop_ref();
        let trace = Trace::new();
        let log = trace.clone();
        event_loop.call_later(HOUR, move || log.push("an hour"));
        let log = trace.clone();
        let job = lp.run_blocking(move || wait.recv().unwrap());
        event_loop.call_later(Duration::from_millis(1), move || go.send(()).unwrap());
        event_loop
            .run_until_complete(async {
                job.await.unwrap();
                log.push("job");
                sleep(2 * HOUR).await;
            })
            .unwrap();
        assert_eq!(trace.take(), ["job", "an hour"]);
        assert!(event_loop.now() - began >= 2 * HOUR);
    });
}

thread_local! {
    /// What the call from the thread completes: it runs here, but must be `Send`.
    static SLOT: RefCell<Option<LoopFuture<&'static str>>> = const { RefCell::new(None) };
}

#[test]
fn time_does_not_jump_while_a_remote_lives() {
    both(|mut event_loop| {
        let remote = event_loop.remote();
        let trace = Trace::new();
        let log = trace.clone();
        event_loop.call_later(HOUR, move || log.push("an hour"));
        let answer: LoopFuture<&str> = event_loop.create_future();
        SLOT.set(Some(answer.clone()));
        let waits = Sleeper::this_thread();
        let thread = thread::spawn(move || {
            waits.wait();
            let set = || SLOT.take().unwrap().set_result("called").unwrap();
            remote.call_soon(set).unwrap();
        });
        let log = trace.clone();
        event_loop
            .run_until_complete(async {
                log.push(answer.await.unwrap());
                sleep(HOUR).await;
            })
            .unwrap();
        thread.join().unwrap();
        assert_eq!(trace.take(), ["called", "an hour"]);
    });
}

#[test]
fn time_does_not_jump_while_a_signal_is_watched_and_does_again_after() {
    both(|mut event_loop| {
        let signal = Signal::USR2;
        event_loop.add_signal_handler(signal, || ()).unwrap();
        let (began, real) = (event_loop.now(), Instant::now());
        let wait = Duration::from_millis(20);
        event_loop.run_until_complete(sleep(wait)).unwrap();
        assert!(real.elapsed() >= wait && event_loop.now() - began >= wait);
        event_loop.remove_signal_handler(signal);
        event_loop.run_until_complete(sleep(HOUR)).unwrap();
        assert!(event_loop.now() - began >= HOUR);
    });
}

#[test]
fn signals_for_emergencies_do_not_hold_time() {
    let _watchdog = watchdog();
    let mut runner = Runner::builder()
        .loop_factory(|| EventLoop::builder().simulated()?.build())
        .interrupts(true)
        .build();
    runner.loop_ref().unwrap().dump_on_signal(Signal::USR1).unwrap();
    runner.run(sleep(1000 * HOUR)).unwrap();
    runner.close().unwrap();
}

/// While time is held it goes on like the real one, so timers come also if a peer never pauses.
#[test]
fn held_time_flows_also_under_constant_wakes() {
    both(|mut event_loop| {
        let remote = event_loop.remote();
        let (stop, stopped) = mpsc::channel::<()>();
        let thread = thread::spawn(move || {
            while stopped.recv_timeout(Duration::from_millis(1)).is_err() {
                remote.call_soon(|| ()).unwrap();
            }
        });
        event_loop.run_until_complete(sleep(Duration::from_millis(30))).unwrap();
        stop.send(()).unwrap();
        thread.join().unwrap();
    });
}

#[test]
fn a_simulated_loop_refuses_what_is_real() {
    let event_loop = simulated();
    assert_eq!(event_loop.selector_name(), "sim");
    let (ours, _theirs) = pair();
    let error = event_loop.add_reader(&ours, || ()).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::Unsupported);
    assert!(error.to_string().contains("is real"), "{error}");
    assert_eq!(Rc::strong_count(&ours), 1, "the owner came back");
}

#[test]
fn a_clock_can_be_shared_and_moved_by_hand() {
    let selector = loop_core::SimSelector::new().unwrap();
    let time = AutoJump::new(selector);
    let clock = time.clock();
    let mut event_loop = EventLoop::builder().virtual_time(time).build().unwrap();
    let began = clock.now();
    clock.advance(SECOND);
    event_loop.run_until_complete(sleep(SECOND)).unwrap();
    assert_eq!(clock.now() - began, 2 * SECOND);
}

/// The report with this file's lines as distances from `line`, and names instead of numbers.
fn normalized(text: &str, line: u32) -> String {
    let mut text = text.replace(file!(), "FILE");
    for distance in 0..60 {
        text = text.replace(&format!("FILE:{}:", line + distance), &format!("+{distance}:"));
    }
    text
}

#[test]
fn a_cycle_of_two_locks_is_named_with_who_holds_what() {
    let _watchdog = watchdog();
    let mut event_loop = simulated();
    let line = line!();
    let deadlock = event_loop.run_until_complete(async {
        current_task().unwrap().set_name("main");
        let locks = Rc::new((Lock::new(), Lock::new()));
        let (here, there) = (locks.clone(), locks.clone());
        let forth = spawn(async move {
            let _first = here.0.acquire().await;
            yield_now().await;
            let _second = here.1.acquire().await;
        });
        forth.set_name("forth");
        let back = spawn(async move {
            let _second = there.1.acquire().await;
            yield_now().await;
            let _first = there.0.acquire().await;
        });
        back.set_name("back");
        forth.await.unwrap();
    });
    let Err(LoopError::Deadlock(deadlock)) = deadlock else { panic!("{deadlock:?}") };
    assert_eq!(
        normalized(&deadlock.to_string(), line),
        "deadlock: nothing can wake the 3 pending tasks\n  \
         main: waits for forth; run at +1:31\n  \
         forth: waits for lock created at +3:43 and held by back; spawned at +5:21\n  \
         back: waits for lock created at +3:30 and held by forth; spawned at +11:20"
    );
    assert_eq!(deadlock.dump().tasks.len(), 3);
}

#[test]
fn a_deadlock_ends_the_run_and_not_the_loop() {
    both(|mut event_loop| {
        let queue = Rc::new(Queue::<u32>::new());
        let getter = queue.clone();
        let task = event_loop.spawn(async move { getter.get().await });
        let stuck = event_loop.run_forever();
        let Err(LoopError::Deadlock(deadlock)) = stuck else { panic!("{stuck:?}") };
        let text = deadlock.to_string();
        assert!(text.starts_with("deadlock: nothing can wake the one pending task\n"), "{text}");
        assert!(text.contains("waits for item of a queue created at"), "{text}");
        queue.try_put(7).unwrap();
        assert_eq!(event_loop.run_until_complete(task).unwrap().unwrap(), Ok(7));
    });
}

#[test]
fn a_timer_that_never_comes_is_nothing_to_wait_for() {
    both(|mut event_loop| {
        let never = event_loop.run_until_complete(sleep(Duration::MAX));
        assert!(matches!(never, Err(LoopError::Deadlock(_))), "{never:?}");
    });
}

#[test]
fn a_loop_with_nothing_to_do_says_so() {
    let mut event_loop = simulated();
    let text = event_loop.run_forever().unwrap_err().to_string();
    assert_eq!(text, "nothing can ever happen, and no task is pending");
}

/// A descriptor is something that may happen: the loop waits for it.
#[test]
fn a_registered_descriptor_is_waited_for() {
    let _watchdog = watchdog();
    let mut event_loop = over_real();
    let (ours, theirs): (Rc<UnixStream>, _) = pair();
    let lp = event_loop.loop_ref();
    event_loop.add_reader(&ours, move || lp.stop()).unwrap();
    let waits = Sleeper::this_thread();
    let thread = thread::spawn(move || {
        waits.wait();
        (&theirs).write_all(b"x").unwrap();
        theirs
    });
    event_loop.run_forever().unwrap();
    drop(thread.join().unwrap());
}
