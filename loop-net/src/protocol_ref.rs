//! `ProtocolRef`: a connection's protocol, from outside its hooks.

use std::fmt;
use std::io;
use std::marker::PhantomData;

use crate::protocol::{AnyProtocol, Protocol};
use crate::transport::Transport;

/// Why a protocol could not be looked at: [`ProtocolRef::with`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProtocolBusy {
    /// One of its hooks runs right now.
    Running,
    /// The connection is over and the protocol dropped.
    Gone,
    /// The connection has another protocol by now: [`Transport::set_protocol`].
    Replaced,
}

impl fmt::Display for ProtocolBusy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ProtocolBusy::Running => "a hook of the protocol runs",
            ProtocolBusy::Gone => "the connection is over",
            ProtocolBusy::Replaced => "the connection has another protocol",
        })
    }
}

impl std::error::Error for ProtocolBusy {}

impl From<ProtocolBusy> for io::Error {
    fn from(error: ProtocolBusy) -> io::Error {
        io::Error::other(error)
    }
}

/// The protocol of a connection, from outside its hooks.
pub struct ProtocolRef<P> {
    transport: Transport,
    kind: PhantomData<fn() -> P>,
}

impl<P: Protocol + 'static> ProtocolRef<P> {
    pub(crate) fn new(transport: Transport) -> Self {
        ProtocolRef { transport, kind: PhantomData }
    }

    /// Runs `f` on the protocol, as if it were one of its hooks.
    ///
    /// # Errors
    /// [`ProtocolBusy`] while a hook runs, or when the connection is over.
    pub fn with<R>(&self, f: impl FnOnce(&mut P) -> R) -> Result<R, ProtocolBusy> {
        let (mut f, mut result) = (Some(f), None);
        let mut look = |protocol: &mut dyn AnyProtocol| {
            if let Some(protocol) = protocol.as_any().downcast_mut::<P>() {
                result = f.take().map(|f| f(protocol));
            }
        };
        match self.transport.conn() {
            Some(conn) => conn.with_protocol(look)?,
            None => self.transport.layer().ok_or(ProtocolBusy::Gone)?.with_protocol(&mut look)?,
        }
        result.ok_or(ProtocolBusy::Replaced)
    }
}

impl<P> Clone for ProtocolRef<P> {
    fn clone(&self) -> Self {
        ProtocolRef { transport: self.transport.clone(), kind: PhantomData }
    }
}

impl<P> fmt::Debug for ProtocolRef<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProtocolRef").finish_non_exhaustive()
    }
}
