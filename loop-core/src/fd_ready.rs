//! `readable` and `writable`: waiting for a descriptor once.

use std::cell::Cell;
use std::fmt;
use std::future::Future;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::panic::Location;
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll, Waker};

use loop_handle::Handle;
use loop_selector::AsSource;

use crate::awaited::{Awaited, Listing};
use crate::error::LoopError;
use crate::introspect::WaitsFor;
use crate::io_table::Direction;
use crate::loop_ref::LoopRef;
use crate::one_waiter::OneWaiter;
use crate::readers::busy;

impl LoopRef {
    /// Waits until `source` is readable, end of file, hang-up and errors included.
    ///
    #[doc = lost!(fd_ready)]
    ///
    /// The descriptor is registered with the first poll and let go when the wait is over: two system calls
    /// a wait on epoll. Whoever waits often keeps it registered with
    /// [`add_reader`](Self::add_reader) or with loop-net's `AsyncFd`.
    ///
    /// ```
    /// # use loop_core::{run, LoopRef};
    /// # use std::{io::{Read, Write}, os::unix::net::UnixStream, rc::Rc};
    /// # run(async {
    /// let (ours, mut theirs) = UnixStream::pair()?;
    /// let ours = Rc::new(ours);
    /// theirs.write_all(b"x")?;
    /// LoopRef::current().readable(&ours).await?;
    /// (&*ours).read_exact(&mut [0])?;
    /// # std::io::Result::Ok(())
    /// # }).unwrap().unwrap();
    /// ```
    ///
    /// # Errors
    /// As [`add_reader`](Self::add_reader); also [`ResourceBusy`](io::ErrorKind::ResourceBusy) if the descriptor
    /// has a reader or somebody who waits for it, or gets one meanwhile.
    #[track_caller]
    pub fn readable<S: AsSource + 'static>(&self, source: &Rc<S>) -> FdReady {
        self.fd_ready(source.clone(), Direction::Read, Location::caller())
    }

    /// Waits until `source` is writable; the twin of [`readable`](Self::readable).
    ///
    /// # Errors
    /// As there, with "writer" for "reader".
    #[track_caller]
    pub fn writable<S: AsSource + 'static>(&self, source: &Rc<S>) -> FdReady {
        self.fd_ready(source.clone(), Direction::Write, Location::caller())
    }

    fn fd_ready(
        &self,
        source: Rc<dyn AsSource>,
        direction: Direction,
        site: &'static Location<'static>,
    ) -> FdReady {
        let fd = source.source_fd().as_raw_fd();
        let stage = Stage::Idle(source);
        FdReady { lp: self.clone(), fd, direction, site, stage }
    }
}

/// The future of [`LoopRef::readable`] and [`LoopRef::writable`].
#[must_use = "futures do nothing unless they are awaited"]
pub struct FdReady {
    lp: LoopRef,
    fd: RawFd,
    direction: Direction,
    site: &'static Location<'static>,
    stage: Stage,
}

enum Stage {
    Idle(Rc<dyn AsSource>),
    Registered { handle: Handle, wait: Rc<Wait> },
    Over,
}

struct Wait {
    fd: RawFd,
    direction: Direction,
    fired: Cell<bool>,
    waiter: OneWaiter,
    listing: Listing,
}

impl Awaited for Wait {
    fn each_wait(&self, visit: &mut dyn FnMut(&Waker, WaitsFor)) {
        self.waiter.show(|waker| {
            visit(waker, WaitsFor::Descriptor { fd: self.fd, interest: self.direction.interest() });
        });
    }
}

/// Owned by the callback, so that whoever waits hears of it when the callback goes.
struct WakeOnDrop(Rc<Wait>);

impl Drop for WakeOnDrop {
    fn drop(&mut self) {
        self.0.waiter.wake(None);
    }
}

impl FdReady {
    fn register(&self, source: Rc<dyn AsSource>) -> io::Result<Stage> {
        let FdReady { lp, fd, direction, site, .. } = self;
        if lp.has_callback(*fd, *direction) {
            return Err(busy(*fd));
        }
        let wait = Rc::new(Wait {
            fd: *fd,
            direction: *direction,
            fired: Cell::new(false),
            waiter: OneWaiter::default(),
            listing: Listing::new(),
        });
        wait.listing.enter(|| Rc::downgrade(&wait) as Weak<dyn Awaited>);
        let callback = {
            let (lp, fd, direction) = (lp.clone(), *fd, *direction);
            let wait = WakeOnDrop(wait.clone());
            move || {
                wait.0.fired.set(true);
                // The closure goes with its registration, when this returns, and wakes.
                lp.remove_callback(fd, direction);
            }
        };
        let handle = Handle::repeating_at(site, None, callback);
        let handle = lp.add_callback(source, *direction, handle)?;
        Ok(Stage::Registered { handle, wait })
    }

    /// Takes the callback off, unless it is off or has been replaced: it is cancelled then.
    fn deregister(&mut self) {
        if let Stage::Registered { handle, .. } = std::mem::replace(&mut self.stage, Stage::Over) {
            if !handle.is_cancelled() {
                self.lp.remove_callback(self.fd, self.direction);
            }
        }
    }
}

impl Future for FdReady {
    type Output = io::Result<()>;

    /// # Panics
    /// If polled again after it was ready.
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Stage::Idle(_) = self.stage {
            let Stage::Idle(source) = std::mem::replace(&mut self.stage, Stage::Over) else {
                unreachable!("just matched")
            };
            self.stage = self.register(source)?;
        }
        let Stage::Registered { handle, wait } = &self.stage else {
            panic!("a wait for a descriptor was polled after its end")
        };
        if !wait.fired.get() && !handle.is_cancelled() {
            wait.waiter.wait(cx.waker());
            return Poll::Pending;
        }
        let outcome = match wait.fired.get() {
            true => Ok(()),
            false if self.lp.is_closed() => Err(LoopError::Closed.into()),
            false => Err(busy(self.fd)),
        };
        self.stage = Stage::Over;
        Poll::Ready(outcome)
    }
}

impl Drop for FdReady {
    fn drop(&mut self) {
        self.deregister();
    }
}

impl fmt::Debug for FdReady {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FdReady").field("fd", &self.fd).field("direction", &self.direction).finish()
    }
}
