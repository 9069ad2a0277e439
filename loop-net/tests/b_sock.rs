//! Level 1, `AsyncFd`: B-SOCK-01 to 09 of the contract, on each backend.

mod common;

use std::cell::Cell;
use std::future::Future;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use common::{Probe, World, for_each_backend, refusing, text, watchdog};
use loop_net::{AsyncFd, LoopRef, SockAddr};

fn pair(lp: &LoopRef) -> (AsyncFd<UnixStream>, UnixStream) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    (AsyncFd::new(lp, ours).unwrap(), theirs)
}

fn poll_once<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

fn stream_socket() -> OwnedFd {
    socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap().into()
}

#[test]
fn b_sock_01_tries_first_and_registers_only_when_it_would_block() {
    for_each_backend(|world| {
        let (ours, mut theirs) = pair(&world.event_loop);
        theirs.write_all(b"hello").unwrap();
        assert_eq!(world.block_on(ours.recv(3)).unwrap(), b"hel");
        assert_eq!(world.block_on(ours.recv(9)).unwrap(), b"lo");
        world.block_on(ours.send_all(b"there")).unwrap();
        assert_eq!(world.log.registers.get(), 0, "nothing had to wait");
        let later = theirs.try_clone().unwrap();
        let soon = Duration::from_millis(1);
        world.event_loop.call_later(soon, move || (&later).write_all(b"!").unwrap());
        assert_eq!(world.block_on(ours.recv(9)).unwrap(), b"!");
        assert_eq!(world.log.registers.get(), 1);
    });
}

#[test]
fn b_dbg_04_a_blocking_socket_is_made_non_blocking_and_comes_back_as_it_was() {
    let is_blocking = |socket: &UnixStream| {
        !rustix::fs::fcntl_getfl(socket).unwrap().contains(rustix::fs::OFlags::NONBLOCK)
    };
    for_each_backend(|world| {
        for debug in [true, false] {
            world.event_loop.set_debug(debug);
            world.event_loop.set_exception_handler(Some(Rc::new(|_, _| ())));
            for blocking in [true, false] {
                let (ours, mut theirs) = UnixStream::pair().unwrap();
                ours.set_nonblocking(!blocking).unwrap();
                let ours = AsyncFd::new(&world.event_loop, ours).unwrap();
                // With nothing to read it would hang here.
                assert!(poll_once(pin!(ours.recv(1))).is_pending());
                theirs.write_all(b"x").unwrap();
                assert_eq!(world.block_on(ours.recv(1)).unwrap(), b"x");
                assert_eq!(is_blocking(&ours.into_inner()), blocking);
            }
        }
    });
}

#[test]
fn b_sock_01_a_false_readiness_waits_on() {
    for_each_backend(|world| {
        let (ours, mut theirs) = pair(&world.event_loop);
        world.log.lies.set(true);
        let (lp, lies) = (world.event_loop.loop_ref(), world.log.lies.clone());
        let reader = world.event_loop.spawn(async move { ours.recv(9).await });
        for _ in 0..20 {
            world.turn();
        }
        assert!(!reader.is_done());
        lies.set(false);
        drop(lp);
        theirs.write_all(b"true").unwrap();
        assert_eq!(world.block_on(reader).unwrap().unwrap(), b"true");
    });
}

#[test]
fn waiting_again_for_the_same_costs_no_call_to_the_selector() {
    for_each_backend(|world| {
        let (ours, theirs) = pair(&world.event_loop);
        let theirs = AsyncFd::new(&world.event_loop, theirs).unwrap();
        world.block_on(async {
            let echo = async {
                for _ in 0..100 {
                    let data = theirs.recv(9).await.unwrap();
                    theirs.send_all(&data).await.unwrap();
                }
            };
            let ping = async {
                for _ in 0..100 {
                    ours.send_all(b"ping").await.unwrap();
                    assert_eq!(ours.recv(9).await.unwrap(), b"ping");
                }
            };
            // Both in one task.
            let (mut echo, mut ping) = (pin!(echo), pin!(ping));
            let (mut echoed, mut pinged) = (false, false);
            std::future::poll_fn(|cx| {
                echoed = echoed || echo.as_mut().poll(cx).is_ready();
                pinged = pinged || ping.as_mut().poll(cx).is_ready();
                if echoed && pinged { Poll::Ready(()) } else { Poll::Pending }
            })
            .await;
        });
        assert_eq!(world.log.registers.get(), 2);
        let changes = world.log.take_modifies().len();
        assert!(changes <= 4, "{changes} changes for 200 waits");
    });
}

