//! TLS: what goes through it, files, Unix sockets, upgrades of streams. Behaviours B-TLS, B-SFL-07, B-STR-23,
//! B-CONN-11 and B-UNIX-05 of the contract.
#![cfg(feature = "tls")]

mod common;

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::num::NonZeroUsize;
use std::rc::Rc;
use std::sync::{Arc, mpsc};

use common::tls::{
    Identity, RawClient, begin, echo_server, open_stream, probe_server, shaken, shared,
    until_registered,
};
use common::{Hook, Probe, World, for_each_backend, is_open, temp_dir};
use loop_core::ThreadPool;
use loop_net::{Buffered, BufferedProtocol, SendFile, Tls, Transport, WriteState};

/// A connection of probes on both sides. The lower transport of the client, its upper one, the server's.
fn pair(world: &mut World, client: &Probe, server: &Probe) -> (Transport, Transport, Transport) {
    let serving = probe_server(world, shared().server(), server);
    let lower = begin(world, serving.local_addrs()[0], shared().client(), client);
    world.until(|| client.transport().is_some() && server.transport().is_some());
    serving.close();
    (lower, client.transport().unwrap(), server.transport().unwrap())
}

/// Closes one side, and waits until both have heard the end.
fn end(world: &mut World, client: &Probe, server: &Probe) {
    client.transport().unwrap().close();
    world.until(|| client.trace.count("lost") == 1 && server.trace.count("lost") == 1);
}

#[test]
fn b_tls_03_the_handshake_starts_at_once_and_early_data_is_not_lost() {
    for_each_backend(|world| {
        // A client has spoken when its connector returns.
        let (listener, addr) = common::listener();
        let lower = begin(world, addr, shared().client(), &Probe::new());
        let (mut peer, _) = listener.accept().unwrap();
        let mut hello = [0; 6];
        peer.read_exact(&mut hello).unwrap();
        assert_eq!((hello[0], hello[5]), (22, 1), "a handshake record with a ClientHello");
        lower.abort();
        drop(peer);
        until_registered(world, 0);
        world.reports.take();
        // A server hears what was sent before the loop knew of the connection.
        let probe = Probe::echoing();
        let server = probe_server(world, shared().server(), &probe);
        let mut client = RawClient::new(shared(), server.local_addrs()[0]);
        let mut first = Vec::new();
        client.tls.write_tls(&mut first).unwrap();
        client.socket.write_all(&first).unwrap();
        client.shake(world, usize::MAX);
        client.say(world, b"hello");
        world.until(|| probe.trace.has("data hello"));
        probe.transport().unwrap().abort();
        world.until(|| probe.trace.has("lost"));
        server.close();
    });
}

#[test]
fn b_tls_08_nothing_can_be_written_before_the_handshake_and_what_is_comes_first_after_it() {
    for_each_backend(|world| {
        let greet = |hook: Hook<'_>, transport: &Transport| {
            if let Hook::Made = hook {
                transport.write(b"first ");
                transport.write(b"words");
            }
        };
        let (client, server) = (Probe::acting(greet), Probe::acting(greet));
        let serving = probe_server(world, shared().server(), &server);
        let lower = begin(world, serving.local_addrs()[0], shared().client(), &client);
        assert!(client.transport().is_none(), "no transport before the end of the handshake");
        world.until(|| client.trace.count("data") > 0 && server.trace.count("data") > 0);
        for probe in [&client, &server] {
            assert_eq!(probe.trace.take(), ["made", "data first words"]);
        }
        assert!(!lower.is_closing());
        end(world, &client, &server);
        serving.close();
    });
}

/// Collects into 5 bytes at a time.
#[derive(Clone, Default)]
struct Fives {
    memory: [u8; 5],
    calls: Rc<RefCell<Vec<usize>>>,
    all: Rc<RefCell<Vec<u8>>>,
}

