//! Datagrams: B-UDP-01 to 13 of the contract, on each backend.

mod common;

use std::cell::{Cell, RefCell};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::rc::Rc;
use std::time::Duration;

use common::{Trace, World, for_each_backend, temp_dir, text};
use loop_net::{
    DatagramBuilder, DatagramProtocol, DatagramTransport, NetError, SockAddr, WriteState,
};

type Act = Rc<dyn Fn(&str, &DatagramTransport)>;

/// Notes its hooks and then does what the test wants.
#[derive(Clone)]
struct Probe {
    trace: Trace,
    last: Rc<RefCell<Option<DatagramTransport>>>,
    from: Rc<RefCell<Vec<SockAddr>>>,
    errors: Rc<RefCell<Vec<String>>>,
    echo: Rc<Cell<bool>>,
    act: Act,
}

impl Probe {
    fn new() -> Probe {
        Self::acting(|_, _| {})
    }

    fn acting(act: impl Fn(&str, &DatagramTransport) + 'static) -> Probe {
        Probe {
            trace: Trace::new(),
            last: Rc::default(),
            from: Rc::default(),
            errors: Rc::default(),
            echo: Rc::default(),
            act: Rc::new(act),
        }
    }

    fn hook(&self, name: &str, entry: String) {
        self.trace.push(entry);
        let transport = self.last.borrow().clone().unwrap();
        (self.act)(name, &transport);
    }
}

impl DatagramProtocol for Probe {
    fn connection_made(&mut self, transport: &DatagramTransport) {
        *self.last.borrow_mut() = Some(transport.clone());
        self.hook("made", "made".to_owned());
    }

    fn datagram_received(&mut self, data: &[u8], from: &SockAddr) {
        self.from.borrow_mut().push(from.clone());
        let entry = match data.len() {
            0..=16 => format!("got {}", String::from_utf8_lossy(data)),
            len => format!("got {len} bytes"),
        };
        if self.echo.get() {
            let transport = self.last.borrow().clone().unwrap();
            transport.send_to(data, from).unwrap();
        }
        self.hook("got", entry);
    }

    fn error_received(&mut self, error: io::Error) {
        self.errors.borrow_mut().push(error.to_string());
        self.hook("error", format!("error {:?}", error.kind()));
    }

    fn pause_writing(&mut self) {
        self.hook("pause", "pause".to_owned());
    }

    fn resume_writing(&mut self) {
        self.hook("resume", "resume".to_owned());
    }

    fn connection_lost(&mut self, error: Option<&NetError>) {
        let entry = error.map_or("lost".to_owned(), |error| format!("lost {error}"));
        self.hook("lost", entry);
    }
}

fn open(world: &mut World, builder: DatagramBuilder, probe: &Probe) -> DatagramTransport {
    let probe = probe.clone();
    world.block_on(builder.open(move || probe)).unwrap()
}

fn udp(world: &mut World, probe: &Probe) -> DatagramTransport {
    let builder = world.net.udp("127.0.0.1:0");
    open(world, builder, probe)
}

fn peer() -> (UdpSocket, SocketAddr) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let addr = socket.local_addr().unwrap();
    (socket, addr)
}

/// A connected pair of Unix datagram sockets; ours can be made to block by not reading theirs.
fn blocking(world: &mut World, probe: &Probe) -> (DatagramTransport, UnixDatagram) {
    let (ours, theirs) = UnixDatagram::pair().unwrap();
    theirs.set_nonblocking(true).unwrap();
    let builder = world.net.adopt_datagram(ours).unwrap();
    (open(world, builder, probe), theirs)
}

/// Sends until something is queued; how many were sent.
fn block(transport: &DatagramTransport) -> usize {
    let mut sent = 0;
    while transport.write_buffer_size() == 0 {
        transport.send(format!("{sent}").as_bytes()).unwrap();
        sent += 1;
    }
    sent
}