#[test]
fn b_sock_02_everything_arrives_in_order_and_the_end_is_empty() {
    for_each_backend(|world| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let lp = world.event_loop.loop_ref();
        let client = AsyncFd::new(&lp, stream_socket()).unwrap();
        let listener = AsyncFd::new(&lp, listener).unwrap();
        let content: Vec<u8> = (0..8_000_000u32).map(|i| (i / 7) as u8).collect();
        let expected = content.clone();
        let sender = lp.spawn(async move {
            client.connect(addr).await.unwrap();
            client.send_all(&content).await.unwrap();
        });
        world.block_on(async {
            let (served, from) = listener.accept().await.unwrap();
            assert!(matches!(from, SockAddr::Ip(from) if from.ip() == addr.ip()));
            let (mut received, mut buffer) = (Vec::new(), vec![0; 100_000]);
            loop {
                let count = served.recv_into(&mut buffer).await.unwrap();
                if count == 0 {
                    break;
                }
                received.extend_from_slice(&buffer[..count]);
            }
            assert!(received == expected);
            assert_eq!(served.recv(9).await.unwrap(), b"", "and again");
        });
        world.block_on(sender).unwrap();
    });
}

#[test]
fn b_sock_02_datagrams_carry_addresses() {
    for_each_backend(|world| {
        let lp = world.event_loop.loop_ref();
        let one = UdpSocket::bind("127.0.0.1:0").unwrap();
        let two = UdpSocket::bind("127.0.0.1:0").unwrap();
        let (one_addr, two_addr) = (one.local_addr().unwrap(), two.local_addr().unwrap());
        let (one, two) = (AsyncFd::new(&lp, one).unwrap(), AsyncFd::new(&lp, two).unwrap());
        world.block_on(async {
            assert_eq!(one.send_to(b"hello", two_addr).await.unwrap(), 5);
            one.send_to(b"", two_addr).await.unwrap();
            assert_eq!(two.recv_from(99).await.unwrap(), (b"hello".to_vec(), one_addr.into()));
            assert_eq!(two.recv_from(99).await.unwrap(), (vec![], one_addr.into()));
            let mut buffer = [0; 3];
            one.send_to(b"abcdef", two_addr).await.unwrap();
            assert_eq!(two.recv_from_into(&mut buffer).await.unwrap(), (3, one_addr.into()));
            let error = one.send_to(&[0; 70_000], two_addr).await.unwrap_err();
            assert!(text(&error).contains(&two_addr.to_string()), "{error}");
        });
    });
}

#[test]
fn b_sock_03_a_connect_that_fails_names_the_address() {
    for_each_backend(|world| {
        let (_bound, nobody) = refusing();
        let client = AsyncFd::new(&world.event_loop, stream_socket()).unwrap();
        let error = world.block_on(client.connect(nobody)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
        assert!(text(&error).contains(&nobody.to_string()), "{error}");

        let dir = common::temp_dir();
        let path = dir.path().join("nobody");
        let (unix, _) = UnixStream::pair().unwrap();
        drop(unix);
        let socket = socket2::Socket::new(socket2::Domain::UNIX, socket2::Type::STREAM, None);
        let client = AsyncFd::new(&world.event_loop, socket.unwrap()).unwrap();
        let error = world.block_on(client.connect(path.as_path())).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert!(text(&error).contains("nobody"), "{error}");
        // The socket is none the worse.
        let listener = UnixListener::bind(&path).unwrap();
        world.block_on(client.connect(path.as_path())).unwrap();
        listener.accept().unwrap();
    });
}

#[test]
fn b_sock_04_a_host_gives_the_address_of_the_sockets_family() {
    for_each_backend(|world| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let client = AsyncFd::new(&world.event_loop, stream_socket()).unwrap();
        let v6_first = [([0, 0, 0, 0, 0, 0, 0, 1], port).into(), ([127, 0, 0, 1], port).into()];
        world.block_on(client.connect_host(&v6_first[..])).unwrap();
        listener.accept().unwrap();

        let client = AsyncFd::new(&world.event_loop, stream_socket()).unwrap();
        world.block_on(client.connect_host(("localhost", port))).unwrap();
        listener.accept().unwrap();

        let client = AsyncFd::new(&world.event_loop, stream_socket()).unwrap();
        let error = world.block_on(client.connect_host(&v6_first[..1])).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrNotAvailable);
        assert!(text(&error).contains("::1"), "{error}");

        // Paths are nobody's host.
        let (unix, _peer) = pair(&world.event_loop);
        let error = world.block_on(unix.connect_host(("localhost", port))).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrNotAvailable);
    });
}

