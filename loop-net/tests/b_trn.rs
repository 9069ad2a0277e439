//! Stream transports: B-TRN-01 to 32 and 35 to 39 of the contract, over loopback sockets, on each
//! backend. Traces of the hooks are compared whole.

mod common;

use std::cell::{Cell, RefCell};
use std::io::{self, Read, Write};
use std::rc::Rc;

use common::{
    Hook, Kind, PIPES, Peer, Probe, Target, Trace, World, block, every_kind, fill,
    for_each_backend, is_open, listener, text,
};
use loop_core::Interest;
use loop_net::{NetError, Protocol, Transport, WriteState};

const READ_SIZE: usize = 256 * 1024;
const NO_SERVER: &str = "no server accepts it";

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 7 + i / 251) as u8).collect()
}

#[test]
fn b_trn_01_made_in_a_later_iteration_then_connect_returns_then_reading_starts() {
    every_kind().run(|world| {
        let target = Rc::new(Target::new(world.kind));
        let trace = Trace::new();
        let probe = Probe::traced(&trace, |_, _| {});
        let (log, lp) = (trace.clone(), world.event_loop.loop_ref());
        let (kind, theirs) = (world.kind, target.clone());
        let factory = move || {
            log.push("factory");
            let mut peer = theirs.peer();
            if kind.reads() {
                // What the protocol is to read is there before it is.
                peer.write_all(b"early").unwrap();
            }
            let log = log.clone();
            lp.call_soon(move || {
                log.push("later iteration");
                drop(peer);
            });
            probe.clone()
        };
        let (net, log) = (world.net.clone(), trace.clone());
        let (_transport, _) = world.block_on(async move {
            let connected = target.connect(&net, factory).await.unwrap();
            log.push("connected");
            connected
        });
        world.until(|| trace.has("lost"));
        let mut expected = vec!["factory", "later iteration", "made", "connected"];
        if world.kind.reads() {
            expected.extend(["data early", "eof"]);
        }
        expected.push("lost");
        let mut seen = trace.take();
        if world.kind == Kind::Tls {
            // What came with the end of the handshake is heard before the task runs.
            let connected = seen.iter().position(|entry| entry == "connected").unwrap();
            assert!(connected > 2, "{seen:?}");
            let connected = seen.remove(connected);
            seen.insert(3, connected);
        }
        assert_eq!(seen, expected);
    });
}

#[test]
fn b_trn_02_a_connections_hooks_follow_the_grammar() {
    every_kind().run(|world| {
        let probe = Probe::new();
        let (transport, mut peer) = world.accept(&probe);
        let (mut expected, mut end) = (vec!["made"], vec!["lost"]);
        if world.kind.reads() {
            peer.write_all(b"hello").unwrap();
            world.until(|| probe.trace.has("data hello"));
            expected.push("data hello");
            end.insert(0, "eof");
        }
        if world.kind.writes() {
            let written = fill(&transport, b'x');
            world.until(|| probe.trace.has("pause"));
            assert_eq!(world.read(&mut peer, written).len(), written);
            world.until(|| probe.trace.has("resume"));
            expected.extend(["pause", "resume"]);
        }
        peer.end();
        world.until(|| probe.trace.has("lost"));
        // Nothing that happens now reaches the protocol.
        transport.write(b"late");
        transport.pause_reading();
        transport.resume_reading();
        transport.write_eof();
        transport.close();
        transport.abort();
        world.idle();
        expected.extend(end);
        assert_eq!(probe.trace.take(), expected);
        assert_eq!(world.log.registered(), 0);
    });
}

#[test]
fn b_trn_03_connection_lost_is_never_called_from_inside_a_call() {
    type End = fn(&Transport);
    let ends: [(&str, End); 2] = [("close", Transport::close), ("abort", Transport::abort)];
    for (name, end) in ends {
        every_kind().run(|world| {
            // From outside.
            let probe = Probe::new();
            let (transport, _peer) = world.accept(&probe);
            end(&transport);
            probe.trace.push(name);
            world.until(|| probe.trace.has("lost"));
            world.idle();
            assert_eq!(probe.trace.take(), ["made", name, "lost"]);

            if !world.kind.reads() {
                return;
            }
            // From a hook.
            let trace = Trace::new();
            let log = trace.clone();
            let probe = Probe::traced(&trace, move |hook, transport| {
                if let Hook::Data(_) = hook {
                    end(transport);
                    log.push("still in data");
                }
            });
            let (_transport, mut peer) = world.accept(&probe);
            peer.write_all(b"x").unwrap();
            world.until(|| trace.has("lost"));
            assert_eq!(trace.take(), ["made", "data x", "still in data", "lost"]);
        });
    }
}

#[test]
fn b_trn_03_a_failed_write_queues_the_loss() {
    every_kind().that_write().run(|world| {
        let probe = Probe::new();
        let (transport, peer) = world.accept(&probe);
        transport.pause_reading();
        world.turn();
        peer.reset();
        let mut writes = 0;
        while !transport.is_closing() {
            transport.write(b"x");
            writes += 1;
            assert!(writes < 1_000_000);
        }
        probe.trace.push("closing");
        world.idle();
        let trace = probe.trace.take();
        assert_eq!(trace[..2], ["made", "closing"]);
        assert!(trace[2].starts_with("lost "), "{trace:?}");
        assert_eq!(trace.len(), 3);
    });
}

