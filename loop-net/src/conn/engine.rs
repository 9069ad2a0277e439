//! The engine: moves bytes between a socket and a protocol when the loop says so.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::io::{self, IoSlice};
use std::mem;
use std::ptr;
use std::rc::{Rc, Weak};

use loop_core::{
    ExceptionContext, Failure, IoHandler, LoopFuture, LoopRef, PanicError, Readiness, Token,
    catch_panic,
};

use super::state::{Actions, State};
use super::write_buf::WriteBuf;
use crate::error::{NetError, named};
use crate::protocol::{AnyProtocol, KeepOpen};
use crate::socket::{MAX_PIECES, Socket};
use crate::transport::{Info, ProtocolBusy, Transport, WriteState};

/// The most that one read takes (B-TRN-25). One read a connection and iteration, so that no peer
/// keeps the others waiting.
const READ_SIZE: usize = 256 * 1024;

/// The high-water mark at the start, in bytes (B-TRN-13).
const HIGH_WATER: usize = 64 * 1024;

/// A gather buffer that grew beyond this is given back to the allocator.
const KEEP_GATHER: usize = 4 * HIGH_WATER;

/// What the connections of one loop share, so that an idle one owns no buffer.
pub(crate) struct Shared {
    pub(crate) lp: LoopRef,
    /// What the outermost running hook has written, and whose hook that is. A hook inside another's
    /// (a write to another connection that fills its buffer calls `pause_writing` there) gathers
    /// nothing: its writes are sent at once.
    gather: RefCell<Vec<u8>>,
    gatherer: Cell<*const Conn>,
}

impl Shared {
    pub(crate) fn new(lp: LoopRef) -> Rc<Self> {
        Rc::new(Shared { lp, gather: RefCell::default(), gatherer: Cell::new(ptr::null()) })
    }

    /// Reports a panic of user code that concerns a connection.
    pub(crate) fn report(&self, message: &'static str, panic: PanicError, subject: String) {
        let context = ExceptionContext::new(message)
            .with_failure(Failure::Panic(panic))
            .with_subject(subject);
        self.lp.report(&context);
    }
}

/// A connection. The loop owns it through its registration, from `connection_made` to the loss; the
/// queued call of `connection_lost` is its last owner. Then its fields go in this order: the socket is
/// closed, the protocol dropped, the owner told (B-TRN-05).
pub(crate) struct Conn {
    socket: Rc<Socket>,
    /// Empty while one of its hooks runs.
    protocol: Cell<Option<Box<dyn AnyProtocol>>>,
    /// The server that accepted it hears of the end when this is dropped.
    _owner: Option<Box<dyn Any>>,
    me: Weak<Conn>,
    shared: Rc<Shared>,
    token: Cell<Option<Token>>,
    state: Cell<State>,
    buf: RefCell<WriteBuf>,
    low: Cell<usize>,
    high: Cell<usize>,
    /// Whether more is buffered than the marks allow, and what the protocol was told of that.
    full: Cell<bool>,
    told_full: Cell<bool>,
    error: Cell<Option<NetError>>,
    info: Rc<Info>,
}

impl Conn {
    /// Takes over a connected socket. `connection_made` follows in the next iteration, and then
    /// `made` is completed (B-TRN-01).
    pub(crate) fn start(
        shared: &Rc<Shared>,
        socket: Socket,
        protocol: Box<dyn AnyProtocol>,
        owner: Option<Box<dyn Any>>,
        made: Option<LoopFuture<()>>,
    ) -> Rc<Conn> {
        // Not all stream sockets know of it, and none needs it (B-TRN-35).
        let _ = socket.set_nodelay();
        let info = Info::new(shared.lp.clone(), socket.local_addr(), socket.peer_addr());
        let conn = Rc::new_cyclic(|me| Conn {
            socket: Rc::new(socket),
            protocol: Cell::new(Some(protocol)),
            _owner: owner,
            me: me.clone(),
            shared: shared.clone(),
            token: Cell::new(None),
            state: Cell::new(State::new()),
            buf: RefCell::default(),
            low: Cell::new(HIGH_WATER / 4),
            high: Cell::new(HIGH_WATER),
            full: Cell::new(false),
            told_full: Cell::new(false),
            error: Cell::new(None),
            info: Rc::new(info),
        });
        let starting = conn.clone();
        shared.lp.call_soon(move || {
            starting.made();
            if let Some(made) = made {
                // Whoever waited may have gone.
                let _ = made.set_result(());
            }
        });
        conn
    }

