//! Connecting: B-CONN-01 to 03 and 09 of the contract, on each backend.

mod common;

use std::future::Future;
use std::io;
use std::net::{SocketAddr, SocketAddrV6, TcpListener};
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use common::{Probe, Trace, World, for_each_backend, listener, refusing, text};
use loop_net::{Addrs, ToAddrs};

/// Polls `future` once, as a task of this loop would.
fn poll_once<F: Future>(world: &mut World, future: F) -> Poll<F::Output> {
    let mut future = pin!(future);
    world.block_on(std::future::poll_fn(|_| {
        Poll::Ready(future.as_mut().poll(&mut Context::from_waker(Waker::noop())))
    }))
}

#[test]
fn b_conn_01_the_first_address_that_accepts_wins() {
    for_each_backend(|world| {
        let (_bound, nobody) = refusing();
        let (first, first_addr) = listener();
        let (second, second_addr) = listener();
        let connect = world.net.tcp_connect(&[nobody, first_addr, second_addr][..]);
        let (transport, _) = world.block_on(connect.connect(Probe::new)).unwrap();
        assert_eq!(transport.peer_addr(), Some(first_addr));
        first.accept().unwrap();
        second.set_nonblocking(true).unwrap();
        assert_eq!(second.accept().unwrap_err().kind(), io::ErrorKind::WouldBlock, "never tried");
        assert_eq!(world.log.registered(), 1, "those of failures are closed");
    });
}

#[test]
fn b_conn_01_no_address_is_an_error() {
    for_each_backend(|world| {
        let connect = world.net.tcp_connect(&[][..]).connect(Probe::new);
        assert_eq!(world.block_on(connect).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    });
}

#[test]
fn b_conn_02_total_failure_says_everything() {
    for_each_backend(|world| {
        let (_bound, nobody) = refusing();
        let error = world.block_on(world.net.tcp_connect(nobody).open_stream()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
        assert!(text(&error).starts_with(&format!("connect to {nobody}: ")), "{error}");
        let source = error.get_ref().and_then(|named| named.source()).unwrap();
        assert!(source.downcast_ref::<io::Error>().unwrap().raw_os_error().is_some());

        let (_also, nobody_else) = refusing();
        let connect = world.net.tcp_connect(&[nobody, nobody_else][..]).open_stream();
        let error = world.block_on(connect).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
        for addr in [nobody, nobody_else] {
            assert!(text(&error).contains(&addr.to_string()), "{error}");
        }
        assert_eq!(world.log.registered(), 0);
    });
}

#[test]
fn b_conn_03_numeric_hosts_need_no_look_up_and_keep_their_scope() {
    let known = |addrs: io::Result<Addrs>| match addrs.unwrap() {
        Addrs::Known(addrs) => addrs,
        Addrs::Name { host, .. } => panic!("{host} would be looked up"),
    };
    let addr = known("[fe80::1%7]:80".to_addrs());
    let [SocketAddr::V6(v6)] = addr[..] else { panic!("{addr:?}") };
    assert_eq!((v6.scope_id(), v6.port()), (7, 80));
    let same = SocketAddrV6::new(*v6.ip(), 80, 0, 7);
    assert_eq!(known(same.to_addrs()), addr);
    assert_eq!(known(("::1", 80).to_addrs()), known("[::1]:80".to_addrs()));
    assert_eq!(known("LocalHost:1".to_addrs()).len(), 2);

    for bad in ["127.0.0.1", "127.0.0.1:http", "127.0.0.1:65536", "", "::1:80x", "a b:80", "::z:80"]
    {
        let error = bad.to_addrs().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{bad}");
    }
}

#[test]
fn b_conn_03_a_bad_address_is_named_by_whoever_uses_it() {
    for_each_backend(|world| {
        // Longer than a label of a name may be: no resolver has to be asked.
        let impossible = "a".repeat(64);
        let connect = world.net.tcp_connect((&*impossible, 80)).open_stream();
        let error = world.block_on(connect).unwrap_err();
        assert!(text(&error).contains(&format!("look up {impossible}")), "{error}");
        let bind = world.net.tcp_server("nowhere").bind(Probe::new);
        let error = world.block_on(bind).unwrap_err();
        assert!(text(&error).contains("nowhere"), "{error}");
    });
}

#[test]
fn b_conn_03_other_hosts_are_looked_up_on_a_thread() {
    for_each_backend(|world| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        // The old short form of 127.0.0.1: not an address to Rust, and one that resolvers know offline.
        let connect = world.net.tcp_connect(("127.1", addr.port())).open_stream();
        let (_reader, writer) = world.block_on(connect).unwrap();
        assert_eq!(writer.transport().peer_addr(), Some(addr));
        let net = world.net.clone();
        let found = world.block_on(async move { net.resolve("127.1:80").await }).unwrap();
        assert_eq!(found, [SocketAddr::from(([127, 0, 0, 1], 80))]);
    });
}

#[test]
fn b_dbg_05_in_debug_mode_look_ups_are_told_of_by_how_long_they_took() {
    for_each_backend(|world| {
        let trace = Trace::new();
        let log = trace.clone();
        world.event_loop.set_exception_handler(Some(Rc::new(move |_, context| {
            assert!(context.duration.is_some());
            if context.message.starts_with("look up") {
                log.push(format!("{:?} {}", context.severity, context.message));
            }
        })));
        for (debug, threshold, expected) in [
            (true, Duration::ZERO, Some("Info look up 127.1")),
            (true, Duration::MAX, Some("Debug look up 127.1")),
            (false, Duration::ZERO, None),
        ] {
            world.event_loop.set_debug(debug);
            world.event_loop.set_slow_callback_duration(threshold);
            let net = world.net.clone();
            // What is no name is not looked up, and not told of.
            world.block_on(async move { net.resolve("127.0.0.1:80").await.map(drop) }).unwrap();
            let net = world.net.clone();
            world.block_on(async move { net.resolve("127.1:80").await.map(drop) }).unwrap();
            assert_eq!(trace.take(), Vec::from_iter(expected));
        }
    });
}

/// An address whose connections neither succeed nor fail: a full backlog.
fn silent() -> (TcpListener, SocketAddr, Vec<socket2::Socket>) {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    socket.listen(0).unwrap();
    let listener = TcpListener::from(socket);
    let addr = listener.local_addr().unwrap();
    let fillers = (0..4).map(|_| {
        let filler = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None);
        let filler = filler.unwrap();
        filler.set_nonblocking(true).unwrap();
        let _ = filler.connect(&addr.into());
        filler
    });
    let fillers = fillers.collect();
    (listener, addr, fillers)
}

