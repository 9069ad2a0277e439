//! What handles ask of a task, before its next step delivers it.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use super::handle::Task;
use super::join::{Seldom, Shared};
use super::state::DONE;
use super::step;
use super::task_ref::TaskRef;

/// Requests that have not been delivered; they are one (C6).
#[derive(Default)]
pub(crate) enum Asked {
    #[default]
    Nothing,
    /// End, at a catch point or altogether.
    Cancel(Option<Arc<str>>),
    /// End, whatever the body would say.
    Abort(Option<Arc<str>>),
}

#[derive(Default)]
pub(crate) struct Requests {
    /// Calls of `cancel` less calls of `uncancel`.
    count: Cell<u32>,
    asked: RefCell<Asked>,
}

impl<O: ?Sized> Shared<O> {
    /// Records a request and sees to it that the next step comes. The first reason stays (C6).
    pub(crate) fn request(&self, reason: Option<&str>) -> bool {
        if self.has(DONE) {
            return false;
        }
        let Requests { count, asked } = &self.make_seldom().requests;
        count.set(count.get().saturating_add(1));
        let mut asked = asked.borrow_mut();
        if let Asked::Nothing = *asked {
            *asked = Asked::Cancel(reason.map(Arc::from));
        }
        drop(asked);
        self.attend();
        true
    }

    fn abort(&self) -> bool {
        if self.has(DONE) {
            return false;
        }
        let mut asked = self.make_seldom().requests.asked.borrow_mut();
        let reason = match std::mem::take(&mut *asked) {
            Asked::Nothing => Some(Arc::from("aborted")),
            Asked::Cancel(reason) | Asked::Abort(reason) => reason,
        };
        *asked = Asked::Abort(reason);
        drop(asked);
        self.attend();
        true
    }

    fn uncancel(&self) -> u32 {
        let Some(Seldom { requests, .. }) = self.seldom() else { return 0 };
        let count = requests.count.get().saturating_sub(1);
        requests.count.set(count);
        let mut asked = requests.asked.borrow_mut();
        if let (0, Asked::Cancel(_)) = (count, &*asked) {
            *asked = Asked::Nothing;
        }
        count
    }

    fn attend(&self) {
        if let Some(inner) = self.home.upgrade() {
            step::attend(&inner, self.key());
        }
    }

    pub(crate) fn take_asked(&self) -> Asked {
        let Some(Seldom { requests, .. }) = self.seldom() else { return Asked::Nothing };
        requests.asked.take()
    }

    fn cancelling(&self) -> u32 {
        self.seldom().map_or(0, |seldom| seldom.requests.count.get())
    }

    /// Whether a handle has asked for the end, and the task has not been told yet.
    pub(crate) fn is_asked(&self) -> bool {
        let asked = |seldom: &Seldom| !matches!(&*seldom.requests.asked.borrow(), Asked::Nothing);
        self.seldom().is_some_and(asked)
    }
}

impl<T: 'static> Task<T> {
    /// Asks the task to end; `false` if it has ended already.
    ///
    /// In its next step the body is dropped, with the task current and the loop usable, and whoever awaits
    /// it gets [`TaskError::Cancelled`](crate::TaskError::Cancelled). A body that is suspended in a
    /// [`catch_cancelled`](crate::catch_cancelled) gets the request there instead, and decides. The body of
    /// a task that never ran is dropped unpolled (B-TASK-08, B-TASK-12).
    pub fn cancel(&self) -> bool {
        self.join.request(None)
    }

    /// [`cancel`](Self::cancel) with a reason for the code that catches the request and for whoever awaits
    /// the task. Of several requests before the next step the first one's reason stays.
    pub fn cancel_with(&self, reason: &str) -> bool {
        self.join.request(Some(reason))
    }

    /// Ends the task in its next step whatever its body would say to a request: catch points are not
    /// asked, and what they protect is dropped. `false` if it has ended already.
    pub fn abort(&self) -> bool {
        self.join.abort()
    }

    /// Takes one request back, and returns how many are left. At none, a request that has not been
    /// delivered is withdrawn; one that the body has already been told of is the body's to decide
    /// (B-TASK-17).
    pub fn uncancel(&self) -> u32 {
        self.join.uncancel()
    }

    /// How often [`cancel`](Self::cancel) was called, less the calls of [`uncancel`](Self::uncancel). What
    /// time limits and groups ask is not counted (C11).
    pub fn cancelling(&self) -> u32 {
        self.join.cancelling()
    }
}

impl TaskRef {
    /// As [`Task::cancel`](crate::Task::cancel). The future of a
    /// [`run_until_complete`](crate::EventLoop::run_until_complete) can be cancelled as well; that returns
    /// [`LoopError::Cancelled`](crate::LoopError::Cancelled).
    pub fn cancel(&self) -> bool {
        self.join.request(None)
    }

    /// As [`Task::cancel_with`](crate::Task::cancel_with).
    pub fn cancel_with(&self, reason: &str) -> bool {
        self.join.request(Some(reason))
    }

    /// As [`Task::abort`](crate::Task::abort).
    pub fn abort(&self) -> bool {
        self.join.abort()
    }

    /// As [`Task::uncancel`](crate::Task::uncancel).
    pub fn uncancel(&self) -> u32 {
        self.join.uncancel()
    }

    /// As [`Task::cancelling`](crate::Task::cancelling).
    pub fn cancelling(&self) -> u32 {
        self.join.cancelling()
    }
}