impl BufferedProtocol for Fives {
    fn buffer(&mut self, hint: Option<usize>) -> &mut [u8] {
        assert!(hint.is_none_or(|hint| hint > 0));
        &mut self.memory
    }
    fn buffer_updated(&mut self, count: usize) {
        self.calls.borrow_mut().push(count);
        self.all.borrow_mut().extend_from_slice(&self.memory[..count]);
    }
}

#[test]
fn b_tls_12_all_plaintext_of_one_input_is_delivered() {
    for_each_backend(|world| {
        // Three records in one segment are one call of a plain protocol.
        let probe = Probe::new();
        let (transport, mut client) = shaken(world, &probe);
        let mut records = Vec::new();
        for piece in [&b"one "[..], b"two ", b"three"] {
            client.tls.writer().write_all(piece).unwrap();
            client.tls.write_tls(&mut records).unwrap();
        }
        client.socket.write_all(&records).unwrap();
        world.until(|| probe.trace.count("data") > 0);
        assert_eq!(probe.trace.take(), ["made", "data one two three"]);
        transport.abort();
        world.until(|| probe.trace.has("lost"));
        // A buffered one has its buffer filled again and again.
        let fives = Fives::default();
        let given = fives.clone();
        let serving = world.net.tcp_server("127.0.0.1:0").tls(shared().server());
        let server = world.block_on(serving.bind(move || Buffered(given.clone()))).unwrap();
        let mut client = RawClient::new(shared(), server.local_addrs()[0]);
        client.shake(world, usize::MAX);
        client.say(world, b"twelve bytes");
        world.until(|| fives.all.borrow().len() == 12);
        assert_eq!(*fives.calls.borrow(), [5, 5, 2]);
        assert_eq!(*fives.all.borrow(), b"twelve bytes");
        client.say_goodbye(world);
        until_registered(world, 1);
        server.close();
    });
}

#[test]
fn b_tls_14_an_abort_says_no_goodbye() {
    for_each_backend(|world| {
        let probe = Probe::new();
        let (transport, mut client) = shaken(world, &probe);
        transport.abort();
        transport.abort();
        assert!(transport.is_closing());
        while client.receive(&mut Vec::new()) {
            world.turn();
        }
        let state = client.tls.process_new_packets().unwrap();
        assert!(!state.peer_has_closed(), "a close_notify");
        world.until(|| probe.trace.has("lost"));
        assert_eq!(probe.trace.take(), ["made", "lost"]);
    });
}

#[test]
fn b_tls_17_a_connection_cannot_be_kept_open_after_the_peers_end() {
    for_each_backend(|world| {
        let (client, server) = (Probe::new(), Probe::new().kept_open());
        pair(world, &client, &server);
        end(world, &client, &server);
        assert_eq!(server.trace.take(), ["made", "eof", "lost"]);
        assert_eq!(client.trace.take(), ["made", "lost"]);
        let reports = world.reports.take();
        assert_eq!(reports, ["a TLS connection cannot be kept open after the peer's end"]);
        // Streams ask for no such thing.
        let server = echo_server(world, shared().server());
        let (mut reader, writer) = open_stream(world, &server, shared().client());
        server.close_clients();
        assert_eq!(world.block_on(reader.read_to_end()).unwrap(), b"");
        world.block_on(writer.wait_closed()).unwrap();
        server.close();
    });
}

#[test]
fn b_tls_21_after_closing_writes_are_counted_and_data_is_ignored() {
    for_each_backend(|world| {
        let probe = Probe::new();
        let (transport, mut client) = shaken(world, &probe);
        transport.close();
        for count in 1..=6usize {
            assert_eq!(transport.write(b"late"), WriteState::Closed);
            assert_eq!(world.reports.all().len(), count.saturating_sub(4), "after {count}");
        }
        assert!(world.reports.take()[0].contains("dropped"));
        // The goodbye is on its way, and the peer goes on talking.
        client.say(world, b"but wait");
        world.idle();
        assert_eq!(probe.trace.take(), ["made"]);
        let mut plain = Vec::new();
        assert!(client.receive(&mut plain));
        assert!(client.tls.process_new_packets().unwrap().peer_has_closed());
        assert_eq!(plain, b"");
        client.say_goodbye(world);
        world.until(|| probe.trace.has("lost"));
        assert_eq!(probe.trace.take(), ["lost"]);
        // And after the end.
        assert_eq!(transport.write(b"late"), WriteState::Closed);
        assert_eq!(world.reports.take().len(), 1);
    });
}