    pub(crate) fn transport(&self) -> Transport {
        Transport::new(self.me.clone(), self.info.clone())
    }

    fn made(&self) {
        let transport = self.transport();
        if let Some(Err(panic)) = self.hook(|protocol| protocol.connection_made(&transport)) {
            self.report("connection_made failed", panic);
        }
        self.advance(State::made);
    }

    fn report(&self, message: &'static str, panic: PanicError) {
        self.shared.report(message, panic, self.info.describe());
    }

    // ---- hooks ----------------------------------------------------------------------------------

    /// Calls a hook, then whatever fell due meanwhile. `None` if one runs already or the protocol is
    /// gone.
    #[inline]
    fn hook<R>(&self, f: impl FnOnce(&mut dyn AnyProtocol) -> R) -> Option<Result<R, PanicError>> {
        let result = self.call(|protocol| catch_panic(|| f(protocol)))?;
        if self.is_unsettled() {
            self.settle();
        }
        Some(result)
    }

    /// Calls into the protocol, with it taken out of its slot, and sends what it wrote.
    #[inline]
    fn call<R>(&self, f: impl FnOnce(&mut dyn AnyProtocol) -> R) -> Option<R> {
        let mut running = Running::enter(self)?;
        let result = f(&mut **running.protocol.as_mut()?);
        running.finish();
        // Nothing is left to put back.
        mem::forget(running);
        Some(result)
    }

    /// Tells the protocol of a full or drained buffer, until what it knows is true (B-TRN-14). While a
    /// hook runs nothing is said: whoever called that does it afterwards.
    #[cold]
    fn settle(&self) {
        while self.is_unsettled() && !self.state.get().is_lost() {
            let full = self.full.get();
            let called = self.call(|protocol| {
                self.told_full.set(full);
                catch_panic(
                    || if full { protocol.pause_writing() } else { protocol.resume_writing() },
                )
            });
            match called {
                Some(Ok(())) => {}
                Some(Err(panic)) if full => self.report("pause_writing failed", panic),
                Some(Err(panic)) => self.report("resume_writing failed", panic),
                None => return,
            }
        }
    }

    fn is_unsettled(&self) -> bool {
        self.told_full.get() != self.full.get()
    }

    /// Runs `f` on the protocol like a hook; its panics are the caller's.
    pub(crate) fn with_protocol<R>(
        &self,
        f: impl FnOnce(&mut dyn AnyProtocol) -> R,
    ) -> Result<R, ProtocolBusy> {
        let result = self.call(f).ok_or(ProtocolBusy::Running)?;
        self.settle();
        Ok(result)
    }

    // ---- writing --------------------------------------------------------------------------------

    pub(crate) fn buffered(&self) -> usize {
        let gathered = if self.gathers() { self.shared.gather.borrow().len() } else { 0 };
        self.buf.borrow().len() + gathered
    }

    fn gathers(&self) -> bool {
        ptr::eq(self.shared.gatherer.get(), self)
    }

    #[inline]
    pub(crate) fn write(&self, data: &[u8]) -> WriteState {
        if self.gathers()
            && self.state.get().takes_writes(|| false)
            && self.gather_within_marks(data)
        {
            return WriteState::Open;
        }
        self.write_pieces(&[data])
    }

