//! A TLS connection: a protocol to the transport below, a transport to the protocol above.

use std::cell::{Cell, OnceCell, RefCell};
use std::io;
use std::rc::{Rc, Weak};
use std::time::Duration;

use loop_core::{
    ExceptionContext, Failure, LoopFuture, LoopRef, PanicError, Severity, TimerHandle, catch_panic,
};

use super::info::TlsInfo;
use super::phase::Phase;
use super::session::{Fed, Session};
use super::settings::Tls;
use crate::conn::WriteBuf;
use crate::error::NetError;
use crate::protocol::{AnyProtocol, KeepOpen};
use crate::stream::Wakers;
use crate::transport::{Info, Transport};

/// Undelivered bytes that pause the transport below, and few enough to resume it (B-TLS-10).
const READ_HIGH: usize = 256 * 1024;
const READ_LOW: usize = 64 * 1024;

/// How a handshake ended, for whoever waits.
pub(super) type Made = LoopFuture<Result<(), Rc<NetError>>>;

/// It is owned by the transport below, as that one's protocol; the transport above is weak.
pub(super) struct TlsConn {
    pub(super) me: Weak<TlsConn>,
    pub(super) tls: Tls,
    /// Known from the beginning of the handshake.
    pub(super) lower: OnceCell<Transport>,
    upper: OnceCell<Transport>,
    pub(super) info: Rc<OnceCell<TlsInfo>>,
    clean: Rc<Cell<bool>>,
    session: RefCell<Option<Session>>,
    pub(super) phase: Cell<Phase>,
    /// Empty while one of its hooks runs, and at the end.
    pub(super) protocol: Cell<Option<Box<dyn AnyProtocol>>>,
    /// Whether the protocol knows of the connection, and is to hear of its end.
    connected: Cell<bool>,
    made: Cell<Option<Made>>,
    timer: Cell<Option<TimerHandle>>,
    error: RefCell<Option<Rc<NetError>>>,
    /// Reading: what the user has not taken, because it is paused.
    pub(super) paused: Cell<bool>,
    plain: RefCell<Vec<u8>>,
    /// The peer has ended its side, and the protocol is to hear of that.
    ended: Cell<bool>,
    /// The peer will send nothing more.
    peer_gone: Cell<bool>,
    lower_paused: Cell<bool>,
    /// Writing: what is not encrypted yet, because the handshake is not over or the transport below is
    /// full (B-TLS-08, B-TLS-29).
    pub(super) backlog: RefCell<WriteBuf>,
    lower_full: Cell<bool>,
    pump_queued: Cell<bool>,
    pub(super) low: Cell<usize>,
    pub(super) high: Cell<usize>,
    full: Cell<bool>,
    told_full: Cell<bool>,
    pub(super) flush_waiters: Wakers,
}

impl TlsConn {
    pub(super) fn new(tls: Tls, protocol: Box<dyn AnyProtocol>, connected: bool) -> Rc<TlsConn> {
        Rc::new_cyclic(|me| TlsConn {
            me: me.clone(),
            tls,
            lower: OnceCell::new(),
            upper: OnceCell::new(),
            info: Rc::default(),
            clean: Rc::default(),
            session: RefCell::default(),
            phase: Cell::new(Phase::New),
            protocol: Cell::new(Some(protocol)),
            connected: Cell::new(connected),
            made: Cell::new(None),
            timer: Cell::new(None),
            error: RefCell::default(),
            paused: Cell::new(false),
            plain: RefCell::default(),
            ended: Cell::new(false),
            peer_gone: Cell::new(false),
            lower_paused: Cell::new(false),
            backlog: RefCell::default(),
            lower_full: Cell::new(false),
            pump_queued: Cell::new(false),
            // B-TLS-09
            low: Cell::new(128 * 1024),
            high: Cell::new(512 * 1024),
            full: Cell::new(false),
            told_full: Cell::new(false),
            flush_waiters: Wakers::default(),
        })
    }

