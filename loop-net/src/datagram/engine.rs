//! The engine of a datagram endpoint.

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::{Rc, Weak};

use loop_core::{
    ExceptionContext, Interest, IoHandler, LoopFuture, PanicError, Readiness, Token, catch_panic,
};

use super::protocol::DatagramProtocol;
use super::queue::Queue;
use super::socket::DatagramSocket;
use super::transport::DatagramTransport;
use crate::conn::{Info, Shared};
use crate::error::{NetError, named};
use crate::sock_addr::SockAddr;
use crate::transport::WriteState;
use crate::unix::SocketFile;

/// The high-water mark at the start, in bytes.
const HIGH_WATER: usize = 64 * 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    /// Closed by the user, with datagrams left to send.
    Closing,
    /// `connection_lost` is queued or was called.
    Lost,
}

/// A datagram endpoint. The loop owns it through its registration until the loss.
pub(super) struct Endpoint {
    pub(super) socket: Rc<DatagramSocket>,
    /// Empty while one of its hooks runs.
    protocol: Cell<Option<Box<dyn DatagramProtocol>>>,
    me: Weak<Endpoint>,
    shared: Rc<Shared>,
    token: Cell<Option<Token>>,
    state: Cell<State>,
    made: Cell<bool>,
    /// The one destination there is, and whether the socket is connected to it.
    remote: Option<(SockAddr, bool)>,
    max_size: usize,
    queue: RefCell<Queue>,
    pub(super) marks: Cell<(usize, usize)>,
    full: Cell<bool>,
    told_full: Cell<bool>,
    error: Cell<Option<NetError>>,
    /// Errors that fell due while a hook ran.
    errors: RefCell<Vec<io::Error>>,
    info: Rc<Info>,
    /// Removed after the socket is closed.
    _file: Option<SocketFile>,
}

/// What an endpoint is made of.
pub(super) struct Parts {
    pub(super) socket: DatagramSocket,
    pub(super) remote: Option<(SockAddr, bool)>,
    pub(super) max_size: usize,
    pub(super) file: Option<SocketFile>,
}

impl Endpoint {
    /// `connection_made` follows in the next iteration, and then `made` is completed.
    pub(super) fn start(
        shared: &Rc<Shared>,
        parts: Parts,
        protocol: Box<dyn DatagramProtocol>,
        made: LoopFuture<()>,
    ) -> Rc<Endpoint> {
        let peer = parts.remote.as_ref().map_or(SockAddr::Unnamed, |(addr, _)| addr.clone());
        let info = Info::new(shared.clone(), parts.socket.local_addr(), peer);
        let endpoint = Rc::new_cyclic(|me| Endpoint {
            socket: Rc::new(parts.socket),
            protocol: Cell::new(Some(protocol)),
            me: me.clone(),
            shared: shared.clone(),
            token: Cell::new(None),
            state: Cell::new(State::Open),
            made: Cell::new(false),
            remote: parts.remote,
            max_size: parts.max_size,
            queue: RefCell::default(),
            marks: Cell::new((HIGH_WATER / 4, HIGH_WATER)),
            full: Cell::new(false),
            told_full: Cell::new(false),
            error: Cell::new(None),
            errors: RefCell::default(),
            info: Rc::new(info),
            _file: parts.file,
        });
        let starting = endpoint.clone();
        shared.lp.call_soon(move || {
            let transport = starting.transport();
            starting.hook("connection_made failed", |protocol| {
                protocol.connection_made(&transport);
            });
            starting.made.set(true);
            starting.arm();
            // Whoever waited may have gone.
            let _ = made.set_result(());
        });
        endpoint
    }

    pub(super) fn transport(&self) -> DatagramTransport {
        DatagramTransport::new(self.me.clone(), self.info.clone())
    }

    /// Calls a hook, then whatever fell due meanwhile. Nothing if one runs already.
    fn hook(&self, message: &'static str, f: impl FnOnce(&mut dyn DatagramProtocol)) {
        if self.call(message, f) {
            self.settle();
        }
    }

