//! What needs a descriptor when there is none left: an error that says so, nothing kept, and all of it works again
//! as soon as there are some. One test, for the limit is the process's. Accepting is a test of servers.

mod common;

use std::fs::{File, read_dir};
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;

use common::{Probe, for_each_backend, temp_dir};
use loop_net::{AsyncFd, DatagramProtocol, Net, SockAddr};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

struct Deaf;

impl DatagramProtocol for Deaf {
    fn datagram_received(&mut self, _: &[u8], _: &SockAddr) {}
}

fn files() -> Vec<u64> {
    let entries = read_dir("/proc/self/fd").unwrap();
    entries.map(|entry| entry.unwrap().file_name().to_str().unwrap().parse().unwrap()).collect()
}

/// Runs with no descriptor left.
fn with_none_left<T>(run: impl FnOnce() -> T) -> T {
    let limit = getrlimit(Resource::Nofile);
    let current = Some(files().into_iter().max().unwrap() + 1);
    setrlimit(Resource::Nofile, Rlimit { current, ..limit }).unwrap();
    let mut taken = Vec::new();
    while let Ok(file) = File::open("/dev/null") {
        taken.push(file);
    }
    let ran = run();
    drop(taken);
    setrlimit(Resource::Nofile, limit).unwrap();
    ran
}

/// What is there before.
struct Things {
    net: Net,
    addr: SocketAddr,
    theirs: PathBuf,
    own: PathBuf,
    listening: AsyncFd<TcpListener>,
    sending: AsyncFd<UnixStream>,
    receiving: AsyncFd<UnixStream>,
}

#[derive(Debug, Clone, Copy)]
enum Act {
    Connect,
    ConnectUnix,
    Listen,
    ListenUnix,
    Datagrams,
    Child,
    Accept,
    Receive,
}

impl Act {
    const ALL: [Act; 8] = [
        Act::Connect,
        Act::ConnectUnix,
        Act::Listen,
        Act::ListenUnix,
        Act::Datagrams,
        Act::Child,
        Act::Accept,
        Act::Receive,
    ];

    /// What its error begins with.
    fn names(self, things: &Things) -> String {
        match self {
            Act::Connect => format!("connect to {}", things.addr),
            Act::ConnectUnix => format!("connect to {}", things.theirs.display()),
            Act::Listen => "listen on 127.0.0.1:0".to_owned(),
            Act::ListenUnix => format!("listen on {}", things.own.display()),
            Act::Datagrams => "make a datagram socket for 127.0.0.1:0".to_owned(),
            Act::Child => "start /bin/sh".to_owned(),
            Act::Accept => "accept from fd".to_owned(),
            Act::Receive => "receive descriptors from".to_owned(),
        }
    }

    async fn run(self, things: &Things) -> io::Result<()> {
        let Things { net, addr, theirs, own, listening, receiving, .. } = things;
        match self {
            Act::Connect => net.tcp_connect(*addr).open_stream().await.map(drop),
            Act::ConnectUnix => net.unix_connect(theirs.as_path()).open_stream().await.map(drop),
            Act::Listen => net.tcp_server("127.0.0.1:0").bind(Probe::new).await.map(drop),
            Act::ListenUnix => net.unix_server(own.as_path()).bind(Probe::new).await.map(drop),
            Act::Datagrams => net.udp("127.0.0.1:0").open(|| Deaf).await.map(drop),
            Act::Child => {
                let mut child = net.shell("exit 0").piped().spawn().await?;
                child.communicate(None).await.map(drop)
            }
            Act::Accept => listening.accept().await.map(drop),
            Act::Receive => receiving.recv_with_fds(8, 1).await.map(drop),
        }
    }
}

#[test]
fn all_that_needs_a_descriptor_says_when_there_is_none_and_works_again() {
    for_each_backend(|world| {
        let dir = temp_dir();
        let (theirs, own) = (dir.path().join("theirs"), dir.path().join("own"));
        let _unix = UnixListener::bind(&theirs).unwrap();
        let (listener, addr) = common::listener();
        let (lp, net) = (world.net.loop_ref(), world.net.clone());
        let (one, two) = UnixStream::pair().unwrap();
        let (sending, receiving) =
            (AsyncFd::new(&lp, one).unwrap(), AsyncFd::new(&lp, two).unwrap());
        let listening = AsyncFd::new(&lp, listener).unwrap();
        let things = Things { net, addr, theirs, own, listening, sending, receiving };
        // What is to be accepted, and received.
        let _waiting = TcpStream::connect(addr).unwrap();
        let fds = [things.sending.as_fd()];
        let send = || things.sending.send_with_fds(b"x", &fds);
        world.block_on(send()).unwrap();
        world.idle();
        let before = files().len();
        for act in Act::ALL {
            let error = with_none_left(|| world.block_on(act.run(&things))).unwrap_err();
            let text = error.to_string();
            assert!(text.starts_with(&act.names(&things)), "{act:?}: {text}");
            assert!(text.contains("Too many open files"), "{act:?}: {text}");
            world.idle();
            assert_eq!(files().len(), before, "{act:?}");
            assert!(!things.own.exists());
        }
        // The bytes that a descriptor came with are lost with it.
        world.block_on(send()).unwrap();
        for act in Act::ALL {
            world.block_on(act.run(&things)).unwrap_or_else(|error| panic!("{act:?}: {error}"));
            world.idle();
        }
    });
}
