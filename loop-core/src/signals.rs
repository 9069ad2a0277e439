//! Signal handlers: ordinary callbacks of the loop.

use std::io;
use std::panic::Location;
use std::rc::Weak;

use loop_handle::{Handle, Outcome};
use loop_selector::Waker;
use loop_selector::{Signal, SignalWatcher};

use crate::error::LoopError;
use crate::inner::SIGNALS;
use crate::interrupted::Request;
use crate::loop_ref::LoopRef;
use crate::sim::TimeHold;

/// The signals that this loop handles. The watcher is made with the first handler.
pub(crate) struct SignalTable {
    waker: Option<Waker>,
    watcher: Option<SignalWatcher>,
    handlers: Vec<Watched>,
    /// That of those who wait for the program to be asked to end.
    pub(crate) request: Weak<Request>,
}

struct Watched {
    signal: Signal,
    handle: Handle,
    /// A signal that may come is something that may happen, unless it is only for emergencies.
    _hold: Option<TimeHold>,
}

impl SignalTable {
    pub(crate) fn new(waker: Waker) -> Self {
        SignalTable {
            waker: Some(waker),
            watcher: None,
            handlers: Vec::new(),
            request: Weak::new(),
        }
    }

    fn position(&self, signal: Signal) -> Option<usize> {
        self.handlers.iter().position(|watched| watched.signal == signal)
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
    pub(crate) fn take(&mut self) -> Vec<Handle> {
        self.waker = None;
        self.watcher = None;
        self.handlers.drain(..).map(|watched| watched.handle).collect()
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
        let handle = Handle::repeating_at(Location::caller(), None, callback);
        self.set_signal_handler(signal, handle, Some(self.hold_time()))
    }

    /// [`add_signal_handler`](Self::add_signal_handler) for a signal that nothing waits for: it does not
    /// hold virtual time.
    #[track_caller]
    pub(crate) fn add_emergency_handler<F, R>(
        &self,
        signal: Signal,
        callback: F,
    ) -> io::Result<Handle>
    where
        F: FnMut() -> R + 'static,
        R: Outcome,
    {
        let handle = Handle::repeating_at(Location::caller(), None, callback);
        self.set_signal_handler(signal, handle, None)
    }

    fn set_signal_handler(
        &self,
        signal: Signal,
        handle: Handle,
        hold: Option<TimeHold>,
    ) -> io::Result<Handle> {
        if self.is_closed() {
            return Err(LoopError::Closed.into());
        }
        let watched = Watched { signal, handle: handle.clone(), _hold: hold };
        let replaced = {
            let mut table = self.inner.signals.borrow_mut();
            table.watch(signal)?;
            self.inner.mark(SIGNALS);
            match table.position(signal) {
                Some(index) => Some(std::mem::replace(&mut table.handlers[index], watched)),
                None => {
                    table.handlers.push(watched);
                    None
                }
            }
        };
        if let Some(old) = replaced {
            old.handle.cancel();
        }
        Ok(handle)
    }

    pub(crate) fn has_signal_handler(&self, signal: Signal) -> bool {
        let table = self.inner.signals.borrow();
        table.position(signal).is_some_and(|index| !table.handlers[index].handle.is_cancelled())
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
                table.handlers.swap_remove(index)
            })
        };
        let Some(removed) = removed else { return false };
        removed.handle.cancel();
        true
    }
}

/// Phase 5: what was delivered since the last iteration joins the ready queue. Mostly that is nothing.
#[inline]
pub(crate) fn collect(lp: &LoopRef) {
    let news = match &mut lp.inner.signals.borrow_mut().watcher {
        Some(watcher) => watcher.pending(),
        None => return,
    };
    if !news.is_empty() {
        deliver(lp, news);
    }
}

#[cold]
fn deliver(lp: &LoopRef, news: Vec<(Signal, u64)>) {
    let mut stale = Vec::new();
    {
        let handlers = &lp.inner.signals.borrow().handlers;
        for (signal, deliveries) in news {
            let Some(watched) = handlers.iter().find(|watched| watched.signal == signal) else {
                continue;
            };
            let handle = &watched.handle;
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
