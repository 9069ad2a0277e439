//! One listening socket of a server.

use std::cell::Cell;
use std::io;
use std::rc::{Rc, Weak};
use std::time::Duration;

use loop_core::{ExceptionContext, Failure, Interest, IoHandler, Readiness, Token, catch_panic};
use rustix::io::Errno;

use super::handle::{Accepted, State};
use super::listen::Bound;
use crate::conn::{Conn, Shared};
use crate::protocol::AnyProtocol;
use crate::sock_addr::SockAddr;
use crate::socket::Socket;
use crate::unix::SocketFile;

/// How long accepting pauses when the system is out of descriptors or memory (B-SRV-09).
const ACCEPT_RETRY: Duration = Duration::from_secs(1);

pub(super) type Factory = Box<dyn Fn() -> Box<dyn AnyProtocol>>;

/// Owned by its registration.
pub(super) struct Listener {
    me: Weak<Listener>,
    shared: Rc<Shared>,
    socket: Rc<Socket>,
    pub(super) local: SockAddr,
    token: Cell<Option<Token>>,
    backlog: i32,
    factory: Rc<Factory>,
    state: Rc<State>,
    /// It rests after a shortage.
    resting: Cell<bool>,
    /// Removed with the last owner of the listener, that is when it is closed.
    _file: Option<SocketFile>,
}

impl Listener {
    pub(super) fn start(
        shared: &Rc<Shared>,
        bound: Bound,
        backlog: i32,
        factory: Rc<Factory>,
        state: Rc<State>,
    ) -> io::Result<Rc<Listener>> {
        let socket = Rc::new(bound.socket);
        let listener = Rc::new_cyclic(|me| Listener {
            me: me.clone(),
            shared: shared.clone(),
            socket: socket.clone(),
            local: bound.local,
            token: Cell::new(None),
            backlog,
            factory,
            state,
            resting: Cell::new(false),
            _file: bound.file,
        });
        let token = shared.lp.register_io(socket, Interest::READ, listener.clone())?;
        listener.token.set(Some(token));
        Ok(listener)
    }

    pub(super) fn close(&self) {
        if let Some(token) = self.token.take() {
            drop(self.shared.lp.deregister_io(token));
        }
    }

    /// Says whether connections are wanted now.
    pub(super) fn arm(&self) {
        let Some(token) = self.token.get() else { return };
        let wanted = !self.resting.get() && !self.state.is_full();
        self.shared.lp.set_interest(token, wanted.then_some(Interest::READ));
    }

    fn accepted(&self, socket: Socket) {
        match catch_panic(|| (self.factory)()) {
            // The factory closed the server; nobody waits for this connection (B-SRV-12).
            Ok(_) if self.state.is_closed() => {}
            Ok(protocol) => {
                // Not all stream sockets know of it, and none needs it (B-TRN-35).
                let _ = socket.set_nodelay();
                let (owner, client) = Accepted::count(&self.state);
                // The start-up is queued with a reference of its own.
                let conn = Conn::start(&self.shared, socket, protocol, Some(owner), None);
                self.state.know(client, &conn);
            }
            Err(panic) => {
                self.shared.report("a protocol factory failed", panic, self.describe());
            }
        }
    }

    fn describe(&self) -> String {
        format!("listener on {}", self.local)
    }

    fn report(&self, message: &'static str, error: io::Error) {
        let context = ExceptionContext::new(message)
            .with_failure(Failure::Error(error.into()))
            .with_subject(self.describe());
        self.shared.lp.report(&context);
    }

    /// Lets the listener rest. The retry finds nothing if it was closed meanwhile.
    fn back_off(&self) {
        self.resting.set(true);
        self.arm();
        let me = self.me.clone();
        self.shared.lp.call_later(ACCEPT_RETRY, move || {
            if let Some(me) = me.upgrade() {
                me.resting.set(false);
                me.arm();
            }
        });
    }
}

impl IoHandler for Listener {
    /// Accepts until nobody waits, up to the backlog (B-SRV-07 to 10).
    fn ready(&self, _: Readiness, _: &mut Vec<u8>) {
        for _ in 0..self.backlog {
            // A factory may have closed the server.
            if self.state.is_closed() {
                return;
            }
            if self.state.is_full() {
                return self.state.arm_all();
            }
            match self.socket.accept() {
                Ok((socket, _)) => self.accepted(socket),
                Err(error) => match error.raw_os_error().map(Errno::from_raw_os_error) {
                    Some(Errno::AGAIN) => return,
                    Some(Errno::INTR | Errno::CONNABORTED) => {}
                    Some(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => {
                        self.report("accepting pauses: out of resources", error);
                        return self.back_off();
                    }
                    _ => return self.report("accepting a connection failed", error),
                },
            }
        }
    }
}
