//! What the behaviours are tried out on: connected ends, and descriptors in a bad way.

use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::Make;
use crate::event::{Event, Events};
use crate::interest::{Interest, Readiness};
use crate::selector::Selector;
use crate::source::{AsSource, RawSource};
use crate::token::Token;

pub(super) const READ: Interest = Interest::READ;
pub(super) const WRITE: Interest = Interest::WRITE;

/// READ and WRITE.
pub(super) fn both() -> Interest {
    READ | WRITE
}

/// Enough for the kernel to notice anything.
pub(super) const SOON: Option<Duration> = Some(Duration::from_secs(10));
pub(super) const ZERO: Option<Duration> = Some(Duration::ZERO);

pub(super) fn create(make: Make<'_>) -> Box<dyn Selector> {
    make().expect("the selector can be created")
}

/// Waits, and returns what is ready as pairs.
pub(super) fn select(
    selector: &mut dyn Selector,
    timeout: Option<Duration>,
) -> Vec<(Token, Readiness)> {
    let mut events = Events::new();
    selector.select(&mut events, timeout).expect("select succeeds");
    events.iter().map(|Event::Ready { token, readiness }| (*token, *readiness)).collect()
}

/// True if the kernel has nothing to report, as far as can be seen from outside: an event that the
/// selector would drop again costs a wake-up all the same.
pub(super) fn is_quiet(selector: &dyn Selector) -> bool {
    let Some(fd) = selector.as_fd() else { return true };
    let mut fds = [PollFd::new(&fd, PollFlags::IN)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    rustix::event::poll(&mut fds, Some(&now)).expect("poll succeeds") == 0
}

/// How long `f` takes, with its result.
pub(super) fn timed<T>(f: impl FnOnce() -> T) -> (T, Duration) {
    let start = Instant::now();
    let value = f();
    (value, start.elapsed())
}

/// Two connected, non-blocking stream sockets.
pub(super) fn pair() -> (UnixStream, UnixStream) {
    let (a, b) = UnixStream::pair().expect("a pair of sockets");
    for end in [&a, &b] {
        end.set_nonblocking(true).expect("non-blocking");
    }
    (a, b)
}

/// A socket that is readable and writable, and the end that made it so.
pub(super) fn ready_pair() -> (UnixStream, UnixStream) {
    let (a, mut b) = pair();
    b.write_all(b"x").expect("room for a byte");
    (a, b)
}

/// The reading and the writing end of a pipe.
pub(super) fn pipe() -> (OwnedFd, OwnedFd) {
    rustix::pipe::pipe().expect("a pipe")
}

pub(super) fn rc(source: impl AsFd + 'static) -> Rc<dyn AsSource> {
    Rc::new(source)
}

/// Lifts the limit on open files as far as the process may, and returns it.
pub(super) fn lift_file_limit() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let most = limit.maximum.unwrap_or(1 << 16).min(1 << 16);
    if limit.current.is_some_and(|current| current < most) {
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(most), ..limit });
    }
    getrlimit(Resource::Nofile).current.unwrap_or(most)
}

/// The selector takes descriptors below this: the limit on open files, or 1024 if it refuses higher
/// numbers, as one over `select` must.
pub(super) fn bound(make: Make<'_>) -> RawFd {
    let limit = i32::try_from(lift_file_limit()).expect("a limit of at most 2^16");
    if limit <= FD_SETSIZE {
        return limit;
    }
    let high = rustix::io::fcntl_dupfd_cloexec(pair().0, FD_SETSIZE).expect("a high descriptor");
    match create(make).register(rc(high), READ) {
        Ok(_) => limit,
        Err(error) => {
            assert_eq!(error.error().kind(), io::ErrorKind::InvalidInput, "{error}");
            FD_SETSIZE
        }
    }
}

/// The limit of `select`, as good as everywhere.
pub(super) const FD_SETSIZE: RawFd = 1024;

/// A behaviour that opens many descriptors leaves the numbers from here on to others.
pub(super) fn crowd_bound(make: Make<'_>) -> RawFd {
    bound(make) / 3 * 2
}

