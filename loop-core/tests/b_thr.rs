//! Calls from other threads.

mod common;

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::io::Write;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

use common::{Sleeper, Trace, for_each_backend, for_each_logged, pair, reports, turn, watchdog};
use loop_core::{EventLoop, LoopRef, Remote, Sleep, sleep};

thread_local! {
    /// What ran on this thread, in order.
    static RAN: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

fn note(n: usize) -> impl FnOnce() + Send + 'static {
    move || RAN.with_borrow_mut(|ran| ran.push(n))
}

#[test]
fn b_thr_01_a_call_wakes_a_loop_that_waits_for_ever() {
    for_each_backend(|builder| {
        let mut event_loop = builder.build().unwrap();
        let remote = event_loop.remote();
        let (here, waits) = (thread::current().id(), Sleeper::this_thread());
        let thread = thread::spawn(move || {
            waits.wait();
            let stop = remote.clone();
            remote
                .call_soon(move || {
                    assert_eq!(thread::current().id(), here);
                    LoopRef::current().stop();
                    assert!(!stop.is_closed());
                })
                .unwrap();
        });
        event_loop.run_forever().unwrap();
        thread.join().unwrap();
    });
}

#[test]
fn b_thr_01_from_the_loops_own_thread_it_is_call_soon() {
    let mut event_loop = EventLoop::new().unwrap();
    let remote = event_loop.remote();
    let trace = Trace::new();
    event_loop.call_soon(|| RAN.with_borrow_mut(|ran| ran.push(1)));
    remote.call_soon(note(2)).unwrap();
    event_loop.call_soon(|| RAN.with_borrow_mut(|ran| ran.push(3)));
    let inner = trace.clone();
    event_loop.call_soon(move || {
        remote.call_soon(note(4)).unwrap();
        inner.push("scheduled");
    });
    turn(&mut event_loop);
    assert_eq!((RAN.take(), trace.take().len()), (vec![1, 2, 3], 1));
    turn(&mut event_loop);
    assert_eq!(RAN.take(), [4]);
}

#[test]
fn b_thr_02_calls_of_one_thread_keep_their_order() {
    let _watchdog = watchdog();
    let mut event_loop = EventLoop::new().unwrap();
    let threads: Vec<_> = (0..4)
        .map(|t| {
            let remote = event_loop.remote();
            thread::spawn(move || {
                for n in 0..2_500 {
                    remote.call_soon(note(t * 10_000 + n)).unwrap();
                }
            })
        })
        .collect();
    while RAN.with_borrow(Vec::len) < 10_000 {
        event_loop.run_once(None).unwrap();
    }
    for thread in threads {
        thread.join().unwrap();
    }
    let ran = RAN.take();
    for t in 0..4 {
        let of_t: Vec<usize> =
            ran.iter().filter(|n| **n / 10_000 == t).map(|n| n % 10_000).collect();
        assert_eq!(of_t, (0..2_500).collect::<Vec<_>>());
    }
}

#[test]
fn b_thr_02_a_remote_call_comes_before_what_is_scheduled_after_it_arrived() {
    let _watchdog = watchdog();
    let mut event_loop = EventLoop::new().unwrap();
    let remote = event_loop.remote();
    thread::spawn(move || remote.call_soon(note(1)).unwrap()).join().unwrap();
    event_loop.call_soon(|| RAN.with_borrow_mut(|ran| ran.push(0))); // ready before the drain
    let lp = event_loop.loop_ref();
    event_loop.call_soon(move || {
        lp.call_soon(|| RAN.with_borrow_mut(|ran| ran.push(2)));
    });
    turn(&mut event_loop);
    turn(&mut event_loop);
    assert_eq!(RAN.take(), [0, 1, 2]);
}

#[test]
fn b_thr_03_no_wake_is_lost_in_a_ping_pong() {
    for_each_backend(|builder| {
        let mut event_loop = builder.build().unwrap();
        let remote = event_loop.remote();
        let (pong, heard) = mpsc::channel();
        let thread = thread::spawn(move || {
            for _ in 0..2_000 {
                let pong = pong.clone();
                remote.call_soon(move || pong.send(()).unwrap()).unwrap();
                heard.recv().unwrap(); // only the loop, which has nothing else to do, answers
            }
            remote.stop().unwrap();
        });
        event_loop.run_forever().unwrap();
        thread.join().unwrap();
    });
}

