//! The engine: moves bytes between a socket and a protocol when the loop says so.

use std::cell::{Cell, OnceCell, RefCell};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::ptr;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use loop_core::{
    ExceptionContext, Failure, IoHandler, LoopFuture, LoopRef, PanicError, Readiness, Token,
};

use super::accepted::Accepted;
use super::gather::Gather;
use super::hooks::Called;
use super::info::Info;
use super::rare::Rare;
use super::state::{Actions, State};
use super::write_buf::WriteBuf;
use crate::error::{NetError, named};
use crate::protocol::AnyProtocol;
use crate::sock_addr::SockAddr;
use crate::socket::{Kind, Socket};
use crate::stream_state::Stream;
use crate::transport::Transport;

/// Between which numbers of buffered bytes a protocol is told to pause and to go on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Marks {
    pub(super) low: usize,
    pub(super) high: usize,
}

impl Marks {
    /// At the start (B-TRN-13).
    pub(super) const DEFAULT: Marks = Marks { low: 16 * 1024, high: 64 * 1024 };
}

/// What the connections of one loop share, so that an idle one owns no buffer.
pub(crate) struct Shared {
    pub(crate) lp: LoopRef,
    pub(crate) gather: Gather,
    /// Our address of the latest connection: those of a server have one in common.
    local: RefCell<Rc<SockAddr>>,
    /// Tasks that wait for an empty buffer, or with a lent socket to write; the connections are only
    /// compared.
    waiting: RefCell<Vec<(*const Conn, Waker)>>,
}

impl Shared {
    pub(crate) fn new(lp: LoopRef) -> Rc<Self> {
        let local = RefCell::new(Rc::new(SockAddr::Unnamed));
        Rc::new(Shared { lp, gather: Gather::new(), local, waiting: RefCell::default() })
    }

