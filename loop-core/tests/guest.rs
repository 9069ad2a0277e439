//! Loops that are hosted: by a hand-written poll loop, by calloop, by tokio, by a host that cannot poll. And
//! ours as the host of another.

mod common;

use std::cell::{Cell, RefCell};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use common::{OnDrop, Sleeper, Trace, for_each_backend, pair, turn, virtual_loop, watchdog};
use loop_core::{Builder, EventLoop, HostWaker, LoopError, LoopRef, Turn, run, sleep, spawn};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

const MS: Duration = Duration::from_millis(1);

/// Whether a descriptor becomes readable within the time; `None` waits for ever.
fn readable(fd: BorrowedFd<'_>, limit: Option<Duration>) -> bool {
    let limit = limit.map(|limit| Timespec::try_from(limit).unwrap());
    let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
    poll(&mut fds, limit.as_ref()).unwrap() > 0
}

fn is_readable(fd: BorrowedFd<'_>) -> bool {
    readable(fd, Some(Duration::ZERO))
}

/// Runs a test on a loop of each backend that has a descriptor.
fn for_each_pollable(test: impl Fn(EventLoop)) {
    let count = Cell::new(0);
    for_each_backend(|builder: Builder| {
        let event_loop = builder.build().unwrap();
        match event_loop.as_fd().map(drop) {
            Ok(()) => {
                count.set(count.get() + 1);
                test(event_loop);
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Unsupported);
                assert!(error.to_string().contains(event_loop.selector_name()), "{error}");
            }
        }
    });
    assert!(count.get() > 0);
}

/// The ten lines of a host.
fn host(event_loop: &mut EventLoop) -> usize {
    for steps in 1.. {
        let limit = event_loop
            .prepare_wait()
            .map(|deadline| deadline.saturating_duration_since(event_loop.now()));
        readable(event_loop.as_fd().unwrap(), limit);
        if event_loop.run_once(Some(Duration::ZERO)).unwrap() == Turn::Stopped {
            return steps;
        }
    }
    unreachable!()
}

#[test]
fn b_loop_28_a_poll_loop_hosts_timers_tasks_and_descriptors() {
    for_each_pollable(|mut event_loop| {
        let (ours, mut theirs) = pair();
        let trace = Trace::new();
        let (lp, log, source) = (event_loop.loop_ref(), trace.clone(), ours.clone());
        event_loop
            .add_reader(&ours, move || {
                let mut byte = [0];
                (&*source).read_exact(&mut byte).unwrap();
                log.push(String::from_utf8_lossy(&byte));
                if byte == *b"c" {
                    lp.stop();
                }
            })
            .unwrap();
        event_loop
            .spawn(async move {
                for byte in [b"a", b"b", b"c"] {
                    sleep(2 * MS).await;
                    theirs.write_all(byte).unwrap();
                }
                std::future::pending::<()>().await;
            })
            .cancel_on_drop()
            .into_inner()
            .detach();
        event_loop.set_exception_handler(Some(Rc::new(|_, _| ())));
        let steps = host(&mut event_loop);
        assert_eq!(trace.take(), ["a", "b", "c"]);
        assert!(steps < 20, "{steps} steps: the host spins");
    });
}

#[test]
fn a_threads_call_ends_the_hosts_endless_poll() {
    for_each_pollable(|mut event_loop| {
        assert_eq!(event_loop.prepare_wait(), None, "nothing is there to wait for");
        for round in 0..20 {
            let remote = event_loop.remote();
            let (lp, host) = (event_loop.loop_ref(), Sleeper::this_thread());
            let task = event_loop.spawn(async move {
                // At once, or while the host waits.
                let job = move || (0..round % 3).for_each(|_| host.wait());
                lp.run_blocking(job).await.unwrap();
            });
            let called = thread::spawn(move || {
                remote.call_soon(|| ()).unwrap();
                remote.call_soon(|| ()).unwrap();
            });
            let mut steps = 0;
            while !task.is_done() {
                let deadline = event_loop.prepare_wait();
                if deadline.is_none() {
                    assert!(readable(event_loop.as_fd().unwrap(), None));
                }
                event_loop.run_once(Some(Duration::ZERO)).unwrap();
                steps += 1;
            }
            called.join().unwrap();
            assert!(steps < 20, "{steps} steps: the descriptor stays readable");
        }
        turn(&mut event_loop);
        event_loop.prepare_wait();
        assert!(!is_readable(event_loop.as_fd().unwrap()), "a wake is used up by the step");
    });
}

