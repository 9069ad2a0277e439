//! Servers in front of which there is a proxy, and on sockets that were inherited.

mod common;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::rc::Rc;
use std::time::Duration;

use common::{Probe, Trace, World, for_each_backend};
use loop_net::Server;

const V2: &[u8] = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\xc0\0\x02\x01\xc0\0\x02\x02\x12\x34\0\x50";
const V1: &[u8] = b"PROXY TCP4 192.0.2.1 192.0.2.2 4660 80\r\n";

fn behind_a_proxy(world: &mut World, probe: &Probe, patience: Duration) -> Server {
    let probe = probe.clone();
    let builder = world.net.tcp_server("127.0.0.1:0").proxy_protocol(patience);
    world.block_on(builder.bind(move || probe.clone())).unwrap()
}

const LONG: Duration = Duration::from_secs(3600);

#[test]
fn a_proxy_header_of_either_version_gives_the_addresses_and_loses_no_byte() {
    for_each_backend(|world| {
        for header in [V1, V2] {
            // At once with what follows, byte by byte, and alone.
            for way in 0..3 {
                let probe = Probe::new();
                let server = behind_a_proxy(world, &probe, LONG);
                let mut peer = TcpStream::connect(server.local_addrs()[0]).unwrap();
                peer.set_nodelay(true).unwrap();
                match way {
                    0 => peer.write_all(&[header, b"hello"].concat()).unwrap(),
                    1 => {
                        for byte in header {
                            assert!(!probe.trace.has("made"));
                            peer.write_all(&[*byte]).unwrap();
                            world.turn();
                        }
                        peer.write_all(b"hello").unwrap();
                    }
                    _ => {
                        peer.write_all(header).unwrap();
                        world.until(|| probe.trace.has("made"));
                        peer.write_all(b"hello").unwrap();
                    }
                }
                world.until(|| probe.trace.has("data hello"));
                let transport = probe.transport().unwrap();
                let addr = |text: &str| Some(text.parse::<SocketAddr>().unwrap());
                assert_eq!(transport.peer_addr(), addr("192.0.2.1:4660"));
                assert_eq!(transport.local_addr(), addr("192.0.2.2:80"));
                assert_eq!((server.connections(), server.accepted()), (1, 1));
                transport.write(b"answer");
                assert_eq!(world.read(&mut peer, 6), b"answer");
                drop(peer);
                world.until(|| server.connections() == 0);
                assert_eq!(probe.trace.take(), ["made", "data hello", "eof", "lost"]);
            }
        }
    });
}

#[test]
fn a_proxy_that_speaks_for_itself_keeps_its_address() {
    for_each_backend(|world| {
        let probe = Probe::new();
        let server = behind_a_proxy(world, &probe, LONG);
        let mut peer = TcpStream::connect(server.local_addrs()[0]).unwrap();
        peer.write_all(b"PROXY UNKNOWN\r\n").unwrap();
        world.until(|| probe.trace.has("made"));
        let transport = probe.transport().unwrap();
        assert_eq!(transport.peer_addr(), Some(peer.local_addr().unwrap()));
    });
}

#[test]
fn no_header_in_time_a_wrong_one_or_an_early_end_costs_the_connection_only() {
    for_each_backend(|world| {
        let probe = Probe::new();
        let server = behind_a_proxy(world, &probe, Duration::from_millis(200));
        let addr = server.local_addrs()[0];
        let silent = TcpStream::connect(addr).unwrap();
        let mut half = TcpStream::connect(addr).unwrap();
        half.write_all(b"PROXY TCP4 ").unwrap();
        let mut wrong = TcpStream::connect(addr).unwrap();
        wrong.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
        drop(TcpStream::connect(addr).unwrap());
        world.until(|| server.accepted() == 4 && server.connections() == 0);
        for mut peer in [silent, half, wrong] {
            assert!(matches!(peer.read(&mut [0]), Ok(0) | Err(_)), "closed");
        }
        assert_eq!(probe.trace.all(), [""; 0]);
        // The next one is served.
        let mut good = TcpStream::connect(addr).unwrap();
        good.write_all(V1).unwrap();
        world.until(|| probe.trace.has("made"));
        // In debug mode it is told.
        let told = Trace::new();
        let log = told.clone();
        world.event_loop.set_exception_handler(Some(Rc::new(move |_, context: &_| {
            log.push(format!("{context}"));
        })));
        world.event_loop.set_debug(true);
        let mut wrong = TcpStream::connect(addr).unwrap();
        wrong.write_all(b"nonsense").unwrap();
        world.until(|| server.accepted() == 6 && server.connections() == 1);
        world.event_loop.set_debug(false);
        let reports = told.take();
        assert!(reports.iter().any(|report| report.contains("not a PROXY header")), "{reports:?}");
    });
}