#[test]
fn b_tls_26_facts_stay_after_the_end_and_a_fatal_error_ends_it_unreported() {
    for_each_backend(|world| {
        let probe = Probe::new();
        let (transport, mut client) = shaken(world, &probe);
        let addr = client.socket.peer_addr().unwrap();
        assert!(transport.socket().fileno().is_ok());
        // No TLS record.
        client.socket.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
        world.until(|| probe.trace.count("lost") == 1);
        assert_eq!(probe.trace.take(), ["made", "lost InvalidData"]);
        assert_eq!(world.reports.take(), [""; 0]);
        // The layer's facts, and those of the transport below.
        assert!(transport.is_closing());
        assert_eq!(transport.tls_info().unwrap().version, "TLSv1_3");
        assert_eq!(transport.local_addr(), Some(addr));
        assert_eq!(transport.peer_addr(), Some(client.socket.local_addr().unwrap()));
        // What is the program's fault is reported.
        let probe = Probe::acting(|hook, _| {
            if let Hook::Data(_) = hook {
                panic!("as expected");
            }
        });
        let (_transport, mut client) = shaken(world, &probe);
        client.say(world, b"boom");
        world.until(|| probe.trace.count("lost") == 1);
        assert_eq!(world.reports.take().len(), 1);
    });
}

#[test]
fn b_tls_29_what_the_transport_below_does_not_take_stays_unencrypted() {
    for_each_backend(|world| {
        let (client, received) = (Probe::new(), Rc::new(RefCell::new(Vec::new())));
        let kept = received.clone();
        let server = Probe::acting(move |hook, transport| match hook {
            Hook::Made => transport.pause_reading(),
            Hook::Data(data) => kept.borrow_mut().extend_from_slice(data),
            _ => {}
        });
        let (lower, upper, far) = pair(world, &client, &server);
        let chunk: Vec<u8> = (0..100_000u32).map(|at| (at / 3) as u8).collect();
        let mut written = 0;
        // As full as it gets, with nobody reading.
        loop {
            while upper.write(&chunk) == WriteState::Open {
                written += chunk.len();
            }
            written += chunk.len();
            let before = upper.write_buffer_size();
            world.idle();
            if upper.write_buffer_size() == before {
                break;
            }
        }
        assert!(upper.write_buffer_size() >= 512 * 1024, "{}", upper.write_buffer_size());
        // The mark of the transport below, one piece, and what encryption adds.
        let below = lower.write_buffer_size();
        assert!(below <= 2 * 64 * 1024 + 4096, "{below} bytes of ciphertext");
        far.resume_reading();
        world.until(|| received.borrow().len() == written);
        assert!(received.borrow().chunks(chunk.len()).all(|part| part == chunk));
        end(world, &client, &server);
        assert_eq!(client.trace.count("pause"), client.trace.count("resume"));
    });
}

#[test]
fn b_tls_13_and_17_streams_end_as_a_whole() {
    for_each_backend(|world| {
        let server = Probe::new();
        let serving = probe_server(world, shared().server(), &server);
        let (mut reader, writer) = open_stream(world, &serving, shared().client());
        world.until(|| server.transport().is_some());
        let far = server.transport().unwrap();
        far.write(b"last words");
        far.close();
        assert_eq!(world.block_on(reader.read_to_end()).unwrap(), b"last words");
        world.block_on(writer.wait_closed()).unwrap();
        assert_eq!(writer.write(b"late"), WriteState::Closed);
        serving.close();
    });
}

