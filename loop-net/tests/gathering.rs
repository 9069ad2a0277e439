//! What tasks and callbacks write in an iteration leaves in one call.

mod common;

use std::cell::{Cell, RefCell};
use std::io::Read;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use common::{Hook, Peer, Probe, World, every_kind};
use loop_net::{StreamReader, Transport, WriteState};

/// Reads what has come.
fn read_all(peer: &mut Peer) -> String {
    let mut heard = Vec::new();
    let mut chunk = [0; 1024];
    while let Ok(count @ 1..) = peer.read(&mut chunk) {
        heard.extend_from_slice(&chunk[..count]);
    }
    String::from_utf8(heard).unwrap()
}

/// A connection and its peer, over each kind and on each backend.
fn over_each(test: impl Fn(&mut World, Probe, Transport, Peer)) {
    every_kind().that_write().run(|world| {
        let probe = Probe::new();
        let (transport, peer) = world.accept(&probe);
        peer.set_nonblocking(true).unwrap();
        test(world, probe, transport, peer);
        world.idle();
    });
}

/// Runs `f` as a callback, in an iteration that ends before this returns.
fn in_an_iteration(world: &mut World, f: impl FnOnce() + 'static) {
    let ran = Rc::new(Cell::new(false));
    let runs = ran.clone();
    world.event_loop.call_soon(move || {
        f();
        runs.set(true);
    });
    world.turn();
    assert!(ran.get());
}

#[test]
fn the_writes_of_a_callback_wait_for_the_end_of_the_iteration() {
    over_each(|world, _, transport, peer| {
        let peer = Rc::new(RefCell::new(peer));
        let (heard, writes) = (peer.clone(), transport.clone());
        in_an_iteration(world, move || {
            assert_eq!(writes.write(b"one "), WriteState::Open);
            assert_eq!(writes.write_all_vectored(&["two ", "three "]), WriteState::Open);
            assert_eq!(writes.write(b"four"), WriteState::Open);
            assert!(writes.write_buffer_size() >= 18);
            assert_eq!(read_all(&mut heard.borrow_mut()), "");
        });
        assert_eq!(transport.write_buffer_size(), 0);
        let heard = world.read(&mut *peer.borrow_mut(), 18);
        assert_eq!(heard, b"one two three four");
        transport.abort();
    });
}

#[test]
fn outside_of_the_loop_nothing_waits() {
    over_each(|world, _, transport, mut peer| {
        transport.write(b"now");
        assert_eq!(transport.write_buffer_size(), 0);
        assert_eq!(world.read(&mut peer, 3), b"now");
        transport.abort();
    });
}

#[test]
fn a_flush_sends_what_waits() {
    over_each(|world, _, transport, mut peer| {
        let writes = transport.clone();
        world.block_on(async move {
            writes.write(b"one ");
            writes.write(b"two");
            writes.flushed().await;
            assert_eq!(writes.write_buffer_size(), 0);
        });
        assert_eq!(world.read(&mut peer, 7), b"one two");
        transport.abort();
    });
}

#[test]
fn an_abort_drops_what_waits() {
    over_each(|world, probe, transport, mut peer| {
        in_an_iteration(world, move || {
            transport.write(b"one");
            transport.abort();
            assert_eq!(transport.write(b"two"), WriteState::Closed);
            assert_eq!(transport.write_buffer_size(), 0);
        });
        world.until(|| probe.trace.has("lost"));
        world.idle();
        assert_eq!(read_all(&mut peer), "");
    });
}

#[test]
fn a_close_comes_after_what_waits() {
    over_each(|world, probe, transport, mut peer| {
        in_an_iteration(world, move || {
            transport.write(b"one ");
            transport.close();
            assert!(transport.is_closing());
            // As behind anything that is being flushed (B-TRN-19).
            transport.write(b"two");
        });
        let heard = world.read_to_end(&mut peer);
        let expected: &[u8] = if world.kind == common::Kind::Tls { b"one " } else { b"one two" };
        assert_eq!(heard, expected);
        drop(peer);
        world.until(|| probe.trace.has("lost"));
        assert_eq!(probe.trace.take(), ["made", "lost"]);
    });
}

#[test]
fn the_end_of_our_side_comes_after_what_waits() {
    every_kind().half_closed().run(|world| {
        let (transport, mut peer) = world.accept(&Probe::new());
        let writes = transport.clone();
        in_an_iteration(world, move || {
            writes.write(b"one ");
            writes.write(b"two");
            writes.write_eof();
            assert_eq!(writes.write(b"three"), WriteState::Closed);
        });
        assert_eq!(world.read_to_end(&mut peer), b"one two");
        transport.abort();
        world.idle();
    });
}