#[test]
fn b_udp_01_each_datagram_is_one_call_with_its_source() {
    for_each_backend(|world| {
        let probe = Probe::new();
        let transport = udp(world, &probe);
        let addr = transport.local_addr().unwrap();
        let (one, one_addr) = peer();
        let (two, two_addr) = peer();
        one.send_to(b"first", addr).unwrap();
        two.send_to(b"second", addr).unwrap();
        one.send_to(b"third", addr).unwrap();
        world.until(|| probe.trace.has("got third"));
        assert_eq!(probe.trace.take(), ["made", "got first", "got second", "got third"]);
        assert_eq!(*probe.from.borrow(), [one_addr, two_addr, one_addr].map(SockAddr::from));
        transport.send_to(b"answer", two_addr).unwrap();
        let mut buffer = [0; 16];
        assert_eq!(two.recv_from(&mut buffer).unwrap(), (6, addr));
        assert_eq!(transport.peer_sock_addr(), None);
        transport.close();
        world.until(|| probe.trace.has("lost"));
        assert_eq!(probe.trace.take(), ["lost"]);
        assert_eq!(world.log.registered(), 0);
    });
}

#[test]
fn b_udp_02_what_would_block_is_queued_whole_and_sent_in_order() {
    for_each_backend(|world| {
        let probe = Probe::new();
        let (transport, theirs) = blocking(world, &probe);
        let mut sent = block(&transport);
        for _ in 0..100 {
            transport.send(format!("{sent}").as_bytes()).unwrap();
            sent += 1;
        }
        let mut buffer = [0; 16];
        for expected in 0..sent {
            loop {
                match theirs.recv(&mut buffer) {
                    Ok(count) => {
                        let text = std::str::from_utf8(&buffer[..count]).unwrap();
                        assert_eq!(text, expected.to_string());
                        break;
                    }
                    Err(_) => world.turn(),
                }
            }
        }
        world.until(|| transport.write_buffer_size() == 0);
        world.log.take_modifies();
        world.idle();
        assert!(world.log.take_modifies().len() <= 1, "not watched for writing any more");
    });
}

/// Source: oven-sh/bun#35923. One unreachable peer killed the server.
#[test]
fn b_udp_03_s33_a_dead_peer_costs_an_error_and_not_the_endpoint() {
    for_each_backend(|world| {
        // A server that is not connected hears nothing of it on Linux.
        let probe = Probe::new();
        probe.echo.set(true);
        let transport = udp(world, &probe);
        let addr = transport.local_addr().unwrap();
        let (gone, _) = peer();
        gone.send_to(b"gone", addr).unwrap();
        drop(gone);
        world.until(|| probe.trace.has("got gone"));
        world.idle();
        let (alive, _) = peer();
        alive.send_to(b"alive", addr).unwrap();
        world.until(|| probe.trace.has("got alive"));
        assert_eq!(alive.recv(&mut [0; 16]).unwrap(), 5);
        assert!(!transport.is_closing());

        // A connected one does.
        let (gone, gone_addr) = peer();
        drop(gone);
        let probe = Probe::new();
        let builder = world.net.udp_connect(gone_addr);
        let transport = open(world, builder, &probe);
        assert_eq!(transport.peer_sock_addr(), Some(&gone_addr.into()));
        for _ in 0..3 {
            transport.send(b"anybody?").unwrap();
            world.until(|| probe.trace.count("error ConnectionRefused") > 0);
        }
        let names = probe.errors.borrow()[0].contains(&gone_addr.to_string());
        assert!(names, "{:?}", probe.errors.borrow());
        assert!(!probe.trace.has("lost") && !transport.is_closing());
        // Somebody listens there by now.
        let back = UdpSocket::bind(gone_addr).unwrap();
        back.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        world.idle();
        transport.send(b"you!").unwrap();
        assert_eq!(back.recv(&mut [0; 16]).unwrap(), 4);
    });
}

#[test]
fn b_udp_03_what_is_too_large_is_an_error_that_names_the_receiver() {
    for_each_backend(|world| {
        let probe = Probe::new();
        let transport = udp(world, &probe);
        let (receiver, addr) = peer();
        transport.send_to(&vec![1; 65_507], addr).unwrap();
        assert_eq!(receiver.recv(&mut vec![0; 70_000]).unwrap(), 65_507);
        transport.send_to(&vec![1; 65_508], addr).unwrap();
        assert_eq!(probe.errors.borrow().len(), 1);
        assert!(probe.errors.borrow()[0].contains(&addr.to_string()), "{:?}", probe.errors);
        // And the largest one is received.
        receiver.send_to(&vec![2; 65_507], transport.local_addr().unwrap()).unwrap();
        world.until(|| probe.trace.has("got 65507 bytes"));
        assert!(!transport.is_closing());
    });
}

