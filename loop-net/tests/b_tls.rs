//! TLS: the behaviours B-TLS of the contract, and public cases.
#![cfg(feature = "tls")]

mod common;

use std::cell::{Cell, RefCell};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use common::tls::{
    Identity, RawClient, begin, echo_server, open_stream, probe_server, shaken, until_registered,
};
use common::{Hook, OnDrop, Probe, World, for_each_backend, is_open, reset};
use loop_core::{LoopRef, spawn, timeout, yield_now};
use loop_net::{KeepOpen, NetError, Protocol, Tls, TlsProtocol, Transport, WriteState};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, ServerConfig, ServerConnection};

#[test]
fn b_tls_02_connection_made_comes_with_the_end_of_the_handshake() {
    let identity = Identity::new();
    for_each_backend(|world| {
        let server_probe = Probe::acting(|hook, transport| match hook {
            Hook::Made => assert!(transport.tls_info().is_some()),
            Hook::Data(data) => drop(transport.write(data)),
            _ => {}
        });
        let mut config = identity.server_config();
        config.alpn_protocols = vec![b"other".to_vec(), b"echo".to_vec()];
        let server = probe_server(world, Tls::server(Arc::new(config)), &server_probe);
        let mut config = identity.client_config();
        config.alpn_protocols = vec![b"echo".to_vec()];
        let tls = Tls::client(Arc::new(config), "localhost").unwrap();
        let probe = Probe::new();
        let (made, given) = (probe.trace.clone(), probe.clone());
        let connecting = world.net.tcp_connect(server.local_addrs()[0]).tls(tls);
        let (transport, protocol) = world.block_on(connecting.connect(move || given)).unwrap();
        assert_eq!(made.take(), ["made"], "before the connector returns");
        protocol.with(|probe| assert!(probe.transport().is_some())).unwrap();

        let info = transport.tls_info().unwrap();
        assert_eq!(info.alpn.as_deref(), Some(&b"echo"[..]));
        assert_eq!((info.version.as_str(), info.server_name.as_deref()), ("TLSv1_3", None));
        assert_eq!(info.peer_certificates, [identity.der.to_vec()]);
        assert_eq!(transport.peer_addr(), Some(server.local_addrs()[0]));
        transport.socket().nodelay().unwrap();

        transport.write(b"hello");
        world.until(|| made.has("data hello"));
        let other = server_probe.transport().unwrap().tls_info().unwrap();
        assert_eq!(other.server_name.as_deref(), Some("localhost"));
        assert!(!info.clean_shutdown());
        transport.close();
        assert!(transport.is_closing());
        world.until(|| made.has("lost") && server_probe.trace.has("lost"));
        assert_eq!(made.take(), ["data hello", "lost"]);
        assert_eq!(server_probe.trace.take(), ["made", "data hello", "eof", "lost"]);
        // Also at the end.
        assert!(transport.tls_info().unwrap().clean_shutdown() && other.clean_shutdown());
        assert_eq!(transport.write(b"late"), WriteState::Closed);
    });
}

#[test]
fn streams_carry_megabytes_both_ways() {
    let identity = Identity::new();
    for_each_backend(|world| {
        let server = echo_server(world, identity.server());
        let addr = server.local_addrs()[0];
        let net = world.net.clone();
        let tls = identity.client();
        world.block_on(async move {
            let data: Rc<Vec<u8>> = Rc::new((0..3_000_000u32).map(|i| (i / 7) as u8).collect());
            let (mut reader, writer) = net.tcp_connect(addr).tls(tls).open_stream().await.unwrap();
            let sent = data.clone();
            let sending = spawn(async move {
                for piece in sent.chunks(50_000) {
                    writer.write(piece);
                    writer.drain().await.unwrap();
                }
                writer
            });
            let echoed = reader.read_exact(data.len()).await.unwrap();
            assert!(echoed == *data);
            let writer = sending.await.unwrap();
            writer.close();
            writer.wait_closed().await.unwrap();
        });
        server.close();
        world.block_on(server.wait_closed());
    });
}

