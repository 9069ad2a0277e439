//! Readers, writers and I/O handlers.

mod common;

use std::cell::{Cell, RefCell};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::rc::Rc;
use std::time::Duration;

use common::{
    Call, OnDrop, Trace, for_each_backend, for_each_logged, keep, pair, reports, turn, watchdog,
};
use loop_core::{EventLoop, Interest, IoHandler, LoopRef, Readiness, Token, sleep};
use loop_selector::{PollSelector, available};

/// A pair whose our side is readable and writable.
fn ready_pair() -> (Rc<UnixStream>, UnixStream) {
    let (ours, mut theirs) = pair();
    theirs.write_all(b"x").unwrap();
    (ours, theirs)
}

fn read_byte(source: &UnixStream) -> io::Result<()> {
    let mut source = source;
    source.read_exact(&mut [0])
}

#[test]
fn b_fd_01_the_reader_runs_once_an_iteration_while_there_is_something_to_read() {
    for_each_logged(|mut event_loop, log| {
        let (ours, mut theirs) = pair();
        let trace = Trace::new();
        event_loop.add_reader(&ours, trace.note("read")).unwrap();
        turn(&mut event_loop);
        assert_eq!(trace.take(), Vec::<String>::new());
        theirs.write_all(b"x").unwrap();
        turn(&mut event_loop);
        turn(&mut event_loop);
        assert_eq!(trace.take(), ["read", "read"]);
        read_byte(&ours).unwrap();
        turn(&mut event_loop);
        assert_eq!(trace.take(), Vec::<String>::new());
        // A writer joins the same registration.
        event_loop.add_writer(&ours, trace.note("write")).unwrap();
        turn(&mut event_loop);
        assert_eq!(trace.take(), ["write"]);
        let both = Interest::READ | Interest::WRITE;
        assert_eq!(log.take_changes(), [Call::Register, Call::Modify(Some(both))]);
    });
}

#[test]
fn b_fd_01_end_of_file_and_hang_up_are_readable() {
    for_each_backend(|builder| {
        let mut event_loop = builder.build().unwrap();
        let (ours, theirs) = pair();
        let lp = event_loop.loop_ref();
        event_loop.add_reader(&ours, move || lp.stop()).unwrap();
        drop(theirs);
        event_loop.run_forever().unwrap();
    });
}

#[test]
fn b_fd_02_a_second_reader_replaces_the_first_also_when_that_is_queued() {
    for_each_backend(|builder| {
        let mut event_loop = builder.build().unwrap();
        let (ours, _theirs) = ready_pair();
        let trace = Trace::new();
        let value = trace.on_drop("first dropped");
        let (log, keeps) = (trace.clone(), value);
        let first = event_loop
            .add_reader(&ours, move || {
                keep(&keeps);
                log.push("first");
            })
            .unwrap();
        let (lp, source, log) = (event_loop.loop_ref(), ours.clone(), trace.clone());
        // Runs before the reader, which is queued in the same batch.
        event_loop.call_soon(move || {
            lp.add_reader(&source, log.note("second")).unwrap();
        });
        turn(&mut event_loop);
        assert_eq!(trace.take(), ["first dropped"]);
        assert!(first.is_cancelled());
        turn(&mut event_loop);
        assert_eq!(trace.take(), ["second"]);
    });
}

#[test]
fn b_fd_03_remove_reader_says_whether_there_was_one_and_cancels_it() {
    for_each_backend(|builder| {
        let mut event_loop = builder.build().unwrap();
        let (ours, _theirs) = ready_pair();
        assert!(!event_loop.remove_reader(&*ours), "unknown");
        let trace = Trace::new();
        let handle = event_loop.add_reader(&ours, trace.note("never")).unwrap();
        assert!(!event_loop.remove_writer(&*ours));
        let (lp, source) = (event_loop.loop_ref(), ours.clone());
        event_loop.call_soon(move || assert!(lp.remove_reader(&*source))); // it is queued by then
        turn(&mut event_loop);
        assert!(handle.is_cancelled());
        assert!(!event_loop.remove_reader(&*ours));
        assert_eq!(trace.take(), Vec::<String>::new());
    });
}

