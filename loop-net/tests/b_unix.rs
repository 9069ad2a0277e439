//! Unix sockets: B-UNIX-01 to 04 of the contract, on each backend.

mod common;

use std::cell::RefCell;
use std::io::{self, Read, Write};
use std::net::{TcpListener, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::path::Path;

use common::{Probe, Trace, World, for_each_backend, temp_dir, text};
use loop_net::{AsyncFd, Server, SockAddr};

fn serve(world: &mut World, addr: impl Into<SockAddr>) -> io::Result<Server> {
    let builder = world.net.unix_server(addr);
    world.block_on(builder.bind(Probe::new))
}

fn is_socket(path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt;
    path.symlink_metadata().is_ok_and(|meta| meta.file_type().is_socket())
}

#[test]
fn b_unix_01_s34_a_stale_socket_file_is_replaced_and_anything_else_is_in_use() {
    for_each_backend(|world| {
        let dir = temp_dir();
        // Left by a server that died.
        let path = dir.path().join("stale");
        drop(UnixListener::bind(&path).unwrap());
        assert!(is_socket(&path));
        let server = serve(world, path.as_path()).unwrap();
        UnixStream::connect(&path).unwrap();
        drop(server);

        // Of a datagram socket that is gone.
        drop(UnixDatagram::bind(&path).unwrap());
        drop(serve(world, path.as_path()).unwrap());

        // Files that are not sockets are left alone.
        let file = dir.path().join("file");
        std::fs::write(&file, "keep").unwrap();
        let error = serve(world, file.as_path()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
        assert!(text(&error).contains(file.to_str().unwrap()), "{error}");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "keep");

        // So are live servers', of either kind.
        let live = dir.path().join("live");
        let listener = UnixListener::bind(&live).unwrap();
        let error = serve(world, live.as_path()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
        drop(listener);
        std::fs::remove_file(&live).unwrap();
        let _datagrams = UnixDatagram::bind(&live).unwrap();
        assert_eq!(serve(world, live.as_path()).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        assert!(is_socket(&live));
    });
}

#[test]
fn b_unix_02_the_file_goes_with_the_server_if_it_is_still_its_own() {
    for_each_backend(|world| {
        let dir = temp_dir();
        let path = dir.path().join("server");
        let server = serve(world, path.as_path()).unwrap();
        assert!(is_socket(&path));
        assert_eq!(server.local_sock_addrs(), [SockAddr::from(path.as_path())]);
        assert_eq!(server.local_addrs(), []);
        server.close();
        assert!(!path.exists(), "removed at once");

        // Replaced by somebody else.
        let server = serve(world, path.as_path()).unwrap();
        std::fs::remove_file(&path).unwrap();
        let other = UnixListener::bind(&path).unwrap();
        drop(server);
        assert!(is_socket(&path));
        drop(other);
        std::fs::remove_file(&path).unwrap();

        // Gone already.
        let server = serve(world, path.as_path()).unwrap();
        std::fs::remove_file(&path).unwrap();
        drop(server);

        // Kept on request.
        let builder = world.net.unix_server(path.as_path()).keep_socket_files(true);
        drop(world.block_on(builder.bind(Probe::new)).unwrap());
        assert!(is_socket(&path));
    });
}

#[test]
fn b_unix_02_closing_the_loop_removes_the_file_too() {
    for name in common::backends() {
        let dir = temp_dir();
        let path = dir.path().join("server");
        let mut world = World::new(name);
        let server = serve(&mut world, path.as_path()).unwrap();
        drop(world);
        drop(server);
        assert!(!path.exists());
    }
}

#[test]
fn b_unix_03_the_file_of_a_socket_from_outside_stays() {
    for_each_backend(|world| {
        let dir = temp_dir();
        let path = dir.path().join("inherited");
        let listener = UnixListener::bind(&path).unwrap();
        let builder = world.net.server_on(listener).unwrap();
        let probe = Probe::new();
        let made = probe.clone();
        let server = world.block_on(builder.bind(move || made.clone())).unwrap();
        assert_eq!(server.local_sock_addrs(), [SockAddr::from(path.as_path())]);
        let _peer = UnixStream::connect(&path).unwrap();
        world.until(|| probe.trace.has("made"));
        server.close();
        assert!(is_socket(&path));
    });
}

#[test]
fn b_srv_15_a_server_needs_a_stream_socket() {
    for_each_backend(|world| {
        let datagrams = UdpSocket::bind("127.0.0.1:0").unwrap();
        let addr = datagrams.local_addr().unwrap();
        let rejected = world.net.server_on(datagrams).unwrap_err();
        assert_eq!(rejected.error.kind(), io::ErrorKind::InvalidInput);
        assert_eq!(rejected.source.local_addr().unwrap(), addr, "it came back");
        let builder = world.net.tcp_server("127.0.0.1:0");
        let rejected = builder.and_on(rejected.source).unwrap_err();
        assert_eq!(rejected.source.local_addr().unwrap(), addr);
    });
}

#[test]
fn b_unix_04_a_unix_server_needs_a_stream_socket_too() {
    for_each_backend(|world| {
        let rejected = world.net.server_on(UnixDatagram::unbound().unwrap()).unwrap_err();
        assert_eq!(rejected.error.kind(), io::ErrorKind::InvalidInput);
        // An address that a socket has, but none to bind to.
        let error = serve(world, SockAddr::Unnamed).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    });
}

#[test]
fn b_conn_10_sockets_of_another_kind_are_not_adopted_and_come_back() {
    for_each_backend(|world| {
        let net = &world.net;
        let datagrams = UdpSocket::bind("127.0.0.1:0").unwrap();
        let rejected = net.adopt(datagrams).unwrap_err();
        assert!(rejected.source.local_addr().is_ok());
        assert_eq!(rejected.error.kind(), io::ErrorKind::InvalidInput);
        let file = std::fs::File::open("/dev/null").unwrap();
        let rejected = net.adopt(file).unwrap_err();
        assert_eq!(rejected.error.kind(), io::ErrorKind::InvalidInput);
        assert!(text(&rejected).contains("no socket"), "{rejected}");
    });
}

#[test]
fn s34_a_path_that_is_too_long_creates_nothing() {
    for_each_backend(|world| {
        let dir = temp_dir();
        let room = 108 - dir.path().as_os_str().len() - 1;
        for len in [room, room + 1, room + 100] {
            let path = dir.path().join("x".repeat(len));
            let error = serve(world, path.as_path()).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{error}");
            assert!(text(&error).contains("more than 107"), "{error}");
            let connect = world.net.unix_connect(path.as_path());
            let error = world.block_on(connect.open_stream()).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{error}");
        }
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        let path = dir.path().join("x".repeat(room - 1));
        let server = serve(world, path.as_path()).unwrap();
        assert!(is_socket(&path));
        UnixStream::connect(&path).unwrap();
        drop(server);
    });
}

#[test]
#[cfg(target_os = "linux")]
fn s34_an_abstract_name_touches_no_file() {
    for_each_backend(|world| {
        let dir = temp_dir();
        let file = dir.path().join("same");
        std::fs::write(&file, "keep").unwrap();
        let name = SockAddr::abstract_name(file.to_str().unwrap());
        let server = serve(world, name.clone()).unwrap();
        assert_eq!(server.local_sock_addrs(), std::slice::from_ref(&name));
        let connect = world.net.unix_connect(name.clone());
        let (_, writer) = world.block_on(connect.open_stream()).unwrap();
        assert_eq!(writer.transport().peer_sock_addr(), &name);
        assert_eq!(serve(world, name).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        drop((writer, server));
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "keep");
    });
}

#[test]
fn the_engine_of_tcp_drives_unix_sockets() {
    for_each_backend(|world| {
        let dir = temp_dir();
        let path = dir.path().join("echo");
        let builder = world.net.unix_server(path.as_path());
        let serving = builder.serve_streams(async |mut reader, writer| {
            while let Some(line) = reader.read_line().await? {
                writer.write(&line);
                writer.drain().await?;
            }
            io::Result::Ok(())
        });
        let server = world.block_on(serving).unwrap();
        let probe = Probe::new().kept_open();
        let connect = world.net.unix_connect(path.as_path());
        let (transport, protocol) = world.block_on(connect.connect(|| probe.clone())).unwrap();
        assert_eq!(transport.peer_addr(), None);
        assert_eq!(transport.peer_sock_addr().path(), Some(path.as_path()));
        assert_eq!(transport.local_sock_addr(), &SockAddr::Unnamed);
        transport.write(b"hello\n");
        world.until(|| probe.trace.has("data hello\n"));
        transport.write_eof();
        world.until(|| probe.trace.has("eof"));
        transport.close();
        world.until(|| probe.trace.has("lost"));
        assert_eq!(probe.trace.take(), ["made", "data hello\n", "eof", "lost"]);
        assert!(protocol.with(|_| ()).is_err());
        world.until(|| server.connections() == 0);
    });
}

#[test]
fn nobody_at_the_path_is_an_error_that_names_it() {
    for_each_backend(|world| {
        let dir = temp_dir();
        let path = dir.path().join("nobody");
        for kind in [io::ErrorKind::NotFound, io::ErrorKind::ConnectionRefused] {
            let connect = world.net.unix_connect(path.as_path());
            let error = world.block_on(connect.connect(Probe::new)).unwrap_err();
            assert_eq!(error.kind(), kind);
            assert!(text(&error).contains(path.to_str().unwrap()), "{error}");
            drop(UnixListener::bind(&path));
        }
        assert_eq!(world.log.registered(), 0);
    });
}

#[test]
fn b_conn_12_connected_sockets_are_adopted() {
    for_each_backend(|world| {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let probe = Probe::new();
        let adopted = world.net.adopt(ours).unwrap();
        let (transport, _) = world.block_on(adopted.connect(|| probe.clone())).unwrap();
        theirs.write_all(b"in").unwrap();
        world.until(|| probe.trace.has("data in"));
        transport.write(b"out");
        let mut buffer = [0; 3];
        theirs.read_exact(&mut buffer).unwrap();
        assert_eq!(&buffer, b"out");
        drop(theirs);
        world.until(|| probe.trace.has("lost"));

        // One that somebody else accepted.
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut peer = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let adopted = world.net.adopt(listener.accept().unwrap().0).unwrap();
        let (mut reader, writer) = world.block_on(adopted.open_stream()).unwrap();
        assert_eq!(writer.transport().peer_addr(), Some(peer.local_addr().unwrap()));
        peer.write_all(b"line\n").unwrap();
        assert_eq!(world.block_on(reader.read_line()).unwrap().unwrap(), b"line\n");
    });
}

#[test]
fn descriptors_travel_with_their_bytes() {
    for_each_backend(|world| {
        let lp = world.event_loop.loop_ref();
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (ours, theirs) = (AsyncFd::new(&lp, ours).unwrap(), AsyncFd::new(&lp, theirs).unwrap());
        world.block_on(async {
            let pipes: Vec<_> = (0..5).map(|_| common::pipe()).collect();
            let readers: Vec<_> = pipes.iter().map(|(reader, _)| reader.as_fd()).collect();
            assert_eq!(ours.send_with_fds(b"five", &readers).await.unwrap(), 4);
            let (data, fds) = theirs.recv_with_fds(16, 5).await.unwrap();
            assert_eq!((&data[..], fds.len()), (&b"five"[..], 5));
            for (fd, (_, writer)) in fds.into_iter().zip(&pipes) {
                assert!(rustix::io::fcntl_getfd(&fd).unwrap() == rustix::io::FdFlags::CLOEXEC);
                (&*writer).write_all(b"x").unwrap();
                std::fs::File::from(fd).read_exact(&mut [0]).unwrap();
            }
            // Without any, and with too many.
            ours.send_with_fds(b"none", &[]).await.unwrap();
            assert_eq!(theirs.recv_with_fds(16, 5).await.unwrap().1.len(), 0);
            ours.send_with_fds(b"five", &readers).await.unwrap();
            let error = theirs.recv_with_fds(16, 2).await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{error}");
            let error = ours.send_with_fds(b"", &readers).await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
            // The end of the stream.
            drop(ours);
            assert_eq!(theirs.recv_with_fds(16, 5).await.unwrap().0, b"");
        });
        let open = std::fs::read_dir("/proc/self/fd").unwrap().count();
        assert!(open < 200, "{open} descriptors");
    });
}

#[test]
fn one_server_listens_on_several_sockets_of_all_kinds() {
    for_each_backend(|world| {
        let dir = temp_dir();
        let path = dir.path().join("server");
        let ready = OwnedFd::from(TcpListener::bind("127.0.0.1:0").unwrap());
        let trace = Trace::new();
        let made = trace.clone();
        let builder =
            world.net.tcp_server("127.0.0.1:0").and_unix(path.as_path()).and_tcp("127.0.0.1:0");
        let builder = builder.and_on(ready).unwrap();
        let serving = builder.bind(move || Probe::traced(&made, |_, _| {}));
        let server = world.block_on(serving).unwrap();
        let addrs = server.local_sock_addrs();
        assert_eq!((addrs.len(), server.local_addrs().len()), (4, 3));
        let peers: RefCell<Vec<OwnedFd>> = RefCell::default();
        for addr in &addrs {
            peers.borrow_mut().push(match addr {
                SockAddr::Ip(addr) => std::net::TcpStream::connect(addr).unwrap().into(),
                other => UnixStream::connect(other.path().unwrap()).unwrap().into(),
            });
        }
        world.until(|| trace.count("made") == 4);
        assert_eq!((server.connections(), server.accepted()), (4, 4));
        // All or nothing.
        let taken = addrs[0].socket_addr().unwrap();
        let other = dir.path().join("other");
        let builder = world.net.unix_server(other.as_path()).and_tcp(taken);
        let error = world.block_on(builder.bind(Probe::new)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
        assert!(!other.exists(), "the first listener is closed and cleaned up");
        drop(server);
    });
}

/// A path that fills the structure, which other programs may bind, has no room for its NUL.
#[test]
#[cfg(target_os = "linux")]
fn s34_a_peer_whose_path_fills_the_structure_does_no_harm() {
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, bind, connect, socket};
    for_each_backend(|world| {
        let dir = temp_dir();
        let room = 108 - dir.path().as_os_str().len() - 1;
        let theirs = socket(AddressFamily::UNIX, SocketType::STREAM, None).unwrap();
        let full = dir.path().join("x".repeat(room));
        bind(&theirs, &SocketAddrUnix::new(full.as_path()).unwrap()).unwrap();
        let path = dir.path().join("server");
        let probe = Probe::new();
        let made = probe.clone();
        let builder = world.net.unix_server(path.as_path());
        let _server = world.block_on(builder.bind(move || made.clone())).unwrap();
        connect(&theirs, &SocketAddrUnix::new(path.as_path()).unwrap()).unwrap();
        world.until(|| probe.trace.has("made"));
        assert_eq!(probe.transport().unwrap().peer_sock_addr(), &SockAddr::Unnamed);
    });
}