#[test]
fn b_conn_09_a_dropped_connect_leaves_the_selector_and_closes() {
    for_each_backend(|world| {
        let (_listener, addr, _fillers) = silent();
        let mut connect = Box::pin(world.net.tcp_connect(addr).connect(Probe::new));
        assert!(poll_once(world, connect.as_mut()).is_pending());
        let is_open = world.only_socket();
        assert!(is_open());
        drop(connect);
        assert_eq!(world.log.registered(), 0);
        assert!(!is_open());
    });
}

#[test]
fn b_conn_09_a_timeout_on_connecting_closes_too() {
    for_each_backend(|world| {
        let (_listener, addr, _fillers) = silent();
        let connect = world.net.tcp_connect(addr).connect(Probe::new);
        let limited = loop_core::timeout(Duration::from_millis(1), connect);
        assert!(world.block_on(limited).is_err());
        assert_eq!((world.log.registers.get(), world.log.registered()), (1, 0));
    });
}

#[test]
fn b_conn_09_a_connect_dropped_before_connection_made_leaves_nothing() {
    for_each_backend(|world| {
        let (listener, addr) = listener();
        for streams in [false, true] {
            let trace = Trace::new();
            let probe = Probe::traced(&trace, |_, _| {});
            let net = world.net.clone();
            let task = world.event_loop.spawn(async move {
                let connect = net.tcp_connect(addr);
                if streams {
                    drop(connect.open_stream().await.unwrap());
                } else {
                    drop(connect.connect(move || probe).await.unwrap());
                }
            });
            // Until the socket is connected, and the start-up queued.
            let (deregisters, log) = (world.log.deregisters.get(), world.log.clone());
            world.until(|| log.deregisters.get() > deregisters);
            task.cancel();
            let (mut peer, _) = listener.accept().unwrap();
            assert_eq!(world.read_to_end(&mut peer), b"");
            world.idle();
            assert_eq!(world.log.registered(), 0);
            assert!(task.is_cancelled());
            assert_eq!(trace.count("data"), 0);
        }
    });
}