#[test]
fn b_fd_04_removing_one_direction_keeps_the_other_and_the_last_unregisters() {
    for_each_logged(|mut event_loop, log| {
        let (ours, _theirs) = ready_pair();
        let trace = Trace::new();
        event_loop.add_reader(&ours, trace.note("read")).unwrap();
        event_loop.add_writer(&ours, trace.note("write")).unwrap();
        assert!(event_loop.remove_reader(&*ours));
        turn(&mut event_loop);
        assert_eq!(trace.take(), ["write"]);
        assert_eq!(Rc::strong_count(&ours), 2);
        assert!(event_loop.remove_writer(&*ours));
        assert_eq!(Rc::strong_count(&ours), 1, "the loop gave its share back at once");
        turn(&mut event_loop);
        assert_eq!(trace.take(), Vec::<String>::new());
        let expected = [Call::Register, Call::Modify(Some(Interest::WRITE)), Call::Deregister];
        assert_eq!(log.take_changes(), expected);
    });
}

#[test]
fn b_fd_05_a_reader_that_removes_the_writer_is_the_last_to_run() {
    for_each_backend(|builder| {
        let mut event_loop = builder.build().unwrap();
        let (ours, _theirs) = ready_pair();
        let trace = Trace::new();
        let (lp, source, log) = (event_loop.loop_ref(), ours.clone(), trace.clone());
        event_loop
            .add_reader(&ours, move || {
                log.push("read");
                lp.remove_writer(&*source);
            })
            .unwrap();
        event_loop.add_writer(&ours, trace.note("write")).unwrap();
        turn(&mut event_loop);
        turn(&mut event_loop);
        assert_eq!(trace.take(), ["read", "read"]);
    });
}

#[test]
fn b_fd_06_a_callback_may_remove_or_replace_what_is_queued_behind_it() {
    for_each_backend(|builder| {
        let mut event_loop = builder.build().unwrap();
        let pairs: Vec<_> = (0..4).map(|_| ready_pair()).collect();
        let sources: Vec<_> = pairs.iter().map(|(ours, _)| ours.clone()).collect();
        let first: Rc<Cell<Option<usize>>> = Rc::default();
        for (n, (ours, _)) in pairs.iter().enumerate() {
            let (lp, sources, first) = (event_loop.loop_ref(), sources.clone(), first.clone());
            let change = move || {
                assert_eq!(first.replace(Some(n)), None, "one callback runs, whichever is first");
                for (m, source) in sources.iter().enumerate() {
                    if m % 2 == 0 {
                        assert!(lp.remove_reader(&**source));
                    } else {
                        lp.add_reader(source, || ()).unwrap();
                    }
                }
            };
            event_loop.add_reader(ours, change).unwrap();
        }
        turn(&mut event_loop);
        assert!(first.get().is_some());
        turn(&mut event_loop);
    });
}

#[test]
fn b_fd_07_a_queued_event_does_not_reach_the_next_owner_of_the_number() {
    struct Note(Trace, &'static str);
    impl IoHandler for Note {
        fn ready(self: Rc<Self>, _: Readiness, _: &mut Vec<u8>) {
            self.0.push(self.1);
        }
    }
    for_each_backend(|builder| {
        let mut event_loop = builder.build().unwrap();
        let trace = Trace::new();
        let (ours, theirs) = ready_pair();
        let number = ours.as_raw_fd();
        let old = Rc::new(Note(trace.clone(), "old owner"));
        let token = event_loop.register_io(ours, Interest::READ, old).unwrap();
        let (lp, log, again) = (event_loop.loop_ref(), trace.clone(), Rc::new(RefCell::new(None)));
        let registered = again.clone();
        // Ready before the poll, so it runs before the event that the poll sees.
        event_loop.call_soon(move || {
            drop(lp.deregister_io(token)); // the last owner: the descriptor is closed
            let (ours, theirs) = ready_pair();
            let new = Rc::new(Note(log, "new owner"));
            let reused = ours.as_raw_fd() == number || theirs.as_raw_fd() == number;
            let new_token = lp.register_io(ours, Interest::READ, new).unwrap();
            assert_ne!(new_token, token);
            *registered.borrow_mut() = Some((theirs, reused));
        });
        turn(&mut event_loop);
        assert_eq!(trace.take(), Vec::<String>::new(), "an event of the old one");
        turn(&mut event_loop);
        assert_eq!(trace.take(), ["new owner"]);
        drop((theirs, again));
    });
}

#[test]
fn b_fd_08_a_direction_cancelled_through_its_handle_is_let_go() {
    for_each_logged(|mut event_loop, log| {
        let (ours, _theirs) = ready_pair();
        let trace = Trace::new();
        let read = event_loop.add_reader(&ours, trace.note("read")).unwrap();
        let write = event_loop.add_writer(&ours, trace.note("write")).unwrap();
        turn(&mut event_loop);
        assert_eq!(trace.take(), ["read", "write"]);
        read.cancel();
        turn(&mut event_loop);
        assert_eq!(trace.take(), ["write"]);
        write.cancel();
        turn(&mut event_loop);
        turn(&mut event_loop);
        assert_eq!(trace.take(), Vec::<String>::new());
        assert_eq!(Rc::strong_count(&ours), 1, "unregistered: nothing spins");
        assert_eq!(log.take_changes().last(), Some(&Call::Deregister));
    });
}

#[test]
fn b_fd_08_letting_a_direction_go_guards_the_owners_destructor() {
    struct Source(UnixStream);
    impl AsFd for Source {
        fn as_fd(&self) -> BorrowedFd<'_> {
            self.0.as_fd()
        }
    }
    impl Drop for Source {
        fn drop(&mut self) {
            panic!("owner");
        }
    }
    let mut event_loop = EventLoop::new().unwrap();
    let log = reports(&event_loop);
    let (ours, _theirs) = UnixStream::pair().unwrap();
    let handle = event_loop.add_writer(&Rc::new(Source(ours)), || ()).unwrap();
    handle.cancel();
    turn(&mut event_loop);
    assert_eq!(log.take(), ["a destructor failed: panic \"owner\""]);
}