    /// The common case: the running hook writes, and the marks are not concerned.
    #[inline]
    fn gather_within_marks(&self, data: &[u8]) -> bool {
        let mut gather = self.shared.gather.borrow_mut();
        let size = gather.len() + data.len() + self.buf.borrow().len();
        let within = size <= self.high.get() && !self.full.get();
        if within {
            gather.extend_from_slice(data);
        }
        within
    }

    pub(crate) fn write_pieces(&self, pieces: &[impl AsRef<[u8]>]) -> WriteState {
        if !self.takes_writes() {
            return self.info.refuse();
        }
        // Several pieces leave in one call also where no hook gathers them.
        let gathering = if pieces.len() > 1 { Gathering::enter(self) } else { None };
        for piece in pieces {
            // `as_ref` is user code, so no borrow is held here.
            self.append(piece.as_ref());
        }
        drop(gathering);
        self.after_write()
    }

    fn takes_writes(&self) -> bool {
        self.state.get().takes_writes(|| self.buffered() > 0)
    }

    /// Inside a hook bytes are gathered, else they are sent at once, behind what is buffered.
    fn append(&self, data: &[u8]) {
        // An earlier piece of the same write may have failed.
        if data.is_empty() || self.state.get().is_lost() {
            return;
        }
        if !self.gathers() {
            return self.send(data);
        }
        self.shared.gather.borrow_mut().extend_from_slice(data);
        if self.buffered() > self.high.get() {
            // More than the high-water mark before the hook has returned.
            self.send_gathered();
        }
    }

    fn after_write(&self) -> WriteState {
        self.measure();
        if self.is_unsettled() {
            self.settle();
        }
        match (self.state.get().is_lost(), self.full.get()) {
            (true, _) => WriteState::Closed,
            (false, true) => WriteState::Full,
            (false, false) => WriteState::Open,
        }
    }

    /// Sends what the running hook has written so far.
    #[inline(always)]
    fn send_gathered(&self) {
        let sent = {
            let mut gathered = self.shared.gather.borrow_mut();
            if gathered.is_empty() {
                return;
            }
            let sent = self.try_send(&gathered);
            gathered.clear();
            gathered.shrink_to(KEEP_GATHER);
            sent
        };
        if !matches!(sent, Sent::All) || self.full.get() || self.state.get().awaits_flush() {
            self.after_gathered(sent);
        }
    }

    #[inline(never)]
    fn after_gathered(&self, sent: Sent) {
        self.after_send(sent);
        self.measure();
        if self.state.get().awaits_flush() && self.buf.borrow().is_empty() {
            self.advance(State::flushed);
        }
    }

    fn send(&self, data: &[u8]) {
        let sent = self.try_send(data);
        self.after_send(sent);
    }

    /// Sends what the socket takes now and buffers the rest; behind buffered bytes it only buffers
    /// (B-TRN-07, B-TRN-08).
    #[inline(always)]
    fn try_send(&self, data: &[u8]) -> Sent {
        let mut buf = self.buf.borrow_mut();
        if !buf.is_empty() {
            buf.push(data);
            return Sent::All;
        }
        let rest = match self.socket.send(data) {
            Ok(count) if count == data.len() => return Sent::All,
            Ok(count) => &data[count..],
            Err(error) if is_transient(&error) => data,
            Err(error) => return Sent::Failed(error),
        };
        buf.push(rest);
        Sent::Buffering
    }

    fn after_send(&self, sent: Sent) {
        match sent {
            Sent::All => {}
            Sent::Buffering => self.arm(),
            Sent::Failed(error) => self.fail("write to", error),
        }
    }

    /// Compares what is buffered with the marks.
    fn measure(&self) {
        let size = self.buffered();
        if size > self.high.get() {
            self.full.set(true);
        } else if size <= self.low.get() {
            self.full.set(false);
        }
    }