    fn call(&self, message: &'static str, f: impl FnOnce(&mut dyn DatagramProtocol)) -> bool {
        let Some(mut protocol) = self.protocol.take() else { return false };
        let called = catch_panic(|| f(&mut *protocol));
        self.protocol.set(Some(protocol));
        if let Err(panic) = called {
            self.report(message, panic);
        }
        true
    }

    /// Tells the protocol of errors and of a full or drained queue, until it knows all.
    fn settle(&self) {
        while self.state.get() != State::Lost {
            let error = {
                let mut errors = self.errors.borrow_mut();
                (!errors.is_empty()).then(|| errors.remove(0))
            };
            let full = self.full.get();
            let called = if let Some(error) = error {
                let mut error = Some(error);
                let called = self.call("error_received failed", |protocol| {
                    protocol.error_received(error.take().expect("it is called once"));
                });
                if let Some(error) = error {
                    self.errors.borrow_mut().insert(0, error);
                }
                called
            } else if full != self.told_full.get() {
                self.call("pausing or resuming failed", |protocol| {
                    self.told_full.set(full);
                    if full { protocol.pause_writing() } else { protocol.resume_writing() }
                })
            } else {
                false
            };
            if !called {
                return;
            }
        }
    }

    fn report(&self, message: &'static str, panic: PanicError) {
        self.shared.report(message, panic, self.info.describe());
    }

    fn arm(&self) {
        let reads = self.made.get() && self.state.get() == State::Open;
        let interest = match (reads, !self.queue.borrow().is_empty()) {
            _ if self.state.get() == State::Lost => return,
            (true, true) => Some(Interest::READ | Interest::WRITE),
            (true, false) => Some(Interest::READ),
            (false, true) => Some(Interest::WRITE),
            (false, false) => None,
        };
        let lp = &self.shared.lp;
        if let Some(token) = self.token.get() {
            lp.set_interest(token, interest);
            return;
        }
        let Some(me) = self.me.upgrade() else { return };
        match lp.register_io(self.socket.clone(), interest.unwrap_or(Interest::READ), me) {
            Ok(token) => {
                self.token.set(Some(token));
                lp.set_interest(token, interest);
            }
            Err(error) => {
                let what = format!("register {}", self.info.describe());
                self.error.set(Some(NetError::Io(named(what, error.into()))));
                self.lose();
            }
        }
    }

    /// The one destination, or an argument error (B-UDP-05).
    fn destination(&self, to: Option<SockAddr>) -> io::Result<Option<SockAddr>> {
        let invalid = |message| Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        match (&self.remote, to) {
            (None, None) => invalid("this endpoint has no peer: say where to send".to_owned()),
            (None, to) => Ok(to),
            (Some((remote, _)), Some(to)) if to != *remote => {
                invalid(format!("this endpoint sends to {remote}, not to {to}"))
            }
            (Some((_, true)), _) => Ok(None),
            (Some((remote, false)), _) => Ok(Some(remote.clone())),
        }
    }

    pub(super) fn send(&self, data: &[u8], to: Option<SockAddr>) -> io::Result<WriteState> {
        let to = self.destination(to)?;
        if let Some(to) = &to {
            to.to_any()?;
        }
        let idle = self.queue.borrow().is_empty();
        if self.state.get() == State::Lost || (self.state.get() == State::Closing && idle) {
            return Ok(self.info.refuse());
        }
        if idle {
            match self.socket.send(data, to.as_ref()) {
                Ok(()) => return Ok(WriteState::Open),
                Err(error) if is_transient(&error) => {}
                Err(error) => {
                    self.send_failed(error, to.as_ref());
                    return Ok(WriteState::Open);
                }
            }
        }
        self.queue.borrow_mut().push(data, to);
        if idle {
            self.arm();
        }
        self.measure();
        Ok(if self.full.get() { WriteState::Full } else { WriteState::Open })
    }

