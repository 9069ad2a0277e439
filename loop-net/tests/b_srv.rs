//! Servers: B-SRV-01, 03 to 09 and 11 to 14 of the contract, on each backend.

mod common;

use std::cell::{Cell, RefCell};
use std::io::{self, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::rc::Rc;
use std::time::{Duration, Instant};

use common::{Hook, OnDrop, Probe, Trace, World, for_each_backend, text, watchdog};
use loop_net::{Protocol, Server, Transport};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

fn refused(addr: SocketAddr) -> bool {
    matches!(TcpStream::connect(addr), Err(e) if e.kind() == io::ErrorKind::ConnectionRefused)
}

/// A task that notes when the server has closed.
fn wait_closed(world: &World, server: &Rc<Server>) -> Rc<Cell<bool>> {
    let (server, closed) = (server.clone(), Rc::new(Cell::new(false)));
    let done = closed.clone();
    let task = world.event_loop.spawn(async move {
        server.wait_closed().await;
        done.set(true);
    });
    task.detach();
    closed
}

#[test]
fn b_srv_01_listens_when_bind_returns_and_not_before() {
    for_each_backend(|world| {
        let builder = world.net.tcp_server("127.0.0.1:0");
        let future = builder.bind(Probe::new);
        assert_eq!(world.log.registered(), 0, "nothing happens before the first poll");
        let waits = world.log.waits.get();
        let server = world.block_on(future).unwrap();
        assert!(world.log.waits.get() > waits, "one iteration is spent");
        assert_eq!(world.log.registered(), 1);
        assert!(server.is_serving());
        TcpStream::connect(server.local_addrs()[0]).unwrap();
    });
}

#[test]
fn b_srv_03_close_stops_listening_at_once_and_leaves_connections_alone() {
    for_each_backend(|world| {
        let probe = Probe::new();
        let server = world.serve(&probe);
        let addr = server.local_addrs()[0];
        let mut peer = TcpStream::connect(addr).unwrap();
        world.until(|| probe.trace.has("made"));
        server.close();
        assert!(refused(addr), "the socket is closed already");
        TcpListener::bind(addr).unwrap();
        assert_eq!(server.local_addrs(), []);
        assert!(!server.is_serving());
        server.close();
        assert_eq!(server.connections(), 1);
        io::Write::write_all(&mut peer, b"x").unwrap();
        world.until(|| probe.trace.has("data x"));
        // Dropping the server closes no connection either.
        drop(server);
        io::Write::write_all(&mut peer, b"y").unwrap();
        world.until(|| probe.trace.has("data y"));
    });
}

#[test]
fn b_srv_03_dropping_a_server_stops_it_listening() {
    for_each_backend(|world| {
        let server = world.serve(&Probe::new());
        let addr = server.local_addrs()[0];
        drop(server);
        assert!(refused(addr));
    });
}

#[test]
fn b_srv_04_wait_closed_waits_for_both_in_either_order() {
    for_each_backend(|world| {
        // Closed first.
        let probe = Probe::new();
        let server = Rc::new(world.serve(&probe));
        let peer = TcpStream::connect(server.local_addrs()[0]).unwrap();
        world.until(|| probe.trace.has("made"));
        let closed = wait_closed(world, &server);
        world.idle();
        server.close();
        world.idle();
        assert!(!closed.get(), "a connection is left");
        drop(peer);
        world.until(|| closed.get());
        assert!(probe.trace.has("lost"));
        world.block_on(server.wait_closed());

        // Connection gone first.
        let probe = Probe::new();
        let server = Rc::new(world.serve(&probe));
        drop(TcpStream::connect(server.local_addrs()[0]).unwrap());
        world.until(|| probe.trace.has("lost"));
        let closed = wait_closed(world, &server);
        world.idle();
        assert!(!closed.get() && server.connections() == 0, "it still listens");
        server.close();
        world.until(|| closed.get());
        // Any number may wait, also too late.
        world.block_on(server.wait_closed());
    });
}

#[test]
fn b_srv_05_close_clients_flushes_and_abort_clients_drops() {
    for_each_backend(|world| {
        for (end, flushed) in
            [(Server::close_clients as fn(&Server), true), (Server::abort_clients, false)]
        {
            for closed_first in [false, true] {
                let probe = Probe::new();
                let server = world.serve(&probe);
                let addr = server.local_addrs()[0];
                let mut idle = TcpStream::connect(addr).unwrap();
                world.until(|| probe.trace.count("made") == 1);
                let mut busy = TcpStream::connect(addr).unwrap();
                world.until(|| probe.trace.count("made") == 2);
                let busy_transport = probe.transport().unwrap();
                let written = common::fill(&busy_transport, b'x');
                let kept = busy_transport.write_buffer_size();
                // One that is accepted and not made yet.
                let mut early = TcpStream::connect(addr).unwrap();
                world.until(|| server.connections() == 3);
                if closed_first {
                    server.close();
                }
                end(&server);
                end(&server);
                assert!(busy_transport.is_closing());
                assert_eq!(server.is_serving(), !closed_first);
                let expected = if flushed { written } else { written - kept };
                assert_eq!(world.read_to_end(&mut busy).len(), expected);
                assert_eq!(world.read_to_end(&mut idle), b"");
                assert_eq!(world.read_to_end(&mut early), b"");
                server.close();
                world.block_on(server.wait_closed());
                assert_eq!((probe.trace.count("made"), probe.trace.count("lost")), (3, 3));
            }
        }
    });
}

#[test]
fn b_srv_06_handles_kept_by_users_do_not_hold_up_wait_closed() {
    for_each_backend(|world| {
        let probe = Probe::new();
        let server = world.serve(&probe);
        let peer = TcpStream::connect(server.local_addrs()[0]).unwrap();
        world.until(|| probe.trace.has("made"));
        let leaked = probe.transport().unwrap();
        server.close();
        drop(peer);
        world.block_on(server.wait_closed());
        assert!(leaked.is_closing());
        assert_eq!(server.connections(), 0);
    });
}

#[test]
fn b_srv_07_one_readiness_accepts_up_to_the_backlog() {
    for_each_backend(|world| {
        let probe = Probe::new();
        let factory = probe.clone();
        let server = world.net.tcp_server("127.0.0.1:0").backlog(5).bind(move || factory.clone());
        let server = world.block_on(server).unwrap();
        let addr = server.local_addrs()[0];
        let _peers: Vec<_> = (0..3).map(|_| TcpStream::connect(addr).unwrap()).collect();
        world.turn();
        assert_eq!(server.connections(), 3, "all that wait, in one iteration");
        world.until(|| probe.trace.count("made") == 3);

        // No more than the backlog, though each factory brings the next connection.
        let addr: Rc<Cell<Option<SocketAddr>>> = Rc::default();
        let next = addr.clone();
        let server = world.net.tcp_server("127.0.0.1:0").backlog(5).bind(move || {
            let peer = TcpStream::connect(next.get().unwrap()).unwrap();
            Probe::acting(move |_, _| {
                let _ = &peer;
            })
        });
        let server = world.block_on(server).unwrap();
        addr.set(Some(server.local_addrs()[0]));
        let _first = TcpStream::connect(server.local_addrs()[0]).unwrap();
        world.turn();
        assert_eq!(server.connections(), 5);
        server.close();
    });
}

#[test]
fn b_srv_07_accepted_sockets_do_not_block_and_close_on_exec() {
    for_each_backend(|world| {
        let (_transport, _peer) = world.accept(&Probe::new());
        world.turn();
        let fd = world.only_owner();
        let socket = socket2::SockRef::from(&fd);
        assert!(socket.nonblocking().unwrap());
        assert!(rustix::io::fcntl_getfd(&fd).unwrap().contains(rustix::io::FdFlags::CLOEXEC));
    });
}

#[test]
fn b_srv_08_a_connection_that_is_gone_before_it_is_accepted_costs_itself_only() {
    for_each_backend(|world| {
        let probe = Probe::new();
        let server = world.serve(&probe);
        let addr = server.local_addrs()[0];
        common::reset(TcpStream::connect(addr).unwrap());
        let mut peer = TcpStream::connect(addr).unwrap();
        io::Write::write_all(&mut peer, b"x").unwrap();
        world.until(|| probe.trace.has("data x"));
        assert!(server.is_serving());
    });
}

fn limit_files(current: u64) {
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: Some(current), maximum }).unwrap();
}