#[test]
fn b_trn_03_the_flush_that_ends_a_close_queues_the_loss_too() {
    every_kind().that_write().run(|world| {
        // The loss is in the queue behind what was scheduled before the flush.
        let probe = Probe::new();
        let (transport, mut peer) = world.accept(&probe);
        let written = fill(&transport, b'x');
        transport.close();
        assert_eq!(world.read_to_end(&mut peer).len(), written);
        world.until(|| probe.trace.has("lost"));
        assert_eq!(probe.trace.take(), ["made", "pause", "resume", "lost"]);
    });
}

#[test]
fn b_trn_04_the_argument_of_connection_lost() {
    every_kind().run(|world| {
        let mut ends = vec![("close", vec!["made", "lost"]), ("abort", vec!["made", "lost"])];
        if world.kind.reads() {
            ends.push(("end of file", vec!["made", "eof", "lost"]));
        } else {
            ends.push(("end of file", vec!["made", "lost"]));
        }
        if world.kind.resets() {
            ends.push(("reset", vec!["made", "lost ConnectionReset"]));
        }
        for (end, expected) in ends {
            let probe = Probe::new();
            let (transport, peer) = world.accept(&probe);
            match end {
                "close" => transport.close(),
                "abort" => transport.abort(),
                "end of file" => drop(peer),
                _ => peer.reset(),
            }
            world.until(|| probe.trace.count("lost") > 0);
            assert_eq!(probe.trace.take(), expected, "{end}");
        }
    });
}

/// Closes at once, and notes what its peer sees of the end.
struct Ending {
    trace: Trace,
    peer: Rc<RefCell<Option<Peer>>>,
    /// So the peer may see the end before we do.
    says_goodbye: bool,
    panics: bool,
}

impl Ending {
    fn note(&self, what: &str) {
        if self.says_goodbye {
            return self.trace.push(what);
        }
        let open = is_open(self.peer.borrow_mut().as_mut().unwrap());
        self.trace.push(format!("{what}, open: {open}"));
    }
}

impl Protocol for Ending {
    fn connection_made(&mut self, transport: &Transport) {
        transport.close();
    }

    fn data_received(&mut self, _: &[u8]) {}

    fn connection_lost(&mut self, _: Option<&NetError>) {
        self.note("lost");
        assert!(!self.panics, "as asked");
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        self.note("dropped");
    }
}

#[test]
fn b_trn_05_socket_protocol_server_end_in_this_order() {
    for panics in [false, true] {
        every_kind().not_over(PIPES, NO_SERVER).run(|world| {
            let (trace, peer) = (Trace::new(), Rc::new(RefCell::new(None)));
            let (log, theirs) = (trace.clone(), peer.clone());
            let (builder, address) = world.server();
            let says = world.kind == Kind::Tls;
            let server = builder.bind(move || Ending {
                trace: log.clone(),
                peer: theirs.clone(),
                says_goodbye: says,
                panics,
            });
            let server = Rc::new(world.block_on(server).unwrap());
            let (told, log) = (server.clone(), trace.clone());
            let waiter = world.event_loop.spawn(async move {
                told.wait_closed().await;
                log.push("server told");
            });
            *peer.borrow_mut() = Some(address.dial(&server));
            world.until(|| server.accepted() == 1);
            server.close();
            world.block_on(waiter).unwrap();
            let expected = match says {
                true => ["lost", "dropped", "server told"],
                false => ["lost, open: true", "dropped, open: false", "server told"],
            };
            assert_eq!(trace.take(), expected);
            let expected = ["connection_lost failed: panic \"as asked\""];
            assert_eq!(world.reports.take(), expected[..usize::from(panics)]);
        });
    }
}

#[test]
fn b_trn_06_a_panic_in_connection_made_leaves_the_connection_open() {
    every_kind().run(|world| {
        let probe = Probe::acting(|hook, _| assert!(!matches!(hook, Hook::Made), "as asked"));
        let (transport, mut peer) = world.accept(&probe);
        world.turn();
        assert_eq!(world.reports.take(), ["connection_made failed: panic \"as asked\""]);
        if world.kind.reads() {
            peer.write_all(b"go on").unwrap();
            world.until(|| probe.trace.has("data go on"));
        }
        if world.kind.writes() {
            assert_eq!(transport.write(b"yes"), WriteState::Open);
            assert_eq!(world.read(&mut peer, 3), b"yes");
        }
    });
}

#[test]
fn b_trn_07_a_write_is_sent_at_once_and_the_rest_buffered() {
    every_kind().that_write().run(|world| {
        let probe = Probe::new();
        let (transport, mut peer) = world.accept(&probe);
        world.log.take_modifies();
        assert_eq!(transport.write(b"at once"), WriteState::Open);
        assert_eq!(transport.write(b""), WriteState::Open);
        assert_eq!(transport.write_buffer_size(), 0);
        let mut got = [0; 7];
        peer.read_exact(&mut got).unwrap(); // Without a turn of the loop.
        assert_eq!(&got, b"at once");
        world.turn();
        assert_eq!(world.log.take_modifies(), [], "no writer is needed");

        block(&transport, b'x');
        let rest = transport.write_buffer_size();
        assert!((1..=64 * 1024).contains(&rest), "only the rest is kept: {rest}");
        world.turn();
        assert_eq!(world.log.take_modifies(), [Some(Interest::READ | Interest::WRITE)]);
    });
}