#[test]
fn what_is_ready_means_no_wait_and_deadlines_are_exact() {
    let (mut event_loop, clock) = virtual_loop();
    assert_eq!(event_loop.prepare_wait(), None);
    assert_eq!(event_loop.next_deadline(), None);
    event_loop.call_soon(|| ());
    assert_eq!(event_loop.prepare_wait(), Some(event_loop.now()));
    turn(&mut event_loop);
    let due = event_loop.now() + 5 * MS;
    let timer = event_loop.call_at(due, || ());
    event_loop.call_later(Duration::MAX, || ());
    assert_eq!(event_loop.prepare_wait(), Some(due));
    assert_eq!(event_loop.prepare_wait(), Some(due), "preparing twice is preparing once");
    assert_eq!(event_loop.next_deadline(), Some(due));
    clock.advance(9 * MS);
    assert_eq!(event_loop.prepare_wait(), Some(due), "it has passed");
    timer.cancel();
    assert_eq!(event_loop.next_deadline(), None, "the end of time is no deadline");
    event_loop.stop();
    assert_eq!(event_loop.prepare_wait(), Some(event_loop.now()));
    assert_eq!(event_loop.run_once(None).unwrap(), Turn::Stopped, "preparing uses up no request");
    event_loop.close();
    assert_eq!((event_loop.prepare_wait(), event_loop.next_deadline()), (None, None));
    assert!(event_loop.as_fd().is_err());
}

#[test]
fn a_wake_that_comes_before_the_wait_is_not_lost() {
    for_each_pollable(|mut event_loop| {
        let remote = event_loop.remote();
        // Before preparing: told. (The thread is another, or the call would go straight to the queue.)
        thread::spawn({
            let remote = remote.clone();
            move || drop(remote.call_soon(|| ()))
        })
        .join()
        .unwrap();
        assert!(event_loop.prepare_wait().is_some());
        turn(&mut event_loop);
        // Between preparing and waiting: readable.
        assert!(event_loop.prepare_wait().is_none());
        thread::spawn(move || drop(remote.call_soon(|| ()))).join().unwrap();
        assert!(is_readable(event_loop.as_fd().unwrap()));
        assert!(event_loop.prepare_wait().is_some());
        turn(&mut event_loop);
        // A run of the loop's own afterwards waits as ever.
        event_loop.prepare_wait();
        event_loop.run_until_complete(sleep(MS)).unwrap();
        event_loop.prepare_wait();
        assert!(!is_readable(event_loop.as_fd().unwrap()));
    });
}

#[test]
fn changed_interests_are_told_before_the_wait() {
    for_each_pollable(|mut event_loop| {
        let (ours, _theirs) = pair();
        event_loop.add_reader(&ours, || ()).unwrap();
        event_loop.prepare_wait();
        assert!(!is_readable(event_loop.as_fd().unwrap()));
        turn(&mut event_loop);
        event_loop.add_writer(&ours, || ()).unwrap();
        event_loop.prepare_wait();
        assert!(is_readable(event_loop.as_fd().unwrap()), "it is writable");
    });
}

#[test]
fn b_loop_28_the_host_is_told_of_a_stop_once() {
    let mut event_loop = EventLoop::new().unwrap();
    assert_eq!(event_loop.run_once(Some(Duration::ZERO)).unwrap(), Turn::Continue);
    let lp = event_loop.loop_ref();
    event_loop.call_soon(move || lp.stop());
    assert_eq!(event_loop.run_once(None).unwrap(), Turn::Stopped);
    assert_eq!(event_loop.run_once(Some(Duration::ZERO)).unwrap(), Turn::Continue);
    event_loop.stop();
    assert_eq!(event_loop.run_once(None).unwrap(), Turn::Stopped, "asked for between steps");
    let remote = event_loop.remote();
    thread::spawn(move || remote.stop().unwrap()).join().unwrap();
    assert_eq!(event_loop.run_once(None).unwrap(), Turn::Stopped);
    let mut scope = event_loop.enter().unwrap();
    scope.stop();
    assert_eq!(scope.run_once(None).unwrap(), Turn::Stopped);
    assert_eq!(scope.run_once(Some(Duration::ZERO)).unwrap(), Turn::Continue);
}

#[test]
fn b_loop_28_a_scope_keeps_the_loop_current_between_steps() {
    let mut event_loop = EventLoop::new().unwrap();
    let mut other = EventLoop::new().unwrap();
    assert!(LoopRef::try_current().is_none());
    {
        let mut scope = event_loop.enter().unwrap();
        assert!(scope.is_running());
        assert!(matches!(other.run_once(None), Err(LoopError::NestedLoop)));
        let task = spawn(async { LoopRef::current().is_running() });
        assert!(scope.prepare_wait().is_some());
        scope.run_once(Some(Duration::ZERO)).unwrap();
        assert!(task.take_result().unwrap().unwrap());
        let pollable = !matches!(scope.selector_name(), "poll" | "select");
        assert_eq!(scope.as_fd().is_ok(), pollable);
    }
    assert!(!event_loop.is_running() && LoopRef::try_current().is_none());
    event_loop.close();
    assert!(matches!(event_loop.enter().map(drop), Err(LoopError::Closed)));
}