/// A copy of `fd` under a number that nobody else in the process gets while this test runs: far
/// above the lowest free ones, which the kernel hands out, and a different one each time.
pub(super) fn lonely(make: Make<'_>, fd: impl AsFd) -> OwnedFd {
    static NEXT: AtomicI32 = AtomicI32::new(0);
    let bound = bound(make);
    let number = bound - 1 - NEXT.fetch_add(1, Ordering::Relaxed) % (bound / 4);
    rustix::io::fcntl_dupfd_cloexec(fd, number).expect("a high descriptor")
}

/// Gives `fd` the number `number`, which is free.
pub(super) fn with_number(fd: impl AsFd, number: RawFd) -> OwnedFd {
    let copy = rustix::io::fcntl_dupfd_cloexec(fd, number).expect("a high descriptor");
    assert_eq!(copy.as_raw_fd(), number, "the number was not free");
    copy
}

/// The number of `fd` as a source that owns nothing, so that a test can close it too early.
#[allow(unsafe_code)]
pub(super) fn unowned(fd: &OwnedFd) -> Rc<dyn AsSource> {
    // SAFETY: the caller closes `fd` while this lives, on purpose: what a selector does then is
    // what is tested. The number is a lonely one, so no other file is ever meant.
    Rc::new(unsafe { RawSource::new(fd.as_raw_fd()) }.expect("not negative"))
}

/// A source whose descriptor cannot exist.
pub(super) struct Negative;

impl AsSource for Negative {
    #[allow(unsafe_code)]
    fn source_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: not -1, the only number that is no `BorrowedFd`. It is not open, but the kernel
        // answers every use of it with EBADF.
        unsafe { BorrowedFd::borrow_raw(-2) }
    }
}

/// True if the backend keeps interest in the kernel, and so refuses what it cannot watch. Such a
/// backend is held to that answer in later calls too.
pub(super) fn refuses_closed(make: Make<'_>) -> bool {
    let mut selector = create(make);
    let fd = lonely(make, pair().0);
    let source = unowned(&fd);
    drop(fd);
    selector.register(source, READ).is_err()
}

/// The kind of an error, for comparison.
pub(super) fn kind<T>(result: io::Result<T>) -> Option<io::ErrorKind> {
    result.err().map(|error| error.kind())
}

/// Interrupts the calling thread with a harmless signal every few milliseconds until dropped.
pub(super) struct Interrupter {
    stop: std::sync::mpsc::Sender<()>,
    thread: Option<std::thread::JoinHandle<u32>>,
    _handler: crate::signal::SignalWatcher,
}

impl Interrupter {
    #[allow(unsafe_code)]
    pub(super) fn start(every: Duration) -> Interrupter {
        // A handler that wakes nobody we wait for: the signal does nothing but interrupt.
        let waker = crate::waker::Waker::new().expect("a waker");
        let mut handler = crate::signal::SignalWatcher::new(waker).expect("a watcher");
        handler.watch(crate::signal::Signal::WINCH).expect("a handler");
        let (stop, stopped) = std::sync::mpsc::channel();
        // SAFETY: it takes nothing and cannot fail.
        let target = unsafe { libc::pthread_self() } as usize;
        let thread = std::thread::spawn(move || {
            let mut sent = 0;
            while stopped.recv_timeout(every).is_err() {
                // SAFETY: the target thread joins this one in `finish` or `drop`, so it exists.
                unsafe { libc::pthread_kill(target as libc::pthread_t, libc::SIGWINCH) };
                sent += 1;
            }
            sent
        });
        Interrupter { stop, thread: Some(thread), _handler: handler }
    }

    /// Stops, and tells how many signals were sent.
    pub(super) fn finish(mut self) -> u32 {
        self.join()
    }

    fn join(&mut self) -> u32 {
        // The thread may have ended by itself; joining says how.
        let _ = self.stop.send(());
        self.thread.take().map_or(0, |thread| thread.join().expect("it does not panic"))
    }
}

impl Drop for Interrupter {
    fn drop(&mut self) {
        self.join();
    }
}