    pub(super) fn tell(&self, made: Made) {
        self.made.set(Some(made));
    }

    pub(super) fn lower(&self) -> &Transport {
        self.lower.get().expect("known from the beginning of the handshake")
    }

    /// The connection as the protocol above sees it.
    pub(super) fn upper(&self) -> Option<Transport> {
        self.upper.get().cloned()
    }

    fn lp(&self) -> &LoopRef {
        self.lower().loop_ref()
    }

    /// Begins the handshake at once, so that nothing the peer sends is missed (B-TLS-03).
    pub(super) fn begin(&self, lower: &Transport) {
        let fresh = self.lower.set(lower.clone());
        debug_assert!(fresh.is_ok(), "a handshake begins once");
        let info = Rc::new(Info::layered(lower, self.me.clone(), self.info.clone()));
        let _ = self.upper.set(Transport::new(Weak::new(), info));
        self.enter(Phase::Handshake);
        match Session::new(&self.tls.side) {
            Ok(session) => *self.session.borrow_mut() = Some(session),
            Err(error) => return self.fail(tls_error("begin TLS with", lower, error)),
        }
        self.limit(self.tls.handshake);
        self.send_out();
    }

    fn enter(&self, next: Phase) {
        debug_assert!(self.phase.get().may_become(next), "{:?} to {next:?}", self.phase.get());
        self.phase.set(next);
        // Each limit ends with the state that it was set for.
        let kept = matches!(next, Phase::Shutdown);
        if !kept {
            if let Some(timer) = self.timer.take() {
                timer.cancel();
            }
        }
    }

    fn limit(&self, limit: Duration) {
        let me = self.me.clone();
        let timer = self.lp().call_later(limit, move || {
            if let Some(me) = me.upgrade() {
                me.timed_out();
            }
        });
        self.timer.set(Some(timer));
    }

    fn timed_out(&self) {
        let (kind, what, limit) = match self.phase.get() {
            Phase::Handshake => (io::ErrorKind::ConnectionAborted, "handshake", self.tls.handshake),
            _ => (io::ErrorKind::TimedOut, "shutdown", self.tls.shutdown),
        };
        let message = format!("the TLS {what} of the {} took {limit:?}", self.lower().describe());
        self.fail(io::Error::new(kind, message));
        self.lower().abort();
    }

    /// With the engine, which is never entered again meanwhile.
    fn with_session<R>(&self, f: impl FnOnce(&mut Session) -> R) -> Option<R> {
        self.session.borrow_mut().as_mut().map(f)
    }

    /// Sends what the engine has for the peer.
    fn send_out(&self) {
        let out = self.with_session(Session::take).unwrap_or_default();
        if !out.is_empty() {
            self.lower().write(&out);
        }
    }

    // From below.

    pub(super) fn input(&self, data: &[u8]) {
        if self.phase.get() == Phase::Unwrapped {
            return;
        }
        let Some(Fed { plain, closed, error }) = self.with_session(|session| session.feed(data))
        else {
            return;
        };
        self.send_out();
        let shaken = self.phase.get() == Phase::Handshake
            && self.with_session(|session| !session.is_handshaking()) == Some(true);
        if shaken {
            self.shaken();
        }
        if !plain.is_empty() && self.phase.get() == Phase::Wrapped {
            self.deliver(plain);
        }
        if closed {
            self.clean.set(true);
            self.peer_ended();
        }
        if let Some(error) = error {
            self.fail(tls_error("speak TLS with", self.lower(), error));
        }
    }

    fn shaken(&self) {
        self.enter(Phase::Wrapped);
        let agreed = self.with_session(|session| TlsInfo::of(session.engine(), self.clean.clone()));
        if let Some(agreed) = agreed {
            let _ = self.info.set(agreed);
        }
        if !self.connected.replace(true) {
            if let Some(upper) = self.upper() {
                self.hook("connection_made failed", |protocol| protocol.connection_made(&upper));
            }
        }
        self.settle_made(Ok(()));
        self.pump();
    }