#[test]
fn b_thr_04_any_number_of_calls_before_the_run_is_no_error() {
    let _watchdog = watchdog();
    let mut event_loop = EventLoop::new().unwrap();
    let remote = event_loop.remote();
    let count = Arc::new(AtomicUsize::new(0));
    let counted = count.clone();
    thread::spawn(move || {
        for _ in 0..100_000 {
            let counted = counted.clone();
            let count = move || _ = counted.fetch_add(1, Ordering::Relaxed);
            remote.call_soon(count).unwrap();
        }
    })
    .join()
    .unwrap();
    turn(&mut event_loop);
    assert_eq!(count.load(Ordering::Relaxed), 100_000);
}

#[test]
fn b_thr_05_calls_to_a_loop_that_is_awake_cost_at_most_one_extra_turn() {
    for_each_logged(|mut event_loop, log| {
        let remote = event_loop.remote();
        event_loop.call_soon(move || {
            // The loop is awake: this thread waits for the other one.
            thread::spawn(move || {
                for _ in 0..1_000 {
                    remote.call_soon(|| ()).unwrap();
                }
                remote.stop().unwrap();
            })
            .join()
            .unwrap();
        });
        event_loop.run_forever().unwrap();
        assert!(log.take_waits().len() <= 2);
    });
}

#[test]
fn b_thr_07_calls_racing_with_close_run_or_come_back() {
    let _watchdog = watchdog();
    for _ in 0..200 {
        let mut event_loop = EventLoop::new().unwrap();
        let (ran, dropped) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        struct Counted(Arc<AtomicUsize>);
        impl Drop for Counted {
            fn drop(&mut self) {
                self.0.fetch_add(1, Ordering::Relaxed);
            }
        }
        let start = Arc::new(Barrier::new(2));
        let (remote, go) = (event_loop.remote(), start.clone());
        let (run, drops) = (ran.clone(), dropped.clone());
        let thread = thread::spawn(move || {
            go.wait();
            let mut refused = 0;
            for _ in 0..100 {
                let (value, run) = (Counted(drops.clone()), run.clone());
                let call = remote.call_soon(move || {
                    run.fetch_add(1, Ordering::Relaxed);
                    drop(value);
                });
                refused += usize::from(call.is_err());
            }
            refused
        });
        start.wait();
        turn(&mut event_loop);
        event_loop.close();
        let refused = thread.join().unwrap();
        drop(event_loop);
        assert_eq!(dropped.load(Ordering::Relaxed), 100, "each closure drops once");
        assert!(ran.load(Ordering::Relaxed) + refused <= 100);
    }
}

#[test]
fn b_thr_07_a_remote_that_outlives_its_loop_is_harmless() {
    let remote = EventLoop::new().unwrap().remote();
    let loops: Vec<EventLoop> = (0..3).map(|_| EventLoop::new().unwrap()).collect();
    assert!(remote.is_closed());
    thread::spawn(move || {
        assert!(remote.stop().is_err());
        assert!(remote.call_soon(|| ()).is_err());
    })
    .join()
    .unwrap();
    drop(loops);
}

#[test]
fn b_thr_09_stop_from_another_thread_ends_the_run_after_that_iteration() {
    for_each_backend(|builder| {
        let mut event_loop = builder.build().unwrap();
        let (remote, waits) = (event_loop.remote(), Sleeper::this_thread());
        let thread = thread::spawn(move || {
            waits.wait();
            remote.stop().unwrap();
        });
        event_loop.run_forever().unwrap();
        thread.join().unwrap();
    });
}

#[test]
fn b_thr_09_stop_from_the_loops_own_thread_is_stop() {
    let _watchdog = watchdog();
    let mut event_loop = EventLoop::new().unwrap();
    let trace = Trace::new();
    let (remote, lp, inner) = (event_loop.remote(), event_loop.loop_ref(), trace.clone());
    event_loop.call_soon(move || {
        remote.stop().unwrap();
        lp.call_soon(inner.note("next run"));
    });
    event_loop.run_forever().unwrap();
    assert_eq!(trace.take(), Vec::<String>::new());
}

