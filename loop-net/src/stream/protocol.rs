//! The protocol behind a stream, and what it shares with the two halves.

use std::cell::{Cell, OnceCell, RefCell};
use std::io;
use std::os::fd::RawFd;
use std::rc::{Rc, Weak};
use std::task::{Context, Waker};

use loop_core::{Awaited, Interest, Listing, LoopError, LoopRef, WaitsFor};

use super::buffer::Buffer;
use super::flags::{EOF, FULL, Flags, LOST, READ_PAUSED, SHOWN, UNREAD};
use super::reader::StreamReader;
use super::wake::{ReaderWaker, Wakers};
use super::writer::StreamWriter;
use crate::error::NetError;
use crate::protocol::{KeepOpen, Protocol};
use crate::transport::Transport;

/// The limit of separated reads unless another one is set (B-STR-14).
const LIMIT: usize = 64 * 1024;

/// What the protocol, the reader and the writer have in common.
pub(crate) struct Stream {
    pub(crate) buffer: RefCell<Buffer>,
    pub(super) flags: Flags,
    /// What it was lost by; every later read and drain says so (B-STR-09, B-STR-17).
    pub(crate) error: RefCell<Option<Rc<NetError>>>,
    /// Of separated reads, in bytes; twice as many pause the transport (B-STR-13).
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
    fn new() -> Rc<Self> {
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

    /// Waits for bytes or the end.
    #[inline]
    pub(crate) fn wait_to_read(self: &Rc<Self>, transport: &Transport, cx: &Context<'_>) {
        self.enter();
        self.reader.wait(transport.loop_ref(), cx);
    }

    /// Before a wait: gives it a name in dumps.
    #[inline]
    pub(crate) fn enter(self: &Rc<Self>) {
        self.listing.enter(|| Rc::downgrade(self) as Weak<dyn Awaited>);
    }

    /// The connection is over.
    fn end(&self, error: Option<io::Error>) {
        let error = error.map(|error| Rc::new(NetError::Io(error)));
        *self.error.borrow_mut() = error;
        self.flags.put(FULL, false);
        self.flags.put(EOF | LOST, true);
        if let Some((lp, _)) = self.of.get() {
            self.reader.wake(lp);
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

    /// A read that must wait needs the transport to deliver, also beyond the limit (B-STR-13).
    pub(crate) fn need_more(&self, transport: &Transport) {
        self.set_read_paused(transport, false);
    }

    /// After bytes were taken out.
    #[inline]
    pub(crate) fn consumed(&self, transport: &Transport) {
        if self.flags.has(READ_PAUSED) && self.buffer.borrow().len() <= self.limit.get() {
            self.set_read_paused(transport, false);
        }
    }

    #[cold]
    fn set_read_paused(&self, transport: &Transport, paused: bool) {
        if self.flags.has(READ_PAUSED) != paused {
            self.flags.put(READ_PAUSED, paused);
            if paused { transport.pause_reading() } else { transport.resume_reading() }
        }
    }
}

type OnConnect = Box<dyn FnOnce(StreamReader, StreamWriter)>;

/// Feeds a [`Stream`].
pub(crate) struct StreamProtocol {
    stream: Rc<Stream>,
    /// Known once the connection is made; a stream is fed only after that.
    transport: Option<Transport>,
    on_connect: Option<OnConnect>,
}

impl StreamProtocol {
    /// A protocol that hands out the two halves of its stream once it is connected.
    pub(crate) fn new(on_connect: impl FnOnce(StreamReader, StreamWriter) + 'static) -> Self {
        let on_connect: OnConnect = Box::new(on_connect);
        StreamProtocol { stream: Stream::new(), transport: None, on_connect: Some(on_connect) }
    }
}

impl Protocol for StreamProtocol {
    fn connection_made(&mut self, transport: &Transport) {
        self.transport = Some(transport.clone());
        let fd = transport.socket().fileno().unwrap_or(-1);
        // Once, for this hook is called once.
        let _ = self.stream.of.set((transport.loop_ref().clone(), fd));
        if let Some(on_connect) = self.on_connect.take() {
            let reader = StreamReader::new(self.stream.clone(), transport.clone());
            on_connect(reader, StreamWriter::new(self.stream.clone(), transport.clone()));
        }
    }

    fn data_received(&mut self, data: &[u8]) {
        let Some(transport) = &self.transport else { return };
        if self.stream.flags.has(UNREAD) {
            return;
        }
        let buffered = {
            let mut buffer = self.stream.buffer.borrow_mut();
            buffer.push(data);
            buffer.len()
        };
        if buffered / 2 > self.stream.limit.get() {
            self.stream.set_read_paused(transport, true);
        }
        self.stream.reader.wake(transport.loop_ref());
    }

    /// The stream stays open for writing, but not over TLS, where nothing can (B-STR-20).
    fn eof_received(&mut self) -> KeepOpen {
        self.stream.flags.put(EOF, true);
        let Some(transport) = &self.transport else { return KeepOpen::No };
        self.stream.reader.wake(transport.loop_ref());
        if transport.can_write_eof() { KeepOpen::Yes } else { KeepOpen::No }
    }

    fn pause_writing(&mut self) {
        self.stream.flags.put(FULL, true);
    }

    fn resume_writing(&mut self) {
        self.stream.flags.put(FULL, false);
        self.stream.writers.wake();
    }

    fn connection_lost(&mut self, error: Option<&NetError>) {
        // The error belongs to the connection, which drops it after this call.
        self.stream.end(error.map(NetError::to_io));
    }
}

impl Drop for StreamProtocol {
    /// Only closing the loop drops the protocol of a connection that is not over.
    fn drop(&mut self) {
        if !self.stream.flags.has(LOST) {
            self.stream.end(Some(LoopError::Closed.into()));
        }
    }
}