#[test]
fn a_stop_of_the_loop_loses_nothing() {
    over_each(|world, _, transport, mut peer| {
        let (lp, writes) = (world.event_loop.loop_ref(), transport.clone());
        world.event_loop.call_soon(move || {
            writes.write(b"last ");
            lp.stop();
            writes.write(b"words");
        });
        world.event_loop.run_forever().unwrap();
        assert_eq!(transport.write_buffer_size(), 0);
        assert_eq!(world.read(&mut peer, 10), b"last words");
        transport.abort();
    });
}

#[test]
fn an_abort_of_the_loop_loses_nothing() {
    over_each(|world, _, transport, mut peer| {
        let writes = transport.clone();
        world.event_loop.call_soon(move || {
            writes.write(b"last words");
            loop_core::LoopAbort { code: 3 }.raise();
        });
        let run = AssertUnwindSafe(|| world.event_loop.run_forever());
        assert!(catch_unwind(run).is_err());
        assert_eq!(transport.write_buffer_size(), 0);
        assert_eq!(world.read(&mut peer, 10), b"last words");
        transport.abort();
    });
}

#[test]
fn a_peer_that_goes_meanwhile_is_told_of_once() {
    over_each(|world, probe, transport, peer| {
        let peer = Cell::new(Some(peer));
        in_an_iteration(world, move || {
            transport.write(b"one");
            drop(peer.take());
            transport.write(b"two");
        });
        world.until(|| probe.trace.count("lost") > 0);
        world.idle();
        assert_eq!(probe.trace.count("lost"), 1);
    });
}

#[test]
fn a_peer_that_does_not_read_gets_all_in_the_end() {
    over_each(|world, probe, transport, mut peer| {
        common::narrow(&transport);
        let (writes, total) = (transport.clone(), Rc::new(Cell::new(0)));
        let written = total.clone();
        in_an_iteration(world, move || {
            while writes.write(&[b'x'; 1_000]) == WriteState::Open {
                written.set(written.get() + 1_000);
            }
            written.set(written.get() + 1_000);
            writes.close();
        });
        assert!(transport.write_buffer_size() > 0);
        let heard = world.read_to_end(&mut peer);
        assert!(heard.len() == total.get() && heard.iter().all(|byte| *byte == b'x'));
        drop(peer);
        world.until(|| probe.trace.has("lost"));
        assert_eq!(probe.trace.count("pause"), 1);
    });
}

#[test]
fn what_several_hooks_write_to_others_waits_as_well() {
    every_kind().both_ways().run(|world| {
        let (heard, mut quiet) = world.accept(&Probe::new());
        quiet.set_nonblocking(true).unwrap();
        let writes = heard.clone();
        let waiting = Rc::new(Cell::new(0));
        let seen = waiting.clone();
        let probe = Probe::acting(move |hook, _| {
            if let Hook::Data(data) = hook {
                writes.write(data);
                writes.write(b"!");
                seen.set(seen.get().max(writes.write_buffer_size()));
            }
        });
        let (speaks, mut peer) = world.accept(&probe);
        std::io::Write::write_all(&mut peer, b"hello").unwrap();
        world.until(|| probe.trace.has("data hello"));
        assert!(waiting.get() >= 6);
        assert_eq!(heard.write_buffer_size(), 0);
        assert_eq!(world.read(&mut quiet, 6), b"hello!");
        speaks.abort();
        heard.abort();
        world.idle();
    });
}

#[test]
fn answers_to_requests_that_came_together_leave_together() {
    every_kind().both_ways().run(|world| {
        let (mut reader, writer, mut peer) = world.open_stream();
        std::io::Write::write_all(&mut peer, b"a\nb\nc\n").unwrap();
        peer.set_nonblocking(true).unwrap();
        let debug = |reader: &StreamReader| format!("{reader:?}");
        while !debug(&reader).contains("buffered: 6") {
            world.turn();
        }
        let peer = Rc::new(RefCell::new(peer));
        let heard = peer.clone();
        world.block_on(async {
            for _ in 0..3 {
                assert_eq!(read_all(&mut heard.borrow_mut()), "");
                let line = reader.read_line().await.unwrap().unwrap();
                writer.write(&line);
                writer.drain().await.unwrap();
            }
            // The last one had nothing to wait for.
            assert_eq!(writer.transport().write_buffer_size(), 0);
        });
        assert_eq!(world.read(&mut *peer.borrow_mut(), 6), b"a\nb\nc\n");
        writer.abort();
        world.idle();
    });
}