/// python/asyncio#483.
#[test]
fn s32_silent_clients_are_cut_off_and_others_are_served() {
    let identity = Identity::new();
    for_each_backend(|world| {
        // Whoever does shake hands has as long, on any machine.
        let limit = Duration::from_millis(500);
        let server = echo_server(world, identity.server().handshake_timeout(limit).unwrap());
        let addr = server.local_addrs()[0];
        let start = Instant::now();
        let silent: Vec<_> = (0..50).map(|_| TcpStream::connect(addr).unwrap()).collect();
        world.until(|| silent.iter().all(|client| !is_open(client)));
        assert!(start.elapsed() >= limit, "{:?}", start.elapsed());
        assert_eq!(world.log.registered(), 1, "the listener");
        assert_eq!(world.reports.take().len(), 50);
        let (net, tls) = (world.net.clone(), identity.client());
        world.block_on(async move {
            let (mut reader, writer) = net.tcp_connect(addr).tls(tls).open_stream().await.unwrap();
            // Longer than the limit, which has ended with the handshake.
            loop_core::sleep(limit).await;
            writer.write(b"hi");
            assert_eq!(reader.read_exact(2).await.unwrap(), b"hi");
            let timers = LoopRef::current().dump().timers;
            assert_eq!(timers, [], "the limits of handshakes that are over");
        });
        server.close();
        world.block_on(server.wait_closed());
    });
}

#[test]
fn b_tls_04_time_limits() {
    let identity = Identity::new();
    let zero = identity.client().handshake_timeout(Duration::ZERO).unwrap_err();
    assert_eq!(zero.kind(), io::ErrorKind::InvalidInput);
    assert!(identity.client().shutdown_timeout(Duration::ZERO).is_err());
    for_each_backend(|world| {
        let (listener, addr) = common::listener();
        let tls = identity.client().handshake_timeout(Duration::from_millis(50)).unwrap();
        let connecting = world.net.tcp_connect(addr).tls(tls).open_stream();
        let error = world.block_on(connecting).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionAborted);
        assert!(error.to_string().contains("50ms"), "{error}");
        world.idle();
        assert_eq!(world.log.registered(), 0);
        drop(listener);
    });
}

#[test]
fn b_tls_05_a_peer_that_goes_in_the_handshake() {
    let identity = Identity::new();
    for_each_backend(|world| {
        let (listener, addr) = common::listener();
        for hard in [false, true] {
            let probe = Probe::new();
            let given = probe.clone();
            let connecting = world.net.tcp_connect(addr).tls(identity.client());
            let task = world.event_loop.spawn(connecting.connect(move || given));
            world.idle();
            let (peer, _) = listener.accept().unwrap();
            world.idle();
            if hard {
                reset(peer)
            } else {
                drop(peer)
            }
            let error = world.block_on(task).unwrap().unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::ConnectionReset, "{error}");
            world.idle();
            assert_eq!(probe.trace.take(), [""; 0]);
        }
        let probe = Probe::new();
        let server = probe_server(world, identity.server(), &probe);
        drop(TcpStream::connect(server.local_addrs()[0]).unwrap());
        let reports = world.reports.clone();
        world.until(|| reports.count("a TLS handshake failed") == 1);
        until_registered(world, 1);
        world.idle();
        assert_eq!(probe.trace.take(), [""; 0]);
        world.reports.take();
        server.close();
    });
}

#[test]
fn b_tls_06_a_bad_certificate_is_the_connectors_error_and_the_listener_lives() {
    let (identity, other) = (Identity::new(), Identity::new());
    for_each_backend(|world| {
        let server = echo_server(world, identity.server());
        let addr = server.local_addrs()[0];
        for round in 0..2 {
            let connecting = world.net.tcp_connect(addr).tls(other.client()).open_stream();
            let error = world.block_on(connecting).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::PermissionDenied, "{round}: {error}");
            assert!(error.to_string().contains(&addr.to_string()), "{error}");
        }
        until_registered(world, 1);
        assert_eq!(world.reports.take().len(), 2, "the server's, of the lowest severity");
        let wrong = Tls::client(Arc::new(identity.client_config()), "example.org").unwrap();
        let error = world.block_on(world.net.clone().tcp_connect(addr).tls(wrong).open_stream());
        assert!(error.unwrap_err().to_string().contains("example.org"));
        until_registered(world, 1);
        world.reports.take();
        open_stream(world, &server, identity.client());
        server.close();
        assert!(Tls::client(Arc::new(identity.client_config()), "not a name").is_err());
    });
}

