//! Readers and writers: callbacks of descriptors.

use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::panic::Location;
use std::rc::Rc;

use loop_handle::{Handle, Outcome};
use loop_selector::{AsSource, Readiness, Token};

use crate::error::LoopError;
use crate::guard;
use crate::io_table::{Callback, Direction, Kind};
use crate::loop_ref::LoopRef;
use crate::report::ExceptionContext;

/// How often in a row a reader or writer may fail before it is removed (B-FD-10).
const MAX_FAILURES: u8 = 16;

pub(crate) fn busy(fd: RawFd) -> io::Error {
    io::Error::new(
        io::ErrorKind::ResourceBusy,
        format!("fd {fd} is registered already by a transport or another handler"),
    )
}

impl LoopRef {
    /// Calls `callback` once an iteration while `source` is readable, end of file, hang-up and
    /// errors included; asyncio's `add_reader`.
    ///
    /// The loop shares ownership of the source until the reader is removed, so its descriptor cannot
    /// be closed underneath it. A reader and a writer of one descriptor share one registration. A
    /// second reader replaces the first, whose handle is cancelled even if it is queued already
    /// (B-FD-01, B-FD-02). A callback that fails is reported and stays; after 16 failures in a row it
    /// is removed (B-FD-10).
    ///
    /// # Errors
    /// What the selector says, naming the descriptor: regular files on epoll, for example. `Closed`
    /// as an [`io::Error`] on a closed loop, and [`ResourceBusy`](io::ErrorKind::ResourceBusy) if the
    /// descriptor belongs to a transport. Nothing is registered then.
    ///
    /// ```
    /// use loop_core::EventLoop;
    /// use std::{io::{Read, Write}, os::unix::net::UnixStream, rc::Rc};
    ///
    /// let mut event_loop = EventLoop::new()?;
    /// let (ours, mut theirs) = UnixStream::pair()?;
    /// ours.set_nonblocking(true)?;
    /// let ours = Rc::new(ours);
    /// let (lp, source) = (event_loop.loop_ref(), ours.clone());
    /// event_loop.add_reader(&ours, move || {
    ///     let mut byte = [0];
    ///     (&*source).read(&mut byte)?;
    ///     lp.stop();
    ///     std::io::Result::Ok(())
    /// })?;
    /// theirs.write_all(b"x")?;
    /// event_loop.run_forever()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn add_reader<S, F, R>(&self, source: &Rc<S>, callback: F) -> io::Result<Handle>
    where
        S: AsSource + 'static,
        F: FnMut() -> R + 'static,
        R: Outcome,
    {
        let handle = Handle::repeating_at(Location::caller(), None, callback);
        self.add_callback(source.clone(), Direction::Read, handle)
    }

    /// Calls `callback` once an iteration while `source` is writable; asyncio's `add_writer`. All
    /// that [`add_reader`](Self::add_reader) says holds here.
    ///
    /// # Errors
    /// As [`add_reader`](Self::add_reader).
    #[track_caller]
    pub fn add_writer<S, F, R>(&self, source: &Rc<S>, callback: F) -> io::Result<Handle>
    where
        S: AsSource + 'static,
        F: FnMut() -> R + 'static,
        R: Outcome,
    {
        let handle = Handle::repeating_at(Location::caller(), None, callback);
        self.add_callback(source.clone(), Direction::Write, handle)
    }

    /// Removes the reader of a descriptor and cancels its handle; asyncio's `remove_reader`. Whether
    /// there was one. The writer, if any, stays; with the last of the two the descriptor is
    /// unregistered and the loop gives up its share of the source (B-FD-03, B-FD-04).
    pub fn remove_reader(&self, source: impl AsFd) -> bool {
        self.remove_callback(source.as_fd().as_raw_fd(), Direction::Read)
    }

    /// Removes the writer of a descriptor; the twin of [`remove_reader`](Self::remove_reader).
    pub fn remove_writer(&self, source: impl AsFd) -> bool {
        self.remove_callback(source.as_fd().as_raw_fd(), Direction::Write)
    }

    pub(crate) fn add_callback(
        &self,
        owner: Rc<dyn AsSource>,
        direction: Direction,
        handle: Handle,
    ) -> io::Result<Handle> {
        if self.is_closed() {
            return Err(LoopError::Closed.into());
        }
        let fd = (*owner).as_fd().as_raw_fd();
        let callback = Callback { handle: handle.clone(), since: self.inner.iteration() };
        match self.registered(fd) {
            Some(token) => {
                let replaced = self.inner.io.borrow_mut().set_callback(token, direction, callback);
                if let Some(old) = replaced.ok_or_else(|| busy(fd))? {
                    old.handle.cancel();
                }
            }
            None => {
                let interest = direction.interest();
                let token = self.register_with_selector(owner, interest)?;
                let mut callbacks = [None, None];
                callbacks[direction as usize] = Some(callback);
                let kind = Kind::Callbacks(Box::new(callbacks));
                self.inner.io.borrow_mut().insert(token, fd, interest, kind);
            }
        }
        Ok(handle)
    }

    fn registered(&self, fd: RawFd) -> Option<Token> {
        self.inner.selector.borrow().as_ref()?.registry().by_fd(fd)
    }

    /// Whether a descriptor has somebody who is called in this direction.
    pub(crate) fn has_callback(&self, fd: RawFd, direction: Direction) -> bool {
        self.registered(fd).is_some_and(|token| {
            let io = self.inner.io.borrow();
            let callback = io.get(token).and_then(|entry| entry.kind.callback(direction));
            callback.is_some_and(|callback| !callback.handle.is_cancelled())
        })
    }

    pub(crate) fn remove_callback(&self, fd: RawFd, direction: Direction) -> bool {
        self.registered(fd).is_some_and(|token| self.remove_direction(token, direction))
    }

    fn remove_direction(&self, token: Token, direction: Direction) -> bool {
        let taken = self.inner.io.borrow_mut().take_callback(token, direction);
        let Some((callback, last)) = taken else { return false };
        let owner = last.then(|| self.deregister_from_selector(token)).flatten();
        callback.handle.cancel();
        drop(owner);
        true
    }
}

/// Runs the reader, then the writer, as they are by now: what was removed does not run, and what was
/// added meanwhile waits for the next iteration (B-FD-05 to 07).
pub(crate) fn run_callbacks(lp: &LoopRef, token: Token, readiness: Readiness) {
    for direction in Direction::BOTH {
        if !direction.is_in(readiness) {
            continue;
        }
        let handle = {
            let io = lp.inner.io.borrow();
            let Some(entry) = io.get(token) else { return };
            match entry.kind.callback(direction) {
                Some(callback) if callback.since != lp.inner.iteration() => callback.handle.clone(),
                _ => continue,
            }
        };
        if handle.is_cancelled() {
            // Let go with the first event after it was cancelled through its handle (B-FD-08).
            remove_guarded(lp, token, direction);
            continue;
        }
        guard::run_handle(lp, handle.clone());
        if handle.failures() >= MAX_FAILURES {
            remove_guarded(lp, token, direction);
            let mut context =
                ExceptionContext::new("callback removed: it failed 16 times without a clean run");
            context.handle = Some(handle.clone());
            guard::report(lp, context);
        }
        guard::discard(lp, handle);
    }
}

fn remove_guarded(lp: &LoopRef, token: Token, direction: Direction) {
    guard::guarded(lp, "a destructor failed", || {
        lp.remove_direction(token, direction);
    });
}
