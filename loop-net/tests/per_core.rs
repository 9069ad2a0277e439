//! The same server on several threads.

mod common;

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use common::{all_descriptors, text, watchdog};
use loop_net::{PerCore, ServerBuilder, serve_per_core};

/// Connections that have had an answer.
fn talk(addr: SocketAddr, connections: usize) -> Vec<TcpStream> {
    let mut peers = Vec::new();
    for _ in 0..connections {
        let mut peer = TcpStream::connect(addr).unwrap();
        peer.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        peer.write_all(b"ping\n").unwrap();
        peers.push(peer);
    }
    for peer in &mut peers {
        let mut answer = [0; 5];
        peer.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"ping\n");
    }
    peers
}

#[test]
fn four_loops_share_a_thousand_connections_and_end_by_one_deadline() {
    let _watchdog = watchdog();
    if std::env::var("LOOP_SELECTOR").as_deref() == Ok("select") {
        return println!("skipped: select takes no descriptor from 1,024 on");
    }
    if all_descriptors() < 2_200 {
        return println!("skipped: too few descriptors for both ends of 1,000 connections");
    }
    let started = std::sync::Arc::new(AtomicUsize::new(0));
    let count = started.clone();
    let servers = serve_per_core(4, "127.0.0.1:0", async move |builder| {
        count.fetch_add(1, Ordering::Relaxed);
        // What a loop's own thread may use.
        let own = Rc::new(());
        builder
            .backlog(1_000)
            .serve_streams(async move |mut reader, writer| {
                let _own = own.clone();
                while let Some(line) = reader.read_line().await? {
                    writer.write(&line);
                }
                io::Result::Ok(())
            })
            .await
    })
    .unwrap();
    assert_eq!(started.load(Ordering::Relaxed), 4);
    let addr = servers.local_addrs()[0];
    let mut peers = talk(addr, 1_000);
    peers.truncate(990);
    // Ten ended; a few more end in time, the others are aborted.
    let ending = peers.split_off(970);
    let closer = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(100));
        drop(ending);
    });
    let (grace, start) = (Duration::from_secs(2), Instant::now());
    let ended = servers.shutdown(grace).unwrap();
    assert!(start.elapsed() >= grace && start.elapsed() < grace * 20, "{:?}", start.elapsed());
    closer.join().unwrap();
    assert_eq!(ended.accepted.iter().sum::<u64>(), 1_000);
    assert!(ended.accepted.iter().all(|accepted| *accepted >= 100), "{:?}", ended.accepted);
    assert_eq!(ended.drained.aborted, 970);
    assert!((20..=30).contains(&ended.drained.finished), "{:?}", ended.drained);
    let refused = TcpStream::connect(addr).unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
    for mut peer in peers {
        assert!(matches!(peer.read(&mut [0]), Ok(0) | Err(_)));
    }
}

#[test]
fn a_server_that_does_not_start_on_one_thread_starts_on_none() {
    let _watchdog = watchdog();
    let error = serve_per_core(0, "127.0.0.1:0", async |builder| {
        builder.serve_streams(async |_, _| ()).await
    });
    assert_eq!(error.unwrap_err().kind(), io::ErrorKind::InvalidInput);

    let calls = std::sync::Arc::new(AtomicUsize::new(0));
    let count = calls.clone();
    let error = serve_per_core(3, "127.0.0.1:0", async move |builder| {
        if count.fetch_add(1, Ordering::Relaxed) == 1 {
            return Err(io::Error::other("not on this one"));
        }
        builder.serve_streams(async |_, _| ()).await
    });
    assert!(text(error.unwrap_err()).contains("not on this one"));
    assert_eq!(calls.load(Ordering::Relaxed), 3);

    let count = std::sync::Arc::new(AtomicUsize::new(0));
    let error = serve_per_core(3, "127.0.0.1:0", async move |builder| {
        assert_ne!(count.fetch_add(1, Ordering::Relaxed), 1, "no luck");
        builder.serve_streams(async |_, _| ()).await
    });
    assert!(text(error.unwrap_err()).contains("no luck"));

    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = taken.local_addr().unwrap();
    let error =
        serve_per_core(2, addr, async |builder| builder.serve_streams(async |_, _| ()).await)
            .unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
    assert!(text(&error).contains(&addr.to_string()), "{error}");
}

/// On a machine without IPv6 nothing could be served on `localhost`.
#[test]
fn b_srv_13_an_address_that_is_not_there_is_skipped_on_all_threads() {
    let _watchdog = watchdog();
    let here = SocketAddr::from(([127, 0, 0, 1], 0));
    // Of TEST-NET-1, which no interface here has.
    let nobodys = SocketAddr::from(([192, 0, 2, 1], 0));
    let quiet = async |builder: ServerBuilder| builder.serve_streams(async |_, _| ()).await;
    let servers = serve_per_core(2, [nobodys, here, here], quiet).unwrap();
    let ips: Vec<_> = servers.local_addrs().iter().map(SocketAddr::ip).collect();
    assert_eq!(ips, [here.ip()], "once");
    servers.shutdown(Duration::ZERO).unwrap();
    let error = serve_per_core(2, nobodys, quiet).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::AddrNotAvailable);
    assert!(text(&error).contains("192.0.2.1"), "{error}");
}

/// Two threads that echo lines.
fn echo_lines() -> PerCore {
    serve_per_core(2, "127.0.0.1:0", async |builder| {
        builder
            .serve_streams(async |mut reader, writer| {
                while let Some(line) = reader.read_line().await? {
                    writer.write(&line);
                }
                io::Result::Ok(())
            })
            .await
    })
    .unwrap()
}

#[test]
fn dropping_the_servers_ends_them() {
    let _watchdog = watchdog();
    let servers = echo_lines();
    let addr = servers.local_addrs()[0];
    let peers = talk(addr, 10);
    drop(servers);
    assert!(TcpStream::connect(addr).is_err());
    drop(peers);
}

/// A grace that the clock cannot add was taken for none.
#[test]
fn a_shutdown_without_a_limit_waits_for_all() {
    let _watchdog = watchdog();
    let servers = echo_lines();
    let peers = talk(servers.local_addrs()[0], 3);
    let closer = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(20));
        drop(peers);
    });
    let drained = servers.shutdown(Duration::MAX).unwrap().drained;
    closer.join().unwrap();
    assert_eq!(drained.aborted, 0);
}
