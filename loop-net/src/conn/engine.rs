//! The engine: moves bytes between a socket and a protocol when the loop says so.

use std::cell::{Cell, RefCell};
use std::io::{self, IoSlice};
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

/// From this one on each dropped write is reported (B-TRN-18).
const REPORT_REFUSED: u32 = 5;

/// What the connections of one loop share, so that an idle one owns no buffer.
pub(crate) struct Shared {
    pub(crate) lp: LoopRef,
    /// Where reads go; taken while one is being delivered.
    read_buffer: Cell<Vec<u8>>,
    /// Where a hook's writes are gathered; lent to the connection whose hook runs.
    gather: Cell<Vec<u8>>,
}

impl Shared {
    pub(crate) fn new(lp: LoopRef) -> Rc<Self> {
        Rc::new(Shared { lp, read_buffer: Cell::default(), gather: Cell::default() })
    }

    /// Reports a panic of user code that concerns a connection.
    pub(crate) fn report(&self, message: &'static str, panic: PanicError, subject: String) {
        let context = ExceptionContext::new(message)
            .with_failure(Failure::Panic(panic))
            .with_subject(subject);
        self.lp.report(&context);
    }
}

/// Told once when a connection is over: the server that accepted it.
pub(crate) trait Lost {
    fn connection_lost(&self);
}

/// A connection. The loop owns it through its registration, from `connection_made` to the loss.
pub(crate) struct Conn {
    me: Weak<Conn>,
    shared: Rc<Shared>,
    /// `None` once the connection is over.
    socket: RefCell<Option<Rc<Socket>>>,
    token: Cell<Option<Token>>,
    state: Cell<State>,
    buf: RefCell<WriteBuf>,
    /// What the running hook has written.
    gathered: RefCell<Vec<u8>>,
    in_hook: Cell<bool>,
    low: Cell<usize>,
    high: Cell<usize>,
    /// Whether more is buffered than the marks allow, and what the protocol was told of that.
    full: Cell<bool>,
    told_full: Cell<bool>,
    /// Empty while one of its hooks runs.
    protocol: Cell<Option<Box<dyn AnyProtocol>>>,
    error: Cell<Option<NetError>>,
    info: Rc<Info>,
    owner: Cell<Option<Rc<dyn Lost>>>,
}

