//! Descriptors: none is left behind. One test, for the count is the process's.

mod common;

use std::io::{Read, Write};
use std::net::TcpStream;

use common::{Hook, Probe, for_each_backend, reset};

fn files() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

#[test]
fn two_thousand_connections_leave_no_descriptor_behind() {
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
        for round in 0..20 {
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
        }

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