    /// One vectored send a readiness.
    #[inline(never)]
    fn write_ready(&self) {
        let sent = {
            let buf = self.buf.borrow();
            let mut slices = [IoSlice::new(&[]); MAX_PIECES];
            let count = buf.slices(&mut slices);
            self.socket.send_vectored(&slices[..count])
        };
        match sent {
            Ok(count) => self.buf.borrow_mut().consume(count),
            Err(error) if is_transient(&error) => return,
            Err(error) => return self.fail("write to", error),
        }
        self.measure();
        self.settle();
        if self.buf.borrow().is_empty() {
            self.advance(State::flushed);
            if !self.state.get().is_lost() {
                self.arm();
            }
        }
    }

    pub(crate) fn write_eof(&self) {
        let buffered = self.buffered() > 0;
        self.advance(|state| state.write_eof(buffered));
    }

    pub(crate) fn limits(&self) -> (usize, usize) {
        (self.low.get(), self.high.get())
    }

    pub(crate) fn set_limits(&self, low: usize, high: usize) {
        self.low.set(low);
        self.high.set(high);
        self.measure();
        self.settle();
    }

    // ---- reading --------------------------------------------------------------------------------

    pub(crate) fn is_reading(&self) -> bool {
        self.state.get().is_reading()
    }

    pub(crate) fn pause_reading(&self, paused: bool) {
        self.advance(|state| state.pause_reading(paused));
    }

    fn read_ready(&self, buffer: &mut Vec<u8>) {
        if buffer.len() < READ_SIZE {
            buffer.resize(READ_SIZE, 0);
        }
        match self.socket.recv(buffer) {
            Ok(0) => self.peer_ended(),
            Ok(count) => {
                let called = self.hook(|protocol| protocol.data_received(&buffer[..count]));
                if let Some(Err(panic)) = called {
                    self.fail_hook("data_received failed", panic);
                }
            }
            Err(error) if is_transient(&error) => {}
            Err(error) => self.fail("read from", error),
        }
    }

    fn peer_ended(&self) {
        match self.hook(|protocol| protocol.eof_received()) {
            Some(Ok(KeepOpen::Yes)) => self.advance(State::eof_kept_open),
            Some(Ok(KeepOpen::No)) => self.close(),
            Some(Err(panic)) => self.fail_hook("eof_received failed", panic),
            None => {}
        }
    }

    // ---- the end --------------------------------------------------------------------------------

    pub(crate) fn is_closing(&self) -> bool {
        self.state.get().is_closing()
    }

    pub(crate) fn close(&self) {
        let buffered = self.buffered() > 0;
        self.advance(|state| state.close(buffered));
    }

    pub(crate) fn abort(&self) {
        self.advance(State::lose);
    }

    /// Ordinary network errors go to the protocol, not to the exception handler (B-TRN-17).
    fn fail(&self, what: &str, error: io::Error) {
        let what = match self.info.peer {
            Some(peer) => format!("{what} {peer}"),
            None => format!("{what} the peer"),
        };
        self.end(NetError::Io(named(what, error)));
    }

    fn fail_hook(&self, message: &'static str, panic: PanicError) {
        self.report(message, panic.clone());
        self.end(NetError::Panicked(panic));
    }

    fn end(&self, error: NetError) {
        if !self.state.get().is_lost() {
            self.error.set(Some(error));
            self.advance(State::lose);
        }
    }

    /// Makes a transition and does what it asks for.
    fn advance(&self, transition: impl FnOnce(&mut State) -> Actions) {
        let mut state = self.state.get();
        let actions = transition(&mut state);
        self.state.set(state);
        if actions.has(Actions::SHUTDOWN) {
            // A peer that is gone is told nothing; the next read or write finds out.
            let _ = self.socket.shutdown_write();
        }
        if actions.has(Actions::ARM) {
            self.arm();
        }
        if actions.has(Actions::LOSE) {
            self.lose();
        }
    }

