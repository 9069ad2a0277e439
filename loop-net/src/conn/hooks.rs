//! Calling a protocol's hooks: one at a time, with the protocol out of its slot.

use std::{mem, ptr};

use loop_core::{PanicError, catch_panic};

use super::engine::Conn;
use crate::protocol::AnyProtocol;
use crate::transport::ProtocolBusy;

impl Conn {
    /// Calls a hook, then whatever fell due meanwhile. `None` if one runs already or the protocol is
    /// gone.
    #[inline]
    pub(super) fn hook<R>(
        &self,
        f: impl FnOnce(&mut dyn AnyProtocol) -> R,
    ) -> Option<Result<R, PanicError>> {
        let result = self.call(|protocol| catch_panic(|| f(protocol)))?;
        if self.is_unsettled() {
            self.settle();
        }
        Some(result)
    }

    /// Calls into the protocol, with it taken out of its slot, and sends what it wrote.
    #[inline]
    pub(super) fn call<R>(&self, f: impl FnOnce(&mut dyn AnyProtocol) -> R) -> Option<R> {
        let mut running = Running::enter(self)?;
        let result = f(&mut **running.protocol.as_mut()?);
        running.finish();
        // Nothing is left to put back.
        mem::forget(running);
        Some(result)
    }

    /// Tells the protocol of a full or drained buffer, until what it knows is true (B-TRN-14). While a
    /// hook runs nothing is said: whoever called that does it afterwards.
    #[cold]
    pub(super) fn settle(&self) {
        while self.is_unsettled() && !self.state.get().is_lost() {
            let full = self.full.get();
            let called = self.call(|protocol| {
                self.told_full.set(full);
                catch_panic(
                    || if full { protocol.pause_writing() } else { protocol.resume_writing() },
                )
            });
            match called {
                Some(Ok(())) => {}
                Some(Err(panic)) if full => self.report("pause_writing failed", panic),
                Some(Err(panic)) => self.report("resume_writing failed", panic),
                None => return,
            }
        }
    }

    pub(super) fn is_unsettled(&self) -> bool {
        self.told_full.get() != self.full.get()
    }

    /// Runs `f` on the protocol like a hook; its panics are the caller's.
    pub(crate) fn with_protocol<R>(
        &self,
        f: impl FnOnce(&mut dyn AnyProtocol) -> R,
    ) -> Result<R, ProtocolBusy> {
        let result = self.call(f).ok_or(ProtocolBusy::Running)?;
        self.settle();
        Ok(result)
    }
}

/// A hook at work: the protocol is out of its slot. Ending it sends what the hook wrote and puts the
/// protocol back, also when the hook unwinds.
struct Running<'a> {
    conn: &'a Conn,
    protocol: Option<Box<dyn AnyProtocol>>,
}

impl<'a> Running<'a> {
    fn enter(conn: &'a Conn) -> Option<Self> {
        let protocol = conn.protocol.take()?;
        if conn.shared.gatherer.get().is_null() {
            conn.shared.gatherer.set(conn);
        }
        Some(Running { conn, protocol: Some(protocol) })
    }

    #[cold]
    fn finish_late(&mut self) {
        self.finish();
    }

    #[inline(always)]
    fn finish(&mut self) {
        let conn = self.conn;
        if conn.gathers() {
            conn.send_gathered();
            conn.shared.gatherer.set(ptr::null());
        }
        conn.protocol.set(self.protocol.take());
    }
}

impl Drop for Running<'_> {
    /// Only when the hook unwinds.
    #[inline]
    fn drop(&mut self) {
        if self.protocol.is_some() {
            self.finish_late();
        }
    }
}
