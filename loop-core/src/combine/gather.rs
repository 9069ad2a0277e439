//! `gather`: all results, in order.

use std::convert::Infallible;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use super::children::Children;
use crate::error::TaskError;
use crate::task::Task;

/// Waits for all tasks and gives their results in the order of the tasks; asyncio's `gather`.
///
/// ```
/// # use loop_core::{gather, run, sleep, spawn};
/// # use std::time::Duration;
/// # run(async {
/// let squares = (1..=3_u32).map(|n| {
///     spawn(async move {
///         sleep(Duration::from_millis(4 - u64::from(n))).await;
///         n * n
///     })
/// });
/// assert_eq!(gather(squares).await?, [1, 4, 9]);
/// # Ok::<(), loop_core::TaskError>(())
/// # }).unwrap().unwrap();
/// ```
///
/// The first task that ends without a value ends the gather with its error. The others run on, and
/// what becomes of them counts as read (B-GATH-03).
///
#[doc = lost!(gather)]
///
/// # Errors
/// That of the first task to fail: [`TaskError::Cancelled`] also if that task was cancelled by others,
/// or after [`Gather::cancel`]; [`TaskError::WrongLoop`] and [`TaskError::AwaitsItself`] for a task that
/// cannot be awaited here (B-GATH-05, B-GATH-09).
///
/// # Panics
/// When polled, if the outcome of a task was taken before.
pub fn gather<T: 'static>(tasks: impl IntoIterator<Item = Task<T>>) -> Gather<T> {
    Gather::new(tasks, |outcome| outcome)
}

/// [`gather`] for tasks that give a `Result`: the first `Err` ends it too.
///
/// ```
/// # use loop_core::{run, spawn, try_gather};
/// # run(async {
/// let texts = ["1", "2", "three"];
/// let numbers = texts.map(|text| {
///     spawn(async move { text.parse::<u32>().map_err(std::io::Error::other) })
/// });
/// assert!(try_gather(numbers).await.is_err());
/// # }).unwrap();
/// ```
///
/// # Errors
/// As [`gather`], in the tasks' own type of error.
///
/// # Panics
/// As [`gather`].
pub fn try_gather<T: 'static, E: From<TaskError> + 'static>(
    tasks: impl IntoIterator<Item = Task<Result<T, E>>>,
) -> Gather<Result<T, E>, T, E> {
    Gather::new(tasks, |outcome| outcome?)
}

/// Waits for all tasks, however they end, and gives their outcomes in the order of the tasks; asyncio's
/// `gather(return_exceptions=True)`.
///
/// ```
/// # use loop_core::{gather_settled, run, spawn};
/// # run(async {
/// let outcomes = gather_settled([spawn(async { 1 }), spawn(async { panic!("no") })]).await;
/// assert_eq!(*outcomes[0].as_ref().unwrap(), 1);
/// assert!(outcomes[1].is_err());
/// # }).unwrap();
/// ```
///
/// What is lost when it is dropped is as for [`gather`].
///
/// # Panics
/// As [`gather`].
pub fn gather_settled<T: 'static>(tasks: impl IntoIterator<Item = Task<T>>) -> GatherSettled<T> {
    GatherSettled(Gather::new(tasks, Ok))
}

/// The future of [`gather`] and [`try_gather`].
#[must_use = "futures do nothing unless they are awaited"]
pub struct Gather<T: 'static, O = T, E = TaskError> {
    children: Children<T>,
    /// Of those that have ended, in the order of the tasks.
    outputs: Vec<Option<O>>,
    convert: fn(Result<T, TaskError>) -> Result<O, E>,
    polled: bool,
    cancelled: bool,
}

impl<T: 'static, O, E> Gather<T, O, E> {
    fn new(
        tasks: impl IntoIterator<Item = Task<T>>,
        convert: fn(Result<T, TaskError>) -> Result<O, E>,
    ) -> Self {
        let children = Children::new(tasks);
        let outputs = std::iter::repeat_with(|| None).take(children.left()).collect();
        Gather { children, outputs, convert, polled: false, cancelled: false }
    }

    /// Asks every task that has not ended to end; `false` if all have, or if the gather has failed
    /// already (B-GATH-07). Await the gather afterwards to see them end: it gives
    /// [`TaskError::Cancelled`] as soon as one is cancelled, and also if they all give values in spite of
    /// the request (B-GATH-06).
    pub fn cancel(&mut self) -> bool {
        let asked = self.children.iter().filter(|task| task.cancel()).count();
        self.cancelled |= asked > 0;
        asked > 0
    }

    /// Before the first wait: sorts out whom the running task cannot wait for.
    fn begin(&mut self) -> Result<(), E> {
        self.polled = true;
        while let Some((number, task, error)) = self.children.refused() {
            task.detach();
            self.outputs[number] = Some((self.convert)(Err(error))?);
        }
        self.children.iter().for_each(Task::mark_awaited);
        Ok(())
    }

    fn poll_all(&mut self, cx: &mut Context<'_>) -> Poll<Result<Vec<O>, E>> {
        if !self.polled {
            self.begin()?;
        }
        while let Some((number, task)) = ready!(self.children.poll_next(cx)) {
            let outcome = task.take_result();
            let outcome = outcome.expect("a task was gathered after its outcome was taken");
            self.outputs[number] = Some((self.convert)(outcome)?);
        }
        if self.cancelled {
            // Where an outcome is a value, what the tasks left says it all.
            (self.convert)(Err(TaskError::Cancelled { reason: None }))?;
        }
        let outputs = std::mem::take(&mut self.outputs).into_iter();
        Poll::Ready(Ok(outputs.map(|output| output.expect("every task has ended")).collect()))
    }
}

impl<T: 'static, O, E> Future for Gather<T, O, E> {
    type Output = Result<Vec<O>, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let outcome = ready!(this.poll_all(cx));
        if outcome.is_err() {
            this.children.take_rest().into_iter().for_each(|(_, task)| task.ignore());
        }
        Poll::Ready(outcome)
    }
}

impl<T: 'static, O, E> Unpin for Gather<T, O, E> {}

impl<T: 'static, O, E> fmt::Debug for Gather<T, O, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gather")
            .field("tasks", &self.outputs.len())
            .field("left", &self.children.left())
            .finish()
    }
}

/// The future of [`gather_settled`].
#[derive(Debug)]
#[must_use = "futures do nothing unless they are awaited"]
pub struct GatherSettled<T: 'static>(Gather<T, Result<T, TaskError>, Infallible>);

impl<T: 'static> GatherSettled<T> {
    /// As [`Gather::cancel`]; the outcomes then say of each task whether it was cancelled or gave a value
    /// in spite of that.
    pub fn cancel(&mut self) -> bool {
        self.0.cancel()
    }
}

impl<T: 'static> Future for GatherSettled<T> {
    type Output = Vec<Result<T, TaskError>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(cx).map(|outcome| match outcome {
            Ok(outcomes) => outcomes,
            Err(never) => match never {},
        })
    }
}
