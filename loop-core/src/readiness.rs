//! Handlers of descriptors, and the phases that deal with readiness.

use std::os::fd::AsRawFd;
use std::rc::Rc;

use loop_handle::Snapshot;
use loop_selector::{AsSource, Event, Interest, Readiness, RegisterError, Token};

use crate::debug::Timing;
use crate::error::LoopError;
use crate::guard::{self, catch_panic};
use crate::inner::DESCRIPTORS;
use crate::io_table::{self, Kind};
use crate::loop_ref::LoopRef;
use crate::readers;
use crate::ready::Ready;
use crate::report::{ExceptionContext, Failure};

/// Somebody who is called when a descriptor is ready: the engine of a connection, a listener.
///
/// It is the allocation-free form of a reader and a writer in one: one object, called once an
/// iteration with everything that is ready. See [`LoopRef::register_io`].
pub trait IoHandler {
    /// Called on the loop's thread with what is ready, masked by what is wanted at this moment.
    /// A panic is reported and the registration stays. It is its own owner meanwhile: it may end its
    /// registration.
    ///
    /// `buffer` is the loop's, empty until a handler makes it larger: a place to read into that all
    /// handlers share, so that an idle one owns no buffer. What it holds is whatever the last handler
    /// left there.
    fn ready(self: Rc<Self>, readiness: Readiness, buffer: &mut Vec<u8>);
}

impl LoopRef {
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
        let fd = owner.source_fd().as_raw_fd();
        let token = self.register_with_selector(owner, interest)?;
        let context = Snapshot::current();
        let kind = match context.is_empty() {
            true => Kind::Handler(handler),
            false => Kind::HandlerIn(Box::new(context), handler),
        };
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

    /// How many descriptors the latest wait has found ready. While it is more than one, a handler whose peer
    /// never stops sending does well to take less at a time: the others come after it.
    ///
    /// ```
    /// # use loop_core::{EventLoop, Interest, IoHandler, LoopRef, Readiness};
    /// # use std::{cell::Cell, io::{Read, Write}, os::unix::net::UnixStream, rc::Rc, time::Duration};
    /// struct Reader(UnixStream, LoopRef, Cell<usize>);
    ///
    /// impl IoHandler for Reader {
    ///     fn ready(self: Rc<Self>, _: Readiness, buffer: &mut Vec<u8>) {
    ///         let share = if self.1.ready_descriptors() > 1 { 4 } else { 1024 };
    ///         buffer.resize(share, 0);
    ///         self.2.set((&self.0).read(buffer).unwrap());
    ///     }
    /// }
    /// # impl std::os::fd::AsFd for Reader {
    /// #     fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> { self.0.as_fd() }
    /// # }
    /// # let mut event_loop = EventLoop::new()?;
    /// # let lp = event_loop.loop_ref();
    /// # let (mut peers, mut readers) = (Vec::new(), Vec::new());
    /// # for _ in 0..2 {
    /// #     let (ours, peer) = UnixStream::pair()?;
    /// #     let reader = Rc::new(Reader(ours, lp.clone(), Cell::new(0)));
    /// #     lp.register_io(reader.clone(), Interest::READ, reader.clone())?;
    /// #     readers.push(reader);
    /// #     peers.push(peer);
    /// # }
    /// # peers[0].write_all(b"a long message")?;
    /// # event_loop.run_once(Some(Duration::ZERO))?;
    /// # assert_eq!(readers[0].2.get(), 14);
    /// # peers[0].write_all(b"a long message")?;
    /// # peers[1].write_all(b"short")?;
    /// # event_loop.run_once(Some(Duration::ZERO))?;
    /// # assert_eq!((readers[0].2.get(), readers[1].2.get()), (4, 4));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[inline]
    pub fn ready_descriptors(&self) -> usize {
        self.inner.events.get()
    }

    pub(crate) fn register_with_selector(
        &self,
        owner: Rc<dyn AsSource>,
        interest: Interest,
    ) -> Result<Token, RegisterError> {
        match &mut *self.inner.selector.borrow_mut() {
            // While destructors run, a loop that is closing still has its selector.
            Some(selector) if !self.is_closed() => {
                let token = selector.register(owner, interest)?;
                self.inner.mark(DESCRIPTORS);
                Ok(token)
            }
            _ => Err(RegisterError::new(owner, LoopError::Closed.into())),
        }
    }