#[test]
fn client_certificates_are_asked_for_and_seen() {
    let (identity, client) = (Identity::new(), Identity::new());
    for_each_backend(|world| {
        let verifier = WebPkiClientVerifier::builder(Arc::new(client.roots())).build().unwrap();
        let config = ServerConfig::builder()
            .with_client_cert_verifier(verifier)
            .with_single_cert(vec![identity.der.clone()], identity.key())
            .unwrap();
        let probe = Probe::acting(|hook, transport| {
            if let Hook::Made = hook {
                transport.write(b"welcome");
            }
        });
        let server = probe_server(world, Tls::server(Arc::new(config)), &probe);
        let addr = server.local_addrs()[0];
        let config = ClientConfig::builder()
            .with_root_certificates(identity.roots())
            .with_client_auth_cert(vec![client.der.clone()], client.key())
            .unwrap();
        let tls = Tls::client(Arc::new(config), "localhost").unwrap();
        let net = world.net.clone();
        let welcome = world.block_on(async {
            let (mut reader, writer) = net.tcp_connect(addr).tls(tls).open_stream().await.unwrap();
            let welcome = reader.read_exact(7).await.unwrap();
            writer.close();
            writer.wait_closed().await.unwrap();
            welcome
        });
        assert_eq!(welcome, b"welcome");
        let seen = probe.transport().unwrap().tls_info().unwrap().peer_certificates;
        assert_eq!(seen, [client.der.to_vec()]);
        // One without.
        let tls = identity.client();
        let refused = world.block_on(async {
            match net.tcp_connect(addr).tls(tls).open_stream().await {
                // In TLS 1.3 a client learns of it after its own handshake.
                Ok((mut reader, _writer)) => reader.read(1).await.is_err(),
                Err(_) => true,
            }
        });
        assert!(refused);
        until_registered(world, 1);
        world.reports.take();
        server.close();
    });
}

#[test]
fn b_tls_07_a_dropped_connector_closes_its_socket() {
    let identity = Identity::new();
    for_each_backend(|world| {
        let (listener, addr) = common::listener();
        let connecting = world.net.tcp_connect(addr).tls(identity.client()).open_stream();
        let task = world.event_loop.spawn(connecting);
        world.idle();
        let (mut peer, _) = listener.accept().unwrap();
        world.idle();
        task.cancel();
        let hello = world.read_to_end(&mut peer);
        assert_eq!(hello[0], 22, "a handshake record");
        until_registered(world, 0);
    });
}

#[test]
fn b_tls_09_and_14_marks_and_a_close_flushes_first() {
    for_each_backend(|world| {
        let probe = Probe::new();
        let (transport, mut client) = shaken(world, &probe);
        assert_eq!(transport.write_buffer_limits(), (128 * 1024, 512 * 1024));
        assert_eq!(probe.trace.take(), ["made"]);
        // More than the kernel takes, until it is full, and then as much again.
        let chunk: Vec<u8> = (0..100_000u32).map(|i| i as u8).collect();
        let mut written = 0;
        while transport.write(&chunk) == WriteState::Open {
            written += chunk.len();
        }
        written += chunk.len();
        assert_eq!(probe.trace.take(), ["pause"]);
        assert!(transport.write_buffer_size() >= 512 * 1024);
        transport.close();
        assert_eq!(transport.write(b"late"), WriteState::Closed);
        let mut plain = Vec::new();
        while client.receive(&mut plain) && plain.len() < written {
            world.turn();
        }
        assert_eq!(plain.len(), written);
        assert!(plain.chunks(chunk.len()).all(|part| part == chunk));
        // It waits for our goodbye.
        world.idle();
        assert!(!probe.trace.has("lost"));
        client.say_goodbye(world);
        world.until(|| probe.trace.has("lost"));
        assert!(transport.tls_info().unwrap().clean_shutdown());
    });
}