#[test]
fn b_sock_05_accepted_sockets_do_not_block_and_close_on_exec() {
    use rustix::fs::{OFlags, fcntl_getfl};
    use rustix::io::{FdFlags, fcntl_getfd};
    for_each_backend(|world| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let listener = AsyncFd::new(&world.event_loop, listener).unwrap();
        let connecting = std::thread::spawn(move || TcpStream::connect(addr).unwrap());
        let (served, _) = world.block_on(listener.accept()).unwrap();
        assert!(fcntl_getfl(&served).unwrap().contains(OFlags::NONBLOCK));
        assert!(fcntl_getfd(&served).unwrap().contains(FdFlags::CLOEXEC));
        let served = TcpStream::from(served.into_inner());
        assert_eq!((&served).read(&mut [0]).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        connecting.join().unwrap();
    });
}

#[test]
fn b_sock_06_dropping_an_operation_ends_its_wait_at_once() {
    for_each_backend(|world| {
        let (ours, mut theirs) = pair(&world.event_loop);
        let ours = Rc::new(ours);
        let reading = ours.clone();
        let task = world.event_loop.spawn(async move { reading.recv(9).await });
        world.turn();
        assert_eq!(world.log.registered(), 1);
        task.cancel();
        world.block_on(task).unwrap_err();
        theirs.write_all(b"kept").unwrap();
        world.log.take_modifies();
        world.idle();
        // Once told, the selector watches nothing: with bytes waiting no further change follows.
        assert!(world.log.take_modifies().len() <= 1);
        assert_eq!(world.block_on(ours.recv(9)).unwrap(), b"kept", "nothing was lost");
        // With the descriptor its registration goes, before it is closed.
        drop(ours);
        assert_eq!(world.log.registered(), 0);
        assert_eq!(theirs.read(&mut [0]).unwrap(), 0);
    });
}

#[test]
fn b_sock_06_a_new_socket_of_the_same_number_is_not_disturbed() {
    for_each_backend(|world| {
        for _ in 0..50 {
            let (first, _peer) = pair(&world.event_loop);
            let lp = world.event_loop.loop_ref();
            let task = lp.spawn(async move { first.recv(9).await });
            world.turn();
            task.cancel();
            world.turn();
            assert_eq!(world.log.registered(), 0, "dropped with its task");
            // The numbers are used again.
            let (second, mut peer) = pair(&world.event_loop);
            let task = world.event_loop.spawn(async move { second.recv(9).await });
            world.turn();
            peer.write_all(b"yours").unwrap();
            assert_eq!(world.block_on(task).unwrap().unwrap(), b"yours");
        }
    });
}

/// tokio-rs/tokio#7979: on io_uring a dropped accept left a socket that nobody had. Here an accept waits
/// for readiness and accepts when it is polled, so what was dropped has taken nothing.
#[test]
fn s18_a_dropped_accept_takes_no_connection() {
    for_each_backend(|world| {
        let listening = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listening.local_addr().unwrap();
        let fd = Rc::new(AsyncFd::new(&world.event_loop, listening).unwrap());
        let mut clients = Vec::new();
        for _ in 0..100 {
            let accepting = fd.clone();
            let task = world.event_loop.spawn(async move { accepting.accept().await.map(drop) });
            world.turn();
            // It is ready now, and not polled again.
            clients.push(TcpStream::connect(addr).unwrap());
            task.cancel();
            world.idle();
            // One at a time, for the backlog is not endless.
            let (_, peer) = world.block_on(fd.accept()).unwrap();
            let client = clients.pop().unwrap();
            assert_eq!(peer.socket_addr(), client.local_addr().ok(), "the very same");
        }
        drop(fd);
        assert_eq!(world.log.registered(), 0);
    });
}

