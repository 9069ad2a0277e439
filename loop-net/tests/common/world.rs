//! A loop with its network.

use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use loop_core::{EventLoop, Selector};
use loop_net::Net;
use loop_selector::by_name;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::retry_on_intr;

use super::selector::{Log, LogSelector, Owner};
use super::{Kind, Trace, reports};

/// A loop, its network, and what they reported.
pub struct World {
    pub event_loop: EventLoop,
    pub net: Net,
    pub reports: Trace,
    pub log: Log,
    /// Of the connections that [`World::accept`] makes.
    pub kind: Kind,
}

impl World {
    pub fn new(backend: &str) -> World {
        let (selector, log) = LogSelector::new(backend);
        World::on(selector, log)
    }

    /// One whose selector notes nothing: notes take memory.
    pub fn without_log(backend: &str) -> World {
        World::on(by_name(backend).unwrap(), Log::default())
    }

    fn on(selector: Box<dyn Selector>, log: Log) -> World {
        let event_loop = EventLoop::builder().selector(selector).build().unwrap();
        let net = Net::os(&event_loop);
        let reports = reports(&event_loop);
        World { event_loop, net, reports, log, kind: Kind::Tcp }
    }

    /// One iteration that does not wait.
    pub fn turn(&mut self) {
        self.event_loop.run_once(Some(Duration::ZERO)).unwrap();
    }

    /// Enough iterations for what should not happen to happen.
    pub fn idle(&mut self) {
        for _ in 0..8 {
            self.turn();
        }
    }

    /// Iterations until something holds; the watchdog ends the ones that never do.
    pub fn until(&mut self, mut holds: impl FnMut() -> bool) {
        while !holds() {
            self.event_loop.run_once(Some(Duration::from_millis(1))).unwrap();
        }
    }

    pub fn block_on<F: Future>(&mut self, future: F) -> F::Output {
        self.event_loop.run_until_complete(future).unwrap()
    }

    /// Waits, without a turn, until so many of what is registered can be read.
    pub fn until_readable(&self, count: usize) {
        let owners = self.log.owners();
        let readable = || {
            let mut fds: Vec<_> =
                owners.iter().map(|owner| PollFd::new(owner, PollFlags::IN)).collect();
            // An io_uring that was closed in this thread may interrupt it.
            retry_on_intr(|| poll(&mut fds, None)).unwrap();
            fds.iter().filter(|fd| !fd.revents().is_empty()).count()
        };
        while readable() < count {
            std::thread::yield_now();
        }
    }

    /// Reads what the peer gets, while the loop runs, until there are `count` bytes.
    pub fn read(&mut self, peer: &mut (impl Read + AsFd), count: usize) -> Vec<u8> {
        let (bytes, end) = self.receive(peer, count);
        assert!(bytes.len() >= count, "{} of {count} bytes, then {end:?}", bytes.len());
        bytes
    }

    /// Reads what the peer gets, while the loop runs, until its stream ends well.
    pub fn read_to_end(&mut self, peer: &mut (impl Read + AsFd)) -> Vec<u8> {
        let (bytes, end) = self.receive(peer, usize::MAX);
        end.unwrap();
        bytes
    }

    fn receive(
        &mut self,
        peer: &mut (impl Read + AsFd),
        count: usize,
    ) -> (Vec<u8>, io::Result<()>) {
        rustix::io::ioctl_fionbio(&*peer, true).unwrap();
        let mut bytes = Vec::new();
        let mut chunk = vec![0; 256 * 1024];
        while bytes.len() < count {
            match peer.read(&mut chunk) {
                Ok(0) => return (bytes, Ok(())),
                Ok(read) => bytes.extend_from_slice(&chunk[..read]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return (bytes, Err(error)),
            }
            self.event_loop.run_once(Some(Duration::ZERO)).unwrap();
        }
        (bytes, Ok(()))
    }

    /// Tells whether the only registered socket is still open. Numbers are reused, these links are not.
    pub fn only_socket(&self) -> impl Fn() -> bool + use<> {
        let owner = self.only_owner();
        let link = format!("/proc/self/fd/{}", owner.as_fd().as_raw_fd());
        let socket = std::fs::read_link(&link).unwrap();
        move || std::fs::read_link(&link).is_ok_and(|now| now == socket)
    }

    /// The owner of the only registration.
    pub fn only_owner(&self) -> Owner {
        let mut owners = self.log.owners();
        assert_eq!(owners.len(), 1);
        owners.remove(0)
    }
}