#[test]
fn b_tls_09_writing_resumes_when_it_has_drained() {
    for_each_backend(|world| {
        let probe = Probe::new();
        let (transport, mut client) = shaken(world, &probe);
        let mut written = 0;
        while transport.write(&[7; 100_000]) == WriteState::Open {
            written += 100_000;
        }
        written += 100_000;
        client.hear(world, written);
        assert_eq!(probe.trace.take(), ["made", "pause", "resume"]);
        assert_eq!(transport.write_buffer_size(), 0);
        transport.abort();
        world.until(|| probe.trace.has("lost"));
    });
}

#[test]
fn b_tls_11_a_paused_protocol_gets_nothing_until_it_resumes() {
    for_each_backend(|world| {
        let probe = Probe::new();
        let (transport, mut client) = shaken(world, &probe);
        transport.pause_reading();
        assert!(!transport.is_reading());
        client.say(world, b"hello");
        client.say_goodbye(world);
        world.idle();
        assert_eq!(probe.trace.take(), ["made"]);
        transport.resume_reading();
        assert_eq!(probe.trace.take(), [""; 0], "in a later iteration");
        world.until(|| probe.trace.has("lost"));
        // The goodbye comes behind the data.
        assert_eq!(probe.trace.take(), ["data hello", "eof", "lost"]);
    });
}

#[test]
fn b_tls_10_a_paused_protocol_pauses_the_transport_below() {
    let identity = Identity::new();
    for_each_backend(|world| {
        let probe = Probe::new();
        let server = probe_server(world, identity.server(), &probe);
        let (reader, writer) = open_stream(world, &server, identity.client());
        world.until(|| probe.transport().is_some());
        let transport = probe.transport().unwrap();
        transport.pause_reading();
        let total = 40 << 20;
        let sending = world.event_loop.spawn(async move {
            for _ in 0..total / 65536 {
                writer.write(&[1; 65536]);
                writer.drain().await.unwrap();
            }
            writer
        });
        // Held up by what the kernel takes and what is kept, which is far less.
        for _ in 0..200 {
            world.turn();
        }
        assert!(!sending.is_done());
        assert_eq!(probe.trace.count("data"), 0);
        transport.resume_reading();
        let writer = world.block_on(sending).unwrap();
        let received = || -> usize {
            let lengths = probe.trace.all();
            let lengths = lengths.iter().filter_map(|what| what.strip_prefix("data of "));
            lengths.map(|length| length.parse::<usize>().unwrap()).sum()
        };
        world.until(|| received() == total);
        writer.abort();
        drop(reader);
        world.until(|| probe.trace.count("lost") == 1);
        server.close();
    });
}

#[test]
fn b_tls_13_there_is_no_half_close() {
    let identity = Identity::new();
    for_each_backend(|world| {
        let server = echo_server(world, identity.server());
        let (mut reader, writer) = open_stream(world, &server, identity.client());
        assert!(!writer.transport().can_write_eof());
        writer.transport().write_eof();
        assert_eq!(world.reports.take().len(), 1);
        writer.write(b"still");
        assert_eq!(world.block_on(reader.read_exact(5)).unwrap(), b"still");
        server.close();
    });
}

#[test]
fn b_tls_15_a_peer_that_does_not_say_goodbye() {
    let identity = Identity::new();
    for_each_backend(|world| {
        let probe = Probe::new();
        let limit = Duration::from_millis(500);
        let tls = identity.server().shutdown_timeout(limit).unwrap();
        let server = probe_server(world, tls, &probe);
        let mut client = RawClient::new(&identity, server.local_addrs()[0]);
        client.shake(world, usize::MAX);
        world.until(|| probe.transport().is_some());
        let start = Instant::now();
        probe.transport().unwrap().close();
        world.until(|| probe.trace.count("lost") == 1);
        assert!(start.elapsed() >= limit);
        assert_eq!(probe.trace.take(), ["made", "lost TimedOut"]);
        // One that just closes is no error.
        let mut client = RawClient::new(&identity, server.local_addrs()[0]);
        client.shake(world, usize::MAX);
        world.until(|| probe.trace.has("made"));
        let transport = probe.transport().unwrap();
        transport.close();
        world.idle();
        drop(client);
        world.until(|| probe.trace.count("lost") == 1);
        assert_eq!(probe.trace.take(), ["made", "lost"]);
        server.close();
    });
}

