//! `TaskGroup`: tasks that end before the code that started them goes on (C9).

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use pin_project_lite::pin_project;

use super::binding::Binding;
use super::child::{Child, ChildError, GroupError, Shared};
use super::node::Kind;
use crate::error::PanicError;
use crate::guard;
use crate::sleep::{Sleep, sleep};
use crate::task::{Task, TaskBuilder};

/// Starts tasks that belong together, inside [`TaskGroup::scope`]: asyncio's `TaskGroup`. Cloning it
/// gives another reference, for children to start siblings with.
///
/// ```
/// # use loop_core::{run, GroupError, TaskGroup};
/// # run(async {
/// async fn length(word: &str) -> Result<usize, String> {
///     Ok(word.len())
/// }
///
/// let total: Result<usize, GroupError<String>> = TaskGroup::scope(async |group| {
///     let one = group.spawn(length("one"));
///     let three = group.spawn(length("three"));
///     Ok(one.await.unwrap() + three.await.unwrap())
/// })
/// .await;
/// assert_eq!(total.unwrap(), 8);
///
/// let failed: Result<(), GroupError<String>> = TaskGroup::scope(async |group| {
///     group.spawn(std::future::pending::<Result<(), String>>()); // is cancelled
///     group.spawn(async { Err::<(), _>("no".to_owned()) });
///     Ok(())
/// })
/// .await;
/// assert_eq!(failed.unwrap_err().errors.len(), 1);
/// # }).unwrap();
/// ```
pub struct TaskGroup<E: 'static> {
    shared: Rc<Shared<E>>,
}

impl<E: fmt::Debug + 'static> TaskGroup<E> {
    /// Runs `body`, which starts tasks with the group that it is given, and then waits until all of
    /// them have ended. It gives the body's value.
    ///
    /// - The first error of a child (or a panic), and an error of the body, end the group: the other
    ///   children are cancelled, and so is the body where it is suspended. All errors are returned
    ///   together, once everybody has ended (B-TG-02, B-TG-04). A child that is cancelled has not
    ///   failed (B-TG-03).
    /// - A request from outside cancels the children and the body, waits for them however many more
    ///   requests come, and is then passed on; if children fail meanwhile, their errors are returned and
    ///   the request arrives at the next suspension (B-TG-06 to B-TG-08).
    /// - A body that panics ends the group, and goes on panicking once the children have ended.
    ///
    /// The body [catches](crate::catch_cancelled) what the group asks like any other request; it is asked
    /// once.
    ///
    #[doc = lost!(group_scope)]
    ///
    /// # Errors
    /// [`GroupError`] with what failed, in that order; with nothing in it if
    /// [`cancel`](Self::cancel) ended the body before it had a value.
    pub fn scope<B, F, R>(body: B) -> GroupScope<E, R, B, F>
    where
        B: FnOnce(TaskGroup<E>) -> F,
        F: Future<Output = Result<R, E>>,
    {
        GroupScope {
            body: Some(body),
            future: None,
            abandon: Abandon(Rc::new(Shared::new())),
            binding: Binding::default(),
            value: None,
            panic: None,
            grace: Grace::Never,
            outranked: false,
            _value: PhantomData,
        }
    }

    /// Starts a task in the group, as [`spawn`](crate::spawn). Its value is the task's, its error the
    /// group's: for whoever awaits it a child that failed was cancelled.
    ///
    /// Children may start siblings also when the body is done already, as long as one of them is left.
    /// In a group that is ending or has ended the future is dropped unpolled and the task is cancelled
    /// (B-TG-11, B-TG-12).
    ///
    /// # Panics
    /// If no loop runs on this thread.
    #[track_caller]
    pub fn spawn<T, F>(&self, future: F) -> Task<T>
    where
        F: Future<Output = Result<T, E>> + 'static,
        T: 'static,
    {
        self.spawn_with(TaskBuilder::new(), future)
    }

    /// [`spawn`](Self::spawn) of a task with a name, say.
    #[track_caller]
    pub fn spawn_with<T, F>(&self, builder: TaskBuilder, future: F) -> Task<T>
    where
        F: Future<Output = Result<T, E>> + 'static,
        T: 'static,
    {
        let number = self.shared.reserve();
        let task = builder.spawn(Child::new(future, self.shared.clone(), number));
        match number {
            // An eager child may have ended by now.
            Some(number) => self.shared.admit(number, task.task_ref()),
            None => _ = task.cancel_with("the group takes no more"),
        }
        task
    }

    /// Ends the group: cancels the children and the body. That is no error, and the scope gives the
    /// body's value if it has one (B-TG-15). A request from outside still counts (B-TG-16).
    pub fn cancel(&self) {
        self.shared.end();
    }
}