fn files() -> Vec<u64> {
    let entries = std::fs::read_dir("/proc/self/fd").unwrap();
    entries.map(|entry| entry.unwrap().file_name().to_str().unwrap().parse().unwrap()).collect()
}

/// Not a test of its own: what the next one runs in a process of its own, since the limit on open
/// files is the process's.
#[test]
fn child_runs_out_of_descriptors() {
    if std::env::var_os("LOOP_NET_CHILD").is_none() {
        return;
    }
    let plenty = getrlimit(Resource::Nofile).current.unwrap_or(1024);
    for_each_backend(|world| {
        let probe = Probe::new();
        let server = world.serve(&probe);
        let closed = world.serve(&probe);
        let peers: Vec<_> = [&server, &closed, &server, &server, &server, &server]
            .map(|s| TcpStream::connect(s.local_addrs()[0]).unwrap())
            .into();
        limit_files(files().into_iter().max().unwrap() + 1);
        // Fills the gaps below the limit.
        let mut spare = Vec::new();
        while let Ok(file) = std::fs::File::open("/dev/null") {
            spare.push(file);
        }
        let started = Instant::now();
        world.idle();
        let paused =
            "accepting pauses: out of resources: error \"Too many open files (os error 24)\"";
        assert_eq!(world.reports.take(), [paused, paused], "once a listener");
        assert_eq!(world.log.take_modifies(), [None, None], "neither spins");
        assert_eq!(server.connections(), 0);
        // Half a second of it costs next to nothing, and nothing more is said.
        let (waits, quiet) = (world.log.waits.get(), Instant::now());
        while quiet.elapsed() < Duration::from_millis(500) {
            world.event_loop.run_once(Some(Duration::from_millis(50))).unwrap();
        }
        assert!(world.log.waits.get() - waits <= 15, "it spins");
        assert_eq!(world.reports.take(), [""; 0]);
        // The retry must not bring this one back.
        let addr = closed.local_addrs()[0];
        closed.close();
        drop(spare);
        limit_files(plenty);
        world.until(|| server.connections() == 5);
        assert!(started.elapsed() >= Duration::from_secs(1), "{:?}", started.elapsed());
        world.until(|| probe.trace.count("made") == 5);
        assert_eq!(closed.connections(), 0);
        assert!(refused(addr));
        drop(peers);
        world.until(|| probe.trace.count("lost") == 5);
        println!("survived on {}.", world.event_loop.selector_name());
    });
}