#[test]
fn b_trn_08_behind_buffered_bytes_writes_only_append() {
    every_kind().that_write().run(|world| {
        let probe = Probe::new();
        let (transport, mut peer) = world.accept(&probe);
        let mut expected = vec![b'x'; fill(&transport, b'x')];
        let mut size = transport.write_buffer_size();
        for word in ["one", "two", "three", ""] {
            transport.write(word.as_bytes());
            expected.extend_from_slice(word.as_bytes());
            size += word.len();
            assert_eq!(transport.write_buffer_size(), size);
        }
        assert!(world.read(&mut peer, expected.len()) == expected);
        world.until(|| transport.write_buffer_size() == 0);
    });
}

#[test]
fn b_trn_09_buffered_bytes_are_a_copy() {
    every_kind().that_write().run(|world| {
        let probe = Probe::new();
        let (transport, mut peer) = world.accept(&probe);
        let written = fill(&transport, b'x');
        let mut data = *b"before";
        transport.write(&data);
        data.copy_from_slice(b"after!");
        let got = world.read(&mut peer, written + data.len());
        assert_eq!(&got[written..], b"before");
        assert_eq!(&data, b"after!", "the caller's buffer is the caller's");
    });
}

#[test]
fn b_trn_10_a_flush_drops_exactly_what_was_sent() {
    let data = pattern(8 << 20);
    every_kind().that_write().run(|world| {
        let probe = Probe::new();
        let (transport, mut peer) = world.accept(&probe);
        // More pieces than one vectored send takes, of sizes that fit nothing.
        let mut rest = &data[..];
        let mut size = 1;
        while !rest.is_empty() {
            let (piece, others) = rest.split_at(size.min(rest.len()));
            transport.write(piece);
            rest = others;
            size = size * 5 % 20_011 + 1;
        }
        transport.close();
        assert!(world.read_to_end(&mut peer) == data);
    });
}

#[test]
fn b_trn_11_after_the_flush_the_writer_goes_and_the_end_comes() {
    every_kind().that_write().run(|world| {
        // Nothing pending: only the writer goes.
        let probe = Probe::new();
        let (transport, mut peer) = world.accept(&probe);
        world.log.take_modifies();
        let written = fill(&transport, b'x');
        world.turn();
        world.read(&mut peer, written);
        world.until(|| transport.write_buffer_size() == 0);
        world.turn();
        let both = Interest::READ | Interest::WRITE;
        assert_eq!(world.log.take_modifies(), [Some(both), Some(Interest::READ)]);

        // The write side is to end.
        if world.kind.half_closes() {
            let written = fill(&transport, b'y');
            transport.write_eof();
            assert_eq!(world.read_to_end(&mut peer).len(), written);
            assert!(transport.is_reading());
        }
        transport.abort();

        // A close waits.
        let probe = Probe::new();
        let (transport, mut peer) = world.accept(&probe);
        let written = fill(&transport, b'z');
        transport.close();
        assert_eq!(world.read_to_end(&mut peer).len(), written);
        world.until(|| probe.trace.has("lost"));
        world.idle();
        assert_eq!(world.log.registered(), 0);
    });
}

#[test]
fn b_trn_12_vectored_writes_are_repeated_writes() {
    every_kind().that_write().run(|world| {
        let probe = Probe::new();
        let (transport, mut peer) = world.accept(&probe);
        assert_eq!(transport.write_all_vectored(&[b""; 0]), WriteState::Open);
        assert_eq!(transport.write_all_vectored(&["", "a", "", "bc", ""]), WriteState::Open);
        assert_eq!(world.read(&mut peer, 3), b"abc");

        let big = vec![b'x'; 1 << 20];
        let mut written = 0;
        let (_, high) = transport.write_buffer_limits();
        // The socket takes what it likes of the first ones.
        while transport.write_buffer_size() <= high {
            transport.write_all_vectored(&[&big[..], &[], b"end"]);
            written += big.len() + 3;
        }
        let state = transport.write_all_vectored(&[b"-", b"!"]);
        // A TLS peer has a thread that reads, so its socket may have room again.
        let is_full = world.kind != Kind::Tls;
        assert!(state == WriteState::Full || !is_full && state == WriteState::Open, "{state:?}");
        assert_eq!(probe.trace.take(), ["made", "pause"]);
        let got = world.read(&mut peer, written + 2);
        assert_eq!(&got[got.len() - 5..], b"end-!");

        transport.abort();
        assert_eq!(transport.write_all_vectored(&["late", ""]), WriteState::Closed);
        world.idle();
        assert_eq!(transport.write_all_vectored(&["later"]), WriteState::Closed);
    });
}