/// On sockets that keep packets apart, each of which is one system call.
#[cfg(not(target_vendor = "apple"))]
mod counted {
    use std::os::fd::OwnedFd;

    use loop_net::{StreamWriter, spawn};
    use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, recv, socketpair};

    use super::*;
    use common::for_each_backend;

    struct Packets(OwnedFd);

    impl Packets {
        fn take(&self) -> Vec<String> {
            let mut buffer = vec![0; 256 * 1024];
            let mut packets = Vec::new();
            while let Ok((count @ 1.., _)) = recv(&self.0, &mut *buffer, RecvFlags::empty()) {
                packets.push(String::from_utf8_lossy(&buffer[..count]).into_owned());
            }
            packets
        }
    }

    fn writer(world: &mut World) -> (Rc<StreamWriter>, Packets) {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let kind = SocketType::SEQPACKET;
        let (ours, theirs) = socketpair(AddressFamily::UNIX, kind, flags, None).unwrap();
        let pipe = world.net.write_pipe(ours).unwrap();
        (Rc::new(world.block_on(pipe.open_stream()).unwrap()), Packets(theirs))
    }

    #[test]
    fn two_writes_and_a_drain_are_one_call() {
        for_each_backend(|world| {
            let (writer, packets) = writer(world);
            world.block_on(async {
                for _ in 0..3 {
                    writer.write(b"head ");
                    writer.write(b"body");
                    assert_eq!(packets.take(), [""; 0]);
                    writer.drain().await.unwrap();
                    assert_eq!(packets.take(), ["head body"]);
                }
            });
        });
    }

    #[test]
    fn two_writes_without_one_are_one_call_as_well() {
        for_each_backend(|world| {
            let (writer, packets) = writer(world);
            world.block_on(async {
                writer.write(b"head ");
                writer.write(b"body");
            });
            assert_eq!(packets.take(), ["head body"]);
        });
    }

    #[test]
    fn tasks_that_write_in_one_iteration_share_a_call() {
        for_each_backend(|world| {
            let ((one, ones), (two, twos)) = (writer(world), writer(world));
            world.block_on(async {
                for name in ["a", "b", "c"] {
                    let (one, two) = (one.clone(), two.clone());
                    spawn(async move {
                        one.write(name.as_bytes());
                        two.write(name.as_bytes());
                        two.write(b".");
                    })
                    .detach();
                }
            });
            world.idle();
            assert_eq!(ones.take(), ["abc"]);
            assert_eq!(twos.take(), ["a.b.c."]);
        });
    }

    #[test]
    fn a_drain_sends_one_connection_and_not_the_others() {
        for_each_backend(|world| {
            let ((one, ones), (two, twos)) = (writer(world), writer(world));
            world.block_on(async {
                one.write(b"a");
                two.write(b"b");
                two.drain().await.unwrap();
                assert_eq!((ones.take(), twos.take()), (vec![], vec!["b".to_owned()]));
                one.write(b"c");
                two.write(b"d");
            });
            assert_eq!((ones.take(), twos.take()), (vec!["ac".to_owned()], vec!["d".to_owned()]));
        });
    }

    #[test]
    fn more_than_the_high_water_mark_does_not_wait() {
        for_each_backend(|world| {
            let ((one, ones), (two, twos)) = (writer(world), writer(world));
            for writer in [&one, &two] {
                writer.transport().set_write_buffer_limits(10, None).unwrap();
            }
            world.block_on(async {
                for (writer, packets) in [(&one, &ones), (&two, &twos)] {
                    writer.write(b"123456");
                    assert_eq!(packets.take(), [""; 0]);
                    assert_eq!(writer.write(b"789012"), WriteState::Open);
                    assert_eq!(packets.take(), ["123456789012"]);
                    assert_eq!(writer.write(b"more than ten"), WriteState::Open);
                    assert_eq!(packets.take(), ["more than ten"]);
                    writer.write(b"head ");
                    writer.write(b"and a long body");
                    assert_eq!(packets.take(), ["head and a long body"]);
                    writer.write(b"less");
                }
            });
            assert_eq!(
                (ones.take(), twos.take()),
                (vec!["less".to_owned()], vec!["less".to_owned()])
            );
        });
    }
}
