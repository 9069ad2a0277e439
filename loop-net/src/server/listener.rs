//! One listening socket of a server.

use std::cell::Cell;
use std::io;
use std::rc::{Rc, Weak};
use std::time::Duration;

use loop_core::{
    ExceptionContext, Failure, Interest, IoHandler, LoopRef, Readiness, Token, catch_panic,
};
use rustix::io::Errno;

use super::handle::{State, count};
use super::handshake::read_header;
use super::listen::Bound;
use super::proxy::{Addresses, Origin};
use crate::conn::{Accepted, Conn, Shared};
use crate::protocol::AnyProtocol;
use crate::sock_addr::SockAddr;
use crate::socket::Socket;
use crate::unix::SocketFile;

/// How long accepting pauses when the system is out of descriptors or memory (B-SRV-09).
const ACCEPT_RETRY: Duration = Duration::from_secs(1);

pub(super) type Factory = Box<dyn Fn() -> Box<dyn AnyProtocol>>;

/// What becomes of an accepted socket.
#[derive(Clone)]
pub(super) struct Accepting {
    pub(super) shared: Rc<Shared>,
    pub(super) factory: Rc<Factory>,
    pub(super) state: Rc<State>,
    /// How long a PROXY header is waited for, if there has to be one.
    pub(super) proxy: Option<Duration>,
}

impl Accepting {
    fn accepted(&self, socket: Socket, listener: &SockAddr) {
        // Not all stream sockets know of it, and none needs it (B-TRN-35).
        let _ = socket.set_nodelay();
        let Some(patience) = self.proxy else {
            return self.begin(socket, None, None, listener);
        };
        let (owner, client) = count(&self.state);
        let (this, listener) = (self.clone(), listener.clone());
        let shaking = self.shared.lp.spawn(async move {
            match read_header(&this.shared.lp, socket, patience).await {
                Ok((socket, origin)) => {
                    this.state.shaken(client);
                    this.begin(socket, origin, Some((owner, client)), &listener);
                }
                Err(error) => {
                    this.state.shaken(client);
                    if this.shared.lp.debug() {
                        let context = ExceptionContext::new("a connection was refused")
                            .with_failure(Failure::Error(error.into()))
                            .with_subject(describe(&listener));
                        this.shared.lp.report(&context);
                    }
                }
            }
        });
        self.state.shakes(client, shaking);
    }

    fn begin(
        &self,
        socket: Socket,
        origin: Origin,
        counted: Option<(Accepted, u64)>,
        listener: &SockAddr,
    ) {
        match catch_panic(|| (self.factory)()) {
            // The factory closed the server; nobody waits for this connection (B-SRV-12).
            Ok(_) if counted.is_none() && self.state.is_closed() => {}
            Ok(protocol) => {
                let (owner, client) = counted.unwrap_or_else(|| count(&self.state));
                let between = match origin {
                    Some(Addresses { source, destination }) => (destination.into(), source.into()),
                    None => (socket.local_addr(), socket.peer_addr()),
                };
                let (shared, owner) = (&self.shared, Some(owner));
                // The start-up is queued with a reference of its own.
                let conn = Conn::start_between(shared, socket, between, protocol, owner, None);
                self.state.know(client, &conn);
            }
            Err(panic) => {
                self.shared.report("a protocol factory failed", panic, describe(listener));
            }
        }
    }
}