#[test]
fn b_tls_16_data_before_the_goodbye_comes_before_the_end() {
    for_each_backend(|world| {
        let probe = Probe::new();
        let (_transport, mut client) = shaken(world, &probe);
        client.tls.writer().write_all(b"last words").unwrap();
        client.say_goodbye(world);
        world.until(|| probe.trace.has("lost"));
        assert_eq!(probe.trace.take(), ["made", "data last words", "eof", "lost"]);
        while client.receive(&mut Vec::new()) {
            world.turn();
        }
    });
}

#[test]
fn b_tls_18_an_end_without_a_goodbye_can_be_told_or_refused() {
    let identity = Identity::new();
    for_each_backend(|world| {
        for strict in [false, true] {
            let probe = Probe::new();
            let server =
                probe_server(world, identity.server().require_close_notify(strict), &probe);
            let mut client = RawClient::new(&identity, server.local_addrs()[0]);
            client.shake(world, usize::MAX);
            client.say(world, b"half a mess");
            world.until(|| probe.trace.has("data half a mess"));
            let transport = probe.transport().unwrap();
            drop(client);
            world.until(|| probe.trace.count("lost") == 1);
            assert!(!transport.tls_info().unwrap().clean_shutdown());
            let ends: &[&str] = if strict { &["lost UnexpectedEof"] } else { &["eof", "lost"] };
            assert_eq!(probe.trace.take()[2..], *ends);
            server.close();
        }
    });
}

#[test]
fn b_tls_19_a_close_in_the_handshake_aborts() {
    let identity = Identity::new();
    for_each_backend(|world| {
        let (listener, addr) = common::listener();
        let probe = Probe::new();
        // The transport below, as a program sees it that puts TLS on by itself.
        let lower = begin(world, addr, identity.client(), &probe);
        let (mut peer, _) = listener.accept().unwrap();
        lower.close();
        world.read_to_end(&mut peer);
        until_registered(world, 0);
        assert_eq!(probe.trace.take(), [""; 0]);
        world.reports.take();
    });
}

#[test]
fn b_tls_20_the_loss_below_counts_at_once() {
    for_each_backend(|world| {
        let probe = Probe::new();
        let (transport, client) = shaken(world, &probe);
        reset(client.socket);
        world.until(|| transport.is_closing());
        world.until(|| probe.trace.count("lost") == 1);
        assert_eq!(probe.trace.take(), ["made", "lost ConnectionReset"]);
        assert_eq!(transport.write_buffer_size(), 0);
    });
}

/// python/cpython#142352.
#[test]
fn s31_a_client_hello_that_was_read_already_is_not_lost() {
    let identity = Identity::new();
    for_each_backend(|world| {
        let tls = identity.server();
        let serving =
            world.net.tcp_server("127.0.0.1:0").serve_streams(async move |mut reader, writer| {
                let line = reader.read_line().await?.unwrap();
                assert_eq!(line, b"PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n");
                // Everything the client has sent is buffered by now.
                for _ in 0..5 {
                    yield_now().await;
                }
                let (mut reader, writer) = writer.start_tls(reader, tls.clone()).await?;
                let data = reader.read_exact(2).await?;
                writer.write(&data);
                writer.drain().await?;
                reader.read_to_end().await?;
                io::Result::Ok(())
            });
        let server = world.block_on(serving).unwrap();
        let mut client = RawClient::new(&identity, server.local_addrs()[0]);
        let mut first = b"PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n".to_vec();
        client.tls.write_tls(&mut first).unwrap();
        client.socket.write_all(&first).unwrap();
        client.tls.writer().write_all(b"hi").unwrap();
        let mut plain = Vec::new();
        while plain.len() < 2 {
            assert!(client.receive(&mut plain));
            client.send(world, usize::MAX);
            world.turn();
        }
        assert_eq!(plain, b"hi");
        client.say_goodbye(world);
        server.close();
        world.block_on(server.wait_closed());
    });
}

