//! What is looked at while it runs: in debug mode, by a watchdog, in spans. Nothing is, otherwise.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::guard;
use crate::inner::{DEBUG, WATCHDOG};
use crate::loop_ref::LoopRef;
use crate::report::{ExceptionContext, Severity};
#[cfg(feature = "tracing")]
use crate::trace;
use crate::watchdog::Pulse;

/// From this on, a poll is worth a line of its own (B-DBG-07).
const LONG_POLL: Duration = Duration::from_secs(1);

/// Something that runs and is looked at.
#[must_use]
pub(crate) struct Timing(Option<Box<Observed>>);

struct Observed {
    context: ExceptionContext,
    /// In debug mode.
    started: Option<Instant>,
    pulse: Option<Arc<Pulse>>,
    #[cfg(feature = "tracing")]
    _span: tracing::span::EnteredSpan,
}

impl Timing {
    /// Begins. `name` is asked for first, because what runs may be gone afterwards.
    #[inline]
    pub(crate) fn start(lp: &LoopRef, name: impl FnOnce(&mut ExceptionContext)) -> Timing {
        if lp.inner.before_next() { Timing::start_now(lp, name) } else { Timing(None) }
    }

    #[cold]
    fn start_now(lp: &LoopRef, name: impl FnOnce(&mut ExceptionContext)) -> Timing {
        let mut context = ExceptionContext::warning("slow callback");
        name(&mut context);
        let pulse = match lp.inner.is_marked(WATCHDOG) {
            true => lp.inner.watchdog.borrow().clone(),
            false => None,
        };
        if let Some(pulse) = &pulse {
            pulse.begin_callback(&context);
        }
        let started = lp.inner.is_marked(DEBUG).then(|| lp.inner.clock.now());
        Timing(Some(Box::new(Observed {
            #[cfg(feature = "tracing")]
            _span: trace::enter(&context),
            context,
            started,
            pulse,
        })))
    }

    /// Ends, and reports what took too long (B-DBG-02).
    #[inline]
    pub(crate) fn finish(self, lp: &LoopRef) {
        if let Some(observed) = self.0 {
            finish(lp, *observed);
        }
    }
}

#[cold]
fn finish(lp: &LoopRef, observed: Observed) {
    let Observed { mut context, started, pulse, .. } = observed;
    if let Some(pulse) = pulse {
        pulse.end_callback();
    }
    if let Some(started) = started {
        let took = lp.inner.clock.now().saturating_duration_since(started);
        if took >= lp.inner.slow_callback_duration.get() {
            context.duration = Some(took);
            lp.report(&context);
        }
    }
    // It may hold the last reference to what ran.
    guard::discard(lp, context);
}

/// When a wait began, in debug mode, unless it is one of no time.
#[inline]
pub(crate) fn poll_started(lp: &LoopRef, timeout: Option<Duration>) -> Option<Instant> {
    if lp.inner.is_marked(DEBUG) && timeout != Some(Duration::ZERO) {
        Some(lp.inner.clock.now())
    } else {
        None
    }
}

/// Reports a wait (B-DBG-07).
#[cold]
pub(crate) fn poll_finished(
    lp: &LoopRef,
    started: Instant,
    timeout: Option<Duration>,
    events: usize,
) {
    let took = lp.inner.clock.now().saturating_duration_since(started);
    let long = took >= LONG_POLL;
    if timeout.is_some() && events == 0 && !long {
        return;
    }
    let message = match timeout {
        Some(timeout) => format!("poll of {timeout:?}: {events} events"),
        None => format!("poll without a timeout: {events} events"),
    };
    let severity = if long { Severity::Info } else { Severity::Debug };
    let mut context = ExceptionContext { severity, ..ExceptionContext::new(message) };
    context.duration = Some(took);
    guard::report(lp, context);
}
