//! Guest mode: a loop that is stepped by another.

use std::fmt;
use std::io;
use std::ops::Deref;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use crate::current::EnterGuard;
use crate::error::LoopError;
use crate::event_loop::EventLoop;
use crate::loop_ref::LoopRef;
use crate::readiness;
use crate::run_once::run_once;

/// What an iteration says to whoever steps the loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// Go on.
    Continue,
    /// Somebody called [`stop`](LoopRef::stop): this is where a run of the loop's own would have ended. The
    /// request is used up with this answer.
    Stopped,
}

/// A loop hosted by another steps like this: prepare, wait in the host, take a step that does not wait.
///
/// ```
/// use loop_core::{EventLoop, Turn};
/// # fn host_waits(_: std::os::fd::BorrowedFd<'_>, until: Option<std::time::Instant>) {
/// #     if let Some(until) = until {
/// #         std::thread::sleep(until.saturating_duration_since(std::time::Instant::now()));
/// #     }
/// # }
/// use std::time::Duration;
///
/// let mut event_loop = EventLoop::new()?;
/// # if event_loop.as_fd().is_err() { return Ok(()) } // poll and select have none
/// let lp = event_loop.loop_ref();
/// event_loop.call_later(Duration::from_millis(2), move || lp.stop());
/// loop {
///     let deadline = event_loop.prepare_wait();
///     host_waits(event_loop.as_fd()?, deadline); // until it is readable, or the deadline
///     if event_loop.run_once(Some(Duration::ZERO))? == Turn::Stopped {
///         break;
///     }
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// A host that cannot wait for a descriptor has [`HostWaker`](crate::HostWaker).
impl EventLoop {
    /// Makes the loop ready for a wait that the host does in its place, and says until when: `None` for as long
    /// as it takes, an instant that has passed for not at all.
    ///
    /// From here to the next step, whatever concerns the loop makes [`as_fd`](Self::as_fd) readable: its
    /// descriptors, signals, calls and wakes from other threads. What the host does with the loop on this very
    /// thread meanwhile does not: prepare again after that, right before the wait. On a closed loop there is
    /// nothing to wait for: `None`.
    ///
    /// The instant is one of the loop's [`Clock`](crate::Clock).
    pub fn prepare_wait(&mut self) -> Option<Instant> {
        if self.is_closed() {
            return None;
        }
        // Reports may run a handler, which sees the loop as it always does.
        let _current = EnterGuard::replace(&self.lp.inner);
        readiness::flush_changes(&self.lp);
        let inner = &self.lp.inner;
        if inner.stopping.get() || !inner.ready.is_empty() || !self.park() {
            return Some(self.now());
        }
        self.next_deadline()
    }

    /// `false` if a wake is pending. The next step un-parks.
    fn park(&mut self) -> bool {
        let selector = self.lp.inner.selector.borrow();
        let Some(waker) = selector.as_ref().map(|selector| selector.waker()) else { return true };
        if self.scratch.parked {
            return !waker.is_notified();
        }
        self.scratch.parked = true;
        waker.park()
    }

    /// A descriptor that is readable while a step would find something to do, if
    /// [`prepare_wait`](Self::prepare_wait) came before. It is a duplicate of the selector's, the same each
    /// time, and goes with the loop.
    ///
    /// # Errors
    /// [`Unsupported`](io::ErrorKind::Unsupported) if the selector has none (`poll` and `select` have not),
    /// `Closed` on a closed loop, and what duplicating says.
    pub fn as_fd(&self) -> io::Result<BorrowedFd<'_>> {
        if self.is_closed() {
            return Err(LoopError::Closed.into());
        }
        let fd = match self.guest_fd.get() {
            Some(fd) => fd,
            None => {
                let fd = self.duplicate_fd()?;
                self.guest_fd.get_or_init(|| fd)
            }
        };
        Ok(fd.as_fd())
    }

    pub(crate) fn duplicate_fd(&self) -> io::Result<OwnedFd> {
        let selector = self.lp.inner.selector.borrow();
        let fd = selector.as_ref().and_then(|selector| selector.as_fd());
        match fd {
            Some(fd) => fd.try_clone_to_owned(),
            None => Err(io::Error::new(
                io::ErrorKind::Unsupported,
                format!("the selector {} has no descriptor to wait for", self.selector_name()),
            )),
        }
    }

    /// Enters the loop: it is current on this thread until the scope is dropped, so that
    /// [`spawn`](crate::spawn) and [`LoopRef::current`] work also in the host's own code (B-LOOP-28).
    ///
    /// ```
    /// # use loop_core::{EventLoop, spawn};
    /// # use std::time::Duration;
    /// let mut event_loop = EventLoop::new()?;
    /// let mut scope = event_loop.enter()?;
    /// let task = spawn(async { 1 });
    /// scope.run_once(Some(Duration::ZERO))?;
    /// assert!(task.is_done());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`run_forever`](Self::run_forever).
    pub fn enter(&mut self) -> Result<RunScope<'_>, LoopError> {
        let entered = self.begin_run()?;
        Ok(RunScope { event_loop: self, _entered: entered })
    }
}

impl LoopRef {
    /// When the nearest timer is due; `None` if there is none. The instant may have passed.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.inner.settle_timers();
        let ticks = self.inner.timers.borrow_mut().next_deadline()?;
        // The end of time is never reached, so it is no deadline.
        let since = (ticks < u64::MAX).then(|| Duration::from_nanos(ticks))?;
        self.inner.start.checked_add(since)
    }
}

/// A loop that is entered and stepped by hand; from [`EventLoop::enter`]. It dereferences to [`LoopRef`].
#[must_use = "the loop is left when this is dropped"]
pub struct RunScope<'a> {
    event_loop: &'a mut EventLoop,
    _entered: EnterGuard,
}

impl RunScope<'_> {
    /// One iteration; as [`EventLoop::run_once`].
    ///
    /// # Errors
    /// [`LoopError::Select`] if waiting failed.
    pub fn run_once(&mut self, limit: Option<Duration>) -> Result<Turn, LoopError> {
        let EventLoop { lp, scratch, .. } = &mut *self.event_loop;
        scratch.begin_run(&lp.inner);
        run_once(lp, scratch, &mut None, limit)?;
        Ok(if lp.inner.stopping.replace(false) { Turn::Stopped } else { Turn::Continue })
    }

    /// As [`EventLoop::prepare_wait`].
    pub fn prepare_wait(&mut self) -> Option<Instant> {
        self.event_loop.prepare_wait()
    }

    /// As [`EventLoop::as_fd`].
    ///
    /// # Errors
    /// As there.
    pub fn as_fd(&self) -> io::Result<BorrowedFd<'_>> {
        self.event_loop.as_fd()
    }
}

impl Deref for RunScope<'_> {
    type Target = LoopRef;

    fn deref(&self) -> &LoopRef {
        self.event_loop
    }
}

impl fmt::Debug for RunScope<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RunScope").field(&self.event_loop).finish()
    }
}