/// Says "go" in the clear, and upgrades.
#[test]
fn b_tls_22_a_live_connection_is_upgraded_on_both_sides() {
    let identity = Identity::new();
    for_each_backend(|world| {
        let tls = identity.server();
        let serving =
            world.net.tcp_server("127.0.0.1:0").serve_streams(async move |mut reader, writer| {
                assert_eq!(reader.read_line().await?.unwrap(), b"STARTTLS\n");
                writer.write(b"go\n");
                let (mut reader, writer) = writer.start_tls(reader, tls.clone()).await?;
                while let Some(line) = reader.read_line().await? {
                    writer.write(&line);
                }
                io::Result::Ok(())
            });
        let server = world.block_on(serving).unwrap();
        let addr = server.local_addrs()[0];
        // Level 3.
        let (net, tls) = (world.net.clone(), identity.client());
        world.block_on(async move {
            let (mut reader, writer) = net.tcp_connect(addr).open_stream().await.unwrap();
            writer.write(b"STARTTLS\n");
            assert_eq!(reader.read_line().await.unwrap().unwrap(), b"go\n");
            let (mut reader, writer) = writer.start_tls(reader, tls).await.unwrap();
            writer.write(b"secret\n");
            assert_eq!(reader.read_line().await.unwrap().unwrap(), b"secret\n");
            writer.close();
            writer.wait_closed().await.unwrap();
        });
        // Level 2: the protocol stays, and hears of no second beginning.
        let probe = Probe::acting(|hook, transport| {
            if let Hook::Made = hook {
                transport.write(b"STARTTLS\n");
            }
        });
        let (trace, given) = (probe.trace.clone(), probe.clone());
        let connecting = world.net.tcp_connect(addr).connect(move || given);
        let (lower, _) = world.block_on(connecting).unwrap();
        world.until(|| trace.has("data go\n"));
        let upper = world.block_on(lower.start_tls(identity.client())).unwrap();
        upper.write(b"secret\n");
        world.until(|| trace.has("data secret\n"));
        upper.close();
        world.until(|| trace.has("lost"));
        assert_eq!(trace.take(), ["made", "data go\n", "data secret\n", "lost"]);
        server.close();
        world.block_on(server.wait_closed());
    });
}

#[test]
fn b_tls_23_what_cannot_be_upgraded_says_so() {
    let identity = Identity::new();
    for_each_backend(|world| {
        let (reader, _writer) = common::pipe();
        let pipe = world.net.read_pipe(reader).unwrap().connect(Probe::new);
        let (transport, _) = world.block_on(pipe).unwrap();
        let error = world.block_on(transport.start_tls(identity.client())).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        transport.close();
        let error = world.block_on(transport.start_tls(identity.client())).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotConnected);
        world.idle();
    });
}

#[test]
fn b_tls_24_after_a_failed_upgrade_the_protocol_hears_of_the_loss_once() {
    let identity = Identity::new();
    for_each_backend(|world| {
        for how in ["garbage", "reset", "cancel"] {
            let (listener, addr) = common::listener();
            let probe = Probe::new();
            let (trace, given) = (probe.trace.clone(), probe.clone());
            let connecting = world.net.tcp_connect(addr).connect(move || given);
            let (lower, _) = world.block_on(connecting).unwrap();
            let (mut peer, _) = listener.accept().unwrap();
            let (upgraded, tls) = (lower.clone(), identity.client());
            let task = world.event_loop.spawn(async move { upgraded.start_tls(tls).await });
            world.idle();
            match how {
                "garbage" => peer.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap(),
                "reset" => reset(peer.try_clone().unwrap()),
                _ => drop(task.cancel()),
            }
            if how == "reset" {
                socket2::SockRef::from(&peer).set_linger(Some(Duration::ZERO)).unwrap();
                drop(peer);
            }
            world.until(|| trace.count("lost") > 0);
            world.idle();
            let all = trace.take();
            assert_eq!((all.len(), all[0].as_str()), (2, "made"), "{how}: {all:?}");
            assert!(lower.is_closing());
            if how != "cancel" {
                world.block_on(task).unwrap().unwrap_err();
            }
        }
    });
}