/// Source: python/cpython#151615. One event had a hundred retries scheduled, one a backlog slot.
#[test]
fn b_srv_09_s27_out_of_descriptors_pauses_accepting_for_a_second() {
    let _watchdog = watchdog();
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child_runs_out_of_descriptors", "--nocapture"])
        .env("LOOP_NET_CHILD", "1")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}{errors}");
    for backend in common::backends() {
        assert!(text.contains(&format!("survived on {backend}.")), "{text}{errors}");
    }
}

#[test]
fn b_srv_11_a_failing_factory_costs_its_connection_only() {
    for_each_backend(|world| {
        let calls = Rc::new(Cell::new(0));
        let count = calls.clone();
        let probe = Probe::new();
        let made = probe.clone();
        let server = world.net.tcp_server("127.0.0.1:0").bind(move || {
            count.set(count.get() + 1);
            assert!(count.get() != 1, "as asked");
            made.clone()
        });
        let server = world.block_on(server).unwrap();
        let addr = server.local_addrs()[0];
        let mut first = TcpStream::connect(addr).unwrap();
        let _second = TcpStream::connect(addr).unwrap();
        world.until(|| calls.get() == 2);
        assert_eq!(world.read_to_end(&mut first), b"", "closed");
        world.until(|| probe.trace.has("made"));
        assert_eq!(server.connections(), 1);
        assert_eq!(world.reports.take(), ["a protocol factory failed: panic \"as asked\""]);
    });
}

