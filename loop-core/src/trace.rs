//! Spans and events for the `tracing` crate.

use tracing::span::EnteredSpan;
use tracing::{Level, trace_span};

use crate::report::{ExceptionContext, Severity};

/// Whether anybody wants the spans of callbacks.
#[inline]
pub(crate) fn is_on() -> bool {
    tracing::level_filters::LevelFilter::current() >= Level::TRACE
}

/// Enters a span for what runs now: `callback` or `step`, with its name and site.
pub(crate) fn enter(context: &ExceptionContext) -> EnteredSpan {
    let mut name = String::new();
    let site = context.describe(&mut name).map(tracing::field::display);
    match &context.task {
        Some(task) => {
            trace_span!(target: "loop_core", "step", task = task.id(), name, site).entered()
        }
        None => trace_span!(target: "loop_core", "callback", name, site).entered(),
    }
}

/// The default report, as an event (D-9).
pub(crate) fn emit(severity: Severity, line: &str) {
    match severity {
        Severity::Error => tracing::error!(target: "loop_core", "{line}"),
        Severity::Warning => tracing::warn!(target: "loop_core", "{line}"),
        Severity::Info => tracing::info!(target: "loop_core", "{line}"),
        Severity::Debug => tracing::debug!(target: "loop_core", "{line}"),
    }
}