impl Conn {
    /// Takes over a connected socket. `connection_made` follows in the next iteration, and then
    /// `made` is completed (B-TRN-01).
    pub(crate) fn start(
        shared: &Rc<Shared>,
        socket: Socket,
        protocol: Box<dyn AnyProtocol>,
        owner: Option<Rc<dyn Lost>>,
        made: Option<LoopFuture<()>>,
    ) -> Rc<Conn> {
        // Not all stream sockets know of it, and none needs it (B-TRN-35).
        let _ = socket.set_nodelay();
        let info =
            Info { local: socket.local_addr(), peer: socket.peer_addr(), refused: Cell::new(0) };
        let conn = Rc::new_cyclic(|me| Conn {
            me: me.clone(),
            shared: shared.clone(),
            socket: RefCell::new(Some(Rc::new(socket))),
            token: Cell::new(None),
            state: Cell::new(State::new()),
            buf: RefCell::default(),
            gathered: RefCell::default(),
            in_hook: Cell::new(false),
            low: Cell::new(HIGH_WATER / 4),
            high: Cell::new(HIGH_WATER),
            full: Cell::new(false),
            told_full: Cell::new(false),
            protocol: Cell::new(Some(protocol)),
            error: Cell::new(None),
            info: Rc::new(info),
            owner: Cell::new(owner),
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
        self.shared.report(message, panic, self.describe());
    }

    fn describe(&self) -> String {
        match self.info.peer {
            Some(peer) => format!("connection with {peer}"),
            None => "connection".to_owned(),
        }
    }

    // ---- hooks ----------------------------------------------------------------------------------

    /// Calls a hook, then whatever fell due meanwhile. `None` if one runs already or the protocol is
    /// gone.
    fn hook<R>(&self, f: impl FnOnce(&mut dyn AnyProtocol) -> R) -> Option<Result<R, PanicError>> {
        let result = self.call(|protocol| catch_panic(|| f(protocol)))?;
        self.settle();
        Some(result)
    }

    /// Calls into the protocol, with it taken out of its slot, and sends what it wrote.
    fn call<R>(&self, f: impl FnOnce(&mut dyn AnyProtocol) -> R) -> Option<R> {
        let mut running = Running::enter(self)?;
        let result = f(&mut **running.protocol.as_mut()?);
        drop(running);
        self.send_gathered();
        let mut gathered = self.gathered.take();
        if gathered.capacity() > KEEP_GATHER {
            gathered = Vec::new();
        }
        self.shared.gather.set(gathered);
        Some(result)
    }

    /// Tells the protocol of a full or drained buffer, until what it knows is true (B-TRN-14).
    fn settle(&self) {
        while !self.in_hook.get()
            && !self.state.get().is_lost()
            && self.told_full.get() != self.full.get()
        {
            let full = self.full.get();
            self.told_full.set(full);
            let called = self.call(|protocol| {
                catch_panic(
                    || if full { protocol.pause_writing() } else { protocol.resume_writing() },
                )
            });
            if let Some(Err(panic)) = called {
                let message = if full { "pause_writing failed" } else { "resume_writing failed" };
                self.report(message, panic);
            }
        }
    }

    /// Runs `f` on the protocol like a hook; its panics are the caller's.
    pub(crate) fn with_protocol<R>(
        &self,
        f: impl FnOnce(&mut dyn AnyProtocol) -> R,
    ) -> Result<R, ProtocolBusy> {
        if self.in_hook.get() {
            return Err(ProtocolBusy::Running);
        }
        let result = self.call(f).ok_or(ProtocolBusy::Gone)?;
        self.settle();
        Ok(result)
    }

    // ---- writing --------------------------------------------------------------------------------

    pub(crate) fn buffered(&self) -> usize {
        self.buf.borrow().len() + self.gathered.borrow().len()
    }

    pub(crate) fn write(&self, data: &[u8]) -> WriteState {
        if !self.takes_writes() {
            return self.refuse();
        }
        self.append(data);
        self.after_write()
    }

    pub(crate) fn write_pieces(&self, pieces: &[impl AsRef<[u8]>]) -> WriteState {
        if !self.takes_writes() {
            return self.refuse();
        }
        for piece in pieces {
            // `as_ref` is user code, so no borrow is held here.
            self.append(piece.as_ref());
        }
        self.after_write()
    }

    fn takes_writes(&self) -> bool {
        self.state.get().takes_writes(self.buffered() > 0)
    }

    /// Inside a hook bytes are gathered; else they are sent at once, behind what is buffered.
    fn append(&self, data: &[u8]) {
        if data.is_empty() || self.state.get().is_lost() {
            return;
        }
        if self.in_hook.get() {
            self.gathered.borrow_mut().extend_from_slice(data);
            if self.buffered() > self.high.get() {
                self.send_gathered();
            }
        } else {
            self.send(data);
        }
    }

    fn after_write(&self) -> WriteState {
        self.measure();
        self.settle();
        match (self.state.get().is_lost(), self.full.get()) {
            (true, _) => WriteState::Closed,
            (false, true) => WriteState::Full,
            (false, false) => WriteState::Open,
        }
    }

    fn refuse(&self) -> WriteState {
        let refused = self.info.refused.get().saturating_add(1);
        self.info.refused.set(refused);
        if refused >= REPORT_REFUSED {
            let context =
                ExceptionContext::warning("data written to a closed connection is dropped")
                    .with_subject(self.describe());
            self.shared.lp.report(&context);
        }
        WriteState::Closed
    }

    fn send_gathered(&self) {
        let mut gathered = self.gathered.take();
        if gathered.is_empty() {
            *self.gathered.borrow_mut() = gathered;
            return;
        }
        if !self.state.get().is_lost() {
            self.send(&gathered);
        }
        gathered.clear();
        *self.gathered.borrow_mut() = gathered;
        self.measure();
        if self.buf.borrow().is_empty() {
            self.advance(State::flushed);
        }
    }

    /// Sends what the socket takes now and buffers the rest; behind buffered bytes it only buffers
    /// (B-TRN-07, B-TRN-08).
    fn send(&self, data: &[u8]) {
        if !self.buf.borrow().is_empty() {
            self.buf.borrow_mut().push(data);
            return;
        }
        let sent = match &*self.socket.borrow() {
            Some(socket) => socket.send(data),
            None => return,
        };
        let rest = match sent {
            Ok(count) => &data[count..],
            Err(error) if is_transient(&error) => data,
            Err(error) => return self.fail("write to", error),
        };
        if !rest.is_empty() {
            self.buf.borrow_mut().push(rest);
            self.arm();
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
    fn write_ready(&self) {
        let sent = {
            let buf = self.buf.borrow();
            let mut slices = [IoSlice::new(&[]); MAX_PIECES];
            let count = buf.slices(&mut slices);
            match &*self.socket.borrow() {
                Some(socket) => socket.send_vectored(&slices[..count]),
                None => return,
            }
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

    fn read_ready(&self) {
        let mut buffer = self.shared.read_buffer.take();
        if buffer.is_empty() {
            buffer = vec![0; READ_SIZE];
        }
        let received = match &*self.socket.borrow() {
            Some(socket) => socket.recv(&mut buffer),
            None => Ok(0),
        };
        match received {
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
        self.shared.read_buffer.set(buffer);
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
            if let Some(socket) = &*self.socket.borrow() {
                // A peer that is gone is told nothing; the next read or write finds out.
                let _ = socket.shutdown_write();
            }
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
        let (Some(me), Some(socket)) = (self.me.upgrade(), self.socket.borrow().clone()) else {
            return;
        };
        // Registered even if nothing is wanted, for that is what keeps the connection alive.
        match lp.register_io(socket, interest.unwrap_or(loop_core::Interest::READ), me) {
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
        self.gathered.borrow_mut().clear();
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
        let socket = self.socket.take();
        drop(socket);
        let protocol = self.protocol.take();
        if let Err(panic) = catch_panic(|| drop(protocol)) {
            self.report("the protocol's destructor failed", panic);
        }
        if let Some(owner) = self.owner.take() {
            owner.connection_lost();
        }
    }
}

impl IoHandler for Conn {
    fn ready(&self, readiness: Readiness) {
        if readiness.is_readable() && self.state.get().is_reading() {
            self.read_ready();
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
                .with_subject(self.describe());
            self.shared.lp.report(&context);
        }
        if let Some(owner) = self.owner.take() {
            owner.connection_lost();
        }
    }
}

/// A hook at work: the protocol is out of its slot, and comes back also when the hook unwinds.
struct Running<'a> {
    conn: &'a Conn,
    protocol: Option<Box<dyn AnyProtocol>>,
}

impl<'a> Running<'a> {
    fn enter(conn: &'a Conn) -> Option<Self> {
        let protocol = conn.protocol.take()?;
        conn.in_hook.set(true);
        *conn.gathered.borrow_mut() = conn.shared.gather.take();
        Some(Running { conn, protocol: Some(protocol) })
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.conn.in_hook.set(false);
        self.conn.protocol.set(self.protocol.take());
    }
}

fn is_transient(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}