impl<E: 'static> Clone for TaskGroup<E> {
    fn clone(&self) -> Self {
        TaskGroup { shared: self.shared.clone() }
    }
}

impl<E: 'static> fmt::Debug for TaskGroup<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskGroup").field("children", &self.shared.len()).finish()
    }
}

enum Grace {
    Never,
    After(Duration),
    Running(Pin<Box<Sleep>>),
    Over,
}

pin_project! {
    /// The future of [`TaskGroup::scope`].
    #[must_use = "futures do nothing unless they are awaited"]
    pub struct GroupScope<E, R, B, F>
    where
        E: fmt::Debug,
        E: 'static,
    {
        body: Option<B>,
        #[pin]
        future: Option<F>,
        // Behind the body, in the order in which they go.
        abandon: Abandon<E>,
        binding: Binding,
        value: Option<R>,
        panic: Option<PanicError>,
        grace: Grace,
        outranked: bool,
        _value: PhantomData<E>,
    }
}

/// Cancels the children of a scope that is dropped before its end.
struct Abandon<E: fmt::Debug + 'static>(Rc<Shared<E>>);

impl<E: fmt::Debug + 'static> Drop for Abandon<E> {
    fn drop(&mut self) {
        self.0.abandon();
    }
}

impl<E: fmt::Debug + 'static, R, B, F> GroupScope<E, R, B, F> {
    /// How long the body and the children may take to end once the group is ending. What is left then is
    /// aborted, and reported as a warning (contract C6). Without this there is no limit.
    pub fn grace(mut self, limit: Duration) -> Self {
        self.grace = Grace::After(limit);
        self
    }
}

impl<E, R, B, F> Future for GroupScope<E, R, B, F>
where
    E: fmt::Debug + 'static,
    B: FnOnce(TaskGroup<E>) -> F,
    F: Future<Output = Result<R, E>>,
{
    type Output = Result<R, GroupError<E>>;

    /// # Panics
    /// With the body's panic, once the children have ended; or if polled outside a task, or again
    /// after it was ready.
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let shared = &this.abandon.0;
        assert!(!shared.is_over() || *this.outranked, "a task group was polled after its end");
        let here = this.binding.enter(Kind::Group).expect("a task group was polled outside a task");
        if *this.outranked {
            return Poll::Pending;
        }
        shared.set_place(this.binding.place().cloned());
        if let Some(body) = this.body.take() {
            let group = TaskGroup { shared: shared.clone() };
            this.future.set(Some(here.inside(|| body(group))));
        }
        if let Some(request) = here.take_request() {
            here.drop_body(this.future.as_mut());
            let request = here.with_back(request);
            if !here.is_own(&request) {
                here.hold(request);
            }
            // There is no body that would have to be asked.
            shared.set_place(None);
            shared.end();
        }
        if this.future.is_some() {
            match guard::catch_panic(|| here.poll(this.future.as_mut(), cx)) {
                Ok(Poll::Pending) => {}
                Ok(Poll::Ready(Ok(value))) => *this.value = Some(value),
                Ok(Poll::Ready(Err(error))) => shared.fail(ChildError::Failed(error), None),
                Err(panic) => {
                    here.drop_body(this.future.as_mut());
                    *this.panic = Some(panic);
                    shared.end();
                }
            }
        }
        if shared.is_ending() && is_over(this.grace, cx) {
            shared.abort(this.future.is_some());
            here.drop_body(this.future.as_mut());
        }
        if this.future.is_some() || shared.len() > 0 {
            if this.future.is_none() {
                here.set_barrier();
            }
            shared.wake_when_empty(cx);
            here.suspend(cx);
            return Poll::Pending;
        }
        let errors = shared.finish();
        if let Some(panic) = this.panic.take() {
            this.binding.leave();
            panic.resume();
        }
        // What was held goes outward: by itself with the errors, else the scope waits to be dropped.
        if errors.is_empty() {
            if let Some(request) = here.release() {
                *this.outranked = true;
                here.pass(request);
                return Poll::Pending;
            }
        }
        this.binding.leave();
        Poll::Ready(match this.value.take() {
            Some(value) if errors.is_empty() => Ok(value),
            _ => Err(GroupError { errors }),
        })
    }
}

/// Whether the time for ending is up: once.
fn is_over(grace: &mut Grace, cx: &mut Context<'_>) -> bool {
    if let Grace::After(limit) = grace {
        *grace = Grace::Running(Box::pin(sleep(*limit)));
    }
    let Grace::Running(limit) = grace else { return false };
    let over = limit.as_mut().poll(cx).is_ready();
    if over {
        *grace = Grace::Over;
    }
    over
}

impl<E: fmt::Debug, R, B, F> fmt::Debug for GroupScope<E, R, B, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GroupScope").field("children", &self.abandon.0.len()).finish()
    }
}