#[test]
fn b_srv_12_closing_in_the_factory_closes_what_was_being_accepted() {
    for_each_backend(|world| {
        let server: Rc<RefCell<Option<Rc<Server>>>> = Rc::default();
        let trace = Trace::new();
        let (closing, log) = (server.clone(), trace.clone());
        let bound = world.net.tcp_server("127.0.0.1:0").bind(move || {
            closing.borrow().as_ref().unwrap().close();
            let dropped = log.clone();
            let guard = OnDrop(move || dropped.push("dropped"));
            Probe::traced(&log, move |_, _| {
                let _ = &guard;
            })
        });
        let bound = Rc::new(world.block_on(bound).unwrap());
        *server.borrow_mut() = Some(bound.clone());
        let addr = bound.local_addrs()[0];
        let mut peers = [(); 2].map(|()| TcpStream::connect(addr).unwrap());
        let closed = wait_closed(world, &bound);
        world.until(|| closed.get());
        assert_eq!(bound.connections(), 0, "what it waited for is gone");
        world.idle();
        assert_eq!(trace.take(), ["dropped"], "never made");
        for peer in &mut peers {
            // The second one was never accepted, and may be reset.
            peer.set_nonblocking(false).unwrap();
            assert!(matches!(io::Read::read(peer, &mut [0]), Ok(0) | Err(_)));
        }
        *server.borrow_mut() = None;
    });
}

/// Closes its server in `connection_made`.
struct Closing(Rc<RefCell<Option<Server>>>);

impl Protocol for Closing {
    fn connection_made(&mut self, _: &Transport) {
        if let Some(server) = &*self.0.borrow() {
            server.close();
        }
    }

    fn data_received(&mut self, _: &[u8]) {}
}

#[test]
fn b_srv_12_closing_between_accept_and_connection_made_is_counted_right() {
    for_each_backend(|world| {
        let slot = Rc::new(RefCell::new(None));
        let theirs = slot.clone();
        let server = world.net.tcp_server("127.0.0.1:0").bind(move || Closing(theirs.clone()));
        let server = world.block_on(server).unwrap();
        let addr = server.local_addrs()[0];
        *slot.borrow_mut() = Some(server);
        // Both are accepted in one iteration; the first one's hook closes the server.
        let peers = [(); 2].map(|()| TcpStream::connect(addr).unwrap());
        world.until(|| !slot.borrow().as_ref().unwrap().is_serving());
        world.idle();
        let server = slot.borrow_mut().take().unwrap();
        assert_eq!(server.connections(), 2);
        drop(peers);
        world.block_on(server.wait_closed());
    });
}

#[test]
fn b_srv_13_every_address_once_with_both_families_on_one_port() {
    for_each_backend(|world| {
        let free = TcpListener::bind("[::]:0").unwrap().local_addr().unwrap().port();
        let v4 = SocketAddr::from(([127, 0, 0, 1], free));
        let v6: SocketAddr = format!("[::1]:{free}").parse().unwrap();
        let server = world.net.tcp_server(&[v4, v6, v4][..]).bind(Probe::new);
        let server = world.block_on(server).unwrap();
        assert_eq!(server.local_addrs(), [v4, v6]);
        TcpStream::connect(v4).unwrap();
        TcpStream::connect(v6).unwrap();
    });
}

#[test]
fn b_srv_13_an_empty_host_is_all_interfaces() {
    for_each_backend(|world| {
        for text in [":0", "[::]:0"] {
            let server = world.block_on(world.net.tcp_server(text).bind(Probe::new)).unwrap();
            assert!(server.local_addrs().iter().all(|addr| addr.ip().is_unspecified()));
            let families: Vec<bool> = server.local_addrs().iter().map(|a| a.is_ipv4()).collect();
            assert_eq!(families, if text == ":0" { &[true, false][..] } else { &[false] });
            // IPv6 sockets are v6-only.
            let v6 = server.local_addrs().last().unwrap().port();
            assert!(TcpListener::bind(("0.0.0.0", v6)).is_ok());
        }
        let server = world.block_on(world.net.tcp_server(("", 0)).bind(Probe::new)).unwrap();
        assert_eq!(server.local_addrs().len(), 2);
    });
}