#[test]
fn connections_without_their_header_count_and_end_with_the_clients() {
    for_each_backend(|world| {
        let probe = Probe::new();
        let made = probe.clone();
        let builder = world.net.tcp_server("127.0.0.1:0").proxy_protocol(LONG).max_connections(2);
        let server = world.block_on(builder.bind(move || made.clone())).unwrap();
        let addr = server.local_addrs()[0];
        let peers: Vec<_> = (0..3).map(|_| TcpStream::connect(addr).unwrap()).collect();
        world.until(|| server.connections() == 2);
        world.idle();
        assert_eq!(server.accepted(), 2);
        server.close();
        world.idle();
        assert_eq!(server.connections(), 2, "closing leaves them alone");
        server.abort_clients();
        world.block_on(server.wait_closed());
        assert_eq!(server.connections(), 0);
        drop(peers);
        assert_eq!(world.log.registered(), 0);

        // One that was being read while the server closed is served.
        let server = Rc::new(behind_a_proxy(world, &probe, LONG));
        let mut peer = TcpStream::connect(server.local_addrs()[0]).unwrap();
        world.until(|| server.connections() == 1);
        server.close();
        peer.write_all(&[V2, b"late"].concat()).unwrap();
        world.until(|| probe.trace.has("data late"));
        drop(peer);
        world.block_on(server.wait_closed());
    });
}

/// Runs in a child process, which has a listening socket at descriptor 3.
#[test]
#[cfg(feature = "inherited")]
fn child_serves_what_it_inherited() {
    if std::env::var_os("LOOP_NET_CHILD").is_none() {
        return;
    }
    let sockets = loop_net::inherited_listeners().unwrap();
    assert_eq!(sockets.len(), 1);
    assert!(std::env::var_os("LISTEN_FDS").is_none(), "children do not see it");
    assert_eq!(loop_net::inherited_listeners().unwrap().len(), 0);
    let mut world = World::new("epoll");
    let mut builder = None;
    for socket in sockets {
        builder = Some(world.net.server_on(socket).unwrap());
    }
    let probe = Probe::acting(|hook, transport| {
        if let common::Hook::Data(data) = hook {
            transport.write(data);
            transport.close();
        }
    });
    let made = probe.clone();
    let server = world.block_on(builder.unwrap().bind(move || made.clone())).unwrap();
    world.until(|| probe.trace.has("lost"));
    drop(server);
}

#[test]
#[cfg(feature = "inherited")]
fn sockets_of_systemd_are_served_and_nobody_elses() {
    let _watchdog = common::watchdog();
    assert_eq!(loop_net::inherited_listeners().unwrap().len(), 0);
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    // What systemd does: the socket at 3, and the variables for this process only.
    let script = "exec 3<&0 </dev/null; LISTEN_PID=$$ LISTEN_FDS=1 exec \"$0\" --exact \
                  child_serves_what_it_inherited --nocapture";
    let mut child = std::process::Command::new("sh")
        .args(["-c", script])
        .arg(std::env::current_exe().unwrap())
        .env("LOOP_NET_CHILD", "1")
        .stdin(std::os::fd::OwnedFd::from(listener))
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let mut peer = TcpStream::connect(addr).unwrap();
    peer.write_all(b"hello").unwrap();
    let mut answer = String::new();
    peer.read_to_string(&mut answer).unwrap();
    assert_eq!(answer, "hello");
    assert!(child.wait().unwrap().success());
}
