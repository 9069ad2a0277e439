//! Who watches which signals, and what has been reported.

use std::fmt;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::handler::{Listener, TABLE, delivered, delivered_in_all};
use super::number::Signal;
use super::sys;
use crate::waker::Waker;

/// The signals we are the handler of. Never locked by the handler.
static INSTALLED: Mutex<[Option<Installed>; TABLE]> = Mutex::new([const { None }; TABLE]);

struct Installed {
    watchers: usize,
    before: libc::sigaction,
}

impl Signal {
    /// Whether the process leaves this signal to the system: no handler but that of this crate's
    /// watchers, and not ignored. For whoever would not take it from somebody who has it.
    ///
    /// ```
    /// assert!(loop_selector::Signal::USR1.is_default());
    /// ```
    pub fn is_default(self) -> bool {
        let installed = installed();
        sys::is_default(self, installed[self.index()].as_ref().map(|installed| &installed.before))
    }
}

/// Counts deliveries of signals, and wakes a [`Waker`] on each. Dropping it unwatches everything.
///
/// Several may exist, in one thread or in many, and each sees every delivery (B-SIG-09).
///
/// ```
/// use loop_selector::{Events, Selector, Signal, SignalWatcher, default_selector, raise};
///
/// let mut selector = default_selector()?;
/// let mut signals = SignalWatcher::new(selector.waker())?;
/// signals.watch(Signal::USR1)?;
///
/// raise(Signal::USR1)?;
/// selector.select(&mut Events::new(), None)?;
/// assert_eq!(signals.pending(), [(Signal::USR1, 1)]);
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct SignalWatcher {
    listener: Listener,
    /// What is watched, each with the deliveries already reported.
    watched: Vec<(Signal, u64)>,
    seen_in_all: u64,
}

impl SignalWatcher {
    /// A watcher that watches nothing yet.
    ///
    /// # Errors
    /// None today.
    pub fn new(waker: Waker) -> io::Result<SignalWatcher> {
        let listener = Listener::new(waker.shared());
        Ok(SignalWatcher { listener, watched: Vec::new(), seen_in_all: delivered_in_all() })
    }

    /// Starts watching a signal, with `SA_RESTART`, so that blocking calls elsewhere go on
    /// (B-SIG-08), and `SA_ONSTACK`. Does nothing if it is watched already.
    ///
    /// # Errors
    /// What `sigaction` says. Nothing is changed then (B-SIG-06).
    pub fn watch(&mut self, signal: Signal) -> io::Result<()> {
        if self.watched.iter().any(|(watched, _)| *watched == signal) {
            return Ok(());
        }
        // Before the handler is there, so that its first delivery counts and wakes.
        self.listener.watch(signal);
        let seen = delivered(signal);
        let mut installed = installed();
        match &mut installed[signal.index()] {
            Some(installed) => installed.watchers += 1,
            slot => match sys::install(signal) {
                Ok(before) => *slot = Some(Installed { watchers: 1, before }),
                Err(error) => {
                    self.listener.unwatch(signal);
                    return Err(error);
                }
            },
        }
        self.watched.push((signal, seen));
        Ok(())
    }

    /// Stops watching a signal; deliveries not yet asked for are forgotten. False if it was not
    /// watched. If nobody else watches it, the disposition from before comes back (B-SIG-04), unless
    /// somebody has replaced our handler meanwhile: theirs stays.
    pub fn unwatch(&mut self, signal: Signal) -> bool {
        let Some(at) = self.watched.iter().position(|(watched, _)| *watched == signal) else {
            return false;
        };
        self.watched.swap_remove(at);
        self.listener.unwatch(signal);
        let mut installed = installed();
        let slot = &mut installed[signal.index()];
        if let Some(last) = slot.take_if(|slot| {
            slot.watchers -= 1;
            slot.watchers == 0
        }) {
            sys::restore(signal, &last.before);
        }
        true
    }

    /// The deliveries since the last call, per signal, in no particular order. One atomic load, and
    /// no allocation, if there were none. The kernel may merge deliveries before they get here.
    ///
    /// Call it after every wait: a wake that finds the loop awake ends the next wait only.
    #[inline]
    pub fn pending(&mut self) -> Vec<(Signal, u64)> {
        let in_all = delivered_in_all();
        if in_all == self.seen_in_all { Vec::new() } else { self.news(in_all) }
    }

    #[cold]
    fn news(&mut self, in_all: u64) -> Vec<(Signal, u64)> {
        self.seen_in_all = in_all;
        let news = self.watched.iter_mut().filter_map(|(signal, seen)| {
            let now = delivered(*signal);
            let count = now.wrapping_sub(std::mem::replace(seen, now));
            (count > 0).then_some((*signal, count))
        });
        news.collect()
    }
}

impl Drop for SignalWatcher {
    fn drop(&mut self) {
        while let Some((signal, _)) = self.watched.last() {
            self.unwatch(*signal);
        }
    }
}

impl fmt::Debug for SignalWatcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SignalWatcher").field("watched", &self.watched).finish_non_exhaustive()
    }
}

fn installed() -> MutexGuard<'static, [Option<Installed>; TABLE]> {
    // Nothing under this lock panics half-way.
    INSTALLED.lock().unwrap_or_else(PoisonError::into_inner)
}
