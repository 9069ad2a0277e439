//! Public bug reports about other loops, as tests of this one.

mod common;

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io::{Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use common::{OnDrop, Trace, for_each_logged, pair, reports, turn, virtual_loop, watchdog};
use loop_core::{
    EventLoop, Handle, LoopAbort, LoopError, LoopFuture, LoopRef, Signal, TimerHandle, sleep,
    yield_now,
};
use loop_selector::raise;

const MS: Duration = Duration::from_millis(1);

// MagicStack/uvloop#240: a cancelled timer kept what its callback had captured.
#[test]
fn s01_a_cancelled_timer_lets_go_of_its_captures_and_of_its_loop() {
    let mut event_loop = EventLoop::new().unwrap();
    let value = Arc::new(());
    let hour = Duration::from_secs(3600);
    let capture = value.clone();
    let later = event_loop.call_later(hour, move || drop(capture));
    assert_eq!(Arc::strong_count(&value), 2);
    later.cancel();
    assert_eq!(Arc::strong_count(&value), 1);
    let capture = value.clone();
    let at = event_loop.call_at(event_loop.now() + hour, move || drop(capture));
    at.cancel();
    assert_eq!(Arc::strong_count(&value), 1);

    let mut timers: Vec<TimerHandle> = (0..10_000)
        .map(|_| {
            let capture = value.clone();
            event_loop.call_later(hour, move || drop(capture))
        })
        .collect();
    let kept = timers.swap_remove(1234);
    timers.iter().for_each(TimerHandle::cancel);
    turn(&mut event_loop);
    assert_eq!(Arc::strong_count(&value), 2);
    // A handle holds no loop: what the loop owns goes with it.
    drop(event_loop);
    assert_eq!(Arc::strong_count(&value), 1);
    kept.cancel();
}

// smol-rs/smol#109: 900 us became a timeout of 0 ms, and the loop span.
#[test]
fn s03_sleeps_below_a_millisecond_do_not_spin() {
    for_each_logged(|mut event_loop, log| {
        event_loop
            .run_until_complete(async {
                for _ in 0..200 {
                    let started = Instant::now();
                    sleep(Duration::from_micros(900)).await;
                    assert!(started.elapsed() >= Duration::from_micros(900));
                }
            })
            .unwrap();
        let waits = log.take_waits();
        let zero = waits.iter().filter(|(timeout, _)| timeout.is_zero()).count();
        assert!(waits.len() <= 400, "{} waits", waits.len());
        // With nothing registered a zero timeout does not even reach the selector.
        assert_eq!(zero, 0);
    });
}

// twisted/twisted#6259: the timeout of a timer in 30 000 years overflowed in every poll.
#[test]
fn s04_a_timer_in_a_trillion_seconds_breaks_no_poll() {
    for_each_logged(|mut event_loop, log| {
        let trace = Trace::new();
        let (ours, theirs) = pair();
        let theirs = Rc::new(theirs);
        let writer = theirs.clone();
        let far = Duration::from_secs(1_000_000_000_000);
        let a = event_loop.call_later(far, trace.note("A"));
        event_loop.call_later(5 * MS, trace.note("B"));
        event_loop.call_later(10 * MS, move || (&*writer).write_all(b"x"));
        let (lp, source, read) = (event_loop.loop_ref(), ours.clone(), trace.clone());
        event_loop
            .add_reader(&ours, move || {
                read.push("pipe");
                lp.stop();
                (&*source).read_exact(&mut [0])
            })
            .unwrap();
        event_loop.run_forever().unwrap();
        assert_eq!(trace.take(), ["B", "pipe"]);
        a.cancel();
        event_loop.call_later(far, trace.note("A'"));
        log.take();
        event_loop.run_once(Some(10 * MS)).unwrap();
        assert_eq!(trace.take(), Vec::<String>::new());
        assert_eq!(log.take_waits(), [(10 * MS, 0)]);
    });
}

/// A byte arrives when `step` has been called ten times; how often it was by the time of the read.
fn count_until_read(event_loop: &mut EventLoop, schedule: fn(&LoopRef, Box<dyn FnOnce()>)) -> u32 {
    struct Again {
        lp: LoopRef,
        count: Cell<u32>,
        read: Cell<bool>,
        writer: RefCell<Box<dyn Write>>,
        schedule: fn(&LoopRef, Box<dyn FnOnce()>),
    }
    fn step(again: Rc<Again>) {
        if again.read.get() {
            return;
        }
        again.count.set(again.count.get() + 1);
        if again.count.get() == 10 {
            again.writer.borrow_mut().write_all(b"x").unwrap();
        }
        assert!(again.count.get() < 1_000, "the reader starves");
        let next = again.clone();
        (again.schedule)(&again.lp, Box::new(move || step(next)));
    }
    let (ours, theirs) = pair();
    let lp = event_loop.loop_ref();
    let writer = RefCell::new(Box::new(theirs) as Box<dyn Write>);
    let (count, read) = (Cell::new(0), Cell::new(false));
    let again = Rc::new(Again { lp, count, read, writer, schedule });
    let (seen, counter, lp) = (Rc::new(Cell::new(0)), again.clone(), event_loop.loop_ref());
    let result = seen.clone();
    event_loop
        .add_reader(&ours, move || {
            seen.set(counter.count.get());
            counter.read.set(true);
            lp.stop();
        })
        .unwrap();
    step(again);
    event_loop.run_forever().unwrap();
    event_loop.remove_reader(&*ours);
    result.get()
}

// libuv/libuv#4245: a timer that re-armed itself with 0 kept I/O out.
#[test]
fn s07_a_timer_that_rearms_itself_with_zero_does_not_starve_io() {
    for_each_logged(|mut event_loop, _| {
        let count = count_until_read(&mut event_loop, |lp, next| {
            lp.call_later(Duration::ZERO, next);
        });
        assert!((10..=12).contains(&count), "{count}");
    });
}

// nodejs/node#46644: a late loop ran timers grouped by the delay they were made with.
#[test]
fn s08_late_loop_fires_by_deadline() {
    let (mut event_loop, clock) = virtual_loop();
    let trace = Trace::new();
    clock.advance(5 * MS);
    event_loop.call_later(20 * MS, trace.note("A"));
    clock.advance(10 * MS);
    event_loop.call_later(20 * MS, trace.note("C"));
    clock.advance(5 * MS);
    event_loop.call_later(10 * MS, trace.note("B"));
    clock.advance(20 * MS);
    turn(&mut event_loop);
    assert_eq!(trace.take(), ["A", "B", "C"]);
}

// Smithay/calloop#109: registering from inside a dispatch borrowed twice.
#[test]
fn s19_everything_can_be_done_from_inside_every_callback() {
    type Action = fn(&LoopRef, &Trace, &Handle, &Rc<std::os::unix::net::UnixStream>);
    let actions: [(&str, Action); 6] = [
        ("call_soon", |lp, trace, _, _| drop(lp.call_soon(trace.note("new")))),
        ("call_later", |lp, trace, _, _| drop(lp.call_later(Duration::ZERO, trace.note("new")))),
        ("add_reader", |lp, trace, _, other| {
            let (again, log, source) = (lp.clone(), trace.clone(), other.clone());
            let once = move || {
                log.push("new");
                again.remove_reader(&*source);
            };
            lp.add_reader(other, once).unwrap();
        }),
        ("remove_reader", |lp, trace, _, _| {
            trace.push("new"); // nothing new can come of it but that it returns
            lp.remove_signal_handler(Signal::USR1);
        }),
        ("cancel", |lp, trace, victim, _| {
            victim.cancel();
            lp.call_soon(trace.note("new"));
        }),
        ("spawn", |lp, trace, _, _| {
            let log = trace.clone();
            lp.spawn(async move { log.push("new") }).detach();
        }),
    ];
    let places = ["ready", "timer", "reader", "signal", "done callback"];
    for_each_logged(|mut event_loop, _| {
        let failures = reports(&event_loop);
        for (name, action) in actions {
            for place in places {
                let trace = Trace::new();
                let ((own, mut a), (other, mut b)) = (pair(), pair());
                a.write_all(b"x").unwrap();
                b.write_all(b"x").unwrap();
                let victim = event_loop.call_later(3_600_000 * MS, || panic!("the victim ran"));
                let victim_handle = event_loop.call_soon(|| ());
                let (lp, log) = (event_loop.loop_ref(), trace.clone());
                let mut done = false;
                let act = {
                    let own = own.clone();
                    move || {
                        if !std::mem::replace(&mut done, true) {
                            log.push("acts");
                            action(&lp, &log, &victim_handle, &other);
                            if name == "remove_reader" {
                                lp.remove_reader(&*own);
                            }
                        }
                    }
                };
                match place {
                    "ready" => drop(event_loop.call_soon(act)),
                    "timer" => drop(event_loop.call_later(Duration::ZERO, act)),
                    "reader" => drop(event_loop.add_reader(&own, act).unwrap()),
                    "signal" => {
                        event_loop.add_signal_handler(Signal::USR1, act).unwrap();
                        raise(Signal::USR1).unwrap();
                    }
                    _ => {
                        let future: LoopFuture<(), ()> = event_loop.create_future();
                        future.add_done_callback(act);
                        future.set_result(()).unwrap();
                    }
                }
                turn(&mut event_loop);
                let now = trace.take();
                assert_eq!(now[0], "acts", "{name} in {place}");
                let early = if name == "remove_reader" { 2 } else { 1 };
                assert_eq!(now.len(), early, "{name} in {place}: the new one waits its turn");
                for _ in 0..3 {
                    turn(&mut event_loop);
                }
                let later = if name == "remove_reader" { vec![] } else { vec!["new"] };
                assert_eq!(trace.take(), later, "{name} in {place}");
                victim.cancel();
                event_loop.remove_reader(&*own);
                event_loop.remove_signal_handler(Signal::USR1);
            }
        }
        assert_eq!(failures.take(), Vec::<String>::new());
    });
}

// nginx/ngx-rust#294: a wake polled the task on the waker's stack, under the waker's lock.
#[test]
fn s20_a_wake_under_a_lock_does_not_poll_there() {
    let _watchdog = watchdog();
    let mut event_loop = EventLoop::new().unwrap();
    let shared = Arc::new(Mutex::new(None::<Waker>));
    for from_destructor in [false, true] {
        let (lock, polls) = (shared.clone(), Rc::new(Cell::new(0)));
        let count = polls.clone();
        let task = event_loop.spawn(poll_fn(move |cx| {
            let mut waker = lock.try_lock().expect("nobody holds the lock during a poll");
            *waker = Some(cx.waker().clone());
            count.set(count.get() + 1);
            if count.get() == 2 { Poll::Ready(()) } else { Poll::Pending }
        }));
        turn(&mut event_loop);
        let lock = shared.clone();
        event_loop.call_soon(move || {
            let mut waker = lock.lock().unwrap();
            let waker = waker.take().unwrap();
            if from_destructor {
                drop(OnDrop(|| waker.wake_by_ref()));
            } else {
                waker.wake();
            }
            assert!(lock.try_lock().is_err(), "still held here");
        });
        turn(&mut event_loop);
        turn(&mut event_loop);
        assert_eq!(polls.get(), 2);
        assert!(task.is_done());
    }
}

// dabeaz/curio#112: ready callbacks that always add more kept I/O and timers out.
#[test]
fn s23_callbacks_and_tasks_that_never_rest_do_not_starve_io_or_timers() {
    for_each_logged(|mut event_loop, _| {
        type Turn = LoopFuture<(), ()>;
        // Two tasks that hand over to each other for ever.
        let turns: Rc<RefCell<[Option<Turn>; 2]>> = Rc::default();
        for me in 0..2 {
            let (turns, lp) = (turns.clone(), event_loop.loop_ref());
            event_loop
                .spawn(async move {
                    loop {
                        let mine: Turn = lp.create_future();
                        turns.borrow_mut()[me] = Some(mine.clone());
                        let other = turns.borrow_mut()[1 - me].take();
                        if let Some(other) = other {
                            let _ = other.set_result(());
                        }
                        mine.await.unwrap();
                    }
                })
                .detach();
        }
        let fired = Rc::new(Cell::new(None));
        let (started, when) = (Instant::now(), fired.clone());
        event_loop.call_later(5 * MS, move || when.set(Some(started.elapsed())));
        let count = count_until_read(&mut event_loop, |lp, next| drop(lp.call_soon(next)));
        assert!((10..=12).contains(&count), "{count}");
        while fired.get().is_none() {
            turn(&mut event_loop);
            assert!(started.elapsed() < Duration::from_secs(5), "the timer starves");
        }
        event_loop.set_exception_handler(Some(Rc::new(|_, _| ()))); // two tasks are left pending
    });
}

// python/cpython#74608: the done callback of an interrupted run stopped the next one.
#[test]
fn s24_leftovers_of_an_interrupted_run_do_not_stop_the_next() {
    let _watchdog = watchdog();
    let interruptions: [fn(&LoopRef); 3] = [
        |lp| {
            let stop = lp.clone();
            lp.call_later(2 * MS, move || stop.stop());
        },
        |lp| drop(lp.call_later(2 * MS, || LoopAbort { code: 1 }.raise())),
        |lp| drop(lp.remote().call_soon(|| LoopAbort { code: 1 }.raise()).unwrap()),
    ];
    for (n, interrupt) in interruptions.into_iter().enumerate() {
        let mut event_loop = EventLoop::new().unwrap();
        let future: LoopFuture<u32, ()> = event_loop.create_future();
        interrupt(&event_loop);
        let waits = future.clone();
        let run = AssertUnwindSafe(|| event_loop.run_until_complete(waits));
        match catch_unwind(run) {
            Ok(outcome) => assert!(n == 0 && matches!(outcome, Err(LoopError::StoppedEarly))),
            Err(payload) => assert!(n > 0 && payload.is::<LoopAbort>()),
        }
        assert!(!event_loop.is_running());
        future.set_result(1).unwrap();
        let next = event_loop.run_until_complete(async {
            for _ in 0..5 {
                yield_now().await;
            }
            42
        });
        assert_eq!(next.unwrap(), 42);
    }
}

// python/cpython#74608, the panic of the root itself.
#[test]
fn s24_a_root_that_panics_leaves_a_loop_that_runs() {
    let _watchdog = watchdog();
    let mut event_loop = EventLoop::new().unwrap();
    let run = AssertUnwindSafe(|| event_loop.run_until_complete(async { panic!("root") }));
    assert_eq!(catch_unwind(run).unwrap_err().downcast_ref(), Some(&"root"));
    assert!(!event_loop.is_running() && event_loop.tasks().is_empty());
    assert_eq!(event_loop.run_until_complete(async { 42 }).unwrap(), 42);
}