    fn settle_made(&self, outcome: Result<(), Rc<NetError>>) -> bool {
        let Some(made) = self.made.take() else { return false };
        // Whoever waited may have gone.
        made.set_result(outcome).is_ok()
    }

    /// Hands bytes to the protocol, or keeps them while it is paused (B-TLS-11, B-TLS-12).
    fn deliver(&self, bytes: Vec<u8>) {
        if self.paused.get() || !self.plain.borrow().is_empty() {
            let kept = {
                let mut plain = self.plain.borrow_mut();
                plain.extend_from_slice(&bytes);
                plain.len()
            };
            if kept > READ_HIGH && !self.lower_paused.replace(true) {
                self.lower().pause_reading();
            }
            return;
        }
        self.hand_over(&bytes);
    }

    fn hand_over(&self, bytes: &[u8]) {
        let called = self.hook("data_received failed", |protocol| protocol.data_received(bytes));
        if let Some(Err(panic)) = called {
            self.end(NetError::Panicked(panic));
        }
    }

    /// In a later iteration than `resume_reading`: what was kept (B-TLS-11).
    fn deliver_kept(&self) {
        if self.paused.get() || self.phase.get() != Phase::Wrapped {
            return;
        }
        let bytes = self.plain.take();
        if !bytes.is_empty() {
            self.hand_over(&bytes);
        }
        if self.plain.borrow().len() <= READ_LOW && self.lower_paused.replace(false) {
            self.lower().resume_reading();
        }
        self.tell_end();
    }

    /// By `close_notify` or by the end of the transport below.
    fn peer_ended(&self) {
        if self.peer_gone.replace(true) {
            return;
        }
        match self.phase.get() {
            Phase::New | Phase::Handshake => {
                let message =
                    format!("the {} was closed during the TLS handshake", self.lower().describe());
                self.fail(io::Error::new(io::ErrorKind::ConnectionReset, message));
            }
            Phase::Wrapped if !self.clean.get() && self.tls.require_close_notify => {
                let message = format!(
                    "the {} ended without a close_notify: it may be cut short",
                    self.lower().describe()
                );
                self.fail(io::Error::new(io::ErrorKind::UnexpectedEof, message));
            }
            Phase::Wrapped => {
                self.ended.set(true);
                self.tell_end();
            }
            Phase::Flushing => {}
            Phase::Shutdown => self.unwrap(),
            Phase::Unwrapped => {}
        }
    }

    /// Behind all data (B-TLS-16). TLS knows no half-closed connection here (B-TLS-17).
    fn tell_end(&self) {
        let due = self.ended.get() && !self.paused.get() && self.plain.borrow().is_empty();
        if !due || self.phase.get() != Phase::Wrapped {
            return;
        }
        self.ended.set(false);
        match self.hook("eof_received failed", |protocol| protocol.eof_received()) {
            Some(Err(panic)) => self.end(NetError::Panicked(panic)),
            Some(Ok(KeepOpen::Yes | KeepOpen::No)) | None => self.close(),
        }
    }

    pub(super) fn lower_ended(&self) -> KeepOpen {
        self.peer_ended();
        // What is left to be sent may still be: we close by ourselves.
        if self.phase.get() == Phase::Unwrapped { KeepOpen::No } else { KeepOpen::Yes }
    }

    pub(super) fn lower_paused_writing(&self, full: bool) {
        self.lower_full.set(full);
        if !full {
            self.pump();
        }
        self.measure();
        self.settle();
    }

