//! `TaskBuilder`: tasks with a name, a context, or an eager start.

use std::future::Future;
use std::panic::Location;
use std::pin::Pin;
use std::rc::Rc;
use std::task;

use loop_handle::Context;
use pin_project_lite::pin_project;

use super::handle::Task;
use crate::loop_ref::LoopRef;

/// Options of a task; asyncio's `create_task(name=, context=, eager_start=)`.
///
/// ```
/// # use loop_core::{run, TaskBuilder};
/// # run(async {
/// let answer = TaskBuilder::new().name("answer").eager(true).spawn(async { 42 });
/// assert!(answer.is_done(), "it did not have to wait");
/// assert_eq!(&*answer.name(), "answer");
/// # }).unwrap();
/// ```
#[derive(Debug, Clone, Default)]
#[must_use = "nothing is spawned before `spawn()`"]
pub struct TaskBuilder {
    name: Option<Rc<str>>,
    context: Option<Context>,
    eager: Option<bool>,
}

impl TaskBuilder {
    /// What [`spawn`](crate::spawn) does, until the other methods say otherwise.
    pub fn new() -> Self {
        Self::default()
    }

    /// Names the task in reports; `Task-n` without it.
    pub fn name(mut self, name: &str) -> Self {
        self.name = Some(Rc::from(name));
        self
    }

    /// Runs the body in this context, which keeps what the body writes, instead of in a copy of the one current
    /// at the spawn (B-TASK-28).
    ///
    /// A context can be entered once at a time. A task whose step comes while its context is entered (by a
    /// callback that runs a loop, say) panics with [`AlreadyEntered`](loop_handle::AlreadyEntered); an eager
    /// start does not enter it a second time, but is queued.
    pub fn context(mut self, context: Context) -> Self {
        self.context = Some(context);
        self
    }

    /// Whether the body's first step runs inside [`spawn`](Self::spawn) and not in the next iteration.
    ///
    /// A body that ends in that step has never been in the ready queue: the task that comes back is done. If it
    /// panics, the task has failed, and `spawn` returns all the same (B-EAGER-02, B-EAGER-04). While the loop
    /// does not run, the task is queued as usual (B-EAGER-01).
    ///
    /// Whoever spawns eagerly gives up an order that others may rely on, and stack: eager bodies that spawn eager
    /// bodies nest as deep as they please (B-EAGER-07).
    pub fn eager(mut self, eager: bool) -> Self {
        self.eager = Some(eager);
        self
    }

    /// Starts a task on the loop that runs on this thread.
    ///
    /// # Panics
    /// If no loop runs on this thread.
    #[track_caller]
    pub fn spawn<F: Future + 'static>(self, future: F) -> Task<F::Output> {
        self.spawn_at(&LoopRef::current(), Location::caller(), future)
    }

    /// Starts a task on this loop; see [`LoopRef::spawn`].
    #[track_caller]
    pub fn spawn_on<F: Future + 'static>(self, lp: &LoopRef, future: F) -> Task<F::Output> {
        self.spawn_at(lp, Location::caller(), future)
    }

    pub(crate) fn spawn_at<F: Future + 'static>(
        self,
        lp: &LoopRef,
        site: &'static Location<'static>,
        future: F,
    ) -> Task<F::Output> {
        let TaskBuilder { name, context, eager } = self;
        match context {
            None => lp.launch(site, name, eager, future),
            Some(context) => {
                let entered = context.run(|| ()).is_err();
                let eager = if entered { Some(false) } else { eager };
                let future = InContext::new(context, future);
                lp.launch(site, name, eager, future)
            }
        }
    }
}

pin_project! {
    /// A future that is polled and dropped in an explicit context.
    pub(crate) struct InContext<F> {
        #[pin]
        future: Option<F>,
        context: Context,
    }

    impl<F> PinnedDrop for InContext<F> {
        fn drop(this: Pin<&mut Self>) {
            let mut this = this.project();
            if let Err(entered) = this.context.run(|| this.future.set(None)) {
                entered.into_inner()();
            }
        }
    }
}

impl<F> InContext<F> {
    pub(crate) fn new(context: Context, future: F) -> Self {
        InContext { future: Some(future), context }
    }
}

impl<F: Future> Future for InContext<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut task::Context<'_>) -> task::Poll<F::Output> {
        let this = self.project();
        let future = this.future.as_pin_mut().expect("the future is there until this is dropped");
        match this.context.run(|| future.poll(cx)) {
            Ok(poll) => poll,
            Err(entered) => std::panic::panic_any(entered.to_string()),
        }
    }
}
