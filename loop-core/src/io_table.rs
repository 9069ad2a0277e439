//! Registered descriptors: who wants to hear of them, and what the selector was told.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::panic::Location;
use std::rc::Rc;

use loop_handle::{Handle, Outcome, Snapshot};
use loop_selector::{AsSource, Interest, Readiness, RegisterError, Token};

use crate::guard;
use crate::loop_ref::LoopRef;
use crate::ready::Ready;
use crate::report::{ExceptionContext, Failure};

/// Somebody who is called when a descriptor is ready: the engine of a connection, a listener.
///
/// It is the allocation-free form of a reader and a writer in one: one object, called once an
/// iteration with everything that is ready. See [`LoopRef::register_io`].
pub trait IoHandler {
    /// Called on the loop's thread with what is ready, masked by what is wanted at this moment.
    /// A panic is reported and the registration stays.
    fn ready(&self, readiness: Readiness);
}

enum Kind {
    Callbacks { reader: Option<Handle>, writer: Option<Handle> },
    Handler { handler: Rc<dyn IoHandler>, context: Snapshot },
}

struct Entry {
    token: Token,
    fd: RawFd,
    wanted: Option<Interest>,
    /// What the selector was told last.
    armed: Option<Interest>,
    /// Whether the token stands in the list of changes to flush.
    dirty: bool,
    kind: Kind,
}

/// Indexed by the token's index: a slot holds the registration of that very token or nothing.
#[derive(Default)]
pub(crate) struct IoTable {
    slots: Vec<Option<Entry>>,
    dirty: VecDeque<Token>,
}

impl IoTable {
    fn get(&self, token: Token) -> Option<&Entry> {
        let entry = self.slots.get(token.index() as usize)?.as_ref()?;
        (entry.token == token).then_some(entry)
    }

    fn get_mut(&mut self, token: Token) -> Option<&mut Entry> {
        let entry = self.slots.get_mut(token.index() as usize)?.as_mut()?;
        (entry.token == token).then_some(entry)
    }

    fn insert(&mut self, token: Token, fd: RawFd, interest: Interest, kind: Kind) {
        let index = token.index() as usize;
        if index >= self.slots.len() {
            self.slots.resize_with(index + 1, || None);
        }
        self.slots[index] = Some(Entry {
            token,
            fd,
            wanted: Some(interest),
            armed: Some(interest),
            dirty: false,
            kind,
        });
    }

    fn remove(&mut self, token: Token) -> Option<Entry> {
        self.get(token)?;
        self.slots[token.index() as usize].take()
    }

    fn want(&mut self, token: Token, wanted: Option<Interest>) -> bool {
        let Some(entry) = self.get_mut(token) else { return false };
        entry.wanted = wanted;
        if !entry.dirty && entry.wanted != entry.armed {
            entry.dirty = true;
            self.dirty.push_back(token);
        }
        true
    }

