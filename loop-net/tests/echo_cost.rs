//! What a request costs: no allocation, and no word to the selector. What an idle connection costs: no
//! buffer.

mod common;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use common::{World, watchdog};
use loop_net::{Protocol, Transport};

#[derive(Default)]
struct Echo(Option<Transport>);

impl Protocol for Echo {
    fn connection_made(&mut self, transport: &Transport) {
        self.0 = Some(transport.clone());
    }

    fn data_received(&mut self, data: &[u8]) {
        // Two writes: gathering them allocates nothing either.
        let transport = self.0.as_ref().unwrap();
        let (head, tail) = data.split_at(data.len() / 2);
        transport.write(head);
        transport.write(tail);
    }
}

/// Requests on all connections, one turn of the loop for all answers.
fn exchange(world: &mut World, peers: &mut [TcpStream], rounds: usize) {
    let (request, mut answer) = ([b'x'; 512], [0; 512]);
    for _ in 0..rounds {
        for peer in &mut *peers {
            peer.write_all(&request).unwrap();
        }
        world.event_loop.run_once(Some(Duration::ZERO)).unwrap();
        for peer in &mut *peers {
            // A request that had not arrived is served while its peer waits for it.
            while let Err(error) = peer.read_exact(&mut answer) {
                assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
                world.event_loop.run_once(Some(Duration::ZERO)).unwrap();
            }
            assert_eq!(request, answer);
        }
    }
}

/// `select` cannot watch so many.
const BACKENDS: [&str; 2] = ["epoll", "poll"];

#[test]
fn an_echo_in_steady_state_allocates_and_registers_nothing() {
    let _watchdog = watchdog();
    for backend in BACKENDS {
        let mut world = World::new(backend);
        let bind = world.net.tcp_server("127.0.0.1:0").bind(Echo::default);
        let server = world.block_on(bind).unwrap();
        let addr = server.local_addrs()[0];
        let mut peers: Vec<_> = (0..10).map(|_| TcpStream::connect(addr).unwrap()).collect();
        world.until(|| server.connections() == 10);
        for peer in &peers {
            peer.set_nonblocking(true).unwrap();
        }
        exchange(&mut world, &mut peers, 10);

        world.log.take_modifies();
        let registers = (world.log.registers.get(), world.log.deregisters.get());
        let counted = allocation_counter::measure(|| exchange(&mut world, &mut peers, 1_000));
        assert_eq!(counted.count_total, 0, "10,000 requests on {backend}");
        assert_eq!(world.log.take_modifies(), []);
        assert_eq!((world.log.registers.get(), world.log.deregisters.get()), registers);
    }
}

#[test]
fn an_idle_connection_costs_a_few_hundred_bytes() {
    let _watchdog = watchdog();
    for backend in BACKENDS {
        let mut world = World::new(backend);
        let bind = world.net.tcp_server("127.0.0.1:0").bind(Echo::default);
        let server = world.block_on(bind).unwrap();
        let addr = server.local_addrs()[0];
        let mut peers = Vec::with_capacity(1_000);
        let mut connect = |world: &mut World, count: usize| {
            for _ in 0..count / 100 {
                let opened = peers.len();
                peers.extend((0..100).map(|_| TcpStream::connect(addr).unwrap()));
                world.until(|| server.connections() == opened + 100);
                for peer in &peers[opened..] {
                    peer.set_nonblocking(true).unwrap();
                }
                exchange(world, &mut peers[opened..], 1);
            }
        };
        // The loop's own buffers, first.
        connect(&mut world, 100);
        let counted = allocation_counter::measure(|| connect(&mut world, 900));
        let each = counted.bytes_current / 900;
        println!("{each} bytes a connection on {backend}");
        assert!(each < 1_000, "{each} bytes a connection on {backend}");
    }
}