#[test]
fn b_udp_04_a_queued_datagram_that_fails_holds_up_no_other() {
    for_each_backend(|world| {
        let dir = temp_dir();
        let (good_path, gone_path) = (dir.path().join("good"), dir.path().join("gone"));
        let good = UnixDatagram::bind(&good_path).unwrap();
        let gone = UnixDatagram::bind(&gone_path).unwrap();
        good.set_nonblocking(true).unwrap();
        let probe = Probe::new();
        let builder = world.net.unix_datagram(dir.path().join("ours"));
        let transport = open(world, builder, &probe);
        // The good one's queue is filled, the rest waits behind it.
        let mut sent = 0;
        while transport.write_buffer_size() == 0 {
            transport.send_to(b"x", good_path.as_path()).unwrap();
            sent += 1;
        }
        for _ in 0..3 {
            transport.send_to(b"lost", gone_path.as_path()).unwrap();
            transport.send_to(b"x", good_path.as_path()).unwrap();
            sent += 1;
        }
        transport.set_write_buffer_limits(10, Some(0)).unwrap();
        assert!(probe.trace.has("pause"));
        drop(gone);
        let mut received = 0;
        while received < sent {
            match good.recv(&mut [0; 16]) {
                Ok(_) => received += 1,
                Err(_) => world.turn(),
            }
        }
        world.until(|| probe.trace.has("resume"));
        assert_eq!(probe.trace.count("error ConnectionRefused"), 3);
        assert_eq!(transport.write_buffer_size(), 0);
    });
}

#[test]
fn b_udp_05_a_connected_endpoint_sends_to_its_peer_only() {
    for_each_backend(|world| {
        let (receiver, addr) = peer();
        let (stranger, other) = peer();
        let probe = Probe::new();
        let builder = world.net.udp_connect(addr);
        let transport = open(world, builder, &probe);
        transport.send(b"one").unwrap();
        transport.send_to(b"two", addr).unwrap();
        for _ in 0..2 {
            assert_eq!(receiver.recv(&mut [0; 16]).unwrap(), 3);
        }
        let error = transport.send_to(b"three", other).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        assert!(text(&error).contains(&other.to_string()), "{error}");
        // Strangers are not heard.
        stranger.send_to(b"hey", transport.local_addr().unwrap()).unwrap();
        receiver.send_to(b"yes", transport.local_addr().unwrap()).unwrap();
        world.until(|| probe.trace.has("got yes"));
        assert!(!probe.trace.has("got hey"));
        // One that is not connected needs an address.
        let transport = udp(world, &Probe::new());
        assert_eq!(transport.send(b"x").unwrap_err().kind(), io::ErrorKind::InvalidInput);
        let error = transport.send_to(b"x", SockAddr::Unnamed).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    });
}

#[test]
fn b_udp_06_empty_datagrams_are_sent_and_received() {
    for_each_backend(|world| {
        let probe = Probe::new();
        probe.echo.set(true);
        let transport = udp(world, &probe);
        let (client, _) = peer();
        client.send_to(b"", transport.local_addr().unwrap()).unwrap();
        world.until(|| probe.trace.has("got "));
        assert_eq!(client.recv(&mut [0; 16]).unwrap(), 0);
        assert!(!transport.is_closing());
    });
}

#[test]
fn b_udp_07_empty_datagrams_fill_the_queue_too_and_it_drains_to_zero() {
    for_each_backend(|world| {
        let probe = Probe::new();
        let (transport, theirs) = blocking(world, &probe);
        transport.set_write_buffer_limits(800, Some(80)).unwrap();
        block(&transport);
        let size = transport.write_buffer_size();
        transport.send(b"").unwrap();
        assert_eq!(transport.write_buffer_size(), size + 8);
        let mut state = WriteState::Open;
        while state == WriteState::Open {
            state = transport.send(b"").unwrap();
        }
        assert_eq!(state, WriteState::Full);
        assert_eq!(probe.trace.all(), ["made", "pause"]);
        while !probe.trace.has("resume") || transport.write_buffer_size() > 0 {
            let _ = theirs.recv(&mut [0; 16]);
            world.turn();
        }
        assert_eq!(probe.trace.take(), ["made", "pause", "resume"]);
        assert_eq!(transport.write_buffer_limits(), (80, 800));
        assert!(transport.set_write_buffer_limits(1, Some(2)).is_err());
    });
}

