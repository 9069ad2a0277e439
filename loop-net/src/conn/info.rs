//! What is known of a connection also when it is gone.

use std::cell::Cell;
use std::rc::{Rc, Weak};

use loop_core::{ExceptionContext, LoopRef};

use super::engine::{Conn, Shared};
use super::state::State;
use crate::layer::Layered;
use crate::sock_addr::SockAddr;
use crate::transport::WriteState;

/// From this one on each dropped write is reported (B-TRN-18).
const REPORT_REFUSED: u8 = 5;

/// What is known of a connection also when it is gone (B-TRN-36): all that a transport holds.
pub(crate) struct Info {
    /// Dangling on top of another transport, and for datagrams.
    pub(crate) conn: Weak<Conn>,
    pub(crate) shared: Rc<Shared>,
    /// The connection's.
    pub(super) state: Cell<State>,
    pub(crate) local: Rc<SockAddr>,
    pub(crate) peer: SockAddr,
    /// One more than what [`Gather`](super::gather::Gather) may take without a look at the state and the marks.
    pub(super) room: Cell<u32>,
    /// Writes that came too late.
    refused: Cell<u8>,
    /// Whether what the connection has buffered waits for the end of the iteration, and not for the socket.
    pub(super) put_off: Cell<bool>,
    /// Only if it goes through another transport.
    pub(crate) layered: Option<Box<Layered>>,
}

impl Info {
    pub(crate) fn new(shared: Rc<Shared>, local: SockAddr, peer: SockAddr) -> Self {
        let local = shared.local(local);
        Info {
            conn: Weak::new(),
            shared,
            state: Cell::new(State::new()),
            local,
            peer,
            room: Cell::new(0),
            refused: Cell::new(0),
            put_off: Cell::new(false),
            layered: None,
        }
    }

    /// Of a connection of its own.
    pub(super) fn of_conn(self, conn: Weak<Conn>, state: State) -> Self {
        Info { conn, state: Cell::new(state), ..self }
    }

    /// Of a transport on top of another one.
    #[cfg(feature = "tls")]
    pub(crate) fn on_top_of(lower: &Info, layered: Layered) -> Self {
        let (local, peer) = (SockAddr::clone(&lower.local), lower.peer.clone());
        Info { layered: Some(Box::new(layered)), ..Info::new(lower.shared.clone(), local, peer) }
    }

    pub(crate) fn loop_ref(&self) -> &LoopRef {
        &self.shared.lp
    }

    /// Whether the connection is closed or being closed; one on top of another says so itself.
    #[inline]
    pub(crate) fn is_closing(&self) -> bool {
        self.state.get().is_closing()
    }

    /// [`Gather::take`](super::gather::Gather::take)
    #[inline]
    pub(crate) fn take(&self, data: &[u8]) -> bool {
        self.shared.gather.take(self, data)
    }

    /// [`Gather::take_first`](super::gather::Gather::take_first)
    #[inline]
    pub(crate) fn take_first(&self, data: &[u8]) -> bool {
        self.shared.gather.take_first(self, data)
    }

    /// [`take_first`](Self::take_first), also if the loop is to be asked to call at the end of the iteration.
    pub(crate) fn take_first_of_all(&self, data: &[u8]) -> bool {
        let gather = &self.shared.gather;
        gather.is_free() && gather.may_wait(&self.shared) && gather.take_first(self, data)
    }

    /// Sends what is gathered for the connection and may wait, if there is some. Whether that was all to be done.
    #[inline]
    pub(crate) fn send_loose(&self) -> Option<bool> {
        let gather = &self.shared.gather;
        Some(gather.take_loose(self)?.send_loose(gather))
    }

    /// Whether bytes may wait in the connection's own buffer, or below.
    #[inline]
    pub(crate) fn may_wait_elsewhere(&self) -> bool {
        self.put_off.get() || self.layered.is_some()
    }

    pub(crate) fn describe(&self) -> String {
        match (&self.peer, &*self.local) {
            (SockAddr::Unnamed, SockAddr::Unnamed) => "connection".to_owned(),
            (SockAddr::Unnamed, local) => format!("connection on {local}"),
            (peer, _) => format!("connection with {peer}"),
        }
    }

    /// Drops a write that came too late.
    #[cold]
    pub(crate) fn refuse(&self) -> WriteState {
        let refused = self.refused.get().saturating_add(1);
        self.refused.set(refused);
        if refused >= REPORT_REFUSED {
            let context =
                ExceptionContext::warning("data written to a closed connection is dropped")
                    .with_subject(self.describe());
            self.shared.lp.report(&context);
        }
        WriteState::Closed
    }
}