    fn send_failed(&self, error: io::Error, to: Option<&SockAddr>) {
        let what = match (to, &self.remote) {
            (Some(to), _) | (None, Some((to, _))) => format!("send to {to}"),
            (None, None) => "send".to_owned(),
        };
        self.errors.borrow_mut().push(named(what, error));
        self.settle();
    }

    pub(super) fn queued(&self) -> usize {
        self.queue.borrow().size()
    }

    /// Compares what is queued with the marks.
    pub(super) fn measure(&self) {
        let (low, high) = self.marks.get();
        let size = self.queued();
        if size > high {
            self.full.set(true);
        } else if size <= low {
            self.full.set(false);
        }
        self.settle();
    }

    pub(super) fn is_closing(&self) -> bool {
        self.state.get() != State::Open
    }

    pub(super) fn close(&self) {
        if self.state.get() != State::Open {
            return;
        }
        if self.queue.borrow().is_empty() {
            return self.lose();
        }
        self.state.set(State::Closing);
        self.arm();
    }

    pub(super) fn abort(&self) {
        self.lose();
    }

    /// Nothing is sent or received from here on, and `connection_lost` is queued.
    fn lose(&self) {
        if self.state.replace(State::Lost) == State::Lost {
            return;
        }
        let queue = std::mem::take(&mut *self.queue.borrow_mut());
        drop(queue);
        if let Some(me) = self.me.upgrade() {
            self.shared.lp.call_soon(move || {
                let error = me.error.take();
                me.call("connection_lost failed", |protocol| {
                    protocol.connection_lost(error.as_ref());
                });
            });
        }
        if let Some(token) = self.token.take() {
            drop(self.shared.lp.deregister_io(token));
        }
    }

    fn read_ready(&self, buffer: &mut Vec<u8>) {
        if buffer.len() < self.max_size {
            buffer.resize(self.max_size, 0);
        }
        match self.socket.recv(&mut buffer[..self.max_size]) {
            Ok((count, false, from)) => self.hook("datagram_received failed", |protocol| {
                protocol.datagram_received(&buffer[..count], &from);
            }),
            Ok((count, true, from)) => {
                let message = format!("a datagram from {from} was longer than {count} bytes");
                let error = io::Error::new(io::ErrorKind::InvalidData, message);
                self.errors.borrow_mut().push(error);
                self.settle();
            }
            Err(error) if is_transient(&error) => {}
            Err(error) => {
                let what = format!("receive on {}", self.info.describe());
                self.errors.borrow_mut().push(named(what, error));
                self.settle();
            }
        }
    }

    /// Sends until the socket takes no more. One that fails holds up no other (B-UDP-04).
    fn write_ready(&self) {
        loop {
            let (result, to) = {
                let queue = self.queue.borrow();
                let Some((data, to)) = queue.first() else { break };
                (self.socket.send(data, to), to.cloned())
            };
            match result {
                Err(error) if is_transient(&error) => break,
                result => {
                    self.queue.borrow_mut().pop();
                    if let Err(error) = result {
                        self.send_failed(error, to.as_ref());
                    }
                }
            }
        }
        self.measure();
        if !self.queue.borrow().is_empty() {
            return;
        }
        match self.state.get() {
            State::Closing => self.lose(),
            _ => self.arm(),
        }
    }
}

impl IoHandler for Endpoint {
    fn ready(self: Rc<Self>, readiness: Readiness, buffer: &mut Vec<u8>) {
        if readiness.is_readable() && self.state.get() == State::Open {
            self.read_ready(buffer);
        }
        if readiness.is_writable() && !self.queue.borrow().is_empty() {
            self.write_ready();
        }
    }
}

impl Drop for Endpoint {
    /// Only closing the loop drops an endpoint that is not over (B-TRN-38).
    fn drop(&mut self) {
        if self.state.get() != State::Lost {
            let context = ExceptionContext::warning("an endpoint was open when its loop closed")
                .with_subject(self.info.describe());
            self.shared.lp.report(&context);
        }
    }
}

fn is_transient(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}
