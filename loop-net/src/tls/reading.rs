//! From the transport below to the protocol above.

use std::io;
use std::rc::Rc;

use loop_core::ExceptionContext;

use super::conn::{TlsConn, tls_error};
use super::info::TlsInfo;
use super::phase::Phase;
use super::session::Fed;
use crate::error::NetError;
use crate::protocol::KeepOpen;

/// Undelivered bytes that pause the transport below, and few enough to resume it (B-TLS-10).
const READ_HIGH: usize = 256 * 1024;
const READ_LOW: usize = 64 * 1024;

impl TlsConn {
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
            self.fail(tls_error("speak TLS on", self.lower(), error));
        }
    }

    pub(super) fn shaken(&self) {
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

    pub(super) fn settle_made(&self, outcome: Result<(), Rc<NetError>>) -> bool {
        let Some(made) = self.made.take() else { return false };
        // Whoever waited may have gone.
        made.set_result(outcome).is_ok()
    }

    /// Hands bytes to the protocol, or keeps them while it is paused (B-TLS-11, B-TLS-12).
    pub(super) fn deliver(&self, bytes: Vec<u8>) {
        if self.holds_back() || !self.plain.borrow().is_empty() {
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

    pub(super) fn hand_over(&self, bytes: &[u8]) {
        let called = self.hook("data_received failed", |protocol| protocol.data_received(bytes));
        if let Some(Err(panic)) = called {
            self.end(NetError::Panicked(panic));
        }
    }

    /// In a later iteration than `resume_reading`: what was kept (B-TLS-11).
    pub(super) fn deliver_kept(&self) {
        if self.holds_back() || self.phase.get() != Phase::Wrapped {
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
    pub(super) fn peer_ended(&self) {
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

    /// Whether bytes and the end are kept from the protocol.
    fn holds_back(&self) -> bool {
        self.paused.get() || self.lent.get()
    }

    /// Behind all data (B-TLS-16). TLS knows no half-closed connection here (B-TLS-17).
    fn tell_end(&self) {
        let due = self.ended.get() && !self.holds_back() && self.plain.borrow().is_empty();
        if !due || self.phase.get() != Phase::Wrapped {
            return;
        }
        self.ended.set(false);
        match self.hook("eof_received failed", |protocol| protocol.eof_received()) {
            Some(Err(panic)) => self.end(NetError::Panicked(panic)),
            Some(Ok(KeepOpen::Yes)) => {
                let message = "a TLS connection cannot be kept open after the peer's end";
                let context =
                    ExceptionContext::warning(message).with_subject(self.lower().describe());
                self.lp().report(&context);
                self.close();
            }
            Some(Ok(KeepOpen::No)) | None => self.close(),
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

    pub(super) fn made_is_waiting(&self) -> bool {
        let made = self.made.take();
        let waiting = made.is_some();
        self.made.set(made);
        waiting
    }

    pub(super) fn pause_reading(&self, paused: bool) {
        if self.phase.get().is_closing() || self.paused.replace(paused) == paused || paused {
            return;
        }
        self.queue_delivery();
    }

    /// While this is set nothing is delivered, and of writes only [`Layer::write_lent`]'s are taken
    /// (B-SFL-06).
    ///
    /// [`Layer::write_lent`]: crate::layer::Layer::write_lent
    pub(super) fn set_lent(&self, lent: bool) {
        self.lent.set(lent);
        if !self.holds_back() {
            self.queue_delivery();
        }
    }

    fn queue_delivery(&self) {
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
}

fn aborted() -> Rc<NetError> {
    let message = "the connection was aborted during the TLS handshake";
    Rc::new(NetError::Io(io::Error::new(io::ErrorKind::ConnectionAborted, message)))
}