#[test]
fn b_sock_07_a_second_operation_in_one_direction_is_refused() {
    for_each_backend(|world| {
        let (ours, mut theirs) = pair(&world.event_loop);
        let ours = Rc::new(ours);
        let first = ours.clone();
        let first = world.event_loop.spawn(async move { first.recv(9).await });
        world.turn();
        let error = world.block_on(ours.recv(9)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ResourceBusy, "{error}");
        // The other direction is free, and the first is unaffected.
        world.block_on(ours.send_all(b"out")).unwrap();
        theirs.write_all(b"in").unwrap();
        assert_eq!(world.block_on(first).unwrap().unwrap(), b"in");
        theirs.write_all(b"again").unwrap();
        assert_eq!(world.block_on(ours.recv(9)).unwrap(), b"again");
    });
}

#[test]
fn b_sock_08_the_descriptor_of_a_transport_is_refused() {
    for_each_backend(|world| {
        let probe = Probe::new();
        let (_transport, mut peer) = world.accept(&probe);
        let foreign = AsyncFd::new(&world.event_loop, world.only_owner()).unwrap();
        let error = world.block_on(foreign.readable()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ResourceBusy, "{error}");
        drop(foreign);
        peer.write_all(b"x").unwrap();
        world.until(|| probe.trace.has("data x"));
    });
}

/// Source: python/asyncio#366. The clean-up of a connect ran an iteration late and took the writer of
/// the next operation away.
#[test]
fn b_sock_09_s26_sending_right_after_connecting_keeps_its_wait() {
    const SIZE: usize = 8 * 1024 * 1024;
    let _watchdog = watchdog();
    for name in common::backends() {
        let mut world = World::new(name);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let rounds = 40;
        let server = std::thread::spawn(move || {
            for _ in 0..rounds {
                let (mut stream, _) = listener.accept().unwrap();
                stream.write_all(b"hello").unwrap();
                let (mut total, mut buffer) = (0, vec![0; 256 * 1024]);
                loop {
                    match stream.read(&mut buffer).unwrap() {
                        0 => break,
                        count => total += count,
                    }
                }
                assert_eq!(total, SIZE);
            }
        });
        let data = vec![7; SIZE];
        for _ in 0..rounds {
            let client = AsyncFd::new(&world.event_loop, stream_socket()).unwrap();
            world.block_on(async {
                client.connect(addr).await.unwrap();
                assert_eq!(client.recv(5).await.unwrap(), b"hello");
                client.send_all(&data).await.unwrap();
            });
            drop(client);
        }
        server.join().unwrap();
    }
}

/// An operation that this crate has not got, from what it has.
#[test]
fn operations_of_ones_own_wait_as_the_others_do() {
    for_each_backend(|world| {
        let (ours, theirs) = pair(&world.event_loop);
        let ours = Rc::new(ours);
        let peeking = ours.clone();
        let tries = Rc::new(Cell::new(0));
        let count = tries.clone();
        let task = world.event_loop.spawn(async move {
            let peek = |socket: &UnixStream| {
                count.set(count.get() + 1);
                if count.get() == 1 {
                    // Interrupted: tried again at once.
                    return Err(io::ErrorKind::Interrupted.into());
                }
                let mut byte = [0];
                Ok(rustix::net::recv(socket, &mut byte, rustix::net::RecvFlags::PEEK)?.0)
            };
            peeking.read_with(peek).await
        });
        world.idle();
        assert_eq!(tries.get(), 2, "one of them would have blocked, and it waits");
        (&theirs).write_all(b"x").unwrap();
        assert_eq!(world.block_on(task).unwrap().unwrap(), 1);
        assert_eq!(world.block_on(ours.recv(9)).unwrap(), b"x", "it was only looked at");

        // Until there is room, in the other direction.
        world.block_on(ours.writable()).unwrap();
        let block = [7; 4096];
        while rustix::io::write(&*ours, &block).is_ok() {}
        let writing = ours.clone();
        let task = world.event_loop.spawn(async move {
            writing.write_with(|socket| Ok(rustix::io::write(socket, b"the last")?)).await
        });
        world.idle();
        assert!(!task.is_done());
        let full = world.block_on(loop_core::timeout(Duration::from_millis(1), ours.writable()));
        assert_eq!(full.unwrap().unwrap_err().kind(), io::ErrorKind::ResourceBusy);
        theirs.set_nonblocking(true).unwrap();
        let mut heard = Vec::new();
        while !task.is_done() {
            let _ = (&theirs).read_to_end(&mut heard);
            world.turn();
        }
        assert_eq!(world.block_on(task).unwrap().unwrap(), 8);
        let _ = (&theirs).read_to_end(&mut heard);
        assert!(heard.ends_with(b"the last"));
        // An error of its own is what it ends with.
        let failing = ours.write_with(|_| io::Result::<()>::Err(io::Error::other("no")));
        assert_eq!(text(world.block_on(failing).unwrap_err()), "no");
    });
}