/// Owned by its registration.
pub(super) struct Listener {
    me: Weak<Listener>,
    accepting: Accepting,
    socket: Rc<Socket>,
    pub(super) local: SockAddr,
    token: Cell<Option<Token>>,
    backlog: i32,
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
        accepting: Accepting,
    ) -> io::Result<Rc<Listener>> {
        let socket = Rc::new(bound.socket);
        let listener = Rc::new_cyclic(|me| Listener {
            me: me.clone(),
            accepting,
            socket: socket.clone(),
            local: bound.local,
            token: Cell::new(None),
            backlog,
            resting: Cell::new(false),
            _file: bound.file,
        });
        let token = shared.lp.register_io(socket, Interest::READ, listener.clone())?;
        listener.token.set(Some(token));
        Ok(listener)
    }

    fn lp(&self) -> &LoopRef {
        &self.accepting.shared.lp
    }

    pub(super) fn close(&self) {
        if let Some(token) = self.token.take() {
            drop(self.lp().deregister_io(token));
        }
    }

    /// Says whether connections are wanted now.
    pub(super) fn arm(&self) {
        let Some(token) = self.token.get() else { return };
        let wanted = !self.resting.get() && !self.accepting.state.is_full();
        self.lp().set_interest(token, wanted.then_some(Interest::READ));
    }

    fn report(&self, message: &'static str, error: io::Error) {
        let context = ExceptionContext::new(message)
            .with_failure(Failure::Error(error.into()))
            .with_subject(describe(&self.local));
        self.lp().report(&context);
    }

    /// Lets the listener rest. The retry finds nothing if it was closed meanwhile.
    fn back_off(&self) {
        self.resting.set(true);
        self.arm();
        let me = self.me.clone();
        self.lp().call_later(ACCEPT_RETRY, move || {
            if let Some(me) = me.upgrade() {
                me.resting.set(false);
                me.arm();
            }
        });
    }

    /// Accepts until nobody waits, and at most so many (B-SRV-07 to 10).
    fn accept_waiting(&self, limit: i32) {
        let state = &self.accepting.state;
        for _ in 0..limit {
            // A factory may have closed the server.
            if state.is_closed() {
                return;
            }
            if state.is_full() {
                return state.arm_all();
            }
            match self.socket.accept() {
                Ok((socket, _)) => self.accepting.accepted(socket, &self.local),
                Err(error) => match trouble(&error) {
                    Trouble::Nobody => return,
                    Trouble::Skip => {}
                    Trouble::One => self.report("accepting a connection failed", error),
                    Trouble::Shortage => {
                        self.report("accepting pauses: out of resources", error);
                        return self.back_off();
                    }
                    Trouble::Listener => {
                        self.report("accepting pauses: it failed", error);
                        return self.back_off();
                    }
                },
            }
        }
    }

    /// Accepts everybody whom the system has let in already: closing resets them, though they may have been told
    /// that they are connected and have sent their request.
    pub(super) fn accept_last(&self) {
        // Linux lets one more wait than it was told to.
        self.accept_waiting(self.backlog.saturating_add(1));
    }
}

impl IoHandler for Listener {
    fn ready(self: Rc<Self>, _: Readiness, _: &mut Vec<u8>) {
        self.accept_waiting(self.backlog);
    }
}

/// Whom an error of `accept` concerns.
enum Trouble {
    /// Nobody waits.
    Nobody,
    /// A connection that is gone already, or a signal.
    Skip,
    /// One connection, whose network errors Linux tells here; the next may be better.
    One,
    /// Everybody, until there is room again (B-SRV-09).
    Shortage,
    /// The listener, as far as anybody knows; asking again at once would be asking for ever.
    Listener,
}

fn trouble(error: &io::Error) -> Trouble {
    match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::AGAIN) => Trouble::Nobody,
        Some(Errno::INTR | Errno::CONNABORTED) => Trouble::Skip,
        Some(
            Errno::PROTO
            | Errno::PERM
            | Errno::NETDOWN
            | Errno::NETUNREACH
            | Errno::NOPROTOOPT
            | Errno::HOSTDOWN
            | Errno::HOSTUNREACH
            | Errno::TIMEDOUT,
        ) => Trouble::One,
        Some(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => Trouble::Shortage,
        _ => Trouble::Listener,
    }
}

/// What a report calls a listener.
fn describe(local: &SockAddr) -> String {
    format!("listener on {local}")
}
