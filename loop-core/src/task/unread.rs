//! What becomes of an outcome that nobody will read.

use std::any::Any;
use std::error::Error;
use std::rc::Rc;

use super::handle::Task;
use super::join::AnyJoin;
use super::state::{IGNORED, TELLS_ERRORS};
use super::task_ref::TaskRef;
use crate::error::TaskError;
use crate::guard;
use crate::loop_ref::LoopRef;
use crate::report::{ExceptionContext, Failure, write_line};

/// The error that an output is, if it is one.
type AsError<T> = fn(T) -> Option<Box<dyn Error>>;

/// The same without the output's type, for the few tasks that have it.
pub(super) type ErasedAsError = Box<dyn Any>;

impl<T: 'static, E: Into<Box<dyn Error>> + 'static> Task<Result<T, E>> {
    /// Has an `Err` reported that nobody reads, as a panic is: once the task has ended with it and its handle is gone.
    /// asyncio's "exception was never retrieved"; here an output may be of any type, so a task is told.
    ///
    /// ```
    /// # use loop_core::{run, spawn, yield_now, LoopRef};
    /// # use std::{cell::Cell, rc::Rc};
    /// async fn save() -> std::io::Result<()> {
    ///     Err(std::io::Error::other("the disk is full"))
    /// }
    ///
    /// # run(async {
    /// # let reports = Rc::new(Cell::new(0));
    /// # let count = reports.clone();
    /// # LoopRef::current().set_exception_handler(Some(Rc::new(move |_, context| {
    /// #     assert!(context.to_string().contains("error \"the disk is full\""));
    /// #     count.set(count.get() + 1);
    /// # })));
    /// spawn(save()).report_errors().detach(); // not in silence
    /// # yield_now().await;
    /// # assert_eq!(reports.get(), 1);
    /// # }).unwrap();
    /// ```
    pub fn report_errors(self) -> Self {
        let as_error: AsError<Result<T, E>> = |output| output.err().map(Into::into);
        self.join.make_seldom().as_error.set(Some(Box::new(as_error)));
        self.join.set(TELLS_ERRORS);
        self
    }
}

/// Of an outcome that nobody will read, reports what is to be reported (B-TASK-23). What is left is the caller's to
/// drop.
#[inline]
pub(super) fn take_unwanted<T: 'static>(
    join: &Rc<AnyJoin>,
    unread: Option<Result<T, TaskError>>,
) -> Option<Result<T, TaskError>> {
    match unread {
        Some(Err(TaskError::Panicked(panic))) if !join.has(IGNORED) => {
            let message = "task panicked and nobody awaited it";
            report(join.clone(), message, Failure::Panic(panic));
            None
        }
        Some(Ok(value)) if join.has(TELLS_ERRORS) && !join.has(IGNORED) => {
            report_error(join, value);
            None
        }
        unread => unread,
    }
}

#[cold]
fn report_error<T: 'static>(join: &Rc<AnyJoin>, value: T) {
    let as_error = join.seldom().and_then(|seldom| seldom.as_error.take());
    let as_error = as_error.and_then(|as_error| as_error.downcast::<AsError<T>>().ok());
    // It is user code, as is the destructor of what is no error.
    match guard::catch_panic(|| as_error.and_then(|as_error| as_error(value))) {
        Ok(None) => {}
        Ok(Some(error)) => {
            let message = "task failed and nobody awaited it";
            report(join.clone(), message, Failure::Error(error));
        }
        Err(panic) => report(join.clone(), guard::DESTRUCTOR, Failure::Panic(panic)),
    }
}

/// To standard error if the loop is gone.
fn report(join: Rc<AnyJoin>, message: &'static str, failure: Failure) {
    let home = join.home.upgrade();
    let mut context = ExceptionContext::new(message).with_failure(failure);
    context.task = Some(TaskRef { join });
    match home {
        Some(inner) => guard::report(&LoopRef { inner }, context),
        None => write_line(&context),
    }
}
