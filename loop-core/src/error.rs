//! The errors of the loop, of futures and of tasks.

use std::any::Any;
use std::error::Error;
use std::fmt;
use std::io;
use std::panic;
use std::sync::{Arc, Mutex};

use crate::sim::Deadlock;

/// Why the loop refused or ended a run.
#[derive(Debug)]
#[non_exhaustive]
pub enum LoopError {
    /// The loop is closed.
    Closed,
    /// Another loop runs on this thread; nothing was changed (B-LOOP-11, B-LOOP-12).
    NestedLoop,
    /// [`stop`](crate::LoopRef::stop) ended the run before the future was done. The future is
    /// untouched: run it again to go on (B-LOOP-14).
    StoppedEarly,
    /// The future of the run was cancelled, and dropped.
    Cancelled {
        /// What the one who asked had to say.
        reason: Option<Arc<str>>,
    },
    /// The user interrupted the run (SIGINT, which Ctrl-C sends), and the future was cancelled for that.
    Interrupted,
    /// In virtual time: nothing can ever happen. The loop is as it was, and can be given something to do.
    Deadlock(Deadlock),
    /// No loop runs on this thread.
    NotRunning,
    /// The loop was made by a parent process: after a fork a child makes one of its own (B-LOOP-27).
    Forked,
    /// The selector failed; the error names it.
    Select(io::Error),
}

impl fmt::Display for LoopError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoopError::Closed => f.write_str("the event loop is closed"),
            LoopError::NestedLoop => f.write_str("another event loop runs on this thread"),
            LoopError::StoppedEarly => {
                f.write_str("the event loop was stopped before the future was done")
            }
            LoopError::Cancelled { reason } => fmt_cancelled(f, "run", reason.as_deref()),
            LoopError::Interrupted => f.write_str("interrupted"),
            LoopError::Deadlock(deadlock) => deadlock.fmt(f),
            LoopError::NotRunning => f.write_str("no event loop runs on this thread"),
            LoopError::Forked => f.write_str("the event loop belongs to the parent process"),
            LoopError::Select(error) => write!(f, "the selector failed: {error}"),
        }
    }
}

impl Error for LoopError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            LoopError::Select(error) => Some(error),
            _ => None,
        }
    }
}

impl From<LoopError> for io::Error {
    fn from(error: LoopError) -> io::Error {
        match error {
            LoopError::Select(error) => error,
            other => io::Error::other(other),
        }
    }
}

/// A call refused because its loop is closed; it gives back what was offered.
pub struct Closed<F>(pub F);

impl<F> fmt::Debug for Closed<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Closed(..)")
    }
}

impl<F> fmt::Display for Closed<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        LoopError::Closed.fmt(f)
    }
}

impl<F> Error for Closed<F> {}

impl<F> From<Closed<F>> for LoopError {
    fn from(_: Closed<F>) -> LoopError {
        LoopError::Closed
    }
}

impl<F> From<Closed<F>> for io::Error {
    fn from(_: Closed<F>) -> io::Error {
        LoopError::Closed.into()
    }
}

/// A deadline passed first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Elapsed;

impl fmt::Display for Elapsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the deadline has passed")
    }
}

impl Error for Elapsed {}

impl From<Elapsed> for io::Error {
    fn from(elapsed: Elapsed) -> io::Error {
        io::Error::new(io::ErrorKind::TimedOut, elapsed)
    }
}

/// An operation that the state of a future does not allow, such as a second result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct InvalidState;

impl fmt::Display for InvalidState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the future is in the wrong state for this")
    }
}

impl Error for InvalidState {}

impl From<InvalidState> for io::Error {
    fn from(error: InvalidState) -> io::Error {
        io::Error::other(error)
    }
}

/// Why awaiting a [`LoopFuture`](crate::LoopFuture) gave no value.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum FutureError<E> {
    /// The future was given this error.
    Failed(E),
    /// The future was cancelled, with the reason that `cancel_with` was given.
    Cancelled {
        /// What the canceller had to say.
        reason: Option<Arc<str>>,
    },
    /// The future is not done yet, or [`take_result`](crate::LoopFuture::take_result) took the value.
    InvalidState,
    /// The future belongs to another loop than the one that awaits it (B-LOOP-16).
    WrongLoop,
}

impl<E: fmt::Display> fmt::Display for FutureError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FutureError::Failed(error) => error.fmt(f),
            FutureError::Cancelled { reason } => fmt_cancelled(f, "future", reason.as_deref()),
            FutureError::InvalidState => InvalidState.fmt(f),
            FutureError::WrongLoop => f.write_str("the future belongs to another event loop"),
        }
    }
}