#[test]
fn calloop_hosts_it() {
    use calloop::generic::Generic;
    use calloop::{Interest, Mode, PostAction};

    for_each_pollable(|mut event_loop| {
        let mut host = calloop::EventLoop::<usize>::try_new().unwrap();
        let fd: OwnedFd = event_loop.as_fd().unwrap().try_clone_to_owned().unwrap();
        host.handle()
            .insert_source(Generic::new(fd, Interest::READ, Mode::Level), |_, _, wakes| {
                *wakes += 1;
                Ok(PostAction::Continue)
            })
            .unwrap();
        let (remote, sleeper) = (event_loop.remote(), Sleeper::this_thread());
        let task = event_loop.spawn(async move {
            sleep(3 * MS).await;
            LoopRef::current().run_blocking(move || sleeper.wait()).await.unwrap();
            LoopRef::current().stop();
        });
        let caller = thread::spawn(move || remote.call_soon(|| ()).unwrap());
        let mut wakes = 0;
        let mut steps = 0;
        loop {
            let deadline = event_loop.prepare_wait();
            let limit = deadline.map(|at| at.saturating_duration_since(Instant::now()));
            host.dispatch(limit, &mut wakes).unwrap();
            steps += 1;
            if event_loop.run_once(Some(Duration::ZERO)).unwrap() == Turn::Stopped {
                break;
            }
        }
        caller.join().unwrap();
        assert!(task.is_done() && wakes >= 1);
        assert!(steps < 30, "{steps} steps: the host spins");
    });
}

#[test]
fn tokio_hosts_it() {
    use tokio::io::Interest;
    use tokio::io::unix::AsyncFd;

    for_each_pollable(|mut event_loop| {
        let (ours, mut theirs) = pair();
        let (remote, sleeper) = (event_loop.remote(), Sleeper::this_thread());
        let task = event_loop.spawn(async move {
            let lp = LoopRef::current();
            sleep(2 * MS).await;
            // What is readable stays so: a host that triggers on edges has to look again.
            for byte in *b"xyz" {
                lp.readable(&ours).await.unwrap();
                let mut read = [0];
                (&*ours).read_exact(&mut read).unwrap();
                assert_eq!(read, [byte]);
            }
            lp.run_blocking(move || sleeper.wait()).await.unwrap();
            lp.stop();
        });
        let host = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        host.block_on(async {
            let fd = event_loop.as_fd().unwrap().try_clone_to_owned().unwrap();
            #[allow(deprecated)]
            // Its successor is unsafe, for the sake of other types than an `OwnedFd`.
            let fd = AsyncFd::with_interest(fd, Interest::READABLE).unwrap();
            let beside = tokio::spawn(async move {
                tokio::time::sleep(MS).await;
                theirs.write_all(b"xyz").unwrap();
                remote.call_soon(|| ()).unwrap();
                theirs
            });
            loop {
                let deadline = event_loop.prepare_wait();
                let wait = async {
                    // Its readiness is an edge: it is cleared only once the descriptor is not readable.
                    let mut ready = fd.readable().await.unwrap();
                    if !is_readable(fd.as_fd()) {
                        ready.clear_ready();
                    }
                };
                match deadline {
                    Some(deadline) => {
                        let _ = tokio::time::timeout_at(deadline.into(), wait).await;
                    }
                    None => wait.await,
                }
                if event_loop.run_once(Some(Duration::ZERO)).unwrap() == Turn::Stopped {
                    break;
                }
            }
            drop(beside.await.unwrap());
        });
        task.take_result().unwrap().unwrap();
    });
}

#[test]
fn a_host_that_cannot_poll_is_called_back() {
    for_each_pollable(|mut event_loop| {
        let (ours, mut theirs) = pair();
        let (post, posted) = mpsc::channel();
        let waker = HostWaker::new(&event_loop, move || post.send(()).unwrap()).unwrap();
        let (remote, sleeper) = (event_loop.remote(), Sleeper::this_thread());
        let task = event_loop.spawn(async move {
            let lp = LoopRef::current();
            sleep(2 * MS).await;
            theirs.write_all(b"x").unwrap();
            lp.readable(&ours).await.unwrap();
            lp.run_blocking(move || sleeper.wait()).await.unwrap();
        });
        let caller = thread::spawn(move || remote.call_soon(|| ()).unwrap());
        let mut calls = 0;
        while !task.is_done() {
            waker.arm(event_loop.prepare_wait());
            posted.recv().unwrap();
            calls += 1;
            turn(&mut event_loop);
        }
        caller.join().unwrap();
        assert!(calls < 30, "{calls} calls");
        task.take_result().unwrap().unwrap();
        // Not armed, it is silent.
        event_loop.call_soon(|| ());
        assert!(posted.recv_timeout(2 * MS).is_err());
        waker.arm(None);
        drop(waker);
        assert_eq!(posted.recv(), Err(mpsc::RecvError), "the thread has ended");
    });
}

