//! Nothing is leaked, no descriptor and no memory: all kinds of them, opened and ended in every way, many times. One
//! test, for descriptors are counted by the process.

mod common;

use std::net::UdpSocket;
use std::os::unix::net::UnixStream;

use common::{Probe, World, for_each_backend, temp_dir};
use loop_net::{AsyncFd, DatagramProtocol, Net, SendFile, SockAddr};

struct Deaf;

impl DatagramProtocol for Deaf {
    fn datagram_received(&mut self, _: &[u8], _: &SockAddr) {}
}

fn open_files() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// One that is heard to its end, and one that is killed.
async fn children(net: &Net) {
    let heard = net.shell("cat").piped().spawn().await.unwrap().communicate(Some(b"x")).await;
    assert_eq!(heard.unwrap().stdout, b"x");
    let killed = net.shell("exec cat").piped().kill_on_drop(true).spawn().await.unwrap();
    killed.kill().unwrap();
    killed.wait().await.unwrap();
}

/// Both ends of a connection behind TLS, closed in order or not, and one that never shakes hands.
#[cfg(feature = "tls")]
fn secured(world: &mut World, in_order: bool) {
    use common::tls::{echo_server, open_stream, shared};
    let server = echo_server(world, shared().server());
    let (mut reader, writer) = open_stream(world, &server, shared().client());
    let silent = std::net::TcpStream::connect(server.local_addrs()[0]).unwrap();
    world.block_on(async {
        writer.write(b"word");
        assert_eq!(reader.read_exact(4).await.unwrap(), b"word");
        if in_order {
            writer.close()
        } else {
            writer.abort()
        }
        drop(silent);
        server.close();
        server.wait_closed().await;
    });
    // Of the one that went in its handshake.
    world.reports.take();
}

#[test]
fn descriptors_and_memory_of_every_kind_are_given_back_however_they_end() {
    for_each_backend(|world| {
        let dir = temp_dir();
        let path = dir.path().join("file");
        std::fs::write(&path, vec![1; 100_000]).unwrap();
        let file = std::fs::File::open(&path).unwrap();
        let one_round = |world: &mut World, round: usize| {
            let socket = dir.path().join("socket");
            let net = world.net.clone();
            world.block_on(async {
                // Unix streams, ended by either side.
                let server = net.unix_server(socket.as_path()).bind(Probe::new).await.unwrap();
                let (transport, _) =
                    net.unix_connect(socket.as_path()).connect(Probe::new).await.unwrap();
                let (reader, writer) =
                    net.unix_connect(socket.as_path()).open_stream().await.unwrap();
                if round % 2 == 0 {
                    transport.close();
                    drop(writer);
                } else {
                    server.close();
                    server.abort_clients();
                }
                drop((reader, server));
                // Pipes, connected or only taken over.
                let (reading, writing) = common::pipe();
                let (reading, writing) =
                    (net.read_pipe(reading).unwrap(), net.write_pipe(writing).unwrap());
                if round % 3 > 0 {
                    let reader = reading.open_stream().await.unwrap();
                    let (pipe, _) = writing.connect(Probe::new).await.unwrap();
                    pipe.write(b"x");
                    drop(reader);
                    pipe.abort();
                }
                // Datagrams.
                let endpoint = net.udp("127.0.0.1:0").open(|| Deaf).await.unwrap();
                let other = net.udp_connect(endpoint.local_addr().unwrap());
                let other = other.open(|| Deaf).await.unwrap();
                other.send(b"x").unwrap();
                endpoint.close();
                other.abort();
                // Waits that are dropped, and a file that is.
                let (ours, _theirs) = UnixStream::pair().unwrap();
                let fd = AsyncFd::new(&net.loop_ref(), ours).unwrap();
                let soon = std::time::Duration::from_micros(1);
                let _ = loop_core::timeout(soon, fd.readable()).await;
                let _ = loop_core::timeout(soon, fd.send_file(SendFile::new(&file))).await;
                let _ =
                    loop_core::timeout(soon, net.tcp_connect("192.0.2.1:9").open_stream()).await;
                drop(net.adopt_datagram(UdpSocket::bind("127.0.0.1:0").unwrap()).unwrap());
                // A descriptor that is received and dropped.
                let (one, two) = UnixStream::pair().unwrap();
                let lp = net.loop_ref();
                let (one, two) = (AsyncFd::new(&lp, one).unwrap(), AsyncFd::new(&lp, two).unwrap());
                one.send_with_fds(b"x", &[std::os::fd::AsFd::as_fd(&file)]).await.unwrap();
                two.recv_with_fds(9, 1).await.unwrap();
                one.send_with_fds(b"x", &[std::os::fd::AsFd::as_fd(&file)]).await.unwrap();
            });
            if round % 3 == 0 {
                let net = world.net.clone();
                world.block_on(children(&net));
                #[cfg(feature = "tls")]
                secured(world, round % 2 == 0);
            }
            world.idle();
            let log = world.log.clone();
            world.until(|| log.registered() == 0);
            log.take_modifies();
        };
        // By then whatever is kept for good is there.
        (0..60).for_each(|round| one_round(world, round));
        let before = open_files();
        let kept =
            allocation_counter::measure(|| (60..300).for_each(|round| one_round(world, round)));
        assert_eq!(open_files(), before);
        // An allocation for each of the 80 children would be more. Some buckets of the heap of timers have been used
        // for the first time, and keep their memory.
        assert!(kept.count_current < 70 && kept.bytes_current < 8_192, "{kept:?}");
        assert!(!dir.path().join("socket").exists());
    });
}
