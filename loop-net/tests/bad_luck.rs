//! What goes wrong: bad peers, bad protocols, bad addresses. The loop goes on, and so do the other
//! connections.

mod common;

use std::cell::{Cell, RefCell};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::rc::Rc;

use common::{Hook, Kind, OnDrop, Probe, Trace, World, every_kind, fill, for_each_backend, text};
use loop_net::{Protocol, ProtocolBusy, Transport, WriteState};

/// Whether an unrelated connection still works.
fn check_other(world: &mut World) {
    let probe = Probe::echoing();
    let (transport, mut peer) = world.accept(&probe);
    peer.write_all(b"well?").unwrap();
    assert_eq!(world.read(&mut peer, 5), b"well?");
    transport.close();
    world.until(|| probe.trace.has("lost"));
}

#[test]
fn a_port_in_use_is_named() {
    for_each_backend(|world| {
        let server = world.serve(&Probe::new());
        let addr = server.local_addrs()[0];
        let error = world.block_on(world.net.tcp_server(addr).bind(Probe::new)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
        assert!(text(&error).starts_with(&format!("listen on {addr}: ")), "{error}");
        check_other(world);
    });
}

#[test]
fn a_reset_while_writing_ends_that_connection_only() {
    for_each_backend(|world| {
        let probe = Probe::new();
        let (transport, mut peer) = world.accept(&probe);
        fill(&transport, b'x');
        world.read(&mut peer, 100_000);
        peer.reset();
        world.until(|| transport.is_closing());
        assert_eq!(transport.write(b"more"), WriteState::Closed);
        world.until(|| probe.trace.count("lost ") == 1);
        check_other(world);
    });
}

/// What a connection does when its peer resets it. Before it is accepted, in a handshake and in an upgrade are
/// tests of servers and of TLS.
#[test]
fn a_reset_at_any_stage_loses_the_connection_once_and_it_alone() {
    every_kind().reset().run(|world| {
        let mut stages = vec!["made", "received", "paused", "sending", "full", "closing", "closed"];
        if world.kind == Kind::Tcp {
            stages.extend(["our side ended", "their side ended", "both sides ended"]);
        }
        for stage in stages {
            let probe = Probe::new().kept_open();
            let (transport, mut peer) = world.accept(&probe);
            match stage {
                "received" => {
                    peer.write_all(b"x").unwrap();
                    world.until(|| probe.trace.has("data x"));
                }
                "paused" => transport.pause_reading(),
                "sending" => drop(transport.write(b"on its way")),
                "full" => drop(fill(&transport, b'x')),
                "closing" => {
                    fill(&transport, b'x');
                    transport.close();
                }
                "our side ended" => transport.write_eof(),
                "their side ended" | "both sides ended" => {
                    peer.end();
                    world.until(|| probe.trace.has("eof"));
                    if stage == "both sides ended" {
                        transport.write_eof();
                    }
                }
                _ => {}
            }
            world.turn();
            peer.reset();
            match stage {
                // Nobody looks while reading is paused or over; the next write does, or the next read.
                "paused" => transport.resume_reading(),
                "their side ended" => drop(transport.write(b"x")),
                "both sides ended" | "closed" => transport.close(),
                _ => {}
            }
            world.until(|| probe.trace.count("lost") == 1);
            world.idle();
            assert_eq!(probe.trace.count("lost"), 1, "{stage}");
            assert!(transport.is_closing());
            assert_eq!(transport.write_buffer_size(), 0, "{stage}");
            assert_eq!(transport.write(b"late"), WriteState::Closed);
            // What was lost with it is told as an error.
            if matches!(stage, "full" | "closing" | "their side ended") {
                assert_eq!(probe.trace.count("lost "), 1, "{stage}: {:?}", probe.trace.all());
            }
            assert_eq!(world.log.registered(), 0, "{stage}");
            check_other(world);
        }
    });
}

/// A piece of a long stream that starts with its number, so that none is lost or out of order.
fn piece(number: usize) -> Vec<u8> {
    let mut piece = vec![number as u8; 100_000];
    piece[..8].copy_from_slice(&number.to_be_bytes());
    piece
}

#[test]
fn a_peer_that_never_reads_costs_no_more_than_the_mark_and_a_write() {
    for_each_backend(|world| {
        const PIECES: usize = 1_049; // 100 MiB of them
        let (written, most) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
        let (next, high) = (written.clone(), most.clone());
        // Writes when it may, and never when it is paused.
        let probe = Probe::acting(move |hook, transport| {
            if !matches!(hook, Hook::Made | Hook::Resume) {
                return;
            }
            while next.get() < PIECES {
                let state = transport.write(&piece(next.get()));
                next.set(next.get() + 1);
                high.set(high.get().max(transport.write_buffer_size()));
                if state == WriteState::Full {
                    return;
                }
            }
            transport.close();
        });
        let (transport, mut peer) = world.accept(&probe);
        world.until(|| probe.trace.has("pause"));
        world.idle();
        assert!(written.get() < PIECES && !transport.is_closing(), "the peer has not read yet");
        let got = world.read_to_end(&mut peer);
        assert_eq!(got.len(), PIECES * 100_000);
        for (number, got) in got.chunks(100_000).enumerate() {
            assert!(got == piece(number), "piece {number}");
        }
        assert!(most.get() <= 64 * 1024 + 100_000, "{} buffered", most.get());
        world.until(|| probe.trace.has("lost"));
    });
}

#[test]
fn a_panic_in_any_hook_leaves_the_loop_and_the_others_alone() {
    for_each_backend(|world| {
        for inside in ["made", "data", "eof", "pause", "resume", "lost"] {
            let probe = Probe::acting(move |hook, _| assert!(hook.name() != inside, "as asked"));
            let (transport, mut peer) = world.accept(&probe);
            peer.write_all(b"x").unwrap();
            world.until(|| probe.trace.has("data x"));
            if inside != "data" {
                let written = fill(&transport, b'y');
                world.read(&mut peer, written);
                world.until(|| probe.trace.has("resume"));
            }
            drop(peer);
            world.until(|| probe.trace.count("lost") == 1);
            let reports = world.reports.take();
            assert_eq!(reports.len(), 1, "{inside}: {reports:?}");
            assert!(reports[0].starts_with(match inside {
                "made" => "connection_made failed",
                "data" => "data_received failed",
                "eof" => "eof_received failed",
                "pause" => "pause_writing failed",
                "resume" => "resume_writing failed",
                _ => "connection_lost failed",
            }));
            let expected = match inside {
                "data" => vec!["made", "data x", "lost the protocol failed: panic \"as asked\""],
                "eof" => vec![
                    "made",
                    "data x",
                    "pause",
                    "resume",
                    "eof",
                    "lost the protocol failed: panic \"as asked\"",
                ],
                _ => vec!["made", "data x", "pause", "resume", "eof", "lost"],
            };
            assert_eq!(probe.trace.take(), expected, "{inside}");
            check_other(world);
        }
    });
}

struct BadEnd(Trace);

impl Protocol for BadEnd {
    fn data_received(&mut self, _: &[u8]) {}
}

impl Drop for BadEnd {
    fn drop(&mut self) {
        self.0.push("dropped");
        panic!("as asked");
    }
}

#[test]
fn a_panic_in_a_protocols_destructor_is_reported_and_the_server_told() {
    for_each_backend(|world| {
        let trace = Trace::new();
        let log = trace.clone();
        let bind = world.net.tcp_server("127.0.0.1:0").bind(move || BadEnd(log.clone()));
        let server = world.block_on(bind).unwrap();
        let addr = server.local_addrs()[0];
        for _ in 0..2 {
            drop(TcpStream::connect(addr).unwrap());
            world.until(|| trace.has("dropped"));
            assert_eq!(trace.take(), ["dropped"]);
            world.turn();
            let reports = world.reports.take();
            assert!(reports.len() == 1 && reports[0].contains("as asked"), "{reports:?}");
        }
        server.close();
        world.block_on(server.wait_closed());
        check_other(world);
    });
}

#[test]
fn a_panic_in_a_connects_factory_is_the_callers_and_closes_the_socket() {
    for_each_backend(|world| {
        let (listener, addr) = common::listener();
        let connect = world.net.tcp_connect(addr).connect(|| -> Probe { panic!("as asked") });
        let task = world.event_loop.spawn(connect);
        let error = world.block_on(task).unwrap_err();
        assert!(text(&error).contains("as asked"), "{error}");
        let (mut peer, _) = listener.accept().unwrap();
        assert_eq!(peer.read(&mut [0]).unwrap(), 0);
        check_other(world);
    });
}

#[test]
fn an_abort_raised_in_a_hook_leaves_the_run_and_the_connection_works_on() {
    for_each_backend(|world| {
        let probe = Probe::acting(|hook, transport| {
            if let Hook::Data(b"abort") = hook {
                transport.write(b"sent all the same");
                loop_core::LoopAbort { code: 3 }.raise();
            }
        });
        let (_transport, mut peer) = world.accept(&probe);
        peer.write_all(b"abort").unwrap();
        let run = std::panic::AssertUnwindSafe(|| world.until(|| false));
        let payload = std::panic::catch_unwind(run).unwrap_err();
        assert_eq!(payload.downcast_ref::<loop_core::LoopAbort>().unwrap().code, 3);
        assert_eq!(world.read(&mut peer, 17), b"sent all the same");
        peer.set_nonblocking(false).unwrap();
        peer.write_all(b"next").unwrap();
        world.until(|| probe.trace.has("data next"));
        check_other(world);
    });
}

#[test]
fn hooks_may_do_anything_to_their_own_connection() {
    for_each_backend(|world| {
        let slot: Rc<RefCell<Option<Transport>>> = Rc::default();
        let kept = slot.clone();
        let probe = Probe::acting(move |hook, transport| match hook {
            Hook::Made => *kept.borrow_mut() = Some(transport.clone()),
            Hook::Data(_) => {
                let transport = kept.borrow_mut().take().unwrap();
                transport.set_write_buffer_limits(0, None).unwrap();
                assert_eq!(transport.write(b"echo"), WriteState::Open);
                assert_eq!(transport.write_buffer_size(), 0, "beyond the mark it is sent");
                transport.set_write_buffer_limits(10, None).unwrap();
                transport.write(b"abc");
                assert_eq!(transport.write_buffer_size(), 3);
                transport.write_eof();
                assert_eq!(transport.write(b"late"), WriteState::Closed);
                transport.close();
            }
            _ => {}
        });
        let (_transport, mut peer) = world.accept(&probe);
        peer.write_all(b"x").unwrap();
        assert_eq!(world.read_to_end(&mut peer), b"echoabc");
        world.until(|| probe.trace.has("lost"));
        assert_eq!(probe.trace.take(), ["made", "data x", "lost"]);
    });
}

#[test]
fn a_hook_may_write_to_another_connection() {
    for_each_backend(|world| {
        let other = Probe::new();
        let (target, mut target_peer) = world.accept(&other);
        // Whose buffer is full, so that the write calls a hook of that connection inside this one's.
        let filled = fill(&target, b'x') - 1;
        let written = Rc::new(Cell::new(0));
        let count = written.clone();
        let probe = Probe::acting(move |hook, transport| {
            if let Hook::Data(data) = hook {
                transport.write(b"before ");
                target.write(data);
                transport.write(b"after");
                count.set(count.get() + data.len());
            }
        });
        let (_transport, mut peer) = world.accept(&probe);
        peer.write_all(b"hello").unwrap();
        assert_eq!(world.read(&mut peer, 12), b"before after");
        let got = world.read(&mut target_peer, filled + 1 + 5);
        assert_eq!(&got[filled + 1..], b"hello");
        assert_eq!(written.get(), 5);
        assert_eq!(other.trace.all()[..2], ["made", "pause"]);
    });
}

/// What the outer hook had written before went to the other connection's peer.
#[test]
fn what_a_hook_writes_to_others_in_pieces_mixes_nothing_up() {
    every_kind().both_ways().run(|world| {
        let (target, mut target_peer) = world.accept(&Probe::new());
        let probe = Probe::acting(move |hook, transport| {
            if let Hook::Data(_) = hook {
                transport.write(b"mine, ");
                target.write_all_vectored(&["yours", ", all", " of it"]);
                transport.write_all_vectored(&["mine", " again"]);
                target.write(b"!");
            }
        });
        let (_transport, mut peer) = world.accept(&probe);
        peer.write_all(b"go").unwrap();
        assert_eq!(world.read(&mut peer, 16), b"mine, mine again");
        assert_eq!(world.read(&mut target_peer, 17), b"yours, all of it!");
    });
}

#[test]
fn a_pause_inside_another_connections_hook_is_called_there_and_then() {
    for_each_backend(|world| {
        let trace = Trace::new();
        let log = trace.clone();
        let target = Probe::traced(&trace, move |hook, transport| {
            if let Hook::Pause = hook {
                // Gathered by nobody: the outer hook is another connection's.
                transport.write(b"from pause");
                log.push("pause returns");
            }
        });
        let (other, _other_peer) = world.accept(&target);
        let log = trace.clone();
        let probe = Probe::acting(move |hook, transport| {
            if let Hook::Data(_) = hook {
                transport.write(b"mine, ");
                fill(&other, b'x');
                log.push("filled");
                transport.write(b"still mine");
            }
        });
        let (_transport, mut peer) = world.accept(&probe);
        peer.write_all(b"go").unwrap();
        assert_eq!(world.read(&mut peer, 16), b"mine, still mine");
        assert_eq!(trace.take(), ["made", "pause", "pause returns", "filled"]);
    });
}

#[test]
fn a_protocol_ref_sees_its_protocol_outside_of_hooks() {
    for_each_backend(|world| {
        struct Counting {
            count: usize,
            own: Rc<RefCell<Option<loop_net::ProtocolRef<Counting>>>>,
            busy: Trace,
        }
        impl Protocol for Counting {
            fn data_received(&mut self, data: &[u8]) {
                self.count += data.len();
                let seen = self.own.borrow().as_ref().unwrap().with(|_| ());
                self.busy.push(format!("{seen:?}"));
            }
        }
        let (listener, addr) = common::listener();
        let (own, busy) = (Rc::new(RefCell::new(None)), Trace::new());
        let (slot, log) = (own.clone(), busy.clone());
        let connect = world.net.tcp_connect(addr);
        let connect = connect.connect(move || Counting { count: 0, own: slot, busy: log });
        let (transport, protocol) = world.block_on(connect).unwrap();
        *own.borrow_mut() = Some(protocol.clone());
        let (mut peer, _) = listener.accept().unwrap();
        peer.write_all(b"12345").unwrap();
        world.until(|| busy.count("") == 1);
        assert_eq!(busy.take(), ["Err(Running)"]);
        assert_eq!(protocol.with(|counting| counting.count), Ok(5));

        // A panic is the caller's; what was written is not lost.
        let asked = std::panic::AssertUnwindSafe(|| {
            let _ = protocol.with(|_| {
                transport.write(b"written");
                panic!("as asked");
            });
        });
        let panic = std::panic::catch_unwind(asked).unwrap_err();
        assert_eq!(*panic.downcast_ref::<&str>().unwrap(), "as asked");
        assert_eq!(world.read(&mut peer, 7), b"written");
        assert_eq!(protocol.with(|counting| counting.count), Ok(5));

        transport.close();
        world.idle();
        assert_eq!(protocol.with(|_| ()), Err(ProtocolBusy::Gone));
        *own.borrow_mut() = None;
    });
}

#[test]
fn closing_the_loop_drops_protocols_that_use_it() {
    for_each_backend(|world| {
        let trace = Trace::new();
        let (log, lp) = (trace.clone(), world.event_loop.loop_ref());
        let guard = OnDrop(move || {
            lp.call_soon(|| unreachable!("the loop is closed"));
            log.push(format!("closed: {}", lp.is_closed()));
        });
        let probe = Probe::acting(move |_, _| {
            let _ = &guard;
        });
        let (transport, _peer) = world.accept(&probe);
        transport.write(b"x");
        drop((probe, transport));
        world.event_loop.close();
        assert_eq!(trace.take(), ["closed: true"]);
        assert_eq!(world.reports.take(), ["a connection was open when its loop closed"]);
    });
}
