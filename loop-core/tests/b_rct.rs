//! Tasks started from other threads.

mod common;

use std::future::{Future, pending};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Barrier, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

use common::{OnDrop, reports, turn, watchdog};
use loop_core::{
    Closed, ContextVar, EventLoop, LoopRef, Remote, RemoteError, RemoteFuture, TaskError,
    current_task, run, sleep, yield_now,
};

const MS: Duration = Duration::from_millis(1);

/// Runs `body` on another thread beside a loop, and stops the loop when it returns.
fn beside<R: Send + 'static>(body: impl FnOnce(Remote) -> R + Send + 'static) -> R {
    let _watchdog = watchdog();
    let mut event_loop = EventLoop::new().unwrap();
    let remote = event_loop.remote();
    let thread = thread::spawn(move || {
        let _stop = OnDrop({
            let remote = remote.clone();
            move || remote.stop().unwrap()
        });
        body(remote)
    });
    event_loop.run_forever().unwrap();
    thread.join().unwrap()
}

/// Takes the outcome of one that should be done, as any runtime would.
fn poll_now<T>(future: &mut RemoteFuture<T>) -> Poll<Result<T, TaskError>> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn b_rct_01_the_value_comes_back_to_the_calling_thread() {
    static VAR: ContextVar<u32> = ContextVar::new();
    beside(|remote| {
        drop(VAR.set(7));
        let caller = thread::current().id();
        let mut future = remote
            .spawn(move || async move {
                let not_send = Rc::new(1);
                yield_now().await;
                assert_ne!(thread::current().id(), caller);
                assert!(current_task().is_some());
                (*not_send, VAR.get())
            })
            .unwrap();
        assert_eq!(future.wait().unwrap(), (1, Some(7)), "in the caller's context");
        assert!(future.is_done());
    });
}

#[test]
fn b_rct_01_an_err_is_a_value_and_a_panic_an_error() {
    beside(|remote| {
        let mut future = remote.spawn(|| async { Err::<(), _>("no") }).unwrap();
        assert_eq!(future.wait().unwrap(), Err("no"));
        let mut future = remote.spawn(|| async { panic!("in the task") }).unwrap();
        let RemoteError::Task(error) = future.wait().unwrap_err() else { panic!() };
        assert_eq!(error.to_string(), "panic \"in the task\"");
        // Making the future is part of the task.
        let made = |fails: bool| {
            assert!(!fails, "making it");
            std::future::ready(())
        };
        let error = remote.spawn(move || made(true)).unwrap().wait().unwrap_err();
        assert_eq!(error.to_string(), "panic \"making it\"");
    });
}

#[test]
fn b_rct_02_a_request_stands_although_nobody_waits_for_the_outcome() {
    let mut event_loop = EventLoop::new().unwrap();
    let remote = event_loop.remote();
    let started = remote.spawn(pending::<()>).unwrap();
    turn(&mut event_loop);
    turn(&mut event_loop);
    let never_started = remote.spawn(|| async { panic!("it was cancelled") }).unwrap();
    for future in [started, never_started] {
        assert!(future.cancel());
        drop(future);
    }
    for _ in 0..4 {
        turn(&mut event_loop);
    }
    assert!(event_loop.tasks().is_empty());
}

#[test]
fn b_rct_02_a_timed_out_wait_leaves_the_task_running() {
    beside(|remote| {
        let (open, gate) = mpsc::channel();
        let mut future = remote
            .spawn(move || async move {
                loop {
                    match gate.try_recv() {
                        Ok(()) => return 5,
                        Err(_) => sleep(MS).await,
                    }
                }
            })
            .unwrap();
        assert!(matches!(future.wait_timeout(5 * MS), Err(RemoteError::Elapsed)));
        assert!(matches!(future.wait_timeout(Duration::ZERO), Err(RemoteError::Elapsed)));
        open.send(()).unwrap();
        assert_eq!(future.wait_timeout(Duration::MAX).unwrap(), 5);
    });
}

#[test]
fn b_rct_02_cancel_cancels_the_task() {
    beside(|remote| {
        let dropped = Arc::new(AtomicU32::new(0));
        let count = dropped.clone();
        let started = Arc::new(Barrier::new(2));
        let both = started.clone();
        let mut future = remote
            .spawn(move || async move {
                let _guard = OnDrop(|| {
                    count.fetch_add(1, Ordering::SeqCst);
                });
                both.wait();
                pending::<()>().await;
            })
            .unwrap();
        started.wait();
        assert!(future.cancel());
        let RemoteError::Task(error) = future.wait().unwrap_err() else { panic!() };
        assert!(error.is_cancelled());
        assert_eq!(dropped.load(Ordering::SeqCst), 1);
        assert!(!future.cancel(), "it has ended");
    });
}

#[test]
fn b_rct_02_one_cancelled_before_it_started_never_does() {
    let mut event_loop = EventLoop::new().unwrap();
    let remote = event_loop.remote();
    let mut future = thread::spawn(move || {
        let future = remote.spawn(|| async { panic!("it started") }).unwrap();
        assert!(future.cancel());
        future
    })
    .join()
    .unwrap();
    turn(&mut event_loop);
    let Poll::Ready(Err(error)) = poll_now::<()>(&mut future) else { panic!() };
    assert!(error.is_cancelled());
    assert!(event_loop.tasks().is_empty());
}

#[test]
fn b_rct_02_a_task_cancelled_on_the_loop_cancels_the_future() {
    beside(|remote| {
        let mut future = remote
            .spawn(|| async {
                let itself = current_task().unwrap();
                LoopRef::current().call_soon(move || {
                    itself.cancel();
                });
                pending::<()>().await;
            })
            .unwrap();
        let RemoteError::Task(error) = future.wait().unwrap_err() else { panic!() };
        assert!(error.is_cancelled());
    });
}