/// A file of 1,000,003 bytes, its position somewhere.
fn file(dir: &common::TempDir) -> (File, Vec<u8>) {
    let content: Vec<u8> = (0..1_000_003u32).map(|at| (at / 7 % 251) as u8).collect();
    let path = dir.path().join("content");
    std::fs::write(&path, &content).unwrap();
    let mut file = File::open(path).unwrap();
    file.seek(SeekFrom::Start(77)).unwrap();
    (file, content)
}

#[test]
fn b_sfl_07_files_go_through_tls_by_the_fallback() {
    for_each_backend(|world| {
        let dir = temp_dir();
        let (file, content) = file(&dir);
        let (client, received) = (Probe::new(), Rc::new(RefCell::new(Vec::new())));
        let kept = received.clone();
        let server = Probe::acting(move |hook, transport| {
            if let Hook::Data(data) = hook {
                if kept.borrow().is_empty() {
                    transport.write(b"meanwhile");
                }
                kept.borrow_mut().extend_from_slice(data);
            }
        });
        let (_, upper, _) = pair(world, &client, &server);
        // Until this is released nothing is read of the file, so that the sending does not end too soon.
        world.event_loop.set_default_executor(ThreadPool::new(NonZeroUsize::MIN));
        let (release, held) = mpsc::channel::<()>();
        let holding = world.event_loop.run_blocking(move || held.recv());
        // What was written before goes first, what is written after goes behind.
        upper.write(b"before ");
        let sender = upper.clone();
        let copy = file.try_clone().unwrap();
        let task = world.event_loop.spawn(async move {
            let part = SendFile::new(&copy).offset(3).count(700_000);
            let sent = sender.send_file(part).await;
            sender.write(b" after");
            sent
        });
        world.until(|| !upper.is_reading());
        assert_eq!(upper.write(b"between"), WriteState::Closed);
        let busy = world.block_on(upper.send_file(SendFile::new(&file))).unwrap_err();
        assert_eq!(busy.kind(), io::ErrorKind::ResourceBusy);
        drop(release);
        assert!(world.block_on(holding).unwrap().is_err());
        assert_eq!(world.block_on(task).unwrap().unwrap(), 700_000);
        assert_eq!((&file).stream_position().unwrap(), 700_003);
        world.until(|| received.borrow().len() == 7 + 700_000 + 6);
        let all = received.take();
        assert_eq!((&all[..7], &all[700_007..]), (&b"before "[..], &b" after"[..]));
        assert!(all[7..700_007] == content[3..700_003]);
        // What came meanwhile was kept.
        world.until(|| client.trace.has("data meanwhile"));
        assert!(upper.is_reading());
        // The system cannot encrypt; and nothing is sent of an empty rest.
        let whole = SendFile::new(&file);
        let error = world.block_on(upper.send_file(whole.fallback(false))).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::Unsupported, "{error}");
        assert_eq!(world.block_on(upper.send_file(whole.offset(2_000_000))).unwrap(), 0);
        end(world, &client, &server);
        let error = world.block_on(upper.send_file(whole)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotConnected, "{error}");
    });
}

