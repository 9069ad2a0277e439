//! Descriptors and memory: nothing is left behind. One test, for the counts are the process's.

mod common;

use std::io::{Read, Write};
use std::net::TcpStream;

use common::{Hook, Probe, World, for_each_backend, reset};

fn files() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

#[test]
fn twenty_thousand_connections_leave_no_descriptor_and_no_memory_behind() {
    // What panics print is kept by whoever runs tests, and is no leak of ours.
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if info.payload().downcast_ref() != Some(&"as asked") {
            print(info);
        }
    }));
    let rounds = 200usize.div_ceil(common::backends().len());
    for_each_backend(|world| {
        let probe = Probe::acting(|hook, transport| match hook {
            Hook::Data(b"close") => transport.close(),
            Hook::Data(b"abort") => transport.abort(),
            Hook::Data(b"panic") => panic!("as asked"),
            Hook::Data(data) => drop(transport.write(data)),
            _ => {}
        });
        world.event_loop.set_exception_handler(Some(std::rc::Rc::new(|_, _| {})));
        let server = world.serve(&probe);
        let addr = server.local_addrs()[0];
        let before = files();
        let round = |world: &mut World, round: usize| {
            // A hundred at a time, so that numbers are reused between and within the rounds.
            let mut peers: Vec<_> = (0..100).map(|_| TcpStream::connect(addr).unwrap()).collect();
            world.until(|| server.connections() == 100);
            assert_eq!(files(), before + 200, "round {round}");
            for (index, peer) in peers.iter_mut().enumerate() {
                let word = ["close", "abort", "panic", "echo!", "reset"][index % 5];
                peer.write_all(word.as_bytes()).unwrap();
            }
            while peers.len() > 40 {
                // The first three kinds are ended by our side.
                world.turn();
                let ends = |peer: &TcpStream| {
                    peer.set_nonblocking(true).unwrap();
                    matches!((&*peer).read(&mut [0; 8]), Ok(0))
                };
                peers.retain(|peer| !ends(peer));
            }
            for (index, peer) in peers.into_iter().enumerate() {
                if index % 2 == 0 { drop(peer) } else { reset(peer) }
            }
            world.until(|| server.connections() == 0);
            assert_eq!(files(), before, "round {round}");
            assert_eq!(world.log.registered(), 1, "the listener");
            probe.trace.take();
        };
        // By the third time whatever is kept for good is there.
        (0..3).for_each(|number| round(world, number));
        let kept =
            allocation_counter::measure(|| (3..rounds).for_each(|number| round(world, number)));
        // A byte a connection would be more.
        let connections = 100 * (rounds as i64 - 3);
        assert!(kept.bytes_current < connections.min(4096), "{kept:?}");
        assert!(kept.count_current < 16, "{kept:?}");

        // From the other side: connected, and dropped in every way.
        for round in 0..200 {
            let connect = world.net.tcp_connect(addr).open_stream();
            let (reader, writer) = world.block_on(connect).unwrap();
            match round % 3 {
                0 => drop((reader, writer)),
                1 => writer.close(),
                _ => writer.abort(),
            }
        }
        world.until(|| server.connections() == 0);
        world.idle();
        assert_eq!(files(), before);
    });
}