/// An address of TEST-NET-1, which no interface here has.
const NOBODYS: [u8; 4] = [192, 0, 2, 1];

#[test]
fn b_srv_13_an_address_that_is_not_there_is_skipped_if_another_binds() {
    for_each_backend(|world| {
        let here = SocketAddr::from(([127, 0, 0, 1], 0));
        let nobodys = SocketAddr::from((NOBODYS, 0));
        let server = world.net.tcp_server(&[nobodys, here][..]).bind(Probe::new);
        let server = world.block_on(server).unwrap();
        let addrs = server.local_addrs();
        assert_eq!(addrs.iter().map(SocketAddr::ip).collect::<Vec<_>>(), [here.ip()]);

        let error = world.block_on(world.net.tcp_server(nobodys).bind(Probe::new)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrNotAvailable);
        assert!(text(&error).contains("192.0.2.1:0"), "{error}");
    });
}

#[test]
fn b_srv_13_an_address_in_use_closes_all_and_is_named() {
    for_each_backend(|world| {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = taken.local_addr().unwrap();
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let server = world.net.tcp_server(&[free, addr][..]).bind(Probe::new);
        let error = world.block_on(server).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
        assert!(text(&error).contains(&addr.to_string()), "{error}");
        assert_eq!(world.log.registered(), 0);
        TcpListener::bind(free).unwrap();
    });
}

#[test]
fn b_srv_14_reuse_address_is_on_unless_set() {
    for_each_backend(|world| {
        for (reuse, expected) in [(None, true), (Some(true), true), (Some(false), false)] {
            let mut builder = world.net.tcp_server("127.0.0.1:0");
            if let Some(on) = reuse {
                builder = builder.reuse_address(on);
            }
            let server = world.block_on(builder.bind(Probe::new)).unwrap();
            let fd = world.only_owner();
            assert_eq!(socket2::SockRef::from(&fd).reuse_address().unwrap(), expected);
            drop(server);
        }
    });
}

#[test]
fn b_srv_14_reuse_port_lets_two_servers_share_an_address() {
    for_each_backend(|world| {
        let bind = |world: &mut World, addr: SocketAddr| {
            world.block_on(world.net.tcp_server(addr).reuse_port(true).bind(Probe::new))
        };
        let first = bind(world, SocketAddr::from((IpAddr::from([127, 0, 0, 1]), 0))).unwrap();
        let second = bind(world, first.local_addrs()[0]).unwrap();
        assert_eq!(first.local_addrs(), second.local_addrs());
    });
}

#[test]
fn a_closed_server_drops_its_factory() {
    for_each_backend(|world| {
        let trace = Trace::new();
        let log = trace.clone();
        let guard = OnDrop(move || log.push("factory dropped"));
        let bound = world.net.tcp_server("127.0.0.1:0").bind(move || {
            let _ = &guard;
            Probe::acting(|hook, _| assert!(matches!(hook, Hook::Made)))
        });
        let server = world.block_on(bound).unwrap();
        server.close();
        assert_eq!(trace.take(), ["factory dropped"]);
    });
}

#[test]
fn b_srv_02_serve_forever_ends_with_close_and_runs_once() {
    for_each_backend(|world| {
        let probe = Probe::new();
        let server = Rc::new(world.serve(&probe));
        let peer = TcpStream::connect(server.local_addrs()[0]).unwrap();
        world.until(|| probe.trace.has("made"));
        let (serving, ended) = (server.clone(), Rc::new(Cell::new(false)));
        let done = ended.clone();
        let task = world.event_loop.spawn(async move {
            serving.serve_forever().await.unwrap();
            done.set(true);
        });
        world.idle();
        let error = world.block_on(server.serve_forever()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ResourceBusy);
        assert!(server.is_serving(), "the first is unaffected");
        server.close();
        world.idle();
        assert!(!ended.get(), "a client is left");
        drop(peer);
        world.until(|| ended.get());
        world.block_on(task).unwrap();
        let error = world.block_on(server.serve_forever()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);

        // Dropped, it stops listening.
        let server = Rc::new(world.serve(&Probe::new()));
        let addr = server.local_addrs()[0];
        let serving = server.clone();
        let task = world.event_loop.spawn(async move { serving.serve_forever().await });
        world.idle();
        task.cancel();
        assert!(world.block_on(task).unwrap_err().is_cancelled());
        assert!(!server.is_serving() && refused(addr));
    });
}