#[test]
fn b_tls_25_tls_inside_tls() {
    let (outer, inner) = (Identity::new(), Identity::new());
    for_each_backend(|world| {
        let (outer_tls, inner_tls) = (outer.server(), inner.server());
        let probe = Probe::echoing();
        let given = probe.clone();
        let serving = world.net.tcp_server("127.0.0.1:0").tls(outer_tls);
        let serving = serving.bind(move || inner_tls.over(given.clone()));
        let server = world.block_on(serving).unwrap();
        let addr = server.local_addrs()[0];
        let (net, outer_tls, inner_tls) = (world.net.clone(), outer.client(), inner.client());
        world.block_on(async move {
            let connecting = net.tcp_connect(addr).tls(outer_tls);
            let (reader, writer) = connecting.open_stream().await.unwrap();
            let (mut reader, writer) = writer.start_tls(reader, inner_tls).await.unwrap();
            writer.write(&[5; 300_000]);
            assert_eq!(reader.read_exact(300_000).await.unwrap(), [5; 300_000]);
            writer.close();
            writer.wait_closed().await.unwrap();
        });
        world.until(|| probe.trace.has("lost"));
        // An inner handshake that is given up leaves a server that serves.
        let (net, outer_tls, inner_tls) = (world.net.clone(), outer.client(), outer.client());
        world.block_on(async move {
            let connecting = net.tcp_connect(addr).tls(outer_tls);
            let (reader, writer) = connecting.open_stream().await.unwrap();
            writer.start_tls(reader, inner_tls).await.unwrap_err();
        });
        until_registered(world, 1);
        world.reports.take();
        server.close();
    });
}

#[test]
fn b_tls_27_a_finished_connection_frees_everything() {
    struct Dropped(Probe, #[allow(dead_code)] OnDrop<Box<dyn FnMut()>>);
    impl Protocol for Dropped {
        fn connection_made(&mut self, transport: &Transport) {
            self.0.connection_made(transport);
        }
        fn data_received(&mut self, data: &[u8]) {
            self.0.data_received(data);
        }
        fn eof_received(&mut self) -> KeepOpen {
            self.0.eof_received()
        }
        fn connection_lost(&mut self, error: Option<&NetError>) {
            self.0.connection_lost(error);
        }
    }
    let identity = Identity::new();
    for_each_backend(|world| {
        let (drops, probe) = (Rc::new(Cell::new(0)), Probe::new());
        let (count, given) = (drops.clone(), probe.clone());
        let serving = world.net.tcp_server("127.0.0.1:0").tls(identity.server()).bind(move || {
            let count = count.clone();
            let on_drop: Box<dyn FnMut()> = Box::new(move || count.set(count.get() + 1));
            Dropped(given.clone(), OnDrop(on_drop))
        });
        let server = world.block_on(serving).unwrap();
        let held = RefCell::new(Vec::new());
        for _ in 0..20 {
            let (reader, writer) = open_stream(world, &server, identity.client());
            // Handles keep nothing alive.
            held.borrow_mut().push(writer.transport().clone());
            held.borrow_mut().extend(probe.transport());
            drop((reader, writer));
        }
        world.until(|| drops.get() == 20);
        assert_eq!(world.log.registered(), 1);
        server.close();
    });
}

#[test]
fn b_tls_28_key_updates_are_no_data() {
    for_each_backend(|world| {
        let probe = Probe::echoing();
        let (_transport, mut client) = shaken(world, &probe);
        let mut plain = Vec::new();
        for round in 1..=3 {
            client.tls.refresh_traffic_keys().unwrap();
            client.say(world, b"x");
            while plain.len() < round {
                assert!(client.receive(&mut plain));
                world.turn();
            }
        }
        assert_eq!(probe.trace.all(), ["made", "data x", "data x", "data x"]);
        client.say_goodbye(world);
        world.until(|| probe.trace.has("lost"));
    });
}

#[test]
fn records_may_come_byte_by_byte() {
    let identity = Identity::new();
    for_each_backend(|world| {
        let probe = Probe::echoing();
        let server = probe_server(world, identity.server(), &probe);
        let mut client = RawClient::new(&identity, server.local_addrs()[0]);
        client.shake(world, 1);
        client.tls.writer().write_all(b"slowly").unwrap();
        client.send(world, 1);
        client.hear(world, 6);
        client.tls.send_close_notify();
        client.send(world, 1);
        world.until(|| probe.trace.has("lost"));
        assert_eq!(probe.trace.take(), ["made", "data slowly", "eof", "lost"]);
        server.close();
    });
}

#[test]
fn garbage_instead_of_a_client_hello_ends_its_connection_only() {
    let identity = Identity::new();
    for_each_backend(|world| {
        let probe = Probe::new();
        let server = probe_server(world, identity.server(), &probe);
        let addr = server.local_addrs()[0];
        let mut seed = 1u64;
        for round in 0..50 {
            let mut peer = TcpStream::connect(addr).unwrap();
            let mut garbage =
                if round == 0 { b"GET / HTTP/1.1\r\n\r\n".to_vec() } else { vec![0; 200] };
            if round > 0 {
                for byte in &mut garbage {
                    seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1);
                    *byte = (seed >> 33) as u8;
                }
                if round % 2 == 0 {
                    // With the head of a handshake record in front.
                    garbage[..5].copy_from_slice(&[22, 3, 1, 0, 100]);
                }
            }
            peer.write_all(&garbage).unwrap();
            peer.shutdown(std::net::Shutdown::Write).unwrap();
            let answer = world.read_to_end(&mut peer);
            assert!(answer.is_empty() || answer[0] == 21, "an alert, or nothing");
        }
        until_registered(world, 1);
        assert_eq!(probe.trace.take(), [""; 0]);
        assert_eq!(world.reports.take().len(), 50);
        server.close();
    });
}