#[test]
fn pipes_and_regular_files_work_too() {
    for_each_backend(|world| {
        let lp = world.event_loop.loop_ref();
        let (reader, writer) = common::pipe();
        let reader = AsyncFd::new(&lp, reader).unwrap();
        let writer = AsyncFd::new(&lp, writer).unwrap();
        let content = vec![5; 1_000_000];
        let sender = lp.spawn(async move { writer.write_all(&content).await });
        let (mut total, mut buffer) = (0, [0; 10_000]);
        world.block_on(async {
            loop {
                match reader.read(&mut buffer).await.unwrap() {
                    0 => break,
                    count => total += count,
                }
            }
        });
        assert_eq!(total, 1_000_000);
        world.block_on(sender).unwrap().unwrap();

        let file = AsyncFd::new(&lp, std::fs::File::open("/proc/self/status").unwrap()).unwrap();
        assert!(world.block_on(file.read(&mut buffer)).unwrap() > 0);
        let error = world.block_on(file.recv(9)).unwrap_err();
        assert!(text(&error).contains("receive from fd"), "{error}");
    });
}

#[test]
fn a_descriptor_goes_back_in_the_mode_it_came_in() {
    use rustix::fs::{OFlags, fcntl_getfl};
    for_each_backend(|world| {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let ours = AsyncFd::new(&world.event_loop, ours).unwrap();
        assert!(fcntl_getfl(&ours).unwrap().contains(OFlags::NONBLOCK));
        let mut waiting = Box::pin(ours.readable());
        assert!(poll_once(waiting.as_mut()).is_pending());
        drop(waiting);
        let ours = ours.into_inner();
        assert!(!fcntl_getfl(&ours).unwrap().contains(OFlags::NONBLOCK));
        assert_eq!(world.log.registered(), 0);
        theirs.set_nonblocking(true).unwrap();
        let theirs = AsyncFd::new(&world.event_loop, theirs).unwrap().into_inner();
        assert!(fcntl_getfl(&theirs).unwrap().contains(OFlags::NONBLOCK));
    });
}

#[test]
fn one_who_is_woken_and_does_not_look_costs_no_busy_loop() {
    for_each_backend(|world| {
        let (ours, mut theirs) = pair(&world.event_loop);
        let mut waiting = Box::pin(ours.readable());
        assert!(poll_once(waiting.as_mut()).is_pending());
        theirs.write_all(b"x").unwrap();
        world.idle();
        let before = world.log.waits.get();
        world.event_loop.run_once(Some(Duration::from_millis(20))).unwrap();
        assert_eq!(world.log.waits.get(), before + 1);
        assert!(world.log.take_modifies().contains(&None), "it is not watched any more");
        assert!(poll_once(waiting.as_mut()).is_ready());
    });
}

#[test]
fn a_closed_loop_is_an_error_and_nothing_hangs() {
    for name in common::backends() {
        let world = World::new(name);
        let (ours, mut theirs) = pair(&world.event_loop);
        let mut waiting = Box::pin(ours.readable());
        assert!(poll_once(waiting.as_mut()).is_pending());
        drop(waiting);
        drop(world);
        theirs.write_all(b"x").unwrap();
        // What is there is still got; waiting is refused.
        assert!(matches!(poll_once(pin!(ours.recv(9))), Poll::Ready(Ok(data)) if data == b"x"));
        let refused = poll_once(pin!(ours.recv(9)));
        assert!(matches!(refused, Poll::Ready(Err(_))));
        (&ours.into_inner()).write_all(b"mine again").unwrap();
    }
}