#[test]
fn connecting_is_lazy() {
    for_each_backend(|world| {
        let (listener, addr) = listener();
        listener.set_nonblocking(true).unwrap();
        drop(world.net.tcp_connect(addr));
        drop(world.net.tcp_connect(addr).open_stream());
        assert_eq!(listener.accept().unwrap_err().kind(), io::ErrorKind::WouldBlock);
        let connect = world.net.tcp_connect(addr);
        assert!(format!("{connect:?}").contains(&addr.to_string()));
        let connect = Box::pin(connect.open_stream());
        assert!(poll_once(world, connect).is_pending());
    });
}

#[test]
fn b_conn_05_happy_eyeballs_starts_the_next_after_the_delay_and_the_winner_ends_the_rest() {
    for_each_backend(|world| {
        let (_silent, nobody, _fillers) = silent();
        let (_listener, good) = listener();
        let connect = world.net.tcp_connect(&[nobody, good][..]);
        let connect = connect.happy_eyeballs(Duration::from_millis(10));
        let start = std::time::Instant::now();
        let (transport, _) = world.block_on(connect.connect(Probe::new)).unwrap();
        assert!(start.elapsed() >= Duration::from_millis(10));
        assert_eq!(transport.peer_addr(), Some(good));
        assert_eq!(world.log.registered(), 1, "the loser's socket is closed");
        // Without a delay the second is not tried while the first one may still answer.
        let connect = world.net.tcp_connect(&[nobody, good][..]);
        let limit = Duration::from_millis(30);
        let connect = loop_core::timeout(limit, connect.connect(Probe::new));
        assert!(world.block_on(connect).is_err());
        assert_eq!(world.log.registered(), 1);
    });
}

#[test]
fn b_conn_05_happy_eyeballs_goes_on_at_once_after_a_failure() {
    for_each_backend(|world| {
        let (_bound, nobody) = refusing();
        let (_listener, good) = listener();
        let connect = world.net.tcp_connect(&[nobody, nobody, good][..]);
        let connect = connect.happy_eyeballs(Duration::from_secs(3600));
        let (transport, _) = world.block_on(connect.connect(Probe::new)).unwrap();
        assert_eq!(transport.peer_addr(), Some(good));
    });
}

