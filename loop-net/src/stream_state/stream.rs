//! The state of a stream.

use std::cell::{Cell, OnceCell, RefCell};
use std::io;
use std::os::fd::RawFd;
use std::rc::{Rc, Weak};
use std::task::{Context, Waker};

use loop_core::{Awaited, Interest, Listing, LoopRef, WaitsFor};

use super::buffer::{Buffer, ROOM};
use super::flags::{EOF, FULL, Flags, LOST, NARROW, PIPELINED, READ_PAUSED, SHOWN, UNREAD};
use super::wake::{ReaderWaker, Wakers};
use crate::error::NetError;

/// The limit of separated reads unless another one is set (B-STR-14).
const LIMIT: usize = 64 * 1024;

/// What the connection, the protocol, the reader and the writer have in common.
pub(crate) struct Stream {
    pub(crate) buffer: RefCell<Buffer>,
    pub(crate) flags: Flags,
    /// What it was lost by; every later read and drain says so (B-STR-09, B-STR-17).
    pub(crate) error: RefCell<Option<Rc<NetError>>>,
    pub(crate) limit: Cell<usize>,
    /// Whoever waits for bytes or the end.
    pub(crate) reader: ReaderWaker,
    /// Whoever waits for room to write, or for the end of the connection.
    pub(crate) writers: Wakers,
    /// The loop and the descriptor, once there is a connection; nobody waits before.
    of: OnceCell<(LoopRef, RawFd)>,
    listing: Listing,
}

impl Awaited for Stream {
    fn each_wait(&self, visit: &mut dyn FnMut(&Waker, WaitsFor)) {
        let Some((lp, fd)) = self.of.get() else { return };
        let waits_for = |interest| WaitsFor::Descriptor { fd: *fd, interest };
        self.reader.show(lp, |waker| visit(waker, waits_for(Interest::READ)));
        self.writers.show(|waker| visit(waker, waits_for(Interest::WRITE)));
    }
}

impl Stream {
    pub(crate) fn new() -> Rc<Self> {
        Rc::new(Stream {
            buffer: RefCell::default(),
            flags: Flags::default(),
            error: RefCell::default(),
            limit: Cell::new(LIMIT),
            reader: ReaderWaker::default(),
            writers: Wakers::default(),
            of: OnceCell::new(),
            listing: Listing::new(),
        })
    }

    /// Sets the limit of separated reads, in bytes; twice as many pause the transport (B-STR-13).
    pub(crate) fn set_limit(&self, limit: usize) {
        self.limit.set(limit);
        self.flags.put(NARROW, limit < ROOM / 2);
    }

    /// There is a connection.
    pub(crate) fn connect(&self, lp: &LoopRef, fd: RawFd) {
        // Once, for a connection is made once.
        let _ = self.of.set((lp.clone(), fd));
    }

    /// Takes what came in; whoever reads is to be [woken](Self::wake_reader) after that. Whether that is enough for
    /// now, and the transport to pause first (B-STR-13).
    #[inline]
    pub(crate) fn push(&self, data: &[u8]) -> bool {
        if self.flags.has(UNREAD) {
            return false;
        }
        let buffered = {
            let mut buffer = self.buffer.borrow_mut();
            buffer.push(data);
            buffer.len()
        };
        let enough = buffered / 2 > self.limit.get() && !self.flags.has(READ_PAUSED);
        if enough {
            self.flags.put(READ_PAUSED, true);
        }
        enough
    }

    /// Has bytes received where they are to be read from; whoever reads is to be woken after that. `None` if there is
    /// no room, or more than the limit allows, or if all of it was filled: then there may be more to receive.
    #[inline]
    pub(crate) fn receive<E>(
        &self,
        receive: impl FnOnce(&mut [u8]) -> Result<usize, E>,
    ) -> Option<Result<usize, E>> {
        let mut buffer = self.buffer.borrow_mut();
        let room = buffer.room();
        let size = room.len();
        if size == 0 || self.flags.has(NARROW) {
            return None;
        }
        let received = receive(room);
        if let Ok(count) = received {
            buffer.fill(count);
            if count == size {
                return None;
            }
        }
        Some(received)
    }

    /// Waits for bytes or the end.
    #[inline]
    pub(crate) fn wait_to_read(self: &Rc<Self>, lp: &LoopRef, cx: &Context<'_>) {
        self.enter();
        self.reader.wait(lp, cx);
    }

    /// Wakes whoever waits for bytes or the end. A waker is user code.
    #[inline(never)]
    pub(crate) fn wake_reader(&self, lp: &LoopRef) {
        self.reader.wake(lp);
    }

    /// Before a wait: gives it a name in dumps.
    #[inline]
    pub(crate) fn enter(self: &Rc<Self>) {
        self.listing.enter(|| Rc::downgrade(self) as Weak<dyn Awaited>);
    }

    /// The connection is over.
    pub(crate) fn end(&self, error: Option<io::Error>) {
        let error = error.map(|error| Rc::new(NetError::Io(error)));
        *self.error.borrow_mut() = error;
        self.flags.put(FULL, false);
        self.flags.put(EOF | LOST, true);
        if let Some((lp, _)) = self.of.get() {
            self.wake_reader(lp);
        }
        self.writers.wake();
    }

    /// The stored error, made anew.
    #[inline]
    pub(crate) fn failure(&self) -> Option<io::Error> {
        if self.flags.has(LOST) { self.stored_error() } else { None }
    }

    #[cold]
    fn stored_error(&self) -> Option<io::Error> {
        self.error.borrow().as_ref().map(|error| error.to_io())
    }

    /// Whether the next read concerns nothing but the buffer.
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        !self.flags.has(EOF | READ_PAUSED | SHOWN)
    }

    /// Takes out what a read has found, and notes whether more had come with it.
    #[inline]
    pub(crate) fn take(&self, count: usize) -> Vec<u8> {
        let mut buffer = self.buffer.borrow_mut();
        let taken = buffer.take(count);
        if !buffer.is_empty() {
            self.flags.put(PIPELINED, true);
        }
        taken
    }

    /// Whether more has come than was taken out so far: what answers it leaves together. What is copied out, as far as
    /// there is room, tells nothing of how much was asked for, and is not looked at.
    #[inline]
    pub(crate) fn has_more(&self) -> bool {
        self.flags.has(PIPELINED | SHOWN) && self.has_unread()
    }

    /// Looks, and notes what it has found.
    #[inline(never)]
    fn has_unread(&self) -> bool {
        let left = !self.buffer.borrow().is_empty();
        self.flags.put(PIPELINED, left);
        left || self.flags.has(SHOWN)
    }

    /// Whether the transport was paused and is to go on: a read that must wait needs it to deliver, also beyond
    /// the limit (B-STR-13).
    #[cold]
    pub(crate) fn resumes(&self) -> bool {
        let paused = self.flags.has(READ_PAUSED);
        self.flags.put(READ_PAUSED, false);
        paused
    }

    /// The same, after bytes were taken out.
    #[inline]
    pub(crate) fn resumes_consumed(&self) -> bool {
        self.flags.has(READ_PAUSED)
            && self.buffer.borrow().len() <= self.limit.get()
            && self.resumes()
    }
}
