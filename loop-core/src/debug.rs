//! Debug mode: what takes too long is named.

use std::time::Instant;

use crate::guard;
use crate::loop_ref::LoopRef;
use crate::report::ExceptionContext;

/// A measurement of something that runs; nothing at all unless debug mode is on.
#[must_use]
pub(crate) struct Timing(Option<Box<(ExceptionContext, Instant)>>);

impl Timing {
    /// Begins. `name` is asked for first, because what runs may be gone afterwards.
    #[inline]
    pub(crate) fn start(lp: &LoopRef, name: impl FnOnce(&mut ExceptionContext)) -> Timing {
        if lp.inner.debug.get() { Timing::start_now(lp, name) } else { Timing(None) }
    }

    #[cold]
    fn start_now(lp: &LoopRef, name: impl FnOnce(&mut ExceptionContext)) -> Timing {
        let mut context = ExceptionContext::warning("slow callback");
        name(&mut context);
        Timing(Some(Box::new((context, lp.inner.clock.now()))))
    }

    /// Ends, and reports what took too long (B-DBG-02).
    #[inline]
    pub(crate) fn finish(self, lp: &LoopRef) {
        if let Some(measured) = self.0 {
            report_slow(lp, *measured);
        }
    }
}

#[cold]
fn report_slow(lp: &LoopRef, (mut context, started): (ExceptionContext, Instant)) {
    let took = lp.inner.clock.now().saturating_duration_since(started);
    if took >= lp.inner.slow_callback_duration.get() {
        context.duration = Some(took);
        lp.report(&context);
    }
    // It may hold the last reference to what ran.
    guard::discard(lp, context);
}