#[test]
fn a_host_waker_may_be_dropped_by_its_own_call() {
    let _watchdog = watchdog();
    let mut event_loop = EventLoop::new().unwrap();
    if let Err(error) = event_loop.as_fd() {
        return println!("skipped: {error}");
    }
    let (give, given) = mpsc::channel::<HostWaker>();
    let (end, ended) = mpsc::channel();
    let end = OnDrop(move || end.send(()).unwrap());
    let waker = HostWaker::new(&event_loop, move || {
        common::keep(&end);
        drop(given.recv());
    })
    .unwrap();
    waker.arm(event_loop.prepare_wait().or(Some(Instant::now())));
    give.send(waker).unwrap();
    ended.recv().unwrap();
}

#[test]
fn ours_hosts_another_by_its_descriptor() {
    let _watchdog = watchdog();
    let ticks = run(async {
        let mut guest = calloop::EventLoop::<u32>::try_new().unwrap();
        let (ping, pinged) = calloop::ping::make_ping().unwrap();
        guest.handle().insert_source(pinged, |_, (), ticks| *ticks += 1).unwrap();
        let fd = Rc::new(guest.as_fd().try_clone_to_owned().unwrap());
        let mut ticks = 0;
        for _ in 0..3 {
            let ping = ping.clone();
            LoopRef::current().call_later(MS, move || ping.ping());
            LoopRef::current().readable(&fd).await.unwrap();
            guest.dispatch(Duration::ZERO, &mut ticks).unwrap();
        }
        ticks
    });
    assert_eq!(ticks.unwrap(), 3);
}

#[test]
fn b_fd_13_a_wait_for_a_descriptor_leaves_nothing_behind() {
    common::for_each_logged(|mut event_loop, log| {
        let (ours, mut theirs) = pair();
        let source = ours.clone();
        // On completion.
        theirs.write_all(b"x").unwrap();
        let readable = event_loop.readable(&ours);
        event_loop.run_until_complete(readable).unwrap().unwrap();
        use common::Call::*;
        assert_eq!(log.take_changes(), [Register, Deregister]);
        // Both directions at once, in one registration; dropping one keeps the other.
        (&*source).read_exact(&mut [0]).unwrap();
        let (lp, both) = (event_loop.loop_ref(), ours.clone());
        let tasks = [lp.spawn(lp.readable(&both)), lp.spawn(lp.writable(&both))];
        turn(&mut event_loop);
        turn(&mut event_loop);
        turn(&mut event_loop);
        assert!(tasks[1].is_done() && !tasks[0].is_done());
        // On cancellation.
        tasks[0].cancel();
        turn(&mut event_loop);
        turn(&mut event_loop);
        assert_eq!(log.take_changes().last(), Some(&Deregister));
        // On drop, and never polled at all.
        drop(lp.readable(&ours));
        assert_eq!(log.take_changes(), []);
        drop(tasks);
        drop(both);
        drop(source);
        assert_eq!(Rc::strong_count(&ours), 1, "nobody keeps the source");
    });
}

#[test]
fn b_fd_13_one_waits_for_a_direction_at_a_time() {
    let _watchdog = watchdog();
    let (mut event_loop, _clock) = virtual_loop();
    let (ours, _theirs) = pair();
    let lp = event_loop.loop_ref();
    let first = lp.spawn(lp.readable(&ours));
    turn(&mut event_loop);
    let second = lp.spawn(lp.readable(&ours));
    turn(&mut event_loop);
    let error = second.take_result().unwrap().unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ResourceBusy);
    // A reader that takes the place is told to the one who waited.
    let reader = lp.add_reader(&ours, || ()).unwrap();
    turn(&mut event_loop);
    let error = first.take_result().unwrap().unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ResourceBusy);
    assert!(!reader.is_cancelled(), "and stays");
    assert!(lp.remove_reader(&*ours));
    // So is the end of the loop.
    let outcome: Rc<RefCell<Option<io::Result<()>>>> = Rc::default();
    let seen = outcome.clone();
    let wait = lp.readable(&ours);
    let mut wait = Box::pin(async move { drop(seen.replace(Some(wait.await))) });
    let mut poll = || {
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        wait.as_mut().poll(&mut cx).is_ready()
    };
    assert!(!poll());
    drop(event_loop);
    assert!(poll());
    let error = outcome.take().unwrap().unwrap_err();
    assert!(error.to_string().contains("closed"), "{error}");
}