#[test]
fn b_trn_13_water_marks() {
    every_kind().that_write().run(|world| {
        let (transport, _peer) = world.accept(&Probe::new());
        let usual = if world.kind == Kind::Tls { (128, 512) } else { (16, 64) };
        assert_eq!(transport.write_buffer_limits(), (usual.0 * 1024, usual.1 * 1024));
        transport.set_write_buffer_limits(4000, None).unwrap();
        assert_eq!(transport.write_buffer_limits(), (1000, 4000));
        transport.set_write_buffer_limits(30, Some(30)).unwrap();
        assert_eq!(transport.write_buffer_limits(), (30, 30));
        let error = transport.set_write_buffer_limits(30, Some(31)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        assert!(text(&error).contains("31") && text(&error).contains("30"), "{error}");
        assert_eq!(transport.write_buffer_limits(), (30, 30), "unchanged");
        transport.set_write_buffer_limits(0, None).unwrap();
        assert_eq!(transport.write_buffer_limits(), (0, 0));
    });
}

#[test]
fn b_trn_14_pause_strictly_above_high_resume_at_low() {
    every_kind().that_write().run(|world| {
        let trace = Trace::new();
        let seen: Rc<Cell<usize>> = Rc::default();
        let size = seen.clone();
        let probe = Probe::traced(&trace, move |hook, transport| {
            if let Hook::Resume = hook {
                size.set(transport.write_buffer_size());
            }
        });
        let (transport, mut peer) = world.accept(&probe);
        transport.set_write_buffer_limits(usize::MAX, Some(0)).unwrap();
        // With so much in front nothing moves before a turn, not even what TLS could still encrypt.
        let mut written = block(&transport, b'x');
        for _ in 0..8 {
            written += READ_SIZE;
            transport.write(&vec![b'x'; READ_SIZE]);
        }
        let size = transport.write_buffer_size();
        // At the mark is not above it, but over TLS it is (B-TLS-09).
        let high = size + if world.kind == Kind::Tls { 11 } else { 10 };
        transport.set_write_buffer_limits(high, Some(7)).unwrap();
        assert_eq!(transport.write(&[b'y'; 10]), WriteState::Open);
        assert_eq!(trace.take(), ["made"]);
        assert_eq!(transport.write(b"z"), WriteState::Full);
        assert_eq!(trace.take(), ["pause"], "inline, for no hook runs");
        assert_eq!(transport.write(b"z"), WriteState::Full);
        world.idle();
        assert_eq!(trace.take(), [""; 0], "once");
        world.read(&mut peer, written + 12);
        world.until(|| !trace.all().is_empty());
        world.idle();
        assert_eq!(trace.take(), ["resume"]);
        assert!(seen.get() <= 7, "{}", seen.get());
    });
}

#[test]
fn b_trn_14_what_falls_due_in_a_hook_follows_right_after() {
    every_kind().both_ways().run(|world| {
        let trace = Trace::new();
        let log = trace.clone();
        let probe = Probe::traced(&trace, move |hook, transport| {
            if let Hook::Data(_) = hook {
                let mut writes = 0;
                while transport.write(&[b'x'; 64 * 1024]) != WriteState::Full {
                    writes += 1;
                    assert!(writes < 10_000, "a loop in a hook can stop");
                }
                transport.close();
                log.push("data returns");
            }
        });
        let (_transport, mut peer) = world.accept(&probe);
        peer.write_all(b"go").unwrap();
        world.until(|| trace.has("pause"));
        assert_eq!(trace.take(), ["made", "data go", "data returns", "pause"]);
        world.read_to_end(&mut peer);
        world.until(|| trace.has("lost"));
        assert_eq!(trace.take(), ["resume", "lost"]);
    });
}

#[test]
fn b_trn_15_new_marks_are_looked_at_in_both_directions() {
    every_kind().that_write().run(|world| {
        let probe = Probe::new();
        let (transport, _peer) = world.accept(&probe);
        transport.set_write_buffer_limits(usize::MAX, Some(0)).unwrap();
        block(&transport, b'x');
        let size = transport.write_buffer_size();
        assert_eq!(probe.trace.take(), ["made"]);
        transport.set_write_buffer_limits(size - 1, Some(0)).unwrap();
        assert_eq!(probe.trace.take(), ["pause"]);
        transport.set_write_buffer_limits(size, Some(size - 1)).unwrap();
        assert_eq!(probe.trace.take(), [""; 0], "between the marks nothing changes");
        transport.set_write_buffer_limits(size + 1, Some(size)).unwrap();
        assert_eq!(probe.trace.take(), ["resume"]);
    });
}

#[test]
fn b_trn_16_panics_in_pause_and_resume_leave_the_state_consistent() {
    every_kind().that_write().run(|world| {
        let probe = Probe::acting(|hook, _| {
            assert!(!matches!(hook, Hook::Pause | Hook::Resume), "as asked");
        });
        let (transport, mut peer) = world.accept(&probe);
        for _ in 0..2 {
            let written = fill(&transport, b'x');
            assert_eq!(world.read(&mut peer, written).len(), written);
            world.until(|| transport.write_buffer_size() == 0);
        }
        assert_eq!(probe.trace.take(), ["made", "pause", "resume", "pause", "resume"]);
        let paused = "pause_writing failed: panic \"as asked\"";
        let resumed = "resume_writing failed: panic \"as asked\"";
        assert_eq!(world.reports.take(), [paused, resumed, paused, resumed]);
        assert!(!transport.is_closing());
    });
}

#[test]
fn b_trn_16_a_protocol_may_write_and_be_paused_again_in_resume() {
    every_kind().that_write().run(|world| {
        let rounds = Rc::new(Cell::new(0));
        let total = Rc::new(Cell::new(0));
        let (count, bytes) = (rounds.clone(), total.clone());
        let probe = Probe::acting(move |hook, transport| {
            if matches!(hook, Hook::Resume) && count.get() < 3 {
                count.set(count.get() + 1);
                bytes.set(bytes.get() + fill(transport, b'y'));
            }
        });
        let (transport, mut peer) = world.accept(&probe);
        transport.set_write_buffer_limits(4096, None).unwrap();
        let first = fill(&transport, b'x');
        let mut got = 0;
        while rounds.get() < 3 || got < first + total.get() {
            got += world.read(&mut peer, 1).len();
        }
        world.until(|| transport.write_buffer_size() == 0);
        let expected =
            ["made", "pause", "resume", "pause", "resume", "pause", "resume", "pause", "resume"];
        assert_eq!(probe.trace.take(), expected);
        assert_eq!(got, first + total.get());
    });
}

#[test]
fn b_trn_17_a_failed_send_ends_the_connection_without_a_report() {
    every_kind().that_write().run(|world| {
        let probe = Probe::new();
        let (transport, peer) = world.accept(&probe);
        transport.pause_reading();
        fill(&transport, b'x');
        world.turn();
        peer.reset();
        world.until(|| transport.is_closing());
        assert_eq!(transport.write_buffer_size(), 0);
        world.until(|| probe.trace.count("lost") > 0);
        let trace = probe.trace.take();
        assert_eq!(trace[..2], ["made", "pause"]);
        assert!(["lost ConnectionReset", "lost BrokenPipe"].contains(&trace[2].as_str()));
        assert_eq!(trace.len(), 3, "{trace:?}");
        assert_eq!(world.log.registered(), 0);
    });
}

const REFUSED: &str = "data written to a closed connection is dropped";

#[test]
fn b_trn_18_writes_after_the_end_are_dropped_and_reported_from_the_fifth_on() {
    every_kind().that_write().run(|world| {
        let (transport, mut peer) = world.accept(&Probe::new());
        transport.close();
        for _ in 0..3 {
            assert_eq!(transport.write(b"late"), WriteState::Closed);
        }
        world.idle();
        // It is gone now, and the count goes on.
        assert_eq!(transport.write(b"late"), WriteState::Closed);
        assert_eq!(world.reports.take(), [""; 0]);
        assert_eq!(transport.write(b"late"), WriteState::Closed);
        assert_eq!(world.reports.take(), [REFUSED]);
        assert_eq!(transport.write_all_vectored(&["late"]), WriteState::Closed);
        assert_eq!(world.reports.take(), [REFUSED]);
        assert_eq!(world.read_to_end(&mut peer), b"");
    });
}

#[test]
fn b_trn_19_writes_are_taken_while_a_close_drains() {
    every_kind().that_write().not_over(&[Kind::Tls], "a close ends it (B-TLS-21)").run(|world| {
        let probe = Probe::new();
        let (transport, mut peer) = world.accept(&probe);
        let written = fill(&transport, b'x');
        transport.close();
        transport.write(b"and this");
        assert!(transport.is_closing());
        let got = world.read_to_end(&mut peer);
        assert_eq!(&got[written..], b"and this");
        world.until(|| probe.trace.has("lost"));
        assert_eq!(transport.write(b"late"), WriteState::Closed);
        assert_eq!(probe.trace.take(), ["made", "pause", "resume", "lost"]);
    });
}

#[test]
fn b_trn_20_close_is_idempotent_stops_reading_flushes_then_ends() {
    every_kind().that_write().run(|world| {
        let probe = Probe::new();
        let (transport, mut peer) = world.accept(&probe);
        transport.set_write_buffer_limits(usize::MAX, Some(0)).unwrap();
        let written = block(&transport, b'x');
        world.turn();
        world.log.take_modifies();
        transport.close();
        transport.close();
        assert!(transport.is_closing() && !transport.is_reading());
        if world.kind.reads() {
            peer.write_all(b"unheard").unwrap();
        }
        world.idle();
        // The peer's goodbye is waited for, and whether the reader of a pipe goes.
        if world.kind.half_closes() {
            assert_eq!(world.log.take_modifies(), [Some(Interest::WRITE)]);
        }
        assert_eq!(probe.trace.take(), ["made"]);
        // A close with unread bytes may reset, once everything was handed to the kernel.
        peer.set_nonblocking(true).unwrap();
        let (mut got, mut chunk) = (0, vec![0; READ_SIZE]);
        while probe.trace.count("lost") == 0 {
            got += peer.read(&mut chunk).unwrap_or(0);
            world.turn();
        }
        got += std::iter::from_fn(|| peer.read(&mut chunk).ok().filter(|n| *n > 0)).sum::<usize>();
        assert!(got <= written);
        world.idle();
        assert_eq!(probe.trace.take(), ["lost"]);
        transport.close();
        assert_eq!(world.log.registered(), 0);
    });
}

#[test]
fn b_trn_21_abort_drops_what_is_buffered_and_cuts_a_close_short() {
    for closing in [false, true] {
        every_kind().that_write().run(|world| {
            let probe = Probe::new();
            let (transport, mut peer) = world.accept(&probe);
            let written = fill(&transport, b'x');
            let kept = transport.write_buffer_size();
            if closing {
                transport.close();
            }
            transport.abort();
            transport.abort();
            transport.close();
            assert_eq!(transport.write_buffer_size(), 0);
            assert!(transport.is_closing());
            let got = world.read_to_end(&mut peer).len();
            if world.kind == Kind::Tls {
                // The last record may be cut, and is no data then.
                assert!((written - kept - READ_SIZE..=written - kept).contains(&got), "{got}");
            } else {
                assert_eq!(got, written - kept);
            }
            world.idle();
            assert_eq!(probe.trace.take(), ["made", "pause", "lost"]);
        });
    }
}

/// Two connections that are readable in one iteration: the one that is called first acts on both.
fn first_acts_on_both(world: &mut World, act: fn(&Transport)) -> Trace {
    let trace = Trace::new();
    let all: Rc<RefCell<Vec<Transport>>> = Rc::default();
    let mut peers = Vec::new();
    for _ in 0..2 {
        let connections = all.clone();
        let probe = Probe::traced(&trace, move |hook, _| {
            if let Hook::Data(_) = hook {
                connections.borrow().iter().for_each(act);
            }
        });
        let (transport, peer) = world.accept(&probe);
        all.borrow_mut().push(transport);
        peers.push(peer);
    }
    // Until the servers are gone, and what a handshake leaves is read.
    let log = world.log.clone();
    world.until(|| log.registered() == 2);
    world.idle();
    for peer in &mut peers {
        peer.write_all(b"x").unwrap();
    }
    world.until_readable(2);
    world.turn();
    world.idle();
    let seen = trace.all();
    assert_eq!(seen[..3], ["made", "made", "data x"]);
    assert_eq!(trace.count("data"), 1, "{seen:?}");
    for transport in &*all.borrow() {
        transport.resume_reading();
    }
    world.idle();
    trace
}

#[test]
fn b_trn_22_no_data_after_close_though_the_read_was_queued() {
    for end in [Transport::close as fn(&Transport), Transport::abort] {
        every_kind().that_read().run(|world| {
            let trace = first_acts_on_both(world, end);
            world.until(|| trace.count("lost") == 2);
            assert_eq!(trace.take(), ["made", "made", "data x", "lost", "lost"]);
        });
    }
}

#[test]
fn b_trn_32_no_data_after_a_pause_though_the_read_was_queued() {
    every_kind().that_read().run(|world| {
        let trace = first_acts_on_both(world, Transport::pause_reading);
        // Both read again; the other one's byte was kept.
        assert_eq!(trace.all()[..4], ["made", "made", "data x", "data x"]);
    });
}

#[test]
fn b_trn_23_write_eof_flushes_then_ends_the_write_side_once() {
    every_kind().half_closed().run(|world| {
        let (transport, mut peer) = world.accept(&Probe::new());
        assert!(transport.can_write_eof());
        let written = fill(&transport, b'x');
        transport.write_eof();
        transport.write_eof();
        assert_eq!(transport.write(b"after the end"), WriteState::Closed);
        assert_eq!(world.read_to_end(&mut peer).len(), written);
        assert!(!transport.is_closing());

        // With nothing buffered it is done at once.
        let (transport, mut peer) = world.accept(&Probe::new());
        transport.write(b"x");
        transport.write_eof();
        let mut got = Vec::new();
        peer.read_to_end(&mut got).unwrap();
        assert_eq!(got, b"x");

        // When closing it does nothing.
        let probe = Probe::new();
        let (transport, mut peer) = world.accept(&probe);
        let written = fill(&transport, b'x');
        transport.close();
        transport.write_eof();
        transport.write(b"!");
        assert_eq!(world.read_to_end(&mut peer).len(), written + 1);
        world.until(|| probe.trace.has("lost"));
    });
}

#[test]
fn b_trn_24_reading_goes_on_after_write_eof() {
    every_kind().half_closed().run(|world| {
        let probe = Probe::new();
        let (transport, mut peer) = world.accept(&probe);
        transport.write_eof();
        assert_eq!(world.read_to_end(&mut peer), b"");
        peer.set_nonblocking(false).unwrap();
        peer.write_all(b"answer").unwrap();
        world.until(|| probe.trace.has("data answer"));
        drop(peer);
        world.until(|| probe.trace.has("lost"));
        assert_eq!(probe.trace.take(), ["made", "data answer", "eof", "lost"]);
    });
}

#[test]
fn b_trn_25_one_read_a_connection_and_iteration_of_at_most_256_kib() {
    let data = pattern(2 << 20);
    every_kind().that_read().run(|world| {
        let sizes: Rc<RefCell<Vec<usize>>> = Rc::default();
        let log = sizes.clone();
        let probe = Probe::acting(move |hook, _| {
            if let Hook::Data(data) = hook {
                log.borrow_mut().push(data.len());
            }
        });
        let (transport, mut peer) = world.accept(&probe);
        peer.set_nonblocking(true).unwrap();
        // The beginning of a record may be there from the read before.
        let most = READ_SIZE + if world.kind == Kind::Tls { 16 * 1024 } else { 0 };
        let mut sent = 0;
        let mut received = 0;
        while received < data.len() {
            sent += peer.write(&data[sent..]).unwrap_or(0);
            world.turn();
            let turn = std::mem::take(&mut *sizes.borrow_mut());
            assert!(turn.len() <= 1, "{turn:?}");
            assert!(turn.iter().all(|size| (1..=most).contains(size)), "{turn:?}");
            received += turn.iter().sum::<usize>();
        }
        assert_eq!(received, data.len());
        assert!(transport.is_reading());
    });
}

#[test]
fn b_trn_25_a_read_that_would_block_is_ignored() {
    every_kind().not_over(&[Kind::WritePipe], "it is readable when its reader has gone").run(
        |world| {
            let probe = Probe::new();
            let (transport, mut peer) = world.accept(&probe);
            world.turn();
            world.log.lies.set(true);
            world.idle();
            world.log.lies.set(false);
            assert_eq!(probe.trace.take(), ["made"]);
            assert!(transport.is_reading());
            peer.write_all(b"x").unwrap();
            world.until(|| probe.trace.has("data x"));
        },
    );
}

#[test]
fn b_trn_26_the_peers_end_closes_or_keeps_open() {
    every_kind().that_read().run(|world| {
        // False, the default: flushed and closed.
        let probe = Probe::acting(|hook, transport| {
            if let Hook::Eof = hook {
                transport.write(b"bye");
            }
        });
        let (_transport, mut peer) = world.accept(&probe);
        peer.end();
        if world.kind.writes() {
            assert_eq!(world.read_to_end(&mut peer), b"bye");
        }
        world.until(|| probe.trace.has("lost"));
        assert_eq!(probe.trace.take(), ["made", "eof", "lost"]);

        if !world.kind.half_closes() {
            return; // B-PIPE-02 and B-TLS-17 say what they make of the answer.
        }
        // True: open for writing, and not watched for reading.
        let probe = Probe::new().kept_open();
        let (transport, mut peer) = world.accept(&probe);
        world.turn();
        world.log.take_modifies();
        peer.end();
        world.until(|| probe.trace.has("eof"));
        world.idle();
        assert_eq!(world.log.take_modifies(), [None]);
        let written = fill(&transport, b'x');
        transport.close();
        assert_eq!(world.read_to_end(&mut peer).len(), written);
        world.until(|| probe.trace.has("lost"));
        assert_eq!(probe.trace.take(), ["made", "eof", "pause", "resume", "lost"]);
    });
}

#[test]
fn b_trn_27_after_a_kept_open_end_reading_is_over() {
    every_kind().half_closed().run(|world| {
        let probe = Probe::new().kept_open();
        let (transport, mut peer) = world.accept(&probe);
        world.turn();
        assert!(transport.is_reading());
        peer.end();
        world.until(|| probe.trace.has("eof"));
        assert!(!transport.is_reading() && !transport.is_closing());
        world.turn();
        world.log.take_modifies();
        transport.resume_reading();
        transport.pause_reading();
        transport.resume_reading();
        world.idle();
        assert!(!transport.is_reading());
        assert_eq!(world.log.take_modifies(), []);
        assert_eq!(probe.trace.take(), ["made", "eof"]);
    });
}

#[test]
fn b_trn_28_a_failed_read_is_what_the_connection_was_lost_by() {
    every_kind().reset().run(|world| {
        let message = Rc::new(RefCell::new(String::new()));
        let seen = message.clone();
        let probe = Probe::acting(move |hook, _| {
            if let Hook::Lost(Some(error)) = hook {
                *seen.borrow_mut() = text(error);
            }
        });
        let (transport, peer) = world.accept(&probe);
        let addr = transport.peer_addr().unwrap();
        peer.reset();
        world.until(|| probe.trace.count("lost") > 0);
        assert_eq!(probe.trace.take(), ["made", "lost ConnectionReset"]);
        assert!(message.borrow().starts_with(&format!("read from {addr}: ")), "{message:?}");
    });
}

#[test]
fn b_trn_29_a_panic_while_receiving_aborts_with_that_error() {
    every_kind().that_read().run(|world| {
        for hook in ["data", "eof"] {
            let probe = Probe::acting(move |called, transport| {
                if called.name() == hook {
                    transport.write(b"last words");
                    panic!("as asked");
                }
            });
            let (transport, mut peer) = world.accept(&probe);
            if hook == "data" {
                peer.write_all(b"x").unwrap();
            } else {
                peer.end();
            }
            world.until(|| transport.is_closing());
            world.idle();
            let received = if hook == "data" { "data x" } else { "eof" };
            let lost = "lost the protocol failed: panic \"as asked\"";
            assert_eq!(probe.trace.take(), ["made", received, lost]);
            let report = format!("{hook}_received failed: panic \"as asked\"");
            assert_eq!(world.reports.take(), [report]);
        }
    });
}

#[test]
fn b_trn_30_pausing_is_idempotent_and_nothing_when_closing() {
    every_kind().that_read().run(|world| {
        let probe = Probe::new();
        let (transport, mut peer) = world.accept(&probe);
        world.turn();
        transport.pause_reading();
        transport.pause_reading();
        assert!(!transport.is_reading());
        world.turn();
        peer.write_all(b"x").unwrap();
        world.idle();
        assert_eq!(probe.trace.take(), ["made"]);
        transport.resume_reading();
        transport.resume_reading();
        assert!(transport.is_reading());
        world.until(|| probe.trace.has("data x"));
        if world.kind == Kind::Tls {
            // Without much to hold back the transport below reads on (B-TLS-10).
            assert_eq!(world.log.take_modifies(), []);
        } else {
            assert_eq!(world.log.take_modifies(), [None, Some(Interest::READ)]);
        }

        if !world.kind.writes() {
            return;
        }
        fill(&transport, b'x');
        transport.close();
        transport.resume_reading();
        transport.pause_reading();
        transport.resume_reading();
        assert!(!transport.is_reading());
        peer.write_all(b"y").unwrap();
        world.idle();
        assert_eq!(probe.trace.take(), ["data x", "pause"]);
    });
}

#[test]
fn b_trn_31_a_pause_in_connection_made_prevents_the_first_read() {
    every_kind().that_read().run(|world| {
        let theirs = RefCell::new(None);
        let probe = Probe::acting(|hook, transport| {
            if let Hook::Made = hook {
                transport.pause_reading();
            }
        });
        let (target, net) = (Target::new(world.kind), world.net.clone());
        let made = probe.clone();
        let connecting = target.connect(&net, || {
            let mut peer = target.peer();
            peer.write_all(b"x").unwrap();
            *theirs.borrow_mut() = Some(peer);
            made
        });
        world.block_on(connecting).unwrap();
        world.idle();
        assert_eq!(probe.trace.take(), ["made"]);
        probe.transport().unwrap().resume_reading();
        world.until(|| probe.trace.has("data x"));
    });
}

#[test]
fn b_trn_35_tcp_sockets_do_not_delay() {
    for_each_backend(|world| {
        let probe = Probe::new();
        let (_transport, _peer) = world.accept(&probe);
        world.turn();
        let fd = world.only_owner();
        assert!(socket2::SockRef::from(&fd).tcp_nodelay().unwrap());
        // One that was connected, too.
        probe.transport().unwrap().abort();
        world.idle();
        let (_listener, addr) = listener();
        let connect = world.net.tcp_connect(addr).connect(Probe::new);
        let _connected = world.block_on(connect).unwrap();
        let fd = world.only_owner();
        assert!(socket2::SockRef::from(&fd).tcp_nodelay().unwrap());
    });
}

#[test]
fn b_trn_36_addresses_stay_readable() {
    every_kind().run(|world| {
        let probe = Probe::new();
        let (transport, peer) = world.accept(&probe);
        for _ in 0..2 {
            // What has no address says so.
            assert_eq!(transport.peer_addr(), peer.addrs.map(|(theirs, _)| theirs));
            assert_eq!(transport.local_addr(), peer.addrs.map(|(_, ours)| ours));
            if let Some((theirs, _)) = peer.addrs {
                assert!(format!("{transport:?}").contains(&theirs.to_string()));
            }
            transport.close();
            world.until(|| probe.trace.has("lost"));
        }
        assert_eq!(probe.trace.take(), ["made", "lost"]);
    });
}

#[test]
fn b_trn_37_a_transports_descriptor_takes_no_other_reader() {
    every_kind().run(|world| {
        let probe = Probe::new();
        let (transport, mut peer) = world.accept(&probe);
        world.turn();
        let source = Rc::new(world.only_owner());
        for error in [
            world.event_loop.add_reader(&source, || {}).unwrap_err(),
            world.event_loop.add_writer(&source, || {}).unwrap_err(),
        ] {
            assert_eq!(error.kind(), io::ErrorKind::ResourceBusy);
            assert!(text(&error).contains("transport"), "{error}");
        }
        assert!(!world.event_loop.remove_reader(&*source));
        let mut expected = vec!["made"];
        if world.kind.reads() {
            peer.write_all(b"x").unwrap();
            world.until(|| probe.trace.has("data x"));
            expected.push("data x");
        }
        // One that is closed is in nobody's way.
        transport.abort();
        world.event_loop.add_reader(&source, || {}).unwrap();
        assert!(world.event_loop.remove_reader(&*source));
        world.idle();
        expected.push("lost");
        assert_eq!(probe.trace.take(), expected);
    });
}

#[test]
fn b_trn_38_handles_are_weak_and_the_loop_owns() {
    every_kind().run(|world| {
        let log = Trace::new();
        let probe = Probe::traced(&log, |_, _| {});
        let (transport, protocol, mut peer) = world.connect(probe);
        drop((transport, protocol));
        let mut expected = vec!["made"];
        if world.kind.reads() {
            peer.write_all(b"x").unwrap();
            world.until(|| log.has("data x"));
            expected.push("data x");
        }
        assert!(world.only_socket()(), "dropping its handles closed nothing");
        let is_open = world.only_socket();

        world.event_loop.close();
        assert!(!is_open(), "closed with the loop");
        assert_eq!(world.reports.take(), ["a connection was open when its loop closed"]);
        assert_eq!(log.take(), expected);
    });
}

#[test]
fn b_trn_39_a_transport_outlives_its_loop() {
    every_kind().run(|world| {
        let probe = Probe::new();
        let (transport, peer) = world.accept(&probe);
        let mut expected = vec!["made"];
        if world.kind.writes() {
            fill(&transport, b'x');
            expected.push("pause");
        }
        world.event_loop.close();
        assert_eq!(world.reports.take(), ["a connection was open when its loop closed"]);
        assert!(transport.is_closing() && !transport.is_reading());
        assert_eq!(transport.write(b"x"), WriteState::Closed);
        assert_eq!(transport.write_all_vectored(&["x"]), WriteState::Closed);
        assert_eq!(transport.write_buffer_size(), 0);
        assert_eq!(transport.write_buffer_limits(), (0, 0));
        transport.set_write_buffer_limits(1, None).unwrap();
        transport.pause_reading();
        transport.resume_reading();
        transport.write_eof();
        transport.close();
        transport.abort();
        assert_eq!(transport.peer_addr(), peer.addrs.map(|(theirs, _)| theirs));
        assert_eq!(probe.trace.take(), expected);
    });
}
