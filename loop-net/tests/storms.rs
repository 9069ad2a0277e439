//! Accept storms: more clients at once than a backlog takes, or `max_connections` lets in. Nobody is lost, and
//! descriptors and memory are given back.

mod common;

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, MutexGuard, PoisonError};

use common::{Probe, World, all_descriptors, for_each_backend, temp_dir};
use loop_net::Server;

/// How many connections the limited server has at once.
const MOST: usize = 32;

/// Descriptors are counted by the process, so there is one storm at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    let alone = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    all_descriptors();
    alone
}

fn files() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// A storm, and another one that must leave nothing behind.
fn twice(world: &mut World, server: &Server, storm: impl Fn(&mut World)) {
    let before = files();
    let run = |world: &mut World| {
        let accepted = server.accepted();
        storm(world);
        world.until(|| server.connections() == 0);
        world.idle();
        assert_eq!(world.log.registered(), 1, "the listener");
        assert_eq!(files(), before);
        server.accepted() - accepted
    };
    // What is kept for good is there afterwards.
    let first = run(world);
    let mut second = 0;
    let kept = allocation_counter::measure(|| second = run(world));
    assert_eq!(first, second);
    // What a loop keeps to serve again grows with how many it had at once, which is the scheduler's business; what
    // each connection left behind would be more.
    let each = i64::try_from(second).unwrap();
    assert!(kept.count_current < each / 4 && kept.bytes_current < 32 * each, "{kept:?}");
}

/// Says a word on each connection and hears it, while the loop runs. Whoever has heard it goes.
fn talk(world: &mut World, mut peers: Vec<TcpStream>, mut each_turn: impl FnMut()) {
    for peer in &mut peers {
        peer.write_all(b"word").unwrap();
        peer.set_nonblocking(true).unwrap();
    }
    // They are accepted in this order.
    let (mut waiting, mut served) = (peers.into_iter(), Vec::new());
    loop {
        served.extend(waiting.by_ref().take(2 * MOST - served.len()));
        if served.is_empty() {
            return;
        }
        world.turn();
        each_turn();
        served.retain_mut(|peer: &mut TcpStream| match peer.read(&mut [0; 8]) {
            Ok(count) => {
                assert_eq!(count, 4, "a short word is never split");
                false
            }
            Err(error) => {
                assert_eq!(error.kind(), io::ErrorKind::WouldBlock, "{error}");
                true
            }
        });
    }
}

#[test]
fn two_thousand_clients_at_once_are_served_thirty_two_at_a_time() {
    let _alone = alone();
    for_each_backend(|world| {
        // `select` takes no descriptor above 1,023, and the clients have the lower ones.
        let clients = if world.event_loop.selector_name() == "select" { 900 } else { 2_000 };
        let builder = world.net.tcp_server("127.0.0.1:0").max_connections(MOST).backlog(4_096);
        let server = world.block_on(builder.bind(Probe::echoing)).unwrap();
        let addr = server.local_addrs()[0];
        twice(world, &server, |world| {
            // All of them are there before the loop looks.
            let peers = (0..clients).map(|_| TcpStream::connect(addr).unwrap()).collect();
            talk(world, peers, || assert!(server.connections() <= MOST));
        });
        assert_eq!(server.accepted(), 2 * clients);
    });
}

/// On a Unix socket a connect waits for room in the backlog.
fn visit(path: &std::path::Path) {
    let mut peer = UnixStream::connect(path).unwrap();
    peer.write_all(b"word").unwrap();
    peer.read_exact(&mut [0; 4]).unwrap();
}

#[test]
fn a_small_backlog_makes_clients_wait_and_loses_none() {
    const THREADS: usize = 40;
    const EACH: usize = 25;
    let _alone = alone();
    for_each_backend(|world| {
        let dir = temp_dir();
        let path = dir.path().join("server");
        let builder = world.net.unix_server(path.as_path()).backlog(4);
        let server = world.block_on(builder.bind(Probe::echoing)).unwrap();
        twice(world, &server, |world| {
            // A thread of threads, for what one allocates for another is freed there.
            let path = path.clone();
            let clients = std::thread::spawn(move || {
                std::thread::scope(|scope| {
                    for _ in 0..THREADS {
                        scope.spawn(|| (0..EACH).for_each(|_| visit(&path)));
                    }
                });
            });
            world.until(|| clients.is_finished());
            clients.join().unwrap();
        });
        assert_eq!(server.accepted(), 2 * (THREADS * EACH) as u64);
    });
}

#[test]
fn connects_that_a_full_backlog_drops_are_tried_again_by_the_system() {
    const CLIENTS: usize = 400;
    let _alone = alone();
    let _watchdog = common::watchdog();
    // One backend: who waits for whom is the kernel's business.
    let mut world = World::new(common::backends()[0]);
    let builder = world.net.tcp_server("127.0.0.1:0").backlog(256);
    let server = world.block_on(builder.bind(Probe::echoing)).unwrap();
    let addr = server.local_addrs()[0];
    let net = world.net.clone();
    let clients: Vec<_> = (0..CLIENTS)
        .map(|_| {
            let connecting = net.tcp_connect(addr).open_stream();
            world.event_loop.spawn(async move {
                let (mut reader, writer) = connecting.await?;
                writer.write(b"word");
                assert_eq!(reader.read_exact(4).await?, b"word");
                io::Result::Ok(())
            })
        })
        .collect();
    world.block_on(async {
        for client in clients {
            client.await.unwrap().unwrap();
        }
    });
    world.until(|| server.connections() == 0);
    assert_eq!(server.accepted(), CLIENTS as u64);
    assert_eq!(world.log.registered(), 1, "the listener");
}