#[test]
fn a_panic_in_a_hook_behind_tls_costs_its_own_connection() {
    for_each_backend(|world| {
        let probe = Probe::acting(|hook, _| {
            if let Hook::Data(b"boom") = hook {
                panic!("as expected");
            }
        });
        let (_transport, mut client) = shaken(world, &probe);
        client.say(world, b"boom");
        world.until(|| probe.trace.count("lost") == 1);
        assert!(probe.trace.take()[2].contains("as expected"));
        assert_eq!(world.reports.take().len(), 1);
    });
}

#[test]
fn a_client_meets_a_server_of_the_engine_alone() {
    let identity = Identity::new();
    for_each_backend(|world| {
        let (listener, addr) = common::listener();
        let config = Arc::new(identity.server_config());
        let server = std::thread::spawn(move || {
            let (mut socket, _) = listener.accept().unwrap();
            let mut tls = ServerConnection::new(config).unwrap();
            let mut stream = rustls::Stream::new(&mut tls, &mut socket);
            let mut data = [0; 5];
            stream.read_exact(&mut data).unwrap();
            stream.write_all(&data).unwrap();
            tls.send_close_notify();
            while tls.wants_write() {
                tls.write_tls(&mut socket).unwrap();
            }
            socket.read_to_end(&mut Vec::new()).unwrap();
        });
        let (net, tls) = (world.net.clone(), identity.client());
        world.block_on(async move {
            let (mut reader, writer) = net.tcp_connect(addr).tls(tls).open_stream().await.unwrap();
            writer.write(b"hello");
            let limit = Duration::from_secs(20);
            let answer = timeout(limit, reader.read_to_end()).await.unwrap().unwrap();
            assert_eq!(answer, b"hello");
            writer.wait_closed().await.unwrap();
        });
        server.join().unwrap();
    });
}

#[test]
fn nothing_is_left_open() {
    let identity = Identity::new();
    let mut world = World::new("epoll");
    let tls: TlsProtocol = identity.client().over(Probe::new());
    assert!(format!("{tls:?}").contains("localhost"));
    drop(tls);
    let server = echo_server(&mut world, identity.server());
    for _ in 0..10 {
        drop(open_stream(&mut world, &server, identity.client()));
    }
    until_registered(&mut world, 1);
    server.close();
    world.block_on(server.wait_closed());
    assert_eq!(world.log.registered(), 0);
}
