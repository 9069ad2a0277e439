//! What the loop tells when something went wrong: contexts, handlers and the default report.

use std::borrow::Cow;
use std::error::Error;
use std::fmt::{self, Write as _};
use std::panic::Location;
use std::rc::Rc;
use std::time::Duration;

use loop_handle::Handle;

use crate::error::PanicError;
use crate::guard;
use crate::loop_ref::LoopRef;
use crate::task::TaskRef;

/// A user's handler for what goes wrong inside the loop; see
/// [`LoopRef::set_exception_handler`].
pub type ExceptionHandler = Rc<dyn Fn(&LoopRef, &ExceptionContext)>;

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Severity {
    /// Something failed.
    Error,
    /// Something works, but should be looked at.
    Warning,
    /// Debug mode tells something.
    Info,
    /// Debug mode tells something that is rarely of interest. The default report leaves it out, except
    /// with the feature `tracing`.
    Debug,
}

/// What was raised.
#[derive(Debug)]
#[non_exhaustive]
pub enum Failure {
    /// A panic.
    Panic(PanicError),
    /// An `Err`.
    Error(Box<dyn Error>),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Panic(panic) => panic.fmt(f),
            Failure::Error(error) => write!(f, "error \"{error}\""),
        }
    }
}

/// What a report is about. Fields that do not apply are `None` (B-EXC-07).
///
/// `Display` writes one line: the message, then the fields that are set, in alphabetical order.
#[derive(Debug)]
#[non_exhaustive]
pub struct ExceptionContext {
    /// What happened.
    pub message: Cow<'static, str>,
    /// How bad it is.
    pub severity: Severity,
    /// What was raised.
    pub failure: Option<Failure>,
    /// The callback's type name and where it was scheduled, if a callback is concerned that is not
    /// a [`Handle`].
    pub callback: Option<(&'static str, &'static Location<'static>)>,
    /// The callback's handle.
    pub handle: Option<Handle>,
    /// The task.
    pub task: Option<TaskRef>,
    /// How long it took, for a slow callback.
    pub duration: Option<Duration>,
    /// What else is concerned: a descriptor, an address, a connection.
    pub subject: Option<String>,
    /// The report whose handling failed.
    pub original: Option<String>,
}

impl ExceptionContext {
    /// A report of an error, with all other fields unset.
    pub fn new(message: impl Into<Cow<'static, str>>) -> Self {
        ExceptionContext {
            message: message.into(),
            severity: Severity::Error,
            failure: None,
            callback: None,
            handle: None,
            task: None,
            duration: None,
            subject: None,
            original: None,
        }
    }

    /// A report of a warning.
    pub fn warning(message: impl Into<Cow<'static, str>>) -> Self {
        ExceptionContext { severity: Severity::Warning, ..Self::new(message) }
    }

    /// Adds what was raised.
    #[must_use]
    pub fn with_failure(mut self, failure: Failure) -> Self {
        self.failure = Some(failure);
        self
    }

    /// Adds what else is concerned.
    #[must_use]
    pub fn with_subject(mut self, subject: impl Into<String>) -> Self {
        self.subject = Some(subject.into());
        self
    }

    pub(crate) fn set_callback(&mut self, name: &'static str, site: &'static Location<'static>) {
        self.callback = Some((name, site));
    }

    /// Appends what it is about, in short, and gives its site.
    pub(crate) fn describe(&self, name: &mut String) -> Option<&'static Location<'static>> {
        if let Some(task) = &self.task {
            name.push_str(&task.name());
            return Some(task.site());
        }
        if let Some((callback, site)) = self.origin() {
            name.push_str(callback);
            return Some(site);
        }
        name.push_str(self.subject.as_deref().unwrap_or("something without a name"));
        None
    }

    fn origin(&self) -> Option<(&'static str, &'static Location<'static>)> {
        self.callback.or_else(|| self.handle.as_ref().map(|h| (h.name(), h.site())))
    }

    /// Runs `f` in the context of the task or the callback, in this order of preference (B-EXC-06).
    fn enter<R>(&self, f: impl FnOnce() -> R) -> R {
        match (&self.task, &self.handle) {
            (Some(task), _) => task.in_context(f),
            // A context that is being entered already is the right one.
            (None, Some(handle)) => handle.in_context(f).unwrap_or_else(|f| f.into_inner()()),
            (None, None) => f(),
        }
    }
}

impl fmt::Display for ExceptionContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let message = if self.message.is_empty() {
            "unhandled error in the event loop"
        } else {
            &self.message
        };
        f.write_str(message)?;
        if let Some((name, site)) = self.origin() {
            write!(f, "; callback {name} created at {site}")?;
        }
        if let Some(duration) = self.duration {
            write!(f, "; duration {:.3} s", duration.as_secs_f64())?;
        }
        if let Some(failure) = &self.failure {
            write!(f, "; failure {failure}")?;
        }
        if let Some(original) = &self.original {
            write!(f, "; original report \"{original}\"")?;
        }
        if let Some(subject) = &self.subject {
            write!(f, "; subject {subject}")?;
        }
        if let Some(task) = &self.task {
            write!(f, "; task {} spawned at {}", task.name(), task.site())?;
        }
        Ok(())
    }
}

impl LoopRef {
    /// Replaces what is called when a callback, task or destructor fails; `None` brings the default
    /// back, which is [`default_report`](Self::default_report).
    ///
    /// The handler may call any method of the loop, this one included. If it panics, the default
    /// report tells of that and of the report that it was given (B-EXC-03, B-EXC-04).
    pub fn set_exception_handler(&self, handler: Option<ExceptionHandler>) {
        let old = std::mem::replace(&mut *self.inner.handler.borrow_mut(), handler);
        drop(old);
    }

    /// The handler that is set, if any.
    pub fn exception_handler(&self) -> Option<ExceptionHandler> {
        self.inner.handler.borrow().clone()
    }

    /// Passes a report to the exception handler, or to the default one.
    pub fn report(&self, context: &ExceptionContext) {
        let Some(handler) = self.exception_handler() else {
            return self.default_report(context);
        };
        if let Err(panic) = guard::catch_panic(|| context.enter(|| handler(self, context))) {
            let mut failed = ExceptionContext::new("the exception handler failed");
            failed.failure = Some(Failure::Panic(panic));
            failed.original = Some(render(context));
            self.default_report(&failed);
        }
    }

    /// Writes the report to standard error as one line; with the feature `tracing`, emits it as an event
    /// of the target `loop_core` instead. Never fails.
    pub fn default_report(&self, context: &ExceptionContext) {
        write_line(context);
    }
}

/// The default report, for places that no loop can be reached from.
pub(crate) fn write_line(context: &ExceptionContext) {
    #[cfg(feature = "tracing")]
    crate::trace::emit(context.severity, &render(context));
    #[cfg(not(feature = "tracing"))]
    {
        use std::io::Write;
        let severity = match context.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Info => "info",
            Severity::Debug => return,
        };
        // Nobody is left to tell if standard error is gone.
        let _ = writeln!(std::io::stderr().lock(), "event loop {severity}: {}", render(context));
    }
}

/// Formats a report. It shows user values, whose formatting may panic (B-EXC-08).
fn render(context: &ExceptionContext) -> String {
    let mut line = String::new();
    match guard::catch_panic(|| write!(line, "{context}")) {
        Ok(_) => line,
        Err(panic) => format!("{}; formatting the report failed: {panic}", context.message),
    }
}