#[test]
fn at_max_connections_accepting_stops_and_goes_on_below() {
    for_each_backend(|world| {
        let probe = Probe::new();
        let made = probe.clone();
        let builder = world.net.tcp_server(&["127.0.0.1:0".parse().unwrap(); 1][..]);
        let builder = builder.and_tcp("127.0.0.1:0").max_connections(3);
        let server = world.block_on(builder.bind(move || made.clone())).unwrap();
        let addrs = server.local_addrs();
        let mut peers: Vec<_> =
            (0..8).map(|index| TcpStream::connect(addrs[index % 2]).unwrap()).collect();
        world.until(|| server.connections() == 3);
        world.idle();
        world.log.take_modifies();
        let waits = world.log.waits.get();
        for _ in 0..3 {
            world.event_loop.run_once(Some(Duration::from_millis(5))).unwrap();
        }
        assert_eq!(world.log.waits.get(), waits + 3, "it does not spin");
        assert_eq!((server.connections(), probe.trace.count("made")), (3, 3));
        assert_eq!(world.log.take_modifies(), []);
        // As they end, others follow, never more than three at once.
        while !peers.is_empty() {
            drop(peers.remove(0));
            world.idle();
            assert!(server.connections() <= 3);
        }
        world.until(|| server.accepted() == 8 && server.connections() == 0);
        // And the limit still holds.
        let peers: Vec<_> = (0..5).map(|_| TcpStream::connect(addrs[1]).unwrap()).collect();
        world.until(|| server.connections() == 3);
        world.idle();
        assert_eq!(server.connections(), 3);
        drop(peers);
        world.until(|| server.accepted() == 13 && server.connections() == 0);
    });
}

#[test]
fn drain_lets_connections_finish_and_aborts_the_rest_at_the_deadline() {
    for_each_backend(|world| {
        let probe = Probe::new();
        let server = world.serve(&probe);
        let addr = server.local_addrs()[0];
        let quick: Vec<_> = (0..3).map(|_| TcpStream::connect(addr).unwrap()).collect();
        let slow: Vec<_> = (0..2).map(|_| TcpStream::connect(addr).unwrap()).collect();
        world.until(|| server.connections() == 5);
        let grace = Duration::from_millis(500);
        world.event_loop.call_later(Duration::from_millis(5), move || drop(quick));
        let start = Instant::now();
        let drained = world.block_on(server.drain(grace));
        assert!(start.elapsed() >= grace);
        assert_eq!((drained.finished, drained.aborted), (3, 2));
        assert_eq!(server.connections(), 0);
        assert!(refused(addr));
        assert!(slow.iter().all(|peer| !common::is_open(peer)));
        // Nobody left: it does not wait.
        let server = world.serve(&Probe::new());
        let start = Instant::now();
        let drained = world.block_on(server.drain(Duration::from_secs(3600)));
        assert_eq!((drained.finished, drained.aborted), (0, 0));
        assert!(start.elapsed() < Duration::from_secs(30));
    });
}

#[test]
fn several_servers_drain_by_one_deadline() {
    for_each_backend(|world| {
        let servers = [world.serve(&Probe::new()), world.serve(&Probe::new())];
        let peers = servers.each_ref().map(|it| TcpStream::connect(it.local_addrs()[0]).unwrap());
        world.until(|| servers.iter().all(|server| server.connections() == 1));
        let (start, grace) = (Instant::now(), Duration::from_millis(30));
        let deadline = world.event_loop.now() + grace;
        let drained = world.block_on(async {
            [servers[0].drain_until(deadline).await, servers[1].drain_until(deadline).await]
        });
        assert_eq!(drained.map(|it| (it.finished, it.aborted)), [(0, 1); 2]);
        assert!(start.elapsed() >= grace, "{:?}", start.elapsed());
        drop(peers);
    });
}