#[test]
fn b_fd_09_a_descriptor_of_a_handler_is_busy() {
    struct Nothing;
    impl IoHandler for Nothing {
        fn ready(self: Rc<Self>, _: Readiness, _: &mut Vec<u8>) {}
    }
    for_each_backend(|builder| {
        let event_loop = builder.build().unwrap();
        let (ours, _theirs) = pair();
        let token = event_loop.register_io(ours.clone(), Interest::READ, Rc::new(Nothing)).unwrap();
        let error = event_loop.add_reader(&ours, || ()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ResourceBusy);
        assert_eq!(event_loop.add_writer(&ours, || ()).unwrap_err().kind(), error.kind());
        assert!(!event_loop.remove_reader(&*ours));
        let refused =
            event_loop.register_io(ours.clone(), Interest::READ, Rc::new(Nothing)).unwrap_err();
        assert_eq!(refused.error().kind(), io::ErrorKind::AlreadyExists);
        assert!(event_loop.deregister_io(token).is_some());
        assert!(event_loop.deregister_io(token).is_none());
        event_loop.add_reader(&ours, || ()).unwrap();
    });
}

#[test]
fn b_fd_10_a_reader_that_fails_stays_until_it_failed_16_times_in_a_row() {
    for_each_backend(|builder| {
        let mut event_loop = builder.build().unwrap();
        let log = reports(&event_loop);
        let (ours, _theirs) = ready_pair();
        let runs = Rc::new(Cell::new(0));
        let count = runs.clone();
        let value = OnDrop(|| panic!("destructor"));
        event_loop
            .add_reader(&ours, move || {
                keep(&value);
                count.set(count.get() + 1);
                // The 15th run in the first row is clean.
                if count.get() == 15 { Ok(()) } else { Err("again") }
            })
            .unwrap();
        for _ in 0..40 {
            turn(&mut event_loop);
        }
        assert_eq!(runs.get(), 15 + 16);
        let mut expected = vec!["callback failed: error \"again\""; 30];
        expected.push("a destructor failed: panic \"destructor\"");
        expected.push("callback removed: it failed 16 times without a clean run");
        assert_eq!(log.take(), expected);
        assert!(!event_loop.remove_reader(&*ours));
    });
}

#[test]
fn b_fd_11_errors_of_the_selector_reach_the_caller_and_leave_nothing() {
    if !available().contains(&"epoll") {
        return;
    }
    let mut event_loop =
        EventLoop::builder().selector(loop_selector::by_name("epoll").unwrap()).build().unwrap();
    let file = Rc::new(File::open(std::env::current_exe().unwrap()).unwrap());
    for _ in 0..2 {
        let error = event_loop.add_reader(&file, || ()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied, "{error}");
        assert!(error.to_string().contains(&format!("fd {}", file.as_raw_fd())), "{error}");
    }
    assert_eq!(Rc::strong_count(&file), 1);
    assert!(!event_loop.remove_reader(&*file));
    turn(&mut event_loop);
    // poll takes it, and it is always ready.
    let mut event_loop =
        EventLoop::builder().selector(Box::new(PollSelector::new().unwrap())).build().unwrap();
    let trace = Trace::new();
    event_loop.add_reader(&file, trace.note("ready")).unwrap();
    turn(&mut event_loop);
    assert_eq!(trace.take(), ["ready"]);
}