    pub(super) fn lower_lost(&self, error: Option<&NetError>) {
        let was = self.phase.get();
        if was != Phase::Unwrapped {
            self.enter(Phase::Unwrapped);
        }
        self.backlog.borrow_mut().clear();
        self.plain.take();
        drop(self.session.take());
        let stored = self.error.take();
        let below = error.map(|error| Rc::new(NetError::Io(error.to_io())));
        let error = match was {
            // It was closed, and the peer need not be polite.
            Phase::Shutdown => stored,
            Phase::New | Phase::Handshake => Some(stored.or(below).unwrap_or_else(|| {
                let message =
                    format!("the {} was lost in the TLS handshake", self.lower().describe());
                Rc::new(NetError::Io(io::Error::new(io::ErrorKind::ConnectionReset, message)))
            })),
            _ => stored.or(below),
        };
        if let Some(error) = error.clone().or_else(|| self.made_is_waiting().then(aborted)) {
            self.settle_made(Err(error));
        }
        if self.connected.get() {
            self.hook("connection_lost failed", |protocol| {
                protocol.connection_lost(error.as_deref())
            });
        }
        drop(self.protocol.take());
        self.flush_waiters.wake();
    }

    fn made_is_waiting(&self) -> bool {
        let made = self.made.take();
        let waiting = made.is_some();
        self.made.set(made);
        waiting
    }

    // From above.

    /// Encrypts as much as the transport below takes, and goes on when it has drained.
    pub(super) fn pump(&self) {
        const PIECE: usize = 64 * 1024;
        if !matches!(self.phase.get(), Phase::Wrapped | Phase::Flushing) {
            return;
        }
        while !self.lower_full.get() && !self.backlog.borrow().is_empty() {
            if self.lower().write_buffer_size() > PIECE {
                // A hook of the transport below runs, or it would have said that it is full.
                self.queue_pump();
                break;
            }
            let done = self.with_session(|session| {
                let mut backlog = self.backlog.borrow_mut();
                let piece = backlog.first(PIECE);
                let count = piece.len();
                let written = session.write(piece);
                backlog.consume(count);
                written
            });
            if !matches!(done, Some(Ok(()))) {
                break;
            }
            self.send_out();
        }
        self.measure();
        if self.backlog.borrow().is_empty() {
            self.flush_waiters.wake();
            if self.phase.get() == Phase::Flushing {
                self.say_goodbye();
            }
        }
    }

    fn queue_pump(&self) {
        if self.pump_queued.replace(true) {
            return;
        }
        let me = self.me.clone();
        self.lp().call_soon(move || {
            if let Some(me) = me.upgrade() {
                me.pump_queued.set(false);
                me.pump();
                me.settle();
            }
        });
    }

    fn say_goodbye(&self) {
        self.with_session(Session::send_close_notify);
        self.send_out();
        if self.peer_gone.get() {
            return self.unwrap();
        }
        self.enter(Phase::Shutdown);
        // The peer's answer is read, whether the user wants to read or not.
        if self.lower_paused.replace(false) {
            self.lower().resume_reading();
        }
    }

    /// Both sides have said goodbye.
    fn unwrap(&self) {
        self.enter(Phase::Unwrapped);
        self.lower().close();
    }

    pub(super) fn close(&self) {
        match self.phase.get() {
            Phase::New | Phase::Handshake => self.abort(),
            Phase::Wrapped => {
                self.enter(Phase::Flushing);
                self.limit(self.tls.shutdown);
                drop(self.plain.take());
                self.pump();
            }
            _ => {}
        }
    }

    pub(super) fn abort(&self) {
        if self.phase.get() != Phase::Unwrapped {
            self.enter(Phase::Unwrapped);
        }
        if let Some(lower) = self.lower.get() {
            lower.abort();
        }
    }

    /// Ends after an error; an alert for the peer is sent first.
    fn fail(&self, error: io::Error) {
        if self.phase.get() == Phase::Unwrapped {
            return;
        }
        let shaking = matches!(self.phase.get(), Phase::New | Phase::Handshake);
        let error = Rc::new(NetError::Io(error));
        let heard = self.settle_made(Err(error.clone()));
        if shaking && !heard && !self.connected.get() {
            // Nobody else hears of it, and strangers must not fill the log.
            let mut context = ExceptionContext::new("a TLS handshake failed")
                .with_failure(Failure::Error(error.to_io().into()))
                .with_subject(self.lower().describe());
            context.severity = Severity::Debug;
            self.lp().report(&context);
        }
        *self.error.borrow_mut() = Some(error);
        self.enter(Phase::Unwrapped);
        self.lower().close();
    }

