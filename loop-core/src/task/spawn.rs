//! How tasks begin.

use std::future::Future;
use std::panic::Location;
use std::rc::Rc;

use super::body::{AnyBody, Fresh, Hooked, Leaving, RootBody};
use super::cell::TaskKey;
use super::handle::Task;
use super::join::{AnyJoin, Join};
use super::running;
use super::state::{QUEUED, ROOT, UNHANDLED};
use super::step::{Lent, step};
use super::task_ref::{TaskRef, find};
use super::waker::TaskWaker;
use crate::cancel;
use crate::current;
use crate::error::TaskError;
use crate::loop_ref::LoopRef;

impl LoopRef {
    /// Starts a task: its first step is queued like a callback, and its body runs in a copy of the
    /// context current now, which it keeps to itself (B-TASK-01, B-TASK-28). Two allocations, and a
    /// third once its waker is kept by somebody; none where tasks of the same future begin and end all
    /// the time, for the memory of those that have ended serves again.
    ///
    /// On a closed loop the future is dropped unpolled and the task is finished with
    /// [`TaskError::Closed`].
    #[track_caller]
    pub fn spawn<F>(&self, future: F) -> Task<F::Output>
    where
        F: Future + 'static,
    {
        self.launch(Location::caller(), None, None, future)
    }

    pub(super) fn launch<F>(
        &self,
        site: &'static Location<'static>,
        name: Option<Rc<str>>,
        eager: Option<bool>,
        future: F,
    ) -> Task<F::Output>
    where
        F: Future + 'static,
    {
        if self.inner.closed.get() {
            drop(future);
            let join = self.join(site, name);
            (join.clone() as Rc<AnyJoin>).end(self, Some(TaskError::Closed));
            return Task::new(join);
        }
        let mut eager = eager;
        let (body, join) = match self.spawn_hook() {
            Some(hook) => {
                let join = self.join(site, name);
                let task = TaskRef { join: join.clone() };
                let body = Leaving::new(future, join.clone());
                let body = hook.wrap(&task, Box::pin(body));
                eager = eager.or_else(|| Some(hook.eager(&task)));
                (Box::pin(Hooked::new(body)) as AnyBody, join)
            }
            None => self.body(site, name, future),
        };
        if eager == Some(true) && self.is_current() {
            let key = self.insert_task(&join, body, 0);
            self.start_eagerly(key);
        } else {
            let key = self.insert_task(&join, body, QUEUED);
            self.inner.ready.push_task(key);
        }
        Task::new(join)
    }

    fn join<T>(&self, site: &'static Location<'static>, name: Option<Rc<str>>) -> Rc<Join<T>> {
        Rc::new(Join::new(Rc::downgrade(&self.inner), site, name, 0))
    }

    /// In the memory of one whose task has ended, if that was of the same type.
    fn body<F: Future + 'static>(
        &self,
        site: &'static Location<'static>,
        name: Option<Rc<str>>,
        future: F,
    ) -> (AnyBody, Rc<Join<F::Output>>) {
        let spare = self.inner.tasks.borrow_mut().bodies.pop();
        let mut fresh = Fresh { future: Some(future), site, name, join: None };
        if let Some(mut body) = spare {
            body.as_mut().refill(&mut fresh);
            if let Some(join) = fresh.join {
                return (body, join);
            }
        }
        let join = self.join(site, fresh.name.take());
        (Box::pin(fresh.into_body(join.clone())), join)
    }

    /// The step inside which this one is may be at the waker that the loop lends.
    fn start_eagerly(&self, key: TaskKey) {
        let spare = self.inner.spare_waker.take();
        let mut waker = spare.unwrap_or_else(|| TaskWaker::to_lend(&self.inner));
        let _outer = running::Outer::leave();
        step(self, key, &mut Lent::new(&mut None, &mut waker));
        self.inner.spare_waker.set(Some(waker));
    }

    /// Whether this is the loop that runs on this thread.
    fn is_current(&self) -> bool {
        current::running().is_some_and(|running| running.id == self.inner.id)
    }

    fn insert_task<T: 'static>(&self, join: &Rc<Join<T>>, body: AnyBody, state: u8) -> TaskKey {
        let index = self.inner.tasks.borrow_mut().insert(join.id, state, body, join.clone());
        join.index.set(index);
        join.key()
    }
}

/// Makes room in the task table for a future that stays with its caller.
pub(crate) fn add_root(lp: &LoopRef, site: &'static Location<'static>) -> TaskKey {
    let home = Rc::downgrade(&lp.inner);
    let join = Rc::new(Join::<()>::new(home, site, None, ROOT | UNHANDLED));
    let key = lp.insert_task(&join, Box::pin(RootBody), QUEUED);
    lp.inner.ready.push_task(key);
    key
}

/// Forgets a root future, whether it is done or was stopped early. Late wakes find nothing.
pub(crate) fn remove_root(lp: &LoopRef, key: TaskKey) {
    let (_body, _gear, removed) = {
        let mut tasks = lp.inner.tasks.borrow_mut();
        (tasks.begin_step(key), tasks.take_gear(key), tasks.remove(key))
    };
    if let Some(tree) = removed.and_then(|removed| removed.tree) {
        cancel::forget(lp, &tree);
    }
}

/// [`LoopRef::spawn`] on the loop that runs on this thread.
///
/// # Panics
/// If no loop runs on this thread.
#[track_caller]
pub fn spawn<F>(future: F) -> Task<F::Output>
where
    F: Future + 'static,
{
    LoopRef::current().spawn(future)
}

/// The task whose step runs on this thread; `None` inside a plain callback (B-TASK-04, B-LOOP-26).
pub fn current_task() -> Option<TaskRef> {
    let inner = current::running()?;
    find(&inner, running::running_task(inner.id)?)
}