    /// Registers the socket, or says what is wanted of it now.
    fn arm(&self) {
        let interest = self.state.get().interest(!self.buf.borrow().is_empty());
        let lp = &self.shared.lp;
        if let Some(token) = self.token.get() {
            lp.set_interest(token, interest);
            return;
        }
        let Some(me) = self.me.upgrade() else { return };
        // Registered even if nothing is wanted, for that is what keeps the connection alive.
        match lp.register_io(self.socket.clone(), interest.unwrap_or(loop_core::Interest::READ), me)
        {
            Ok(token) => {
                self.token.set(Some(token));
                lp.set_interest(token, interest);
            }
            Err(error) => self.fail("register the connection with", error.into()),
        }
    }

    /// Into `Lost`: nothing is sent or received from here on, and `connection_lost` is queued.
    fn lose(&self) {
        self.buf.borrow_mut().clear();
        if self.gathers() {
            self.shared.gather.borrow_mut().clear();
        }
        self.full.set(false);
        // Before the registration goes: it may be what keeps the connection alive.
        if let Some(me) = self.me.upgrade() {
            self.shared.lp.call_soon(move || me.lost());
        }
        if let Some(token) = self.token.take() {
            drop(self.shared.lp.deregister_io(token));
        }
    }

    fn lost(&self) {
        let error = self.error.take();
        let called = self.call(|protocol| catch_panic(|| protocol.connection_lost(error.as_ref())));
        if let Some(Err(panic)) = called {
            self.report("connection_lost failed", panic);
        }
    }
}

impl IoHandler for Conn {
    fn ready(&self, readiness: Readiness, buffer: &mut Vec<u8>) {
        if readiness.is_readable() && self.state.get().is_reading() {
            self.read_ready(buffer);
        }
        if readiness.is_writable() && !self.buf.borrow().is_empty() {
            self.write_ready();
        }
    }
}

impl Drop for Conn {
    /// Only closing the loop drops a connection that is not over (B-TRN-38).
    fn drop(&mut self) {
        if !self.state.get().is_lost() {
            let context = ExceptionContext::warning("a connection was open when its loop closed")
                .with_subject(self.info.describe());
            self.shared.lp.report(&context);
        }
    }
}

/// What became of bytes that were to be sent.
enum Sent {
    /// There is nothing more to do: they are gone, or in the queue behind others.
    All,
    /// The buffer was empty and is not any more.
    Buffering,
    Failed(io::Error),
}

/// What is written to a connection meanwhile leaves in one call at the end.
struct Gathering<'a>(&'a Conn);

impl<'a> Gathering<'a> {
    /// `None` while something is gathered already.
    fn enter(conn: &'a Conn) -> Option<Self> {
        if !conn.shared.gatherer.get().is_null() {
            return None;
        }
        conn.shared.gatherer.set(conn);
        Some(Gathering(conn))
    }
}

impl Drop for Gathering<'_> {
    fn drop(&mut self) {
        self.0.send_gathered();
        self.0.shared.gatherer.set(ptr::null());
    }
}

/// A hook at work: the protocol is out of its slot. Ending it sends what the hook wrote and puts the
/// protocol back, also when the hook unwinds.
struct Running<'a> {
    conn: &'a Conn,
    protocol: Option<Box<dyn AnyProtocol>>,
}

impl<'a> Running<'a> {
    fn enter(conn: &'a Conn) -> Option<Self> {
        let protocol = conn.protocol.take()?;
        if conn.shared.gatherer.get().is_null() {
            conn.shared.gatherer.set(conn);
        }
        Some(Running { conn, protocol: Some(protocol) })
    }

    #[cold]
    fn finish_late(&mut self) {
        self.finish();
    }

    #[inline(always)]
    fn finish(&mut self) {
        let conn = self.conn;
        if conn.gathers() {
            conn.send_gathered();
            conn.shared.gatherer.set(ptr::null());
        }
        conn.protocol.set(self.protocol.take());
    }
}

impl Drop for Running<'_> {
    /// Only when the hook unwinds.
    #[inline]
    fn drop(&mut self) {
        if self.protocol.is_some() {
            self.finish_late();
        }
    }
}

fn is_transient(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}