#[test]
fn b_fd_11_a_late_modify_that_fails_is_reported_wakes_both_and_is_tried_again() {
    for_each_logged(|mut event_loop, log| {
        let failures = reports(&event_loop);
        let (ours, _theirs) = ready_pair();
        let trace = Trace::new();
        event_loop.add_reader(&ours, trace.note("read")).unwrap();
        event_loop.add_writer(&ours, trace.note("write")).unwrap();
        log.modify_fails.set(true);
        turn(&mut event_loop);
        let report = failures.take();
        assert_eq!(report.len(), 1);
        assert!(report[0].starts_with("changing what is watched failed: "), "{report:?}");
        assert_eq!(trace.take(), ["read", "write"], "both learn of it");
        turn(&mut event_loop);
        assert_eq!(trace.take(), Vec::<String>::new(), "the kernel watches nothing");
        log.modify_fails.set(false);
        event_loop.add_reader(&ours, trace.note("read again")).unwrap();
        turn(&mut event_loop);
        assert_eq!(trace.take(), ["read again", "write"]);
    });
}

#[test]
fn b_fd_11_many_changes_are_one_call() {
    for_each_logged(|mut event_loop, log| {
        let (ours, _theirs) = pair();
        event_loop.add_reader(&ours, || ()).unwrap();
        for _ in 0..10 {
            event_loop.add_writer(&ours, || ()).unwrap();
            event_loop.remove_writer(&*ours);
        }
        turn(&mut event_loop);
        assert_eq!(log.take_changes(), [Call::Register]);
        for _ in 0..10 {
            event_loop.remove_writer(&*ours);
            event_loop.add_writer(&ours, || ()).unwrap();
        }
        turn(&mut event_loop);
        assert_eq!(log.take_changes(), [Call::Modify(Some(Interest::READ | Interest::WRITE))]);
    });
}

/// Not a test of its own: what the next one runs in a process whose standard input is a pipe that it may lose.
#[test]
fn child_loses_its_input() {
    let Ok(name) = std::env::var("LOOP_CORE_CHILD") else { return };
    let mut event_loop =
        EventLoop::builder().selector(loop_selector::by_name(&name).unwrap()).build().unwrap();
    let calls = Rc::new(Cell::new(0));
    let (count, input) = (calls.clone(), Rc::new(io::stdin()));
    let source = input.clone();
    event_loop
        .add_reader(&input, move || {
            count.set(count.get() + 1);
            assert_eq!(rustix::io::read(&*source, &mut [0; 1]), Err(rustix::io::Errno::BADF));
        })
        .unwrap();
    let failures = reports(&event_loop);
    let (ours, mut theirs) = pair();
    event_loop.run_once(Some(Duration::ZERO)).unwrap();
    assert_eq!(calls.get(), 0);
    // As a library does that makes a daemon of the program.
    fork::close_fd().unwrap();
    let before = event_loop.statistics().iterations;
    let echoed = event_loop.run_until_complete(async move {
        sleep(Duration::from_millis(20)).await;
        theirs.write_all(b"x").unwrap();
        LoopRef::current().readable(&ours).await.is_ok() && read_byte(&ours).is_ok()
    });
    let good = echoed.is_ok_and(|echoed| echoed)
        && calls.get() <= 1
        && event_loop.statistics().iterations - before < 12
        && failures.take().is_empty()
        && event_loop.remove_reader(&*input)
        && !event_loop.remove_reader(&*input)
        && event_loop.run_once(Some(Duration::ZERO)).is_ok();
    // Where it would say more is closed.
    std::process::exit(if good { 7 } else { 8 });
}

#[test]
fn b_fd_12_a_descriptor_closed_behind_the_loops_back_does_not_stop_it() {
    for name in loop_selector::available() {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child_loses_its_input", "--nocapture"])
            .env("LOOP_CORE_CHILD", name)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let input = child.stdin.take();
        assert_eq!(child.wait().unwrap().code(), Some(7), "{name}");
        drop(input);
    }
}

/// Echoes bytes, and does to its registration what the test asks for.
struct Handler {
    lp: LoopRef,
    trace: Trace,
    token: Cell<Option<Token>>,
    silence: Cell<bool>,
}

impl IoHandler for Handler {
    fn ready(self: Rc<Self>, readiness: Readiness, _: &mut Vec<u8>) {
        self.trace.push(format!("{readiness:?}"));
        if self.silence.get() {
            assert!(self.lp.set_interest(self.token.get().unwrap(), None));
        }
    }
}