#[test]
fn b_rct_02_dropping_the_future_lets_the_task_run_on() {
    beside(|remote| {
        let (done, ended) = mpsc::channel();
        drop(remote.spawn(move || async move {
            yield_now().await;
            done.send(()).unwrap();
        }));
        ended.recv().unwrap();
    });
}

#[test]
fn b_rct_03_blocking_on_the_loops_own_thread_is_refused() {
    let mut event_loop = EventLoop::new().unwrap();
    let mut future = event_loop.remote().spawn(|| async { 3 }).unwrap();
    assert!(matches!(future.wait(), Err(RemoteError::Deadlock)), "it does not even run");
    let outcome = event_loop
        .run_until_complete(async move {
            let error = future.wait_timeout(MS).unwrap_err();
            assert!(matches!(error, RemoteError::Deadlock));
            assert_eq!(std::io::Error::from(error).kind(), std::io::ErrorKind::Deadlock);
            assert!(!future.is_done(), "the future is as it was");
            let outcome = (&mut future).await;
            outcome.unwrap()
        })
        .unwrap();
    assert_eq!(outcome, 3);
    // One that is done can be read anywhere.
    let mut future = event_loop.remote().spawn(|| async { 4 }).unwrap();
    for _ in 0..3 {
        turn(&mut event_loop);
    }
    assert_eq!(future.wait().unwrap(), 4);
}

#[test]
fn b_rct_04_if_the_loop_closes_first_the_waiter_hears_of_it() {
    let _watchdog = watchdog();
    // Closed with the call in the inbox, with the task queued, and with it suspended.
    for iterations in 0..3 {
        let mut event_loop = EventLoop::new().unwrap();
        event_loop.set_exception_handler(Some(Rc::new(|_, _| ())));
        let remote = event_loop.remote();
        let (spawned, is_spawned) = mpsc::channel();
        let thread = thread::spawn(move || {
            let mut future = remote.spawn(pending::<()>).unwrap();
            spawned.send(()).unwrap();
            future.wait().unwrap_err()
        });
        is_spawned.recv().unwrap();
        (0..iterations).for_each(|_| turn(&mut event_loop));
        assert_eq!(event_loop.tasks().len(), iterations.min(1));
        drop(event_loop);
        let error = thread.join().unwrap();
        assert!(matches!(error, RemoteError::Task(TaskError::Closed)), "{error}");
    }
}

#[test]
fn b_rct_04_a_closed_loop_gives_the_closure_back() {
    let event_loop = EventLoop::new().unwrap();
    let remote = event_loop.remote();
    drop(event_loop);
    let text = String::from("kept");
    let Err(Closed(closure)) = remote.spawn(move || async move { text }) else { panic!() };
    assert_eq!(run(closure()).unwrap(), "kept");
}

#[test]
fn a_panic_that_nobody_waits_for_is_reported_once() {
    let mut event_loop = EventLoop::new().unwrap();
    let reports = reports(&event_loop);
    let report = "task panicked and nobody awaited it: panic \"unread\"";
    let turns = |event_loop: &mut EventLoop| (0..4).for_each(|_| turn(event_loop));
    // Dropped before the end, and after it.
    drop(event_loop.remote().spawn(|| async { panic!("unread") }));
    turns(&mut event_loop);
    assert_eq!(reports.take(), [report]);
    let future = event_loop.remote().spawn(|| async { panic!("unread") }).unwrap();
    turns(&mut event_loop);
    assert_eq!(reports.len(), 0);
    drop::<RemoteFuture<()>>(future);
    turns(&mut event_loop);
    assert_eq!(reports.take(), [report]);
    let mut future = event_loop.remote().spawn(|| async { panic!("read") }).unwrap();
    turns(&mut event_loop);
    assert!(matches!(poll_now::<()>(&mut future), Poll::Ready(Err(TaskError::Panicked(_)))));
    drop(future);
    turns(&mut event_loop);
    assert_eq!(reports.len(), 0);
}

#[test]
fn another_runtime_can_await_it() {
    struct Unpark(thread::Thread, AtomicU32);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.1.fetch_add(1, Ordering::SeqCst);
            self.0.unpark();
        }
    }
    beside(|remote| {
        let unpark = Arc::new(Unpark(thread::current(), AtomicU32::new(0)));
        let waker = Waker::from(unpark.clone());
        let mut future = remote.spawn(|| async { sleep(2 * MS).await }).unwrap();
        let mut polls = 0;
        loop {
            polls += 1;
            let poll = Pin::new(&mut future).poll(&mut Context::from_waker(&waker));
            if let Poll::Ready(outcome) = poll {
                outcome.unwrap();
                break;
            }
            while unpark.1.load(Ordering::SeqCst) < polls {
                thread::park();
            }
        }
        assert_eq!(
            unpark.1.load(Ordering::SeqCst),
            polls - 1,
            "each poll but the first was asked for"
        );
        assert!(polls <= 2);
    });
}

#[test]
fn many_threads_spawn_and_cancel_at_once() {
    beside(|remote| {
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let remote = remote.clone();
                thread::spawn(move || {
                    for n in 0..200_u32 {
                        let mut future = remote
                            .spawn(move || async move {
                                yield_now().await;
                                n
                            })
                            .unwrap();
                        if n % 2 == 0 {
                            future.cancel();
                        }
                        match future.wait() {
                            Ok(value) => assert_eq!(value, n),
                            Err(RemoteError::Task(error)) => {
                                assert!(n % 2 == 0 && error.is_cancelled(), "{error}");
                            }
                            Err(error) => panic!("{error}"),
                        }
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}
