//! Signal handlers: ordinary callbacks of the loop.

use std::io;
use std::panic::Location;

use loop_handle::{Handle, Outcome};
use loop_selector::Waker;
use loop_selector::{Signal, SignalWatcher};

use crate::error::LoopError;
use crate::loop_ref::LoopRef;
use crate::sim::TimeHold;

/// The signals that this loop handles. The watcher is made with the first handler.
pub(crate) struct SignalTable {
    waker: Option<Waker>,
    watcher: Option<SignalWatcher>,
    handlers: Vec<(Signal, Handle)>,
    /// While there are handlers.
    hold: Option<TimeHold>,
}

impl SignalTable {
    pub(crate) fn new(waker: Waker) -> Self {
        SignalTable { waker: Some(waker), watcher: None, handlers: Vec::new(), hold: None }
    }

    fn position(&self, signal: Signal) -> Option<usize> {
        self.handlers.iter().position(|(other, _)| *other == signal)
    }

    fn watch(&mut self, signal: Signal) -> io::Result<()> {
        let Some(waker) = &self.waker else { return Err(LoopError::Closed.into()) };
        let watcher = match &mut self.watcher {
            Some(watcher) => watcher,
            none => none.insert(SignalWatcher::new(waker.clone())?),
        };
        watcher.watch(signal)
    }

    /// Stops watching everything, which restores the old dispositions; for closing.
    pub(crate) fn take(&mut self) -> Vec<(Signal, Handle)> {
        self.waker = None;
        self.watcher = None;
        self.hold = None;
        std::mem::take(&mut self.handlers)
    }
}

impl LoopRef {
    /// Runs `callback` on the loop each time the process gets `signal`; asyncio's
    /// `add_signal_handler`. A second handler of one signal replaces the first.
    ///
    /// It never runs in signal context, and wakes a loop that waits. Deliveries that the kernel or
    /// this process merges count once; none is lost behind a full wake-up pipe (B-SIG-01, B-SIG-03,
    /// B-SIG-10). Several loops may handle one signal; each hears of it.
    ///
    /// # Errors
    /// When the disposition cannot be changed; nothing is registered then. `Closed` on a closed loop.
    #[track_caller]
    pub fn add_signal_handler<F, R>(&self, signal: Signal, callback: F) -> io::Result<Handle>
    where
        F: FnMut() -> R + 'static,
        R: Outcome,
    {
        if self.is_closed() {
            return Err(LoopError::Closed.into());
        }
        let handle = Handle::repeating_at(Location::caller(), None, callback);
        let replaced = {
            let mut table = self.inner.signals.borrow_mut();
            table.watch(signal)?;
            match table.position(signal) {
                Some(index) => {
                    Some(std::mem::replace(&mut table.handlers[index].1, handle.clone()))
                }
                None => {
                    table.handlers.push((signal, handle.clone()));
                    table.hold.get_or_insert_with(|| self.hold_time());
                    None
                }
            }
        };
        if let Some(old) = replaced {
            old.cancel();
        }
        Ok(handle)
    }

    pub(crate) fn has_signal_handler(&self, signal: Signal) -> bool {
        let table = self.inner.signals.borrow();
        table.position(signal).is_some_and(|index| !table.handlers[index].1.is_cancelled())
    }

    /// Removes the handler of a signal; whether there was one. With the last handler of the process
    /// the old disposition comes back (B-SIG-04).
    pub fn remove_signal_handler(&self, signal: Signal) -> bool {
        let removed = {
            let mut table = self.inner.signals.borrow_mut();
            table.position(signal).map(|index| {
                if let Some(watcher) = &mut table.watcher {
                    watcher.unwatch(signal);
                }
                let removed = table.handlers.swap_remove(index);
                if table.handlers.is_empty() {
                    table.hold = None;
                }
                removed
            })
        };
        let Some((_, handle)) = removed else { return false };
        handle.cancel();
        true
    }
}

/// Phase 5: what was delivered since the last iteration joins the ready queue.
pub(crate) fn collect(lp: &LoopRef) {
    let mut stale = Vec::new();
    {
        let mut table = lp.inner.signals.borrow_mut();
        let SignalTable { watcher: Some(watcher), handlers, .. } = &mut *table else { return };
        for (signal, deliveries) in watcher.pending() {
            let Some((_, handle)) = handlers.iter().find(|(other, _)| *other == signal) else {
                continue;
            };
            if handle.is_cancelled() {
                stale.push(signal);
                continue;
            }
            for _ in 0..deliveries {
                lp.inner.ready.push_handle(handle.clone());
            }
        }
    }
    // A handler cancelled through its handle is let go with the next signal (B-SIG-07).
    for signal in stale {
        lp.remove_signal_handler(signal);
    }
}