    /// Everything, for closing.
    pub(crate) fn take(&mut self) -> (Vec<Token>, Vec<impl Sized + use<>>) {
        let entries: Vec<Entry> = self.slots.drain(..).flatten().collect();
        self.dirty.clear();
        (entries.iter().map(|entry| entry.token).collect(), entries)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Read,
    Write,
}

impl Direction {
    fn interest(self) -> Interest {
        match self {
            Direction::Read => Interest::READ,
            Direction::Write => Interest::WRITE,
        }
    }
}

fn slot(kind: &mut Kind, direction: Direction) -> Option<&mut Option<Handle>> {
    match (kind, direction) {
        (Kind::Callbacks { reader, .. }, Direction::Read) => Some(reader),
        (Kind::Callbacks { writer, .. }, Direction::Write) => Some(writer),
        (Kind::Handler { .. }, _) => None,
    }
}

fn wanted_by(kind: &Kind) -> Option<Interest> {
    match kind {
        Kind::Callbacks { reader: Some(_), writer: Some(_) } => {
            Some(Interest::READ | Interest::WRITE)
        }
        Kind::Callbacks { reader: Some(_), writer: None } => Some(Interest::READ),
        Kind::Callbacks { reader: None, writer: Some(_) } => Some(Interest::WRITE),
        Kind::Callbacks { reader: None, writer: None } => None,
        Kind::Handler { .. } => unreachable!("a handler states its interest itself"),
    }
}

fn closed() -> io::Error {
    crate::error::LoopError::Closed.into()
}

fn busy(fd: RawFd) -> io::Error {
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

    fn add_callback(
        &self,
        owner: Rc<dyn AsSource>,
        direction: Direction,
        handle: Handle,
    ) -> io::Result<Handle> {
        if self.is_closed() {
            return Err(closed());
        }
        let fd = (*owner).as_fd().as_raw_fd();
        let interest = direction.interest();
        let existing = match &*self.inner.selector.borrow() {
            Some(selector) => selector.registry().by_fd(fd),
            None => None,
        };
        let Some(token) = existing else {
            let registered = self.register_with_selector(owner, interest)?;
            let (reader, writer) = match direction {
                Direction::Read => (Some(handle.clone()), None),
                Direction::Write => (None, Some(handle.clone())),
            };
            let kind = Kind::Callbacks { reader, writer };
            self.inner.io.borrow_mut().insert(registered, fd, interest, kind);
            return Ok(handle);
        };
        let replaced = {
            let mut io = self.inner.io.borrow_mut();
            let entry = io.get_mut(token).ok_or_else(|| busy(fd))?;
            let slot = slot(&mut entry.kind, direction).ok_or_else(|| busy(fd))?;
            let replaced = slot.replace(handle.clone());
            let wanted = wanted_by(&entry.kind);
            io.want(token, wanted);
            replaced
        };
        if let Some(old) = replaced {
            old.cancel();
        }
        Ok(handle)
    }

    fn remove_callback(&self, fd: RawFd, direction: Direction) -> bool {
        let token = match &*self.inner.selector.borrow() {
            Some(selector) => selector.registry().by_fd(fd),
            None => None,
        };
        token.is_some_and(|token| self.remove_direction(token, direction))
    }

    fn remove_direction(&self, token: Token, direction: Direction) -> bool {
        let removed = {
            let mut io = self.inner.io.borrow_mut();
            let Some(entry) = io.get_mut(token) else { return false };
            let Some(handle) = slot(&mut entry.kind, direction).and_then(Option::take) else {
                return false;
            };
            let wanted = wanted_by(&entry.kind);
            match wanted {
                Some(_) => {
                    io.want(token, wanted);
                }
                None => {
                    io.remove(token);
                }
            }
            (handle, wanted.is_none())
        };
        let (handle, last) = removed;
        let owner = last.then(|| self.deregister_from_selector(token)).flatten();
        handle.cancel();
        drop(owner);
        true
    }

    /// Registers a descriptor for an [`IoHandler`], in the context current now.
    ///
    /// # Errors
    /// What the selector says; the error gives the owner back.
    pub fn register_io(
        &self,
        owner: Rc<dyn AsSource>,
        interest: Interest,
        handler: Rc<dyn IoHandler>,
    ) -> Result<Token, RegisterError> {
        let fd = (*owner).as_fd().as_raw_fd();
        let token = self.register_with_selector(owner, interest)?;
        let kind = Kind::Handler { handler, context: Snapshot::current() };
        self.inner.io.borrow_mut().insert(token, fd, interest, kind);
        Ok(token)
    }

    /// Changes what a handler of [`register_io`](Self::register_io) wants to hear of; `None` keeps the
    /// registration, silent. It counts at once for what is queued already; the selector is told once
    /// before the next wait, however often it changed (B-FD-11). `false` for an unknown token.
    pub fn set_interest(&self, token: Token, interest: Option<Interest>) -> bool {
        self.inner.io.borrow_mut().want(token, interest)
    }

    /// Ends a registration of [`register_io`](Self::register_io) at once: the handler is not called
    /// again. The owner comes back.
    pub fn deregister_io(&self, token: Token) -> Option<Rc<dyn AsSource>> {
        let entry = self.inner.io.borrow_mut().remove(token);
        let owner = self.deregister_from_selector(token);
        drop(entry);
        owner
    }

    fn register_with_selector(
        &self,
        owner: Rc<dyn AsSource>,
        interest: Interest,
    ) -> Result<Token, RegisterError> {
        // Closing still has a selector while destructors run.
        match &mut *self.inner.selector.borrow_mut() {
            Some(selector) if !self.is_closed() => selector.register(owner, interest),
            _ => Err(RegisterError::new(owner, closed())),
        }
    }

    fn deregister_from_selector(&self, token: Token) -> Option<Rc<dyn AsSource>> {
        self.inner.selector.borrow_mut().as_mut()?.deregister(token).ok()
    }
}

/// Removes a reader or writer that keeps failing. O(n) in the registered descriptors, and rare.
pub(crate) fn forget_callback(lp: &LoopRef, handle: &Handle) -> bool {
    let found = lp.inner.io.borrow().slots.iter().flatten().find_map(|entry| match &entry.kind {
        Kind::Callbacks { reader: Some(reader), .. } if reader.ptr_eq(handle) => {
            Some((entry.token, Direction::Read))
        }
        Kind::Callbacks { writer: Some(writer), .. } if writer.ptr_eq(handle) => {
            Some((entry.token, Direction::Write))
        }
        _ => None,
    });
    let Some((token, direction)) = found else { return false };
    guard::guarded(lp, "a destructor failed", || {
        lp.remove_direction(token, direction);
    });
    true
}

/// Phase 2: tells the selector what changed, once a descriptor.
pub(crate) fn flush_changes(lp: &LoopRef) {
    // Handlers of reports below may change interests again; those wait for the next flush.
    let count = lp.inner.io.borrow().dirty.len();
    for _ in 0..count {
        let (token, fd, result) = {
            let mut io = lp.inner.io.borrow_mut();
            let Some(token) = io.dirty.pop_front() else { return };
            let Some(entry) = io.get_mut(token) else { continue };
            entry.dirty = false;
            if entry.wanted == entry.armed {
                continue;
            }
            entry.armed = entry.wanted;
            let (fd, wanted) = (entry.fd, entry.wanted);
            drop(io);
            match &mut *lp.inner.selector.borrow_mut() {
                Some(selector) => (token, fd, selector.modify(token, wanted)),
                None => return,
            }
        };
        if let Err(error) = result {
            // The kernel watches nothing now: both directions are woken, so that whoever waits finds
            // the error with its next operation, and the next change of interest tries again.
            if let Some(entry) = lp.inner.io.borrow_mut().get_mut(token) {
                entry.armed = None;
            }
            let mut context = ExceptionContext::new("changing what is watched failed");
            context.failure = Some(Failure::Error(error.into()));
            context.subject = Some(format!("fd {fd}"));
            lp.report(&context);
            queue_ready(lp, token, Readiness::READABLE | Readiness::WRITABLE);
        }
    }
}

/// Phase 5: what the selector saw joins the ready queue, the reader before the writer (B-LOOP-04).
pub(crate) fn queue_ready(lp: &LoopRef, token: Token, readiness: Readiness) {
    let mut cancelled = [None, None];
    {
        let io = lp.inner.io.borrow();
        let Some(entry) = io.get(token) else { return };
        match &entry.kind {
            Kind::Handler { .. } => lp.inner.ready.push(Ready::Io(token, readiness)),
            Kind::Callbacks { reader, writer } => {
                if let Some(handle) = reader.as_ref().filter(|_| readiness.is_readable()) {
                    if handle.is_cancelled() {
                        cancelled[0] = Some(Direction::Read);
                    } else {
                        lp.inner.ready.push(Ready::Handle(handle.clone()));
                    }
                }
                if let Some(handle) = writer.as_ref().filter(|_| readiness.is_writable()) {
                    if handle.is_cancelled() {
                        cancelled[1] = Some(Direction::Write);
                    } else {
                        lp.inner.ready.push(Ready::Handle(handle.clone()));
                    }
                }
            }
        }
    }
    // A direction cancelled through its handle is let go with the first event (B-FD-08).
    for direction in cancelled.into_iter().flatten() {
        guard::guarded(lp, "a destructor failed", || {
            lp.remove_direction(token, direction);
        });
    }
}

/// Phase 6: calls a handler, if the registration is still this one and still wants it.
pub(crate) fn run_ready(lp: &LoopRef, token: Token, readiness: Readiness) {
    let (handler, context, readiness) = {
        let io = lp.inner.io.borrow();
        let Some(entry) = io.get(token) else { return };
        let Kind::Handler { handler, context } = &entry.kind else { return };
        let Some(wanted) = entry.wanted else { return };
        (handler.clone(), context.clone(), readiness.masked(wanted))
    };
    if readiness.is_empty() {
        return;
    }
    guard::guarded(lp, "an I/O handler failed", move || {
        context.run(|| handler.ready(readiness));
        drop(handler);
    });
}

/// What a report calls the owner of a token.
pub(crate) fn describe(lp: &LoopRef, token: Token) -> Option<String> {
    lp.inner.io.borrow().get(token).map(|entry| format!("I/O handler of fd {}", entry.fd))
}
