//! `Run`: what became of a run.

use std::error::Error;

/// What became of one [`Handle::run`](crate::Handle::run).
#[derive(Debug)]
#[must_use = "a failure should reach an error handler"]
pub enum Run {
    /// The callback ran and returned success.
    Done,
    /// Nothing ran: the handle was cancelled, had run already, or is running now.
    Skipped,
    /// The callback returned an error, or its [`Context`](crate::Context) was entered already.
    Failed(Box<dyn Error>),
}

impl From<Result<(), Box<dyn Error>>> for Run {
    fn from(result: Result<(), Box<dyn Error>>) -> Run {
        match result {
            Ok(()) => Run::Done,
            Err(error) => Run::Failed(error),
        }
    }
}
