//! `Watchdog`: a thread that tells when an iteration does not end.

use std::fmt;
use std::io;
use std::panic::Location;
use std::rc::{Rc, Weak};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::inner::{Inner, WATCHDOG};
use crate::loop_ref::LoopRef;
use crate::report::ExceptionContext;

/// A thread that watches a loop; from [`LoopRef::start_watchdog`]. It ends when this is dropped.
#[must_use = "the watchdog ends when this is dropped"]
pub struct Watchdog {
    pulse: Arc<Pulse>,
    home: Weak<Inner>,
}

/// What a [`Watchdog`] reports: an iteration that has not ended.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Stuck {
    /// The loop, as in a [`Dump`](crate::Dump).
    pub loop_id: u64,
    /// How long the iteration has taken so far.
    pub elapsed: Duration,
    /// What it is in, unless that is code of the loop itself.
    pub callback: Option<StuckIn>,
}

/// The callback or task that a [`Stuck`] loop is in.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct StuckIn {
    /// The callback's type, the task's name, or which descriptor's handler it is.
    pub name: String,
    /// Where the callback was scheduled or the task spawned.
    pub site: Option<&'static Location<'static>>,
    /// How long it has run so far.
    pub elapsed: Duration,
}

/// What loop and thread share.
pub(crate) struct Pulse {
    loop_id: u64,
    state: Mutex<State>,
    ended: Condvar,
}

#[derive(Default)]
struct State {
    ended: bool,
    /// When the iteration began that runs now.
    iteration: Option<Instant>,
    reported: bool,
    /// When the callback began that runs now, and what it is. The text keeps its memory.
    callback: Option<Instant>,
    name: String,
    site: Option<&'static Location<'static>>,
}

impl Pulse {
    /// No code of a user's runs under this lock, so nothing can poison it.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn begin_callback(&self, context: &ExceptionContext) {
        let now = Instant::now();
        let mut state = self.lock();
        state.callback = Some(now);
        state.name.clear();
        state.site = context.describe(&mut state.name);
    }

    pub(crate) fn end_callback(&self) {
        self.lock().callback = None;
    }

    #[cold]
    fn end_iteration(self: Arc<Self>) {
        let mut state = self.lock();
        state.iteration = None;
        state.callback = None;
    }

    /// On the watchdog's thread.
    fn watch(&self, limit: Duration, mut on_stuck: impl FnMut(&Stuck)) {
        // Often enough to be late by a quarter.
        let pause = (limit / 4).max(Duration::from_millis(1));
        let mut state = self.lock();
        while !state.ended {
            let now = Instant::now();
            let elapsed = state.iteration.map(|began| now.saturating_duration_since(began));
            if let Some(elapsed) = elapsed.filter(|elapsed| *elapsed >= limit && !state.reported) {
                state.reported = true;
                let callback = state.callback.map(|began| StuckIn {
                    name: state.name.clone(),
                    site: state.site,
                    elapsed: now.saturating_duration_since(began),
                });
                let stuck = Stuck { loop_id: self.loop_id, elapsed, callback };
                drop(state);
                on_stuck(&stuck);
                state = self.lock();
                continue;
            }
            let waited = self.ended.wait_timeout(state, pause);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl LoopRef {
    /// Starts a thread that calls `on_stuck` when an iteration takes `limit` or longer: once an iteration,
    /// while it is still in it, with the name and the site of the callback or task that it is in. Replaces
    /// the watchdog that was there. If `on_stuck` panics, the watchdog ends.
    ///
    /// Debug mode reports slow callbacks too, but only once they return.
    ///
    /// ```
    /// # use loop_core::EventLoop;
    /// # use std::time::Duration;
    /// let mut event_loop = EventLoop::new()?;
    /// let watchdog = event_loop.start_watchdog(Duration::from_secs(5), |stuck| eprintln!("{stuck}"))?;
    /// # event_loop.stop();
    /// event_loop.run_forever()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// While it is on, a callback costs two uncontended locks, a clock read and an allocation
    /// more, some 100 ns, and a step of a task some 150 ns.
    ///
    /// # Errors
    /// If no thread can be had.
    pub fn start_watchdog(
        &self,
        limit: Duration,
        on_stuck: impl FnMut(&Stuck) + Send + 'static,
    ) -> io::Result<Watchdog> {
        let pulse = Arc::new(Pulse {
            loop_id: self.inner.id,
            state: Mutex::default(),
            ended: Condvar::new(),
        });
        let watched = pulse.clone();
        thread::Builder::new()
            .name(format!("loop-watchdog-{}", self.inner.id))
            .spawn(move || watched.watch(limit, on_stuck))?;
        let replaced = self.inner.watchdog.replace(Some(pulse.clone()));
        self.inner.mark(WATCHDOG);
        if let Some(replaced) = replaced {
            replaced.end();
        }
        Ok(Watchdog { pulse, home: Rc::downgrade(&self.inner) })
    }
}

impl Pulse {
    fn end(&self) {
        self.lock().ended = true;
        self.ended.notify_all();
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.pulse.end();
        let Some(inner) = self.home.upgrade() else { return };
        let mine = inner.watchdog.borrow().as_ref().is_some_and(|p| Arc::ptr_eq(p, &self.pulse));
        if mine {
            inner.watchdog.replace(None);
            inner.unmark(WATCHDOG);
        }
    }
}

/// Tells a watchdog that an iteration has begun, and, dropped, that it has ended, also by a panic.
pub(crate) struct Beat(Option<Arc<Pulse>>);

impl Beat {
    #[inline]
    pub(crate) fn begin(inner: &Inner) -> Beat {
        if inner.is_marked(WATCHDOG) { Beat::begin_now(inner) } else { Beat(None) }
    }

    #[cold]
    fn begin_now(inner: &Inner) -> Beat {
        let pulse = inner.watchdog.borrow().clone();
        if let Some(pulse) = &pulse {
            let mut state = pulse.lock();
            state.iteration = Some(Instant::now());
            state.reported = false;
        }
        Beat(pulse)
    }
}

impl Drop for Beat {
    #[inline]
    fn drop(&mut self) {
        if let Some(pulse) = self.0.take() {
            pulse.end_iteration();
        }
    }
}

impl fmt::Display for Stuck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Stuck { loop_id, elapsed, callback } = self;
        write!(
            f,
            "event loop {loop_id} is stuck: its iteration takes {:.3} s",
            elapsed.as_secs_f64()
        )?;
        let Some(StuckIn { name, site, elapsed }) = callback else { return Ok(()) };
        write!(f, " and is in {name}")?;
        if let Some(site) = site {
            write!(f, " of {site}")?;
        }
        write!(f, " since {:.3} s", elapsed.as_secs_f64())
    }
}

impl fmt::Debug for Watchdog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watchdog").field("loop_id", &self.pulse.loop_id).finish_non_exhaustive()
    }
}