    fn end(&self, error: NetError) {
        if self.phase.get() != Phase::Unwrapped {
            *self.error.borrow_mut() = Some(Rc::new(error));
            self.enter(Phase::Unwrapped);
            self.lower().abort();
        }
    }

    pub(super) fn pause_reading(&self, paused: bool) {
        if self.phase.get().is_closing() || self.paused.replace(paused) == paused || paused {
            return;
        }
        if self.plain.borrow().is_empty() && !self.ended.get() {
            return;
        }
        let me = self.me.clone();
        self.lp().call_soon(move || {
            if let Some(me) = me.upgrade() {
                me.deliver_kept();
            }
        });
    }

    pub(super) fn buffered(&self) -> usize {
        let below = self.lower.get().map_or(0, Transport::write_buffer_size);
        self.backlog.borrow().len() + below
    }

    /// At the mark is above it here (B-TLS-09).
    pub(super) fn measure(&self) -> bool {
        let size = self.buffered();
        if size >= self.high.get() && size > 0 {
            self.full.set(true);
        } else if size <= self.low.get() {
            self.full.set(false);
        }
        self.full.get()
    }

    // Hooks of the protocol above, one at a time.

    pub(super) fn call<R>(
        &self,
        f: impl FnOnce(&mut dyn AnyProtocol) -> R,
    ) -> Option<Result<R, PanicError>> {
        let mut protocol = self.protocol.take()?;
        let result = catch_panic(|| f(&mut *protocol));
        let newer = self.protocol.replace(Some(protocol));
        if newer.is_some() {
            drop(self.protocol.replace(newer));
        }
        Some(result)
    }

    fn hook<R>(
        &self,
        message: &'static str,
        f: impl FnOnce(&mut dyn AnyProtocol) -> R,
    ) -> Option<Result<R, PanicError>> {
        let result = self.call(f);
        if let Some(Err(panic)) = &result {
            self.report(message, panic.clone());
        }
        self.settle();
        result
    }

    /// Tells the protocol of a full or drained buffer, until what it knows is true.
    pub(super) fn settle(&self) {
        while self.full.get() != self.told_full.get() && self.phase.get() == Phase::Wrapped {
            let full = self.full.get();
            let called = self.call(|protocol| {
                self.told_full.set(full);
                if full { protocol.pause_writing() } else { protocol.resume_writing() }
            });
            match called {
                Some(Ok(())) => {}
                Some(Err(panic)) => self.report("pause_writing or resume_writing failed", panic),
                None => return,
            }
        }
    }

    /// After a change of the protocol: the new one knows nothing.
    pub(super) fn forget_told(&self) {
        self.told_full.set(false);
    }

    fn report(&self, message: &'static str, panic: PanicError) {
        let context = ExceptionContext::new(message)
            .with_failure(Failure::Panic(panic))
            .with_subject(self.lower().describe());
        self.lp().report(&context);
    }
}

fn aborted() -> Rc<NetError> {
    let message = "the connection was aborted during the TLS handshake";
    Rc::new(NetError::Io(io::Error::new(io::ErrorKind::ConnectionAborted, message)))
}

fn tls_error(what: &str, lower: &Transport, error: rustls::Error) -> io::Error {
    let kind = match error {
        rustls::Error::InvalidCertificate(_) | rustls::Error::NoCertificatesPresented => {
            io::ErrorKind::PermissionDenied
        }
        _ => io::ErrorKind::InvalidData,
    };
    crate::error::named(
        format!("{what} the peer of the {}", lower.describe()),
        io::Error::new(kind, error),
    )
}