#[test]
fn b_thr_10_what_never_ran_is_dropped_on_the_closing_thread() {
    struct Where(mpsc::Sender<thread::ThreadId>);
    impl Drop for Where {
        fn drop(&mut self) {
            self.0.send(thread::current().id()).unwrap();
        }
    }
    let event_loop = EventLoop::new().unwrap();
    let (sender, receiver) = mpsc::channel();
    let remote = event_loop.remote();
    thread::spawn(move || {
        let value = Where(sender);
        remote.call_soon(move || drop(value)).unwrap();
    })
    .join()
    .unwrap();
    drop(event_loop);
    assert_eq!(receiver.recv().unwrap(), thread::current().id());
}

#[test]
fn b_thr_11_a_flood_does_not_keep_io_out() {
    fn again(remote: Remote, count: usize) {
        assert!(count < 100_000, "the reader starves");
        let next = remote.clone();
        let _ = remote.call_soon(move || again(next, count + 1));
    }
    for_each_backend(|builder| {
        let mut event_loop = builder.build().unwrap();
        let (ours, mut theirs) = pair();
        let (remote, lp) = (event_loop.remote(), event_loop.loop_ref());
        let stop = Arc::new(AtomicUsize::new(0));
        let (flooding, flood) = (stop.clone(), event_loop.remote());
        let thread = thread::spawn(move || {
            while flooding.load(Ordering::Relaxed) == 0 {
                if flood.call_soon(|| ()).is_err() {
                    break;
                }
                thread::yield_now();
            }
        });
        again(remote, 0);
        theirs.write_all(b"x").unwrap();
        event_loop.add_reader(&ours, move || lp.stop()).unwrap();
        event_loop.run_forever().unwrap();
        stop.store(1, Ordering::Relaxed);
        thread.join().unwrap();
    });
}

/// A waker whose destructor makes another thread send the next message to the loop.
struct Chain {
    next: Mutex<Option<Pin<Box<Sleep>>>>,
    dropped: Arc<AtomicUsize>,
}

impl Wake for Chain {
    fn wake(self: Arc<Self>) {}
}

impl Drop for Chain {
    fn drop(&mut self) {
        self.dropped.fetch_add(1, Ordering::Relaxed);
        let next = self.next.get_mut().unwrap().take();
        thread::spawn(move || drop(next)).join().unwrap();
    }
}

