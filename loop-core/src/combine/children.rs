//! `Children`: tasks that one waiter waits for, handed back one by one as they end.

use std::rc::Rc;
use std::task::{Context, Poll};

use crate::error::TaskError;
use crate::finished::Finished;
use crate::task::Task;

/// Tasks and the list of those that have ended. What one end costs does not depend on their number.
pub(super) struct Children<T: 'static> {
    finished: Rc<Finished>,
    /// In the order given. `None` once handed back.
    members: Vec<Option<Member<T>>>,
    left: usize,
}

struct Member<T: 'static> {
    task: Task<T>,
    /// Its place among the task's waiters, unless it had ended before.
    place: Option<u64>,
}

impl<T: 'static> Member<T> {
    /// The task, which forgets the list (B-WAIT-06).
    fn release(self) -> Task<T> {
        if let Some(place) = self.place {
            self.task.leave(place);
        }
        self.task
    }
}

impl<T: 'static> Children<T> {
    pub(super) fn new(tasks: impl IntoIterator<Item = Task<T>>) -> Self {
        let finished = Rc::<Finished>::default();
        let member = |(number, task): (usize, Task<T>)| {
            let place = task.enter(&finished, number);
            Some(Member { task, place })
        };
        let members: Vec<_> = tasks.into_iter().enumerate().map(member).collect();
        let left = members.len();
        Children { finished, members, left }
    }

    /// How many were not handed back.
    pub(super) fn left(&self) -> usize {
        self.left
    }

    /// Those not handed back.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Task<T>> {
        self.members.iter().flatten().map(|member| &member.task)
    }

    fn take(&mut self, number: usize) -> Option<(usize, Task<T>)> {
        let member = self.members[number].take()?;
        self.left -= 1;
        Some((number, member.release()))
    }

    /// One that has ended, first come first.
    pub(super) fn next(&mut self) -> Option<(usize, Task<T>)> {
        let number = self.finished.next()?;
        self.take(number)
    }

    /// The next to end, and its place in the order given; `None` once all were handed back.
    pub(super) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<(usize, Task<T>)>> {
        match self.next() {
            None if self.left > 0 => {
                self.finished.wait(cx.waker());
                Poll::Pending
            }
            next => Poll::Ready(next),
        }
    }

    /// One that the running task cannot wait for, and why. O(n).
    pub(super) fn refused(&mut self) -> Option<(usize, Task<T>, TaskError)> {
        let mut members = self.members.iter().enumerate();
        let (number, error) = members.find_map(|(number, member)| {
            Some((number, member.as_ref()?.task.refuse_awaiting()?))
        })?;
        let (number, task) = self.take(number)?;
        Some((number, task, error))
    }

    /// All that are left, in the order given.
    pub(super) fn take_rest(&mut self) -> Vec<(usize, Task<T>)> {
        (0..self.members.len()).filter_map(|number| self.take(number)).collect()
    }

    /// Lets all that are left run on.
    pub(super) fn detach_rest(&mut self) {
        self.take_rest().into_iter().for_each(|(_, task)| task.detach());
    }
}

impl<T: 'static> Drop for Children<T> {
    /// The tasks are dropped as tasks are: one that was awaited is asked to end (contract C10).
    fn drop(&mut self) {
        drop(self.take_rest());
    }
}
