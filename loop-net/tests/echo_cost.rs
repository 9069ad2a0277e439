//! What a request costs: no allocation, and no word to the selector. What an idle connection costs: no
//! buffer.

mod common;

use std::io::{IoSlice, Read, Write};
use std::net::TcpStream;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use common::{World, all_descriptors, watchdog};
use futures_util::{AsyncBufReadExt, AsyncWriteExt};
use loop_net::{Protocol, Server, StreamReader, StreamWriter, Transport};

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
fn a_stream_that_is_shown_and_written_in_pieces_allocates_nothing() {
    let _watchdog = watchdog();
    let echo = async |mut reader: StreamReader, mut writer: StreamWriter| {
        let mut request = [0; 512];
        loop {
            let shown = reader.fill_buf().await?;
            let count = shown.len();
            request[..count].copy_from_slice(shown);
            reader.consume_unpin(count);
            let (head, tail) = request[..count].split_at(count / 2);
            let pieces = [IoSlice::new(head), IoSlice::new(tail)];
            if writer.write_vectored(&pieces).await? == 0 {
                return std::io::Result::Ok(());
            }
        }
    };
    for backend in BACKENDS {
        let mut world = World::without_log(backend);
        let serving = world.net.tcp_server("127.0.0.1:0").serve_streams(echo);
        let server = world.block_on(serving).unwrap();
        let addr = server.local_addrs()[0];
        let mut peers: Vec<_> = (0..10).map(|_| TcpStream::connect(addr).unwrap()).collect();
        world.until(|| server.connections() == 10);
        for peer in &peers {
            peer.set_nonblocking(true).unwrap();
        }
        exchange(&mut world, &mut peers, 10);
        let counted = allocation_counter::measure(|| exchange(&mut world, &mut peers, 100));
        assert_eq!(counted.count_total, 0, "1,000 requests on {backend}");
    }
}

/// The memory that each connection holds when so many are open, without what the first hundred made the
/// loop allocate for itself. `used` is how each new one is used once.
fn bytes_each(
    world: &mut World,
    server: &Server,
    mut used: impl FnMut(&mut World, &mut [TcpStream]),
) -> i64 {
    // Two tests at a time would need twice the descriptors.
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let addr = server.local_addrs()[0];
    // Both ends are here; fewer where the system does not give so many.
    let count = ((all_descriptors() - 100) / 2).min(4_096) as usize;
    let mut peers: Vec<TcpStream> = Vec::with_capacity(count);
    let mut connect = |world: &mut World, until: usize| {
        while peers.len() < until {
            let opened = peers.len();
            let more = (until - opened).min(100);
            peers.extend((0..more).map(|_| TcpStream::connect(addr).unwrap()));
            world.until(|| server.connections() == opened + more);
            for peer in &peers[opened..] {
                peer.set_nonblocking(true).unwrap();
            }
            used(world, &mut peers[opened..]);
        }
    };
    connect(world, 100);
    let counted = allocation_counter::measure(|| connect(world, count));
    counted.bytes_current / (count - 100) as i64
}

#[test]
fn an_idle_connection_costs_at_most_400_bytes() {
    let _watchdog = watchdog();
    for backend in BACKENDS {
        let mut world = World::without_log(backend);
        let bind = world.net.tcp_server("127.0.0.1:0").bind(Echo::default);
        let server = world.block_on(bind).unwrap();
        let each = bytes_each(&mut world, &server, |world, peers| exchange(world, peers, 1));
        println!("{each} bytes a connection on {backend}");
        assert!(each <= 400, "{each} bytes a connection on {backend}");
    }
}

#[test]
fn a_stream_that_has_not_read_costs_at_most_two_kibibytes_with_its_task() {
    let _watchdog = watchdog();
    let mut world = World::without_log("epoll");
    let wait = async |mut reader: StreamReader, _writer: StreamWriter| {
        while reader.read_into(&mut [0; 64]).await? > 0 {}
        std::io::Result::Ok(())
    };
    let server = world.block_on(world.net.tcp_server("127.0.0.1:0").serve_streams(wait)).unwrap();
    let each = bytes_each(&mut world, &server, |world, _| world.idle());
    println!("{each} bytes a stream");
    assert!(each <= 2_048, "{each} bytes a stream");
}
