//! Servers behind TLS: how they close, and what they have in front.
#![cfg(feature = "tls")]

mod common;

use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;

use common::tls::{RawClient, probe_server, shared, until_registered};
use common::{Probe, World, for_each_backend, is_open};
use loop_net::{Server, WriteState};

/// A client of the engine alone, which the server knows by `probe`.
fn client(world: &mut World, server: &Server, probe: &Probe) -> RawClient {
    let mut client = RawClient::new(shared(), server.local_addrs()[0]);
    client.shake(world, usize::MAX);
    world.until(|| probe.transport().is_some());
    client
}

/// What comes until the server has said goodbye, which it must.
fn heard_until_goodbye(world: &mut World, client: &mut RawClient) -> Vec<u8> {
    let mut plain = Vec::new();
    while !client.tls.process_new_packets().unwrap().peer_has_closed() {
        assert!(client.receive(&mut plain), "cut off after {} bytes", plain.len());
        world.turn();
    }
    plain
}

/// They were cut off without a `close_notify`, which a client must take for somebody else's doing.
#[test]
fn b_srv_05_closed_clients_are_told_goodbye_behind_all_that_was_written() {
    for_each_backend(|world| {
        for full in [false, true] {
            let probe = Probe::new();
            let server = probe_server(world, shared().server(), &probe);
            let mut client = client(world, &server, &probe);
            let transport = probe.transport().unwrap();
            let mut written = 0;
            // More than the socket takes, so that some of it is not even encrypted yet.
            while full && transport.write(&[7; 100_000]) == WriteState::Open {
                written += 100_000;
            }
            written += if full { 100_000 } else { 0 };
            server.close_clients();
            server.close_clients();
            assert!(transport.is_closing() && server.is_serving());
            assert_eq!(heard_until_goodbye(world, &mut client).len(), written);
            assert!(!probe.trace.has("lost"), "it waits for the answer");
            client.say_goodbye(world);
            world.until(|| probe.trace.has("lost"));
            let expected: &[&str] =
                if full { &["made", "pause", "resume", "lost"] } else { &["made", "lost"] };
            assert_eq!(probe.trace.take(), expected);
            assert!(transport.tls_info().unwrap().clean_shutdown());
            // One that says nothing is waited for until the deadline of a drain, and no longer.
            let _deaf = self::client(world, &server, &probe);
            server.close_clients();
            let drained = world.block_on(server.drain(Duration::from_millis(20)));
            assert_eq!((drained.finished, drained.aborted), (0, 1));
            until_registered(world, 0);
        }
    });
}

#[test]
fn b_srv_05_closed_clients_that_shake_hands_or_were_upgraded_end_too() {
    for_each_backend(|world| {
        // In the middle of its handshake there is nobody to say goodbye to.
        let probe = Probe::new();
        let server = probe_server(world, shared().server(), &probe);
        let mut silent = TcpStream::connect(server.local_addrs()[0]).unwrap();
        world.until(|| server.connections() == 1);
        world.idle();
        server.close_clients();
        assert_eq!(world.read_to_end(&mut silent), b"");
        assert_eq!(probe.trace.take(), [""; 0]);
        server.close();

        // A plain connection that was upgraded.
        let serving = world.net.tcp_server("127.0.0.1:0").serve_streams(async |reader, writer| {
            let (mut reader, _writer) = writer.start_tls(reader, shared().server()).await?;
            reader.read_to_end().await?;
            std::io::Result::Ok(())
        });
        let server = world.block_on(serving).unwrap();
        let mut client = RawClient::new(shared(), server.local_addrs()[0]);
        client.shake(world, usize::MAX);
        world.idle();
        server.close_clients();
        assert_eq!(heard_until_goodbye(world, &mut client), b"");
        client.say_goodbye(world);
        server.close();
        world.block_on(server.wait_closed());
    });
}

#[test]
fn the_header_of_a_proxy_comes_before_the_handshake() {
    for_each_backend(|world| {
        let probe = Probe::echoing();
        let made = probe.clone();
        let builder = world.net.tcp_server("127.0.0.1:0").proxy_protocol(Duration::from_secs(60));
        let serving = builder.tls(shared().server()).bind(move || made.clone());
        let server = world.block_on(serving).unwrap();
        let mut client = RawClient::new(shared(), server.local_addrs()[0]);
        // In one segment with the ClientHello.
        let mut first = b"PROXY TCP4 192.0.2.1 192.0.2.2 4660 443\r\n".to_vec();
        client.tls.write_tls(&mut first).unwrap();
        client.socket.write_all(&first).unwrap();
        client.shake(world, usize::MAX);
        client.say(world, b"hello");
        assert_eq!(client.hear(world, 5), b"hello");
        let transport = probe.transport().unwrap();
        assert_eq!(transport.peer_addr().unwrap().to_string(), "192.0.2.1:4660");
        assert_eq!(transport.local_addr().unwrap().to_string(), "192.0.2.2:443");
        client.say_goodbye(world);
        world.until(|| probe.trace.has("lost"));

        // A ClientHello without a header is none.
        let mut bare = RawClient::new(shared(), server.local_addrs()[0]);
        bare.send(world, usize::MAX);
        world.until(|| !is_open(&bare.socket));
        assert_eq!(probe.trace.count("made"), 1);
        server.close();
    });
}

#[test]
fn b_tls_04_and_15_the_limits_are_a_minute_and_half_of_one_unless_set() {
    let text = format!("{:?}", shared().server());
    assert!(text.contains("handshake_timeout: 60s"), "{text}");
    assert!(text.contains("shutdown_timeout: 30s"), "{text}");
}