    pub(crate) fn deregister_from_selector(&self, token: Token) -> Option<Rc<dyn AsSource>> {
        let mut selector = self.inner.selector.borrow_mut();
        let selector = selector.as_mut()?;
        let owner = selector.deregister(token).ok();
        if selector.registry().is_empty() {
            self.inner.unmark(DESCRIPTORS);
        }
        owner
    }
}

/// Phase 2: tells the selector what changed, once a descriptor.
pub(crate) fn flush_changes(lp: &LoopRef) {
    // What handlers of the reports below change waits for the next flush.
    let changes = lp.inner.io.borrow().changes();
    for _ in 0..changes {
        let Some((token, fd, wanted)) = lp.inner.io.borrow_mut().next_change() else { return };
        let result = match &mut *lp.inner.selector.borrow_mut() {
            Some(selector) => selector.modify(token, wanted),
            None => return,
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
            guard::report(lp, context);
            lp.inner.ready.push(Ready::Io(token, Readiness::READABLE | Readiness::WRITABLE));
        }
    }
}

/// Phase 6: calls whoever the descriptors have by now. A panic ends one handler's turn and not the
/// others'; what an abort leaves is still ready, and the next wait sees it again.
#[inline(never)]
pub(crate) fn run_events(
    lp: &LoopRef,
    events: impl IntoIterator<Item = Event>,
    buffer: &mut Vec<u8>,
) {
    let mut events = events.into_iter();
    let mut run_rest = || {
        Snapshot::default().run_each(events.by_ref(), |event| {
            if let Event::Ready { token, readiness } = event {
                run(lp, token, readiness, buffer);
            }
        });
    };
    while let Err(panic) = catch_panic(&mut run_rest) {
        let mut context = ExceptionContext::new("an I/O handler failed");
        context.failure = Some(Failure::Panic(panic));
        guard::report(lp, context);
    }
}

/// Calls the owner of a token, if the registration is still this one and still wants it; in an empty
/// context.
#[inline(always)]
fn run(lp: &LoopRef, token: Token, readiness: Readiness, buffer: &mut Vec<u8>) {
    if lp.inner.is_undisturbed() {
        // Borrowed for writing, which is a comparison and a store where reading counts the readers.
        let io = lp.inner.io.borrow_mut();
        if let Some((handler, readiness)) = io.handler(token, readiness) {
            let handler = handler.clone();
            drop(io);
            return handler.ready(readiness, buffer);
        }
    }
    run_other(lp, token, readiness, buffer);
}

/// Calls an owner of another kind than the usual one, or one that is observed, unless it is gone.
#[inline(never)]
fn run_other(lp: &LoopRef, token: Token, readiness: Readiness, buffer: &mut Vec<u8>) {
    let (owner, readiness) = {
        let io = lp.inner.io.borrow();
        let Some(entry) = io.get(token) else { return };
        let readiness = io_table::masked(readiness, entry.wanted);
        if readiness.is_empty() {
            return;
        }
        let owner = match &entry.kind {
            Kind::Handler(handler) => Some((Snapshot::default(), handler.clone())),
            Kind::HandlerIn(context, handler) => Some((Snapshot::clone(context), handler.clone())),
            Kind::Callbacks(_) => None,
        };
        (owner, readiness)
    };
    let Some((context, handler)) = owner else {
        return readers::run_callbacks(lp, token, readiness);
    };
    let call = || context.run(|| handler.ready(readiness, buffer));
    if lp.inner.before_next() { run_timed(lp, token, call) } else { call() }
}

#[cold]
fn run_timed(lp: &LoopRef, token: Token, call: impl FnOnce()) {
    let timing = Timing::start(lp, |context| context.subject = describe(lp, token));
    call();
    timing.finish(lp);
}

/// What a report calls the owner of a token.
fn describe(lp: &LoopRef, token: Token) -> Option<String> {
    lp.inner.io.borrow().get(token).map(|entry| format!("I/O handler of fd {}", entry.fd))
}