    /// One of our addresses, in memory that it shares with the one before if they are the same.
    pub(super) fn local(&self, addr: SockAddr) -> Rc<SockAddr> {
        let mut latest = self.local.borrow_mut();
        if **latest != addr {
            *latest = Rc::new(addr);
        }
        latest.clone()
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
/// closed, the protocol dropped, the owner told (B-TRN-05). What few connections have is in boxes, for
/// there may be many that do nothing.
pub(crate) struct Conn {
    pub(super) socket: Socket,
    /// Empty while one of its hooks runs.
    pub(super) protocol: Cell<Option<Box<dyn AnyProtocol>>>,
    /// The server that accepted it hears of the end when this is dropped.
    _accepted: Option<Accepted>,
    token: Cell<Option<Token>>,
    pub(super) buf: RefCell<WriteBuf>,
    /// What is fed instead of the protocol, if the state says so.
    pub(super) stream: OnceCell<Rc<Stream>>,
    pub(super) rare: OnceCell<Box<Rare>>,
    pub(super) info: Rc<Info>,
}

impl Conn {
    /// Takes over a connected socket. `connection_made` follows in the next iteration, and then
    /// `made` is completed (B-TRN-01).
    pub(crate) fn start(
        shared: &Rc<Shared>,
        socket: Socket,
        protocol: Box<dyn AnyProtocol>,
        accepted: Option<Accepted>,
        made: Option<LoopFuture<()>>,
    ) -> Rc<Conn> {
        let between = (socket.local_addr(), socket.peer_addr());
        Self::start_between(shared, socket, between, protocol, accepted, made)
    }

    /// [`start`](Self::start) with addresses, ours and the peer's, that the socket does not know.
    pub(crate) fn start_between(
        shared: &Rc<Shared>,
        socket: Socket,
        (local, peer): (SockAddr, SockAddr),
        mut protocol: Box<dyn AnyProtocol>,
        accepted: Option<Accepted>,
        made: Option<LoopFuture<()>>,
    ) -> Rc<Conn> {
        let mut state = State::of(socket.kind());
        state.set_own_buffer(protocol.buffered().is_some());
        let info = Info::new(shared.clone(), local, peer);
        info.room.set(if state.is_quiet() { Gather::room_for(Marks::DEFAULT.high) } else { 0 });
        let conn = Rc::new_cyclic(|me| Conn {
            info: Rc::new(info.of_conn(me.clone(), state)),
            socket,
            protocol: Cell::new(Some(protocol)),
            _accepted: accepted,
            token: Cell::new(None),
            buf: RefCell::default(),
            stream: OnceCell::new(),
            rare: OnceCell::new(),
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

    #[inline]
    pub(super) fn marks(&self) -> Marks {
        self.rare.get().map_or(Marks::DEFAULT, |rare| rare.marks.get())
    }

    pub(super) fn set_marks(&self, marks: Marks) {
        self.rare().marks.set(marks);
        self.set_state(self.state());
    }

    #[inline]
    pub(super) fn state(&self) -> State {
        self.info.state.get()
    }

    #[inline]
    pub(super) fn shared(&self) -> &Shared {
        &self.info.shared
    }

    pub(crate) fn kind(&self) -> Kind {
        self.socket.kind()
    }

    pub(crate) fn socket(&self) -> &Socket {
        &self.socket
    }

    pub(crate) fn transport(&self) -> Transport {
        Transport::new(self.info.clone())
    }

    fn made(&self) {
        let transport = self.transport();
        if let Some(Err(panic)) = self.hook(|protocol| protocol.connection_made(&transport)) {
            self.report("connection_made failed", panic);
        }
        self.advance(State::made);
    }

    pub(super) fn report(&self, message: &'static str, panic: PanicError) {
        self.shared().report(message, panic, self.info.describe());
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.state().is_closing()
    }

    pub(crate) fn close(&self) {
        let buffered = self.buffered() > 0;
        self.advance(|state| state.close(buffered));
    }

    pub(crate) fn abort(&self) {
        self.advance(State::lose);
    }

    /// Ordinary network errors go to the protocol, not to the exception handler (B-TRN-17).
    pub(super) fn fail(&self, what: &str, error: io::Error) {
        let what = match &self.info.peer {
            _ if self.socket.kind() != Kind::Socket => format!("{what} {}", self.describe_pipe()),
            SockAddr::Unnamed => format!("{what} the peer"),
            peer => format!("{what} {peer}"),
        };
        self.end(NetError::Io(named(what, error)));
    }

    pub(super) fn describe_pipe(&self) -> String {
        format!("pipe fd {}", self.socket.as_fd().as_raw_fd())
    }

    pub(super) fn fail_hook(&self, message: &'static str, panic: PanicError) {
        self.report(message, panic.clone());
        self.end(NetError::Panicked(panic));
    }

    pub(super) fn end(&self, error: NetError) {
        if !self.state().is_lost() {
            self.rare().error.set(Some(error));
            self.advance(State::lose);
        }
    }

    /// Notes something in the state that asks for nothing to be done.
    pub(super) fn note(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.state();
        change(&mut state);
        self.set_state(state);
    }

    /// The room for plain copies follows the state.
    fn set_state(&self, state: State) {
        let room = if state.is_quiet() { Gather::room_for(self.marks().high) } else { 0 };
        self.info.state.set(state);
        self.info.room.set(room);
    }

    /// Makes a transition and does what it asks for.
    pub(super) fn advance(&self, transition: impl FnOnce(&mut State) -> Actions) {
        self.shared().gather.disturb(&self.info);
        let mut state = self.state();
        let actions = transition(&mut state);
        self.set_state(state);
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
        if actions.has(Actions::FLUSHED) {
            self.wake_waiting();
        }
    }

    /// Ready when nothing is buffered any more, also because the connection is over. What waits for the end of the
    /// iteration is sent now.
    pub(crate) fn poll_flushed(&self, cx: &Context<'_>) -> Poll<()> {
        self.send_now();
        if self.buffered() == 0 {
            return Poll::Ready(());
        }
        self.shared().gather.disturb(&self.info);
        self.note(State::await_flush);
        self.wait(cx);
        Poll::Pending
    }

    /// Wakes this task with the next flush, or when a lent socket can be written to.
    pub(super) fn wait(&self, cx: &Context<'_>) {
        let same = |(conn, waker): &(*const Conn, Waker)| {
            ptr::eq(*conn, self) && waker.will_wake(cx.waker())
        };
        if self.shared().waiting.borrow().iter().any(same) {
            return;
        }
        let waker = cx.waker().clone();
        self.shared().waiting.borrow_mut().push((self, waker));
    }

    #[cold]
    fn wake_waiting(&self) {
        let mut woken = Vec::new();
        self.shared().waiting.borrow_mut().retain(|(conn, waker)| {
            let ours = ptr::eq(*conn, self);
            if ours {
                woken.push(waker.clone());
            }
            !ours
        });
        for waker in woken {
            waker.wake();
        }
    }

    /// Registers the socket, or says what is wanted of it now.
    pub(super) fn arm(&self) {
        let interest = self.state().interest();
        let lp = &self.shared().lp;
        if let Some(token) = self.token.get() {
            lp.set_interest(token, interest);
            return;
        }
        let Some(me) = self.info.conn.upgrade() else { return };
        // Registered even if nothing is wanted, for that is what keeps the connection alive.
        match lp.register_io(me.clone(), interest.unwrap_or(loop_core::Interest::READ), me) {
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
        self.info.put_off.set(false);
        self.shared().gather.forget(&self.info);
        // Before the registration goes: it may be what keeps the connection alive.
        if let Some(me) = self.info.conn.upgrade() {
            self.shared().lp.call_soon(move || me.lost());
        }
        if let Some(token) = self.token.take() {
            drop(self.shared().lp.deregister_io(token));
        }
    }

    fn lost(&self) {
        let error = self.rare.get().and_then(|rare| rare.error.take());
        let called = self.call(|protocol| protocol.connection_lost(error.as_ref()));
        if let Some(Called::Stirred(Err(panic))) = called {
            self.report("connection_lost failed", panic.into_error());
        }
    }
}

impl AsFd for Conn {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl IoHandler for Conn {
    fn ready(self: Rc<Self>, readiness: Readiness, buffer: &mut Vec<u8>) {
        if readiness == Readiness::READABLE {
            self.read(buffer)
        } else {
            Conn::rest_ready(self, readiness, buffer)
        }
    }
}

impl Conn {
    #[inline(never)]
    fn rest_ready(self: Rc<Self>, readiness: Readiness, buffer: &mut Vec<u8>) {
        // Both are wanted at this moment, or they would not be here.
        if readiness.is_readable() {
            self.clone().read(buffer);
        }
        if readiness.is_writable() {
            if self.state().has_buffered() {
                self.write_ready();
            } else if self.state().is_lent() {
                self.advance(|state| state.lent_waits(false));
                self.wake_waiting();
            }
        }
    }
}

impl Drop for Conn {
    /// Only closing the loop drops a connection that is not over (B-TRN-38).
    fn drop(&mut self) {
        if !self.state().is_lost() {
            let context = ExceptionContext::warning("a connection was open when its loop closed")
                .with_subject(self.info.describe());
            self.shared().lp.report(&context);
            // Whoever holds a transport still asks.
            self.note(|state| _ = state.lose());
        }
    }
}

pub(super) fn is_transient(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}
