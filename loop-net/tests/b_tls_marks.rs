//! TLS: the water marks of its two layers, and what is told of them. Behaviours B-TLS-09 and B-TLS-29 of the
//! contract.
#![cfg(feature = "tls")]

mod common;

use std::cell::Cell;
use std::io::Write;
use std::rc::Rc;
use std::time::Duration;

use common::tls::{shaken, shared};
use common::{Hook, Probe, World, block, every_kind, fill, for_each_backend, narrow};
use loop_net::{Transport, WriteState};

#[test]
fn resume_writing_is_told_though_the_connection_was_closed_while_full() {
    every_kind().that_write().run(|world| {
        let probe = Probe::new();
        let (transport, mut peer) = world.accept(&probe);
        narrow(&transport);
        let written = fill(&transport, b'x');
        transport.close();
        assert_eq!(world.read_to_end(&mut peer).len(), written);
        world.until(|| probe.trace.has("lost"));
        assert_eq!(probe.trace.take(), ["made", "pause", "resume", "lost"]);
    });
}

#[test]
fn marks_below_those_of_the_transport_below_do_not_stall_a_writer() {
    every_kind().that_write().run(|world| {
        for (high, low) in [(4096, 1024), (30, 30), (1, 0), (0, 0)] {
            let probe = Probe::new();
            let (transport, mut peer) = world.accept(&probe);
            narrow(&transport);
            transport.set_write_buffer_limits(high, Some(low)).unwrap();
            let mut expected = vec!["made"];
            for _ in 0..2 {
                // Small writes end with little above the mark.
                let mut written = block(&transport, b'x');
                while transport.write(b"small") == WriteState::Open {
                    written += 5;
                }
                written += 5;
                world.read(&mut peer, written);
                world.until(|| probe.trace.count("resume") == expected.len().div_ceil(2));
                expected.extend(["pause", "resume"]);
            }
            assert_eq!(probe.trace.take(), expected, "marks {high} and {low}");
            assert_eq!(transport.write_buffer_size(), 0);
        }
    });
}

#[test]
fn what_a_hook_writes_beyond_small_marks_is_sent_and_resumed() {
    every_kind().both_ways().run(|world| {
        let probe = Probe::acting(|hook, transport| {
            if let Hook::Data(_) = hook {
                transport.set_write_buffer_limits(30, Some(30)).unwrap();
                transport.write(&[b'x'; 30]);
                transport.write(&[b'x'; 3]);
            }
        });
        let (transport, mut peer) = world.accept(&probe);
        for _ in 0..3 {
            peer.set_nonblocking(false).unwrap();
            peer.write_all(b"?").unwrap();
            assert_eq!(world.read(&mut peer, 33), [b'x'; 33]);
            world.until(|| probe.trace.count("pause") == probe.trace.count("resume"));
        }
        assert_eq!(transport.write_buffer_size(), 0);
    });
}

/// How often the loop turns in some time.
fn turns_in(world: &mut World, time: Duration) -> usize {
    let (over, before) = (Rc::new(Cell::new(false)), world.log.waits.get());
    let told = over.clone();
    world.event_loop.call_later(time, move || told.set(true));
    while !over.get() {
        world.event_loop.run_once(None).unwrap();
    }
    world.log.waits.get() - before
}

#[test]
fn tls_inside_tls_waits_for_its_peer_without_turning() {
    for_each_backend(|world| {
        let inner = Probe::new();
        let over = Cell::new(Some(shared().server().over(inner.clone())));
        let serving = world.net.tcp_server("127.0.0.1:0").tls(shared().server());
        let server = world.block_on(serving.bind(move || over.take().unwrap())).unwrap();
        let addr = server.local_addrs()[0];
        let far = Probe::acting(|hook, transport: &Transport| {
            if let Hook::Made = hook {
                transport.pause_reading();
            }
        });
        let client = shared().client().over(far.clone());
        let connecting = world.net.tcp_connect(addr).tls(shared().client());
        world.block_on(connecting.connect(move || client)).unwrap();
        world.until(|| inner.transport().is_some() && far.transport().is_some());
        let transport = inner.transport().unwrap();
        // Until all that lies between is full, for nobody reads.
        let mut still = 0;
        while still < 3 {
            if inner.trace.count("pause") == inner.trace.count("resume") {
                fill(&transport, b'x');
            }
            let before = transport.write_buffer_size();
            turns_in(world, Duration::from_millis(5));
            still = if transport.write_buffer_size() == before { still + 1 } else { 0 };
        }
        let turns = turns_in(world, Duration::from_millis(50));
        assert!(turns < 20, "{turns} turns with nothing to do");
        transport.abort();
        far.transport().unwrap().abort();
        world.until(|| inner.trace.has("lost") && far.trace.count("lost") == 1);
        server.close();
    });
}

#[test]
fn a_panic_in_a_hook_of_the_marks_names_it() {
    for_each_backend(|world| {
        let probe = Probe::acting(|hook, _| {
            assert!(!matches!(hook, Hook::Pause), "as asked");
        });
        let (transport, mut client) = shaken(world, &probe);
        narrow(&transport);
        let written = fill(&transport, b'x');
        assert_eq!(world.reports.take(), ["pause_writing failed: panic \"as asked\""]);
        client.hear(world, written);
        world.until(|| probe.trace.has("resume"));
        transport.abort();
        world.until(|| probe.trace.has("lost"));
    });
}