#[test]
fn b_udp_08_close_sends_what_is_queued_and_abort_drops_it() {
    for_each_backend(|world| {
        for abort in [false, true] {
            let probe = Probe::new();
            let (transport, theirs) = blocking(world, &probe);
            let sent = block(&transport);
            if abort {
                transport.abort();
            } else {
                transport.close();
                transport.close();
                world.idle();
                assert!(!probe.trace.has("lost"));
            }
            assert!(transport.is_closing());
            let mut received = 0;
            loop {
                match theirs.recv(&mut [0; 16]) {
                    Ok(0) => break,
                    Ok(_) => received += 1,
                    Err(_) if probe.trace.has("lost") => break,
                    Err(_) => world.turn(),
                }
            }
            while theirs.recv(&mut [0; 16]).is_ok_and(|count| count > 0) {
                received += 1;
            }
            assert_eq!(received == sent, !abort, "{received} of {sent}");
            assert_eq!(probe.trace.count("lost"), 1);
        }
    });
}

#[test]
fn b_udp_09_sends_that_come_too_late_are_dropped_and_the_fifth_is_reported() {
    for_each_backend(|world| {
        let (_receiver, addr) = peer();
        let builder = world.net.udp_connect(addr);
        let transport = open(world, builder, &Probe::new());
        transport.close();
        for _ in 0..5 {
            assert_eq!(transport.send(b"late").unwrap(), WriteState::Closed);
        }
        world.idle();
        assert_eq!(world.reports.take().len(), 1);
        assert_eq!(transport.send(b"late").unwrap(), WriteState::Closed);
        assert_eq!(world.reports.take().len(), 1);
    });
}

