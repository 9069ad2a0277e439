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
use super::session::Session;
use super::settings::Tls;
use crate::conn::WriteBuf;
use crate::error::NetError;
use crate::layer::Layered;
use crate::protocol::AnyProtocol;
use crate::stream_state::Wakers;
use crate::transport::Transport;

/// How a handshake ended, for whoever waits.
pub(super) type Made = LoopFuture<Result<(), Rc<NetError>>>;

/// It is owned by the transport below, as that one's protocol; the transport above is weak.
pub(super) struct TlsConn {
    pub(super) me: Weak<TlsConn>,
    pub(super) tls: Tls,
    /// Known from the beginning of the handshake.
    pub(super) lower: OnceCell<Transport>,
    pub(super) upper: OnceCell<Transport>,
    pub(super) info: Rc<OnceCell<TlsInfo>>,
    pub(super) clean: Rc<Cell<bool>>,
    pub(super) session: RefCell<Option<Session>>,
    pub(super) phase: Cell<Phase>,
    /// Empty while one of its hooks runs, and at the end.
    pub(super) protocol: Cell<Option<Box<dyn AnyProtocol>>>,
    /// Whether the protocol knows of the connection, and is to hear of its end.
    pub(super) connected: Cell<bool>,
    pub(super) made: Cell<Option<Made>>,
    pub(super) timer: Cell<Option<TimerHandle>>,
    pub(super) error: RefCell<Option<Rc<NetError>>>,
    /// Reading: what the user has not taken, because it is paused.
    pub(super) paused: Cell<bool>,
    /// A file is being sent.
    pub(super) lent: Cell<bool>,
    pub(super) plain: RefCell<Vec<u8>>,
    /// The peer has ended its side, and the protocol is to hear of that.
    pub(super) ended: Cell<bool>,
    /// The peer will send nothing more.
    pub(super) peer_gone: Cell<bool>,
    pub(super) lower_paused: Cell<bool>,
    /// Writing: what is not encrypted yet, because the handshake is not over or the transport below is
    /// full (B-TLS-08, B-TLS-29).
    pub(super) backlog: RefCell<WriteBuf>,
    pub(super) lower_full: Cell<bool>,
    pub(super) pump_queued: Cell<bool>,
    pub(super) low: Cell<usize>,
    pub(super) high: Cell<usize>,
    pub(super) full: Cell<bool>,
    pub(super) told_full: Cell<bool>,
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
            lent: Cell::new(false),
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

    pub(super) fn lp(&self) -> &LoopRef {
        self.lower().loop_ref()
    }

    /// Begins the handshake at once, so that nothing the peer sends is missed (B-TLS-03).
    pub(super) fn begin(&self, lower: &Transport) {
        let fresh = self.lower.set(lower.clone());
        debug_assert!(fresh.is_ok(), "a handshake begins once");
        let layered = Layered { layer: self.me.clone(), facts: self.info.clone() };
        let _ = self.upper.set(Transport::on_top_of(lower, layered));
        if let Some(conn) = lower.conn() {
            conn.set_layer(self.me.clone());
        }
        self.enter(Phase::Handshake);
        match Session::new(&self.tls.side) {
            Ok(session) => *self.session.borrow_mut() = Some(session),
            Err(error) => return self.fail(tls_error("begin TLS on", lower, error)),
        }
        self.mark_lower();
        self.limit(self.tls.handshake);
        self.send_out();
    }

    pub(super) fn enter(&self, next: Phase) {
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

    pub(super) fn limit(&self, limit: Duration) {
        let me = self.me.clone();
        let timer = self.lp().call_later(limit, move || {
            if let Some(me) = me.upgrade() {
                me.timed_out();
            }
        });
        self.timer.set(Some(timer));
    }

    pub(super) fn timed_out(&self) {
        let (kind, what, limit) = match self.phase.get() {
            Phase::Handshake => (io::ErrorKind::ConnectionAborted, "handshake", self.tls.handshake),
            _ => (io::ErrorKind::TimedOut, "shutdown", self.tls.shutdown),
        };
        let message = format!("the TLS {what} of the {} took {limit:?}", self.lower().describe());
        self.fail(io::Error::new(kind, message));
        self.lower().abort();
    }

    /// With the engine, which is never entered again meanwhile.
    pub(super) fn with_session<R>(&self, f: impl FnOnce(&mut Session) -> R) -> Option<R> {
        self.session.borrow_mut().as_mut().map(f)
    }

    /// Sends what the engine has for the peer.
    pub(super) fn send_out(&self) {
        let out = self.with_session(Session::take).unwrap_or_default();
        if !out.is_empty() {
            self.lower().write(&out);
        }
    }

    /// Ends after an error; an alert for the peer is sent first.
    pub(super) fn fail(&self, error: io::Error) {
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

    pub(super) fn end(&self, error: NetError) {
        if self.phase.get() != Phase::Unwrapped {
            *self.error.borrow_mut() = Some(Rc::new(error));
            self.enter(Phase::Unwrapped);
            self.lower().abort();
        }
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

    pub(super) fn hook<R>(
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

    /// What was written before a close drains like anything else, the goodbye behind it.
    fn tells_marks(&self) -> bool {
        matches!(self.phase.get(), Phase::Wrapped | Phase::Flushing | Phase::Shutdown)
    }

    /// Tells the protocol of a full or drained buffer, until what it knows is true.
    pub(super) fn settle(&self) {
        while self.full.get() != self.told_full.get() && self.tells_marks() {
            let full = self.full.get();
            let called = self.call(|protocol| {
                self.told_full.set(full);
                if full { protocol.pause_writing() } else { protocol.resume_writing() }
            });
            match called {
                Some(Ok(())) => {}
                Some(Err(panic)) if full => self.report("pause_writing failed", panic),
                Some(Err(panic)) => self.report("resume_writing failed", panic),
                None => return,
            }
        }
    }

    /// After a change of the protocol: the new one knows nothing.
    pub(super) fn forget_told(&self) {
        self.told_full.set(false);
    }

    pub(super) fn report(&self, message: &'static str, panic: PanicError) {
        let context = ExceptionContext::new(message)
            .with_failure(Failure::Panic(panic))
            .with_subject(self.lower().describe());
        self.lp().report(&context);
    }
}

pub(super) fn tls_error(what: &str, lower: &Transport, error: rustls::Error) -> io::Error {
    let kind = match error {
        rustls::Error::InvalidCertificate(_) | rustls::Error::NoCertificatesPresented => {
            io::ErrorKind::PermissionDenied
        }
        _ => io::ErrorKind::InvalidData,
    };
    crate::error::named(format!("{what} the {}", lower.describe()), io::Error::new(kind, error))
}