impl<E: fmt::Debug + fmt::Display> Error for FutureError<E> {}

impl<E: fmt::Debug + fmt::Display + Send + Sync + 'static> From<FutureError<E>> for io::Error {
    fn from(error: FutureError<E>) -> io::Error {
        io::Error::other(error)
    }
}

/// Why a task ended without a value.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum TaskError {
    /// The task was cancelled or aborted; its body was dropped.
    Cancelled {
        /// The reason of the first request.
        reason: Option<Arc<str>>,
    },
    /// The body panicked.
    Panicked(PanicError),
    /// The loop was closed first.
    Closed,
    /// The task awaited itself (B-TASK-05).
    AwaitsItself,
    /// The task belongs to another loop than the one that awaits it.
    WrongLoop,
}

impl TaskError {
    /// Whether the task was cancelled.
    pub fn is_cancelled(&self) -> bool {
        matches!(self, TaskError::Cancelled { .. })
    }
}

impl fmt::Display for TaskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TaskError::Cancelled { reason } => fmt_cancelled(f, "task", reason.as_deref()),
            TaskError::Panicked(panic) => panic.fmt(f),
            TaskError::Closed => f.write_str("the event loop was closed before the task was done"),
            TaskError::AwaitsItself => f.write_str("the task awaits itself"),
            TaskError::WrongLoop => f.write_str("the task belongs to another event loop"),
        }
    }
}

impl Error for TaskError {}

impl From<TaskError> for io::Error {
    fn from(error: TaskError) -> io::Error {
        io::Error::other(error)
    }
}

fn fmt_cancelled(f: &mut fmt::Formatter<'_>, what: &str, reason: Option<&str>) -> fmt::Result {
    match reason {
        Some(reason) => write!(f, "the {what} was cancelled: {reason}"),
        None => write!(f, "the {what} was cancelled"),
    }
}

/// A panic that was caught, with its payload.
///
/// Cheap to clone; all clones share the payload.
#[derive(Clone)]
pub struct PanicError(Arc<Panic>);

struct Panic {
    message: Box<str>,
    payload: Mutex<Option<Box<dyn Any + Send>>>,
}

impl PanicError {
    pub(crate) fn new(payload: Box<dyn Any + Send>) -> Self {
        let message = if let Some(text) = payload.downcast_ref::<&'static str>() {
            Box::from(*text)
        } else if let Some(text) = payload.downcast_ref::<String>() {
            Box::from(text.as_str())
        } else if let Some(LoopAbort { code }) = payload.downcast_ref() {
            format!("loop abort with code {code}").into_boxed_str()
        } else {
            // The type's name is not recoverable from `dyn Any`, its identity is (B-EXC-08).
            format!("a payload of {:?}", (*payload).type_id()).into_boxed_str()
        };
        PanicError(Arc::new(Panic { message, payload: Mutex::new(Some(payload)) }))
    }

    /// The panic's message; for a payload that is not a string, the identity of its type.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The payload, once; later calls and clones get `None`.
    pub fn take_payload(&self) -> Option<Box<dyn Any + Send>> {
        self.0.payload.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take()
    }

    /// Goes on panicking with the payload (or with the message when the payload is taken).
    ///
    /// # Panics
    /// Always; that is its purpose.
    pub fn resume(self) -> ! {
        match self.take_payload() {
            Some(payload) => panic::resume_unwind(payload),
            None => panic::resume_unwind(Box::new(self.0.message.to_string())),
        }
    }
}

impl fmt::Debug for PanicError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PanicError").field(&self.0.message).finish()
    }
}

impl fmt::Display for PanicError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "panic {:?}", &*self.0.message)
    }
}

impl Error for PanicError {}

impl From<PanicError> for io::Error {
    fn from(error: PanicError) -> io::Error {
        io::Error::other(error)
    }
}

/// A panic payload that no guard of the loop swallows: it unwinds out of `run_*`, after the loop has
/// restored its state, with the rest of the batch still queued (B-LOOP-19).
///
/// It is what asyncio's `KeyboardInterrupt` and `SystemExit` are here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoopAbort {
    /// What the one who catches the unwinding may want to exit with.
    pub code: i32,
}

impl LoopAbort {
    /// Unwinds out of the run. The panic hook is not called.
    ///
    /// # Panics
    /// Always, with `self` as the payload.
    pub fn raise(self) -> ! {
        panic::resume_unwind(Box::new(self))
    }
}