#[test]
fn b_udp_10_addresses_are_paired_by_family_and_the_first_error_is_kept() {
    for_each_backend(|world| {
        let (receiver, addr) = peer();
        let v6: SocketAddr = "[::1]:0".parse().unwrap();
        let v4: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let builder = world.net.udp_connect(addr).local_addr(&[v6, v4][..]);
        let transport = open(world, builder, &Probe::new());
        assert!(transport.local_addr().unwrap().is_ipv4());
        let builder = world.net.udp_connect(addr).local_addr(v6);
        let error = world.block_on(builder.open(Probe::new)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        assert!(text(&error).contains("one family"), "{error}");

        // Every candidate fails: the first error is told. One is free: it is taken.
        let (_second, second) = peer();
        let builder = world.net.udp(&[addr, second][..]);
        let error = world.block_on(builder.open(Probe::new)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
        assert!(text(&error).contains(&format!("bind to {addr}")), "{error}");
        let builder = world.net.udp(&[addr, v4][..]);
        open(world, builder, &Probe::new());

        // With broadcast the socket has a peer and is not connected: others may answer.
        let probe = Probe::new();
        let builder = world.net.udp_connect(addr).broadcast(true).local_addr(v4);
        let transport = open(world, builder, &probe);
        transport.send(b"all").unwrap();
        let (count, from) = receiver.recv_from(&mut [0; 16]).unwrap();
        assert_eq!((count, Some(from)), (3, transport.local_addr()));
        let (other, _) = peer();
        other.send_to(b"me", transport.local_addr().unwrap()).unwrap();
        world.until(|| probe.trace.has("got me"));
    });
}

#[test]
fn b_udp_11_a_ready_made_socket_must_be_one_of_datagrams() {
    for_each_backend(|world| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let rejected = world.net.adopt_datagram(listener).unwrap_err();
        assert_eq!(rejected.error.kind(), io::ErrorKind::InvalidInput);
        assert!(rejected.source.local_addr().is_ok(), "it came back");
        let (ours, addr) = peer();
        let builder = world.net.adopt_datagram(ours).unwrap();
        let probe = Probe::new();
        let transport = open(world, builder, &probe);
        assert_eq!(transport.local_addr(), Some(addr));
        let (client, _) = peer();
        client.send_to(b"hello", addr).unwrap();
        world.until(|| probe.trace.has("got hello"));
        // The family alone is an address too.
        let builder = world.net.udp("[::]:0");
        assert!(open(world, builder, &Probe::new()).local_addr().unwrap().is_ipv6());
    });
}

#[test]
fn b_udp_12_unix_datagrams_have_paths_and_stale_files_are_replaced() {
    for_each_backend(|world| {
        let dir = temp_dir();
        let (server_path, client_path) = (dir.path().join("server"), dir.path().join("client"));
        drop(UnixDatagram::bind(&server_path).unwrap());
        let probe = Probe::new();
        probe.echo.set(true);
        let builder = world.net.unix_datagram(server_path.as_path());
        let server = open(world, builder, &probe);
        let client_probe = Probe::new();
        let builder = world.net.unix_datagram_connect(server_path.as_path());
        let builder = builder.local_unix(client_path.as_path());
        let client = open(world, builder, &client_probe);
        client.send(b"hello").unwrap();
        world.until(|| client_probe.trace.has("got hello"));
        assert_eq!(*probe.from.borrow(), [SockAddr::from(client_path.as_path())]);
        // A live one is left alone, and a file of another kind.
        for path in [server_path.clone(), dir.path().join("listener")] {
            let _listener = UnixListener::bind(&path);
            let builder = world.net.unix_datagram(path.as_path());
            let error = world.block_on(builder.open(Probe::new)).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
            assert!(text(&error).contains(path.to_str().unwrap()), "{error}");
        }
        server.close();
        client.close();
        world.until(|| probe.trace.has("lost") && client_probe.trace.has("lost"));
        world.idle();
        assert!(!server_path.exists() && !client_path.exists());
    });
}

#[test]
fn b_udp_13_a_port_is_shared_only_on_request() {
    for_each_backend(|world| {
        let builder = world.net.udp("127.0.0.1:0").reuse_port(true);
        let first = open(world, builder, &Probe::new());
        let addr = first.local_addr().unwrap();
        let builder = world.net.udp(addr).reuse_port(true);
        open(world, builder, &Probe::new());
        let builder = world.net.udp(addr);
        let error = world.block_on(builder.open(Probe::new)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
    });
}

#[test]
fn a_datagram_that_is_too_long_is_reported_and_the_next_one_received() {
    for_each_backend(|world| {
        let probe = Probe::new();
        let builder = world.net.udp("127.0.0.1:0").max_size(8);
        let transport = open(world, builder, &probe);
        let (client, from) = peer();
        let addr = transport.local_addr().unwrap();
        for data in ["12345678", "123456789", "end"] {
            client.send_to(data.as_bytes(), addr).unwrap();
        }
        world.until(|| probe.trace.has("got end"));
        assert_eq!(probe.trace.take(), ["made", "got 12345678", "error InvalidData", "got end"]);
        let errors = probe.errors.borrow();
        assert!(errors[0].contains(&from.to_string()) && errors[0].contains('8'), "{errors:?}");
    });
}

#[test]
fn a_multicast_group_is_joined_and_left() {
    for_each_backend(|world| {
        let probe = Probe::new();
        let builder = world.net.udp("0.0.0.0:0");
        let transport = open(world, builder, &probe);
        let port = transport.local_addr().unwrap().port();
        let (group, interface) = (Ipv4Addr::new(239, 255, 70, 77), Ipv4Addr::LOCALHOST);
        transport.join_multicast_v4(group, interface).unwrap();
        let sender = Probe::new();
        let builder = world.net.udp("127.0.0.1:0");
        let speaker = open(world, builder, &sender);
        speaker.set_multicast_interface_v4(interface).unwrap();
        speaker.set_multicast_ttl_v4(1).unwrap();
        speaker.send_to(b"all", SocketAddr::from((group, port))).unwrap();
        world.until(|| probe.trace.has("got all"));
        transport.leave_multicast_v4(group, interface).unwrap();
        speaker.send_to(b"again", SocketAddr::from((group, port))).unwrap();
        world.idle();
        assert!(!probe.trace.has("got again"));
        assert!(transport.leave_multicast_v4(group, interface).is_err());
        transport.abort();
        world.idle();
        let error = transport.join_multicast_v4(group, interface).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotConnected);
    });
}

#[test]
#[cfg(target_os = "linux")] // Whose loopback interface is the first.
fn groups_of_ipv6_are_joined_and_left_and_their_options_set() {
    for_each_backend(|world| {
        let builder = world.net.udp("[::]:0");
        let probe = Probe::new();
        let made = probe.clone();
        let transport = match world.block_on(builder.open(move || made)) {
            Ok(transport) => transport,
            Err(error) => return eprintln!("left out, there is no IPv6: {error}"),
        };
        let group = "ff02::4d:4e".parse().unwrap();
        transport.join_multicast_v6(group, 1).unwrap();
        transport.set_multicast_interface_v6(1).unwrap();
        transport.set_multicast_hops_v6(2).unwrap();
        transport.set_multicast_loop_v6(false).unwrap();
        let owner = world.only_owner();
        let socket = socket2::SockRef::from(&owner);
        assert_eq!(socket.multicast_if_v6().unwrap(), 1);
        assert_eq!(socket.multicast_hops_v6().unwrap(), 2);
        assert!(!socket.multicast_loop_v6().unwrap());
        transport.leave_multicast_v6(group, 1).unwrap();
        assert!(transport.leave_multicast_v6(group, 1).is_err(), "it was left");
        drop(owner);
        transport.abort();
        world.idle();
        let error = transport.set_multicast_hops_v6(1).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotConnected);
    });
}