/// A grace that the clock cannot add was taken for none: all connections were aborted at once.
#[test]
fn a_drain_without_a_limit_waits_for_all() {
    for_each_backend(|world| {
        let server = world.serve(&Probe::new());
        let peer = TcpStream::connect(server.local_addrs()[0]).unwrap();
        world.until(|| server.connections() == 1);
        world.event_loop.call_later(Duration::from_millis(20), move || drop(peer));
        let drained = world.block_on(server.drain(Duration::MAX));
        assert_eq!((drained.finished, drained.aborted), (1, 0));
    });
}

/// Whoever had connected and sent a request, and was not accepted yet, was reset.
#[test]
fn drain_serves_those_who_wait_to_be_accepted() {
    for_each_backend(|world| {
        let probe = Probe::echoing();
        let server = world.serve(&probe);
        let addr = server.local_addrs()[0];
        let mut peers: Vec<_> = (0..10).map(|_| TcpStream::connect(addr).unwrap()).collect();
        for peer in &mut peers {
            peer.write_all(b"request").unwrap();
            peer.shutdown(Shutdown::Write).unwrap();
        }
        assert_eq!(server.accepted(), 0);
        let drained = world.block_on(server.drain(Duration::MAX));
        assert_eq!((drained.finished, drained.aborted, server.accepted()), (10, 0, 10));
        for mut peer in peers {
            let mut answer = String::new();
            peer.read_to_string(&mut answer).unwrap();
            assert_eq!(answer, "request");
        }
        assert!(refused(addr));
    });
}

#[test]
fn drain_accepts_no_more_than_the_limit() {
    for_each_backend(|world| {
        let builder = world.net.tcp_server("127.0.0.1:0").max_connections(3);
        let server = world.block_on(builder.bind(Probe::echoing)).unwrap();
        let addr = server.local_addrs()[0];
        let peers: Vec<_> = (0..5).map(|_| TcpStream::connect(addr).unwrap()).collect();
        world.event_loop.call_later(Duration::from_millis(5), move || drop(peers));
        let drained = world.block_on(server.drain(Duration::MAX));
        assert_eq!((drained.finished, server.accepted()), (3, 3));
    });
}

/// A factory that closes the server is not called again.
#[test]
fn drain_ends_when_a_factory_closes_the_server() {
    for_each_backend(|world| {
        let server: Rc<RefCell<Option<Server>>> = Rc::default();
        let (inner, made) = (server.clone(), Rc::new(Cell::new(0)));
        let count = made.clone();
        let bound = world.net.tcp_server("127.0.0.1:0").bind(move || {
            count.set(count.get() + 1);
            inner.borrow().as_ref().unwrap().close();
            Probe::new()
        });
        *server.borrow_mut() = Some(world.block_on(bound).unwrap());
        let addr = server.borrow().as_ref().unwrap().local_addrs()[0];
        let peers = [(); 3].map(|()| TcpStream::connect(addr).unwrap());
        let drained = world.block_on(server.borrow().as_ref().unwrap().drain(Duration::MAX));
        assert_eq!((made.get(), drained.finished, drained.aborted), (1, 0, 0));
        drop((peers, server.take()));
    });
}

/// A listener that fails for ever is reported once a second, and does not spin.
#[test]
fn b_srv_10_other_errors_are_reported_and_the_listener_stays() {
    for_each_backend(|world| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let copy = listener.try_clone().unwrap();
        let builder = world.net.server_on(listener).unwrap();
        let probe = Probe::new();
        let made = probe.clone();
        let server = world.block_on(builder.bind(move || made.clone())).unwrap();
        // Behind the server's back: accepting is not possible any more.
        rustix::net::shutdown(&copy, rustix::net::Shutdown::Both).unwrap();
        world.idle();
        let reports = world.reports.take();
        assert_eq!(reports.len(), 1, "{reports:?}");
        assert!(reports[0].contains("accepting pauses: it failed"), "{reports:?}");
        assert!(server.is_serving());
        // Within the pause it is mended, and found to be.
        rustix::net::listen(&copy, 10).unwrap();
        // The system may have chosen another port.
        let _peer = TcpStream::connect(copy.local_addr().unwrap()).unwrap();
        world.until(|| probe.trace.has("made"));
        assert_eq!(world.reports.take(), [""; 0]);
    });
}