#[test]
fn an_io_handler_gets_both_directions_at_once_masked_by_what_it_wants_now() {
    for_each_logged(|mut event_loop, log| {
        let (ours, _theirs) = ready_pair();
        let handler = Rc::new(Handler {
            lp: event_loop.loop_ref(),
            trace: Trace::new(),
            token: Cell::new(None),
            silence: Cell::new(false),
        });
        let both = Interest::READ | Interest::WRITE;
        let token = event_loop.register_io(ours.clone(), both, handler.clone()).unwrap();
        handler.token.set(Some(token));
        turn(&mut event_loop);
        assert_eq!(handler.trace.take(), ["READABLE | WRITABLE"]);
        // What is queued is masked at once, before the selector hears of it.
        let lp = event_loop.loop_ref();
        event_loop.call_soon(move || assert!(lp.set_interest(token, Some(Interest::WRITE))));
        turn(&mut event_loop);
        assert_eq!(handler.trace.take(), ["WRITABLE"]);
        handler.silence.set(true);
        turn(&mut event_loop);
        assert_eq!(handler.trace.take(), ["WRITABLE"]);
        turn(&mut event_loop);
        assert_eq!(handler.trace.take(), Vec::<String>::new());
        assert_eq!(
            log.take_changes(),
            [Call::Register, Call::Modify(Some(Interest::WRITE)), Call::Modify(None)]
        );
        let owner = event_loop.deregister_io(token).unwrap();
        assert_eq!((*owner).as_fd().as_raw_fd(), ours.as_raw_fd());
        assert!(!event_loop.set_interest(token, Some(Interest::READ)), "the token is stale");
        drop(owner);
        assert_eq!((Rc::strong_count(&ours), Rc::strong_count(&handler)), (1, 1));
    });
}

#[test]
fn an_io_handler_that_panics_stays() {
    struct Fails;
    impl IoHandler for Fails {
        fn ready(self: Rc<Self>, _: Readiness, _: &mut Vec<u8>) {
            panic!("handler");
        }
    }
    let mut event_loop = EventLoop::new().unwrap();
    let log = reports(&event_loop);
    let (ours, _theirs) = ready_pair();
    event_loop.register_io(ours, Interest::READ, Rc::new(Fails)).unwrap();
    turn(&mut event_loop);
    turn(&mut event_loop);
    assert_eq!(log.take(), ["an I/O handler failed: panic \"handler\""; 2]);
}

// tokio-rs/mio#219: an event of the same batch reached a registration that was gone.
#[test]
fn s10_deregistering_the_other_in_the_same_batch() {
    for_each_backend(|builder| {
        let mut event_loop = builder.build().unwrap();
        for _ in 0..100 {
            let (a, b) = (ready_pair(), ready_pair());
            let ran: Rc<RefCell<Vec<&str>>> = Rc::default();
            for (name, own, other) in [("a", &a.0, &b.0), ("b", &b.0, &a.0)] {
                let (lp, ran) = (event_loop.loop_ref(), ran.clone());
                let (source, other) = (own.clone(), other.clone());
                event_loop
                    .add_reader(own, move || {
                        ran.borrow_mut().push(name);
                        read_byte(&source)?;
                        lp.remove_reader(&*other);
                        io::Result::Ok(())
                    })
                    .unwrap();
            }
            turn(&mut event_loop);
            event_loop.run_once(Some(Duration::from_micros(100))).unwrap();
            let ran = ran.take();
            assert_eq!(ran.len(), 1, "{ran:?}");
            let (read, unread) = if ran == ["a"] { (&a.0, &b.0) } else { (&b.0, &a.0) };
            assert_eq!(read_byte(read).unwrap_err().kind(), io::ErrorKind::WouldBlock);
            read_byte(unread).unwrap();
            assert!(event_loop.remove_reader(&**read));
            assert!(!event_loop.remove_reader(&**unread));
        }
    });
}

#[test]
fn a_pipe_that_hangs_up_is_readable_to_its_end() {
    let _watchdog = watchdog();
    let mut event_loop = EventLoop::new().unwrap();
    let mut child =
        Command::new("printf").arg("last words").stdout(Stdio::piped()).spawn().unwrap();
    child.wait().unwrap();
    let reader = Rc::new(File::from(OwnedFd::from(child.stdout.take().unwrap())));
    let (lp, source, trace) = (event_loop.loop_ref(), reader.clone(), Trace::new());
    let log = trace.clone();
    event_loop
        .add_reader(&reader, move || {
            let mut buffer = [0; 4];
            let n = (&*source).read(&mut buffer)?;
            log.push(String::from_utf8_lossy(&buffer[..n]));
            if n == 0 {
                lp.stop();
            }
            io::Result::Ok(())
        })
        .unwrap();
    event_loop.run_forever().unwrap();
    assert_eq!(trace.take(), ["last", " wor", "ds", ""]);
}