#[test]
fn b_trn_36_an_endpoint_shows_the_options_of_its_socket() {
    for_each_backend(|world| {
        let probe = Probe::new();
        let transport = udp(world, &probe);
        let socket = transport.socket();
        socket.set_recv_buffer_size(200_000).unwrap();
        assert!(socket.recv_buffer_size().unwrap() >= 200_000);
        socket.set_send_buffer_size(100_000).unwrap();
        assert!(socket.send_buffer_size().unwrap() >= 100_000);
        assert!(socket.fileno().unwrap() > 2);
        transport.set_multicast_loop_v4(false).unwrap();
        transport.close();
        world.until(|| probe.trace.has("lost"));
        world.idle();
        for view in [socket, transport.socket()] {
            let error = view.recv_buffer_size().unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::NotConnected);
        }
    });
}

#[test]
fn hooks_may_send_close_and_panic() {
    for_each_backend(|world| {
        for hook in ["made", "got", "lost"] {
            let probe = Probe::acting(move |name, transport| {
                if name == hook {
                    transport.close();
                    let _ = transport.send(b"late");
                }
            });
            let transport = udp(world, &probe);
            if !transport.is_closing() {
                let (client, _) = peer();
                client.send_to(b"x", transport.local_addr().unwrap()).unwrap();
                world.until(|| probe.trace.has("got x"));
                transport.close();
            }
            world.until(|| probe.trace.has("lost"));
            world.idle();
            assert_eq!(probe.trace.count("lost"), 1);
        }
        // A panic is reported, and others are served on.
        let probe = Probe::acting(|name, _| assert!(name != "got", "not this one"));
        let transport = udp(world, &probe);
        let (client, _) = peer();
        for _ in 0..2 {
            client.send_to(b"x", transport.local_addr().unwrap()).unwrap();
            world.until(|| !probe.trace.take().is_empty());
            world.idle();
        }
        world.idle();
        assert!(!transport.is_closing());
        let reports = world.reports.take();
        assert!(!reports.is_empty() && reports.iter().all(|r| r.contains("not this one")));
    });
}

#[test]
fn an_error_in_a_hook_is_told_after_it() {
    for_each_backend(|world| {
        let trace = Trace::new();
        let noted = trace.clone();
        let probe = Probe::acting(move |name, transport| {
            if name == "got" {
                let to: SocketAddr = "127.0.0.1:9".parse().unwrap();
                transport.send_to(&[0; 70_000], to).unwrap();
                noted.push("hook ends");
            } else if name == "error" {
                noted.push("error");
            }
        });
        let transport = udp(world, &probe);
        let (client, _) = peer();
        client.send_to(b"x", transport.local_addr().unwrap()).unwrap();
        world.until(|| trace.has("error"));
        assert_eq!(trace.take(), ["hook ends", "error"]);
    });
}

#[test]
fn closing_the_loop_reports_an_open_endpoint() {
    for name in common::backends() {
        let mut world = World::new(name);
        let transport = udp(&mut world, &Probe::new());
        let reports = world.reports.clone();
        drop(world);
        assert_eq!(reports.take().len(), 1);
        transport.close();
        assert!(transport.is_closing());
        assert_eq!(transport.send(b"x").unwrap(), WriteState::Closed);
    }
}

#[test]
fn opening_that_is_dropped_closes_the_socket() {
    for_each_backend(|world| {
        let task = world.event_loop.spawn(world.net.udp("127.0.0.1:0").open(Probe::new));
        task.cancel();
        assert!(world.block_on(task).unwrap_err().is_cancelled());
        world.idle();
        assert_eq!(world.log.registered(), 0);
    });
}