#[test]
fn b_sfl_06_and_07_everything_is_restored_when_a_file_is_given_up_or_the_peer_goes() {
    for_each_backend(|world| {
        let dir = temp_dir();
        let path = dir.path().join("huge");
        File::create(&path).unwrap().set_len(1 << 28).unwrap();
        let file = Rc::new(File::open(path).unwrap());
        for give_up in [true, false] {
            let client = Probe::new();
            let server = Probe::acting(|hook, transport| {
                if let Hook::Made = hook {
                    transport.pause_reading();
                }
            });
            let (_, upper, far) = pair(world, &client, &server);
            let (sender, copy) = (upper.clone(), file.clone());
            let task =
                world.event_loop.spawn(async move { sender.send_file(SendFile::new(&copy)).await });
            // Until nothing moves: the reader is paused, and all that lies between is full.
            let (mut before, mut same) = (0, 0);
            while same < 50 {
                world.event_loop.run_once(Some(std::time::Duration::from_millis(1))).unwrap();
                let now = upper.write_buffer_size();
                same = if now > 0 && now == before { same + 1 } else { 0 };
                before = now;
            }
            if give_up {
                task.cancel();
                world.turn();
                assert!(upper.is_reading());
                assert_ne!(upper.write(b"goes on"), WriteState::Closed);
                far.abort();
            } else {
                far.abort();
                let error = world.block_on(task).unwrap().unwrap_err();
                assert_eq!(error.kind(), io::ErrorKind::NotConnected, "{error}");
            }
            let at = (&*file).stream_position().unwrap();
            assert!(at > 0 && at < 1 << 28, "{at}");
            world.until(|| client.trace.count("lost") == 1 && server.trace.count("lost") == 1);
        }
    });
}

#[test]
fn b_str_23_an_upgrade_flushes_first_and_the_same_pair_goes_on() {
    for_each_backend(|world| {
        let tls = shared().server();
        let serving =
            world.net.tcp_server("127.0.0.1:0").serve_streams(async move |mut reader, writer| {
                reader.set_limit(1 << 30)?;
                let plain = reader.read_line().await?.unwrap();
                assert!(plain[..plain.len() - 1].iter().all(|byte| *byte == b'p'));
                writer.write(format!("{}\n", plain.len()).as_bytes());
                let (mut reader, writer) = writer.start_tls(reader, tls.clone()).await?;
                let secret = reader.read_line().await?.unwrap();
                writer.write(&secret);
                writer.drain().await?;
                reader.read_to_end().await?;
                io::Result::Ok(())
            });
        let server = world.block_on(serving).unwrap();
        let addr = server.local_addrs()[0];
        let (net, tls) = (world.net.clone(), shared().client());
        world.block_on(async move {
            let (mut reader, writer) = net.tcp_connect(addr).open_stream().await.unwrap();
            // More than the socket takes: all of it leaves in the clear, before the handshake.
            let written = common::fill(writer.transport(), b'p');
            writer.write(b"\n");
            let count = reader.read_line().await.unwrap().unwrap();
            assert_eq!(count, format!("{}\n", written + 1).as_bytes());
            let (mut reader, writer) = writer.start_tls(reader, tls).await.unwrap();
            assert!(writer.transport().tls_info().is_some());
            writer.write(b"secret\n");
            assert_eq!(reader.read_line().await.unwrap().unwrap(), b"secret\n");
            writer.close();
            writer.wait_closed().await.unwrap();
        });
        // Halves of two streams are no pair; both streams are closed.
        let (net, tls) = (world.net.clone(), shared().client());
        let error = world.block_on(async move {
            let (_, writer) = net.tcp_connect(addr).open_stream().await.unwrap();
            let (reader, _) = net.tcp_connect(addr).open_stream().await.unwrap();
            writer.start_tls(reader, tls).await.unwrap_err()
        });
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        until_registered(world, 1);
        world.reports.take();
        server.close();
    });
}