#[test]
fn b_conn_06_a_race_that_nobody_wins_has_every_error_in_order() {
    for_each_backend(|world| {
        let (_one, first) = refusing();
        let (_two, second) = refusing();
        let connect = world.net.tcp_connect(&[first, second][..]);
        let connect = connect.happy_eyeballs(Duration::from_millis(10));
        let error = world.block_on(connect.connect(Probe::new)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
        let text = text(&error);
        let (a, b) = (text.find(&first.to_string()), text.find(&second.to_string()));
        assert!(a.is_some() && a < b, "{text}");
        // No attempt, no winner.
        let connect = world.net.tcp_connect(&[][..]).happy_eyeballs(Duration::from_millis(10));
        let error = world.block_on(connect.open_stream()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    });
}

/// In which order addresses are tried shows in that of their errors.
#[test]
fn b_conn_07_a_connector_lets_the_families_take_turns() {
    let nobody = |ip: &str| SocketAddr::new(ip.parse().unwrap(), 1);
    // Nobody listens on the first port; where there is no IPv6 that is an error as well.
    let addrs = ["127.0.0.1", "127.0.0.2", "127.0.0.3", "::1"].map(nobody);
    let order = |world: &mut World, first: Option<usize>| -> Vec<usize> {
        let mut connect = world.net.tcp_connect(addrs);
        if let Some(first) = first {
            connect = connect.interleave(first);
        }
        let error = text(world.block_on(connect.open_stream()).unwrap_err());
        let mut found: Vec<(usize, usize)> = addrs
            .iter()
            .enumerate()
            .map(|(index, addr)| (error.find(&format!("connect to {addr}: ")).unwrap(), index))
            .collect();
        found.sort_unstable();
        found.into_iter().map(|(_, index)| index).collect()
    };
    for_each_backend(|world| {
        assert_eq!(order(world, None), [0, 1, 2, 3]);
        assert_eq!(order(world, Some(0)), [0, 3, 1, 2]);
        assert_eq!(order(world, Some(1)), [0, 3, 1, 2]);
        assert_eq!(order(world, Some(2)), [0, 1, 3, 2]);
    });
}

#[test]
fn b_conn_08_cancelling_a_race_ends_all_attempts_at_once() {
    for_each_backend(|world| {
        let (_one, first, _first_fillers) = silent();
        let (_two, second, _second_fillers) = silent();
        let connect = world.net.tcp_connect(&[first, second][..]);
        let connect = connect.happy_eyeballs(Duration::from_millis(1));
        let task = world.event_loop.spawn(connect.open_stream());
        let log = world.log.clone();
        world.until(|| log.registered() == 2);
        task.cancel();
        assert!(world.block_on(task).unwrap_err().is_cancelled());
        assert_eq!(world.log.registered(), 0);
    });
}

/// Both attempts succeed in one iteration; one connection is made, the other socket closed.
#[test]
fn b_conn_08_there_is_exactly_one_winner() {
    for_each_backend(|world| {
        for _ in 0..50 {
            let (first, first_addr) = listener();
            let (second, second_addr) = listener();
            let connect = world.net.tcp_connect(&[first_addr, second_addr][..]);
            let connect = connect.happy_eyeballs(Duration::ZERO);
            let (transport, _) = world.block_on(connect.connect(Probe::new)).unwrap();
            let winner = transport.peer_addr().unwrap();
            assert_eq!(world.log.registered(), 1);
            let loser = if winner == first_addr { &second } else { &first };
            loser.set_nonblocking(true).unwrap();
            if let Ok((mut surplus, _)) = loser.accept() {
                surplus.set_nonblocking(false).unwrap();
                let mut nothing = [0];
                let read = io::Read::read(&mut surplus, &mut nothing);
                assert!(!matches!(read, Ok(1)), "closed");
            }
            transport.abort();
            world.idle();
        }
    });
}

#[test]
fn b_conn_04_the_local_address_is_of_the_peers_family_and_named_when_it_fails() {
    for_each_backend(|world| {
        let (_listener, addr) = listener();
        let local: [SocketAddr; 2] = ["[::1]:0".parse().unwrap(), "127.0.0.2:0".parse().unwrap()];
        let connect = world.net.tcp_connect(addr).local_addr(&local[..]);
        let (transport, _) = world.block_on(connect.connect(Probe::new)).unwrap();
        assert_eq!(transport.local_addr().unwrap().ip(), local[1].ip());

        let connect = world.net.tcp_connect(addr).local_addr(local[0]);
        let error = world.block_on(connect.connect(Probe::new)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        assert!(text(&error).contains("IPv4"), "{error}");

        let (_taken, taken) = listener();
        let connect = world.net.tcp_connect(addr).local_addr(taken);
        let error = world.block_on(connect.connect(Probe::new)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
        assert!(text(&error).contains(&format!("bind to {taken}")), "{error}");
    });
}

#[test]
fn options_of_the_socket_are_set_before_it_connects() {
    for_each_backend(|world| {
        let (_listener, addr) = listener();
        for (nodelay, keepalive) in [(true, None), (false, Some(Duration::from_secs(90)))] {
            let mut connect = world.net.tcp_connect(addr).nodelay(nodelay);
            if let Some(idle) = keepalive {
                connect = connect.keepalive(idle);
            }
            let (transport, _) = world.block_on(connect.connect(Probe::new)).unwrap();
            let owner = world.only_owner();
            let socket = socket2::SockRef::from(&owner);
            assert_eq!(socket.tcp_nodelay().unwrap(), nodelay);
            assert_eq!(socket.keepalive().unwrap(), keepalive.is_some());
            if let Some(idle) = keepalive {
                assert_eq!(socket.tcp_keepalive_time().unwrap(), idle);
            }
            transport.abort();
            world.idle();
        }
    });
}

#[test]
fn what_is_no_address_is_named_and_says_why() {
    let mut world = World::new(common::backends()[0]);
    for (text, says) in [
        ("", "\"\": an address needs a port"),
        ("nonsense", "nonsense: an address needs a port"),
        ("127.0.0.1:99999", "127.0.0.1:99999: the port is not a number up to 65535"),
        ("localhost:http", "localhost:http: the port is not a number"),
        ("[::1", "neither an IP address nor the name of a host"),
        ("a b:80", "a b: neither an IP address"),
    ] {
        let error = world.block_on(world.net.tcp_connect(text).open_stream()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{error}");
        assert!(error.to_string().contains(says), "{error}");
    }
    for (path, says) in [("", "connect to \"\": "), ("a\0b", "a\0b: the path holds a NUL byte")] {
        let error = world.block_on(world.net.unix_connect(path).open_stream()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{error}");
        assert!(error.to_string().contains(says), "{error}");
    }
}
