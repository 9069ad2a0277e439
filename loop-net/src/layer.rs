//! Transports on top of other transports.

use std::any::Any;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll};

use crate::protocol::AnyProtocol;
use crate::protocol_ref::ProtocolBusy;
use crate::transport::{Transport, WriteState};

/// What a [`Transport`] asks of a connection that goes through another one: TLS.
#[cfg_attr(not(feature = "tls"), allow(dead_code))]
pub(crate) trait Layer {
    /// All of them behind each other, whatever hooks that fall due write.
    fn write(&self, pieces: &[&[u8]]) -> WriteState;
    /// Of whoever it is lent to.
    fn write_lent(&self, data: &[u8]) -> WriteState;
    fn is_lent(&self) -> bool;
    /// Nothing is delivered meanwhile, and other writes are refused.
    fn set_lent(&self, lent: bool);
    fn write_eof(&self);
    fn close(&self);
    fn abort(&self);
    fn is_closing(&self) -> bool;
    fn is_reading(&self) -> bool;
    fn pause_reading(&self, paused: bool);
    fn buffered(&self) -> usize;
    fn limits(&self) -> (usize, usize);
    fn set_limits(&self, low: usize, high: usize);
    fn poll_flushed(&self, cx: &Context<'_>) -> Poll<()>;
    fn set_protocol(&self, protocol: Box<dyn AnyProtocol>);
    /// `None` while a hook runs, or at the end.
    fn take_protocol(&self) -> Option<Box<dyn AnyProtocol>>;
    fn with_protocol(&self, f: &mut dyn FnMut(&mut dyn AnyProtocol)) -> Result<(), ProtocolBusy>;
    fn lower(&self) -> Transport;
}

/// That a transport is such a one, and what is known of it also at its end.
pub(crate) struct Layered {
    pub(crate) layer: Weak<dyn Layer>,
    #[cfg_attr(not(feature = "tls"), allow(dead_code))]
    pub(crate) facts: Rc<dyn Any>,
}