#[test]
fn b_conn_11_a_failed_start_closes_the_connection_first() {
    let other = Identity::new();
    for_each_backend(|world| {
        // The handshake fails on our side.
        let config = Arc::new(other.server_config());
        let (listener, addr) = common::listener();
        let far = std::thread::spawn(move || {
            let (mut socket, _) = listener.accept().unwrap();
            let mut tls = rustls::ServerConnection::new(config).unwrap();
            let failed = tls.complete_io(&mut socket).is_err();
            let mut rest = Vec::new();
            // The end, not a reset: what there was to say was said.
            (failed, socket.read_to_end(&mut rest).is_ok())
        });
        let connecting = world.net.tcp_connect(addr).tls(shared().client()).connect(Probe::new);
        world.block_on(connecting).unwrap_err();
        until_registered(world, 0);
        assert_eq!(far.join().unwrap(), (true, true));
        // The factory panics: in the task that connects, and the socket goes with it.
        let (listener, addr) = common::listener();
        let connecting = world.net.tcp_connect(addr);
        let task = world
            .event_loop
            .spawn(async move { connecting.connect(|| -> Probe { panic!("as expected") }).await });
        let error = world.block_on(task).unwrap_err();
        assert!(error.to_string().contains("as expected"), "{error}");
        let (mut peer, _) = listener.accept().unwrap();
        assert_eq!(peer.read(&mut [0]).unwrap(), 0);
        until_registered(world, 0);
        // Given up while it starts.
        let (listener, addr) = common::listener();
        let connecting = world.net.tcp_connect(addr).tls(shared().client()).connect(Probe::new);
        let task = world.event_loop.spawn(connecting);
        world.idle();
        let (mut peer, _) = listener.accept().unwrap();
        assert!(!task.is_done());
        task.cancel();
        world.read_to_end(&mut peer);
        until_registered(world, 0);
    });
}

#[test]
fn b_unix_05_tls_over_a_unix_socket_needs_the_name_of_the_server() {
    let config = Arc::new(shared().client_config());
    for_each_backend(|world| {
        let dir = temp_dir();
        let path = dir.path().join("server");
        let probe = Probe::echoing();
        let given = probe.clone();
        let serving = world.net.unix_server(path.as_path()).tls(shared().server());
        let server = world.block_on(serving.bind(move || given.clone())).unwrap();
        // There is no host to take it from, and no way to leave it out.
        for name in ["", path.to_str().unwrap()] {
            let error = Tls::client(config.clone(), name).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{name:?}");
        }
        let wrong = Tls::client(config.clone(), "example.org").unwrap();
        let connecting = world.net.unix_connect(path.as_path()).tls(wrong);
        let error = world.block_on(connecting.open_stream()).unwrap_err();
        assert!(error.to_string().contains("example.org"), "{error}");
        until_registered(world, 1);
        world.reports.take();
        let connecting = world.net.unix_connect(path.as_path()).tls(shared().client());
        let (mut reader, writer) = world.block_on(connecting.open_stream()).unwrap();
        writer.write(b"hello");
        assert_eq!(world.block_on(reader.read_exact(5)).unwrap(), b"hello");
        writer.close();
        world.block_on(writer.wait_closed()).unwrap();
        // Level 2.
        let client = Probe::new();
        let (given, connecting) = (client.clone(), world.net.unix_connect(path.as_path()));
        let connecting = connecting.tls(shared().client()).connect(move || given);
        let (transport, _) = world.block_on(connecting).unwrap();
        transport.write(b"again");
        world.until(|| client.trace.has("data again"));
        transport.close();
        world.until(|| client.trace.has("lost"));
        server.close();
    });
}

#[test]
fn b_conn_12_an_accepted_socket_is_driven_behind_tls() {
    for_each_backend(|world| {
        let (listener, addr) = common::listener();
        let mut client = RawClient::new(shared(), addr);
        let (socket, _) = listener.accept().unwrap();
        let adopted = world.net.adopt(socket).unwrap().tls(shared().server());
        let probe = Probe::echoing();
        let given = probe.clone();
        let task = world.event_loop.spawn(adopted.connect(move || given));
        client.shake(world, usize::MAX);
        let (transport, _) = world.block_on(task).unwrap().unwrap();
        assert_eq!(transport.tls_info().unwrap().server_name.as_deref(), Some("localhost"));
        client.say(world, b"hello");
        client.hear(world, 5);
        assert!(is_open(&client.socket));
        transport.abort();
        world.until(|| probe.trace.has("lost"));
    });
}
