//! Waking a wait from another thread or from a signal handler.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::Arc;

use crate::wake_fd::WakeFd;
use crate::wake_state::WakeState;

/// Ends a wait from elsewhere: `Clone + Send + Sync`, and [`wake`](Waker::wake) may be called in a
/// signal handler.
///
/// Publish first, then wake; the waiting side returns from `select`, then looks. Any number of
/// wakes costs one system call if that side sleeps, and none if it does not (B-THR-05). A wake is
/// never lost and never an error, and one that comes after the selector was dropped does nothing: the
/// descriptor stays ours until the last clone goes (B-THR-07).
///
/// A backend owns a waker, and waits like this; so can whoever needs only a self-pipe:
///
/// ```
/// use loop_selector::Waker;
///
/// let waker = Waker::new()?;
/// let remote = waker.clone();
/// std::thread::spawn(move || remote.wake());
///
/// if waker.park() {
///     // ... wait until `waker.as_fd()` is readable, then:
/// #   while !waker.is_notified() { std::thread::yield_now(); }
///     waker.unpark();
///     waker.drain();
/// } else {
///     waker.unpark(); // woken already: nothing was written, nothing to wait for
/// }
/// // ... look at what was published
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Waker(Arc<Shared>);

#[derive(Debug)]
pub(crate) struct Shared {
    state: WakeState,
    fd: WakeFd,
}

impl Shared {
    /// One atomic swap and at most one write(2): async-signal-safe.
    pub(crate) fn wake(&self) {
        if self.state.notify() {
            self.fd.write();
        }
    }
}

impl Waker {
    /// A waker with a descriptor of its own: an eventfd on Linux and Android, a pipe elsewhere;
    /// close-on-exec and non-blocking.
    ///
    /// # Errors
    /// That of the system call: above all `EMFILE`.
    pub fn new() -> io::Result<Waker> {
        #[cfg(any(target_os = "linux", target_os = "android"))]
        return Waker::eventfd();
        #[cfg(not(any(target_os = "linux", target_os = "android")))]
        return Waker::pipe();
    }

    /// A waker over an eventfd: one descriptor, and one read empties it.
    ///
    /// # Errors
    /// As for [`new`](Waker::new).
    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub fn eventfd() -> io::Result<Waker> {
        WakeFd::eventfd().map(Waker::over)
    }

    /// A waker over a pipe, the "self-pipe" that every Unix has: two descriptors.
    ///
    /// # Errors
    /// As for [`new`](Waker::new).
    pub fn pipe() -> io::Result<Waker> {
        WakeFd::pipe().map(Waker::over)
    }

    /// A waker over a pair of connected Unix sockets, which is what asyncio has: for a loop that can
    /// wait for sockets only.
    ///
    /// # Errors
    /// As for [`new`](Waker::new).
    pub fn socketpair() -> io::Result<Waker> {
        WakeFd::socketpair().map(Waker::over)
    }

    fn over(fd: WakeFd) -> Waker {
        Waker(Arc::new(Shared { state: WakeState::new(), fd }))
    }

    /// Makes the current wait return, or the next one if nobody waits.
    pub fn wake(&self) {
        self.0.wake();
    }

    /// For the waiting side: declares that it is about to sleep. False if a wake is pending
    /// already: then wait with a zero timeout. An [`unpark`](Waker::unpark) is owed either way.
    ///
    /// There is one waiting side; two that park the same waker lose each other's wakes.
    pub fn park(&self) -> bool {
        self.0.state.park()
    }

    /// For the waiting side: declares that it is awake, and consumes the pending wake. What was
    /// published before that wake is visible from here on.
    pub fn unpark(&self) {
        self.0.state.unpark();
    }

    /// For the waiting side: makes the descriptor unreadable again. Owed when it was reported
    /// readable, and only then.
    pub fn drain(&self) {
        self.0.fd.drain();
    }

    /// True if a wake is pending: the next wait would not sleep.
    pub fn is_notified(&self) -> bool {
        self.0.state.is_notified()
    }

    /// The number of its descriptor.
    pub(crate) fn raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }

    /// For the signal handler, which can hold a pointer but no waker.
    pub(crate) fn shared(self) -> Arc<Shared> {
        self.0
    }
}

impl AsFd for Waker {
    /// The descriptor that becomes readable when a wake meets a parked waiting side.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.fd.as_fd()
    }
}