#[test]
fn b_thr_11_the_inbox_is_drained_up_to_what_was_there_at_the_start() {
    let _watchdog = watchdog();
    let mut event_loop = EventLoop::new().unwrap();
    let dropped = Arc::new(AtomicUsize::new(0));
    let mut first = None;
    let arm_all = poll_fn(|_| {
        for _ in 0..10 {
            let mut sleep = Box::pin(sleep(Duration::from_secs(3600)));
            let next = Mutex::new(first.take());
            let waker = Waker::from(Arc::new(Chain { next, dropped: dropped.clone() }));
            assert!(sleep.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
            first = Some(sleep);
        }
        Poll::Ready(())
    });
    event_loop.run_until_complete(arm_all).unwrap();
    thread::spawn(move || drop(first)).join().unwrap();
    for turns in 1..=10 {
        turn(&mut event_loop);
        assert_eq!(dropped.load(Ordering::Relaxed), turns);
    }
}

#[test]
fn a_remote_callback_that_fails_is_reported_with_its_site() {
    let mut event_loop = EventLoop::new().unwrap();
    let trace = Trace::new();
    let log = trace.clone();
    let line = Rc::new(Cell::new(0));
    let expected = line.clone();
    event_loop.set_exception_handler(Some(Rc::new(move |_, context| {
        let (name, site) = context.callback.unwrap();
        assert!(name.contains("a_remote_callback_that_fails"));
        assert_eq!((site.file(), site.line()), (file!(), expected.get()));
        log.push(context.message.clone());
    })));
    line.set(line!() + 1);
    event_loop.remote().call_soon(|| panic!("remote")).unwrap();
    turn(&mut event_loop);
    assert_eq!(trace.take(), ["callback failed"]);
}

#[test]
fn a_cancelled_remote_call_does_not_run() {
    let _watchdog = watchdog();
    let mut event_loop = EventLoop::new().unwrap();
    let log = reports(&event_loop);
    let remote = event_loop.remote();
    let handle = thread::spawn(move || remote.call_soon(|| panic!("ran")).unwrap()).join().unwrap();
    assert!(handle.cancel());
    turn(&mut event_loop);
    assert_eq!(log.take(), Vec::<String>::new());
}

// epics-base/p4p#143: a full self-pipe blocked the callers, or swallowed the last wake.
#[test]
fn s13_a_busy_loop_gets_all_calls_and_is_woken_again_later() {
    for_each_logged(|mut event_loop, log| {
        let start = Arc::new(Barrier::new(5));
        let threads: Vec<_> = (0..4)
            .map(|t| {
                let (remote, start) = (event_loop.remote(), start.clone());
                thread::spawn(move || {
                    start.wait();
                    for n in 0..25_000 {
                        remote.call_soon(note(t * 100_000 + n)).unwrap();
                    }
                })
            })
            .collect();
        let (remote, waits) = (event_loop.remote(), Sleeper::this_thread());
        event_loop.call_soon(move || {
            start.wait();
            // Busy until all calls are queued.
            for thread in threads {
                thread.join().unwrap();
            }
            thread::spawn(move || {
                waits.wait(); // for the loop to be idle
                remote.stop().unwrap();
            });
        });
        let started = Instant::now();
        event_loop.run_forever().unwrap();
        assert!(started.elapsed() < Duration::from_secs(15));
        let ran = RAN.take();
        assert_eq!(ran.len(), 100_000);
        for t in 0..4 {
            let of_t: Vec<usize> =
                ran.iter().filter(|n| **n / 100_000 == t).map(|n| n % 100_000).collect();
            assert!(of_t.is_sorted());
        }
        assert!(log.take_waits().len() < 10);
    });
}

#[test]
fn b_thr_05_wakes_of_one_task_before_its_step_are_one_message() {
    let mut event_loop = EventLoop::new().unwrap();
    let (kept, polls) = (Arc::new(Mutex::new(None::<Waker>)), Rc::new(Cell::new(0)));
    let (keep, counted) = (kept.clone(), polls.clone());
    let task = event_loop.spawn(poll_fn(move |cx| {
        *keep.lock().unwrap() = Some(cx.waker().clone());
        counted.set(counted.get() + 1);
        Poll::<()>::Pending
    }));
    turn(&mut event_loop);
    for round in 1..=3 {
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let kept = kept.clone();
                let waker = kept.lock().unwrap().clone().unwrap();
                thread::spawn(move || (0..100).for_each(|_| waker.wake_by_ref()))
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
        turn(&mut event_loop);
        let statistics = event_loop.statistics();
        assert_eq!((statistics.wakes, polls.get()), (round, 1 + round));
        // Nothing is left of them.
        turn(&mut event_loop);
        assert_eq!(polls.get(), 1 + round);
    }
    drop(task);
}

#[test]
fn b_thr_03_a_coalesced_wake_shows_what_its_thread_did_before() {
    let _watchdog = watchdog();
    const TURNS: usize = 2_000;
    let done = Arc::new(AtomicUsize::new(0));
    let mut event_loop = EventLoop::new().unwrap();
    let seen = done.clone();
    let threads = Rc::new(RefCell::new(Vec::new()));
    let started = threads.clone();
    let task = poll_fn(move |cx| {
        if started.borrow().is_empty() {
            for _ in 0..2 {
                let (waker, done) = (cx.waker().clone(), seen.clone());
                started.borrow_mut().push(thread::spawn(move || {
                    for _ in 0..TURNS {
                        done.fetch_add(1, Ordering::Relaxed);
                        waker.wake_by_ref();
                    }
                }));
            }
        }
        // Were a wake lost, the last of these would wait for ever.
        if seen.load(Ordering::Relaxed) == 2 * TURNS { Poll::Ready(()) } else { Poll::Pending }
    });
    event_loop.run_until_complete(task).unwrap();
    for thread in threads.take() {
        thread.join().unwrap();
    }
}
