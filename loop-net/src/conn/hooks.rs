//! Calling a protocol's hooks: one at a time, with the protocol out of its slot.

use loop_core::{HeldPanic, PanicError, hold_panic};

use super::engine::Conn;
use crate::protocol::AnyProtocol;
use crate::protocol_ref::ProtocolBusy;

/// What came of a hook.
pub(super) enum Called<R> {
    /// It did nothing to its connection but small writes, which are all sent: nothing else fell due.
    Calm(R),
    Stirred(Result<R, HeldPanic>),
}

impl<R> Called<R> {
    pub(super) fn into_result(self) -> Result<R, HeldPanic> {
        match self {
            Called::Calm(value) => Ok(value),
            Called::Stirred(result) => result,
        }
    }
}

impl Conn {
    /// Calls a hook, then whatever fell due meanwhile. `None` if one runs already or the protocol is
    /// gone.
    #[inline]
    pub(super) fn hook<R>(
        &self,
        f: impl FnOnce(&mut dyn AnyProtocol) -> R,
    ) -> Option<Result<R, PanicError>> {
        let result = self.call(f)?.into_result().map_err(HeldPanic::into_error);
        self.settle();
        Some(result)
    }

    /// Calls into the protocol, with it taken out of its slot, puts it back, and sends what it wrote.
    #[inline(always)]
    pub(super) fn call<R>(&self, f: impl FnOnce(&mut dyn AnyProtocol) -> R) -> Option<Called<R>> {
        let mut protocol = self.protocol.take()?;
        if !self.shared().gather.begin(&self.info) {
            return Some(self.call_beside(protocol, f));
        }
        match hold_panic(|| f(&mut *protocol)) {
            Ok(value) => {
                self.put_back(protocol);
                let calm = self.end_gathering(&self.shared().gather);
                Some(if calm { Called::Calm(value) } else { Called::Stirred(Ok(value)) })
            }
            Err(panic) => Some(self.call_failed(protocol, panic)),
        }
    }

    /// While somebody gathers already: another connection's hook, beside which what this one writes waits for the
    /// end of the iteration, or whoever wrote before.
    #[inline(never)]
    fn call_beside<R>(
        &self,
        mut protocol: Box<dyn AnyProtocol>,
        f: impl FnOnce(&mut dyn AnyProtocol) -> R,
    ) -> Called<R> {
        let gathers = self.shared().gather.take_over(&self.info);
        let result = hold_panic(|| f(&mut *protocol));
        self.put_back(protocol);
        if gathers {
            self.end_gathering(&self.shared().gather);
        }
        Called::Stirred(result)
    }

    /// What it has written before is sent.
    #[cold]
    fn call_failed<R>(&self, protocol: Box<dyn AnyProtocol>, panic: HeldPanic) -> Called<R> {
        self.put_back(protocol);
        self.end_gathering(&self.shared().gather);
        Called::Stirred(Err(panic))
    }

    /// Behind a hook, which may have put another one there.
    #[inline(always)]
    fn put_back(&self, protocol: Box<dyn AnyProtocol>) {
        let newer = self.protocol.replace(Some(protocol));
        if newer.is_some() {
            drop(self.protocol.replace(newer));
        }
    }

    /// The protocol, out of its slot, which another one must fill. `None` while one of its hooks runs.
    #[cfg(feature = "tls")]
    pub(crate) fn take_protocol(&self) -> Option<Box<dyn AnyProtocol>> {
        self.protocol.take()
    }

    /// Gives the connection to another protocol, from now on (B-TRN-33). The old one is dropped, when
    /// its running hook returns if one does. The new one is told if it is to pause writing.
    pub(crate) fn set_protocol(&self, mut protocol: Box<dyn AnyProtocol>) {
        let own_buffer = protocol.buffered().is_some();
        let old = self.protocol.replace(Some(protocol));
        self.note(|state| {
            state.set_own_buffer(own_buffer);
            state.set_fed(false);
            state.set_told_full(false);
        });
        drop(old);
        self.settle();
    }

    /// Tells the protocol of a full or drained buffer, until what it knows is true (B-TRN-14). While a
    /// hook runs nothing is said: whoever called that does it afterwards.
    #[cold]
    pub(super) fn settle(&self) {
        while self.is_unsettled() && !self.state().is_lost() {
            let full = self.state().is_full();
            let called = self.call(|protocol| {
                self.note(|state| state.set_told_full(full));
                if full { protocol.pause_writing() } else { protocol.resume_writing() }
            });
            match called.map(|called| called.into_result().map_err(HeldPanic::into_error)) {
                Some(Ok(())) => {}
                Some(Err(panic)) if full => self.report("pause_writing failed", panic),
                Some(Err(panic)) => self.report("resume_writing failed", panic),
                None => return,
            }
        }
    }

    pub(super) fn is_unsettled(&self) -> bool {
        self.state().is_unsettled()
    }

    /// Runs `f` on the protocol like a hook; its panics are the caller's.
    pub(crate) fn with_protocol<R>(
        &self,
        f: impl FnOnce(&mut dyn AnyProtocol) -> R,
    ) -> Result<R, ProtocolBusy> {
        let called = self.call(f).ok_or(ProtocolBusy::Running)?;
        self.settle();
        Ok(called.into_result().unwrap_or_else(|panic| panic.resume()))
    }
}
