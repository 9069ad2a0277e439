//! What requests make of a task's step.

use std::rc::Rc;
use std::sync::Arc;

use super::binding::{SharedTree, tree};
use super::node::ROOT;
use crate::guard::{self, Undeterred};
use crate::inner::Inner;
use crate::loop_ref::LoopRef;
use crate::task::{Asked, TaskKey, attend, attend_later, while_queued};

/// What is to be done with the body.
pub(crate) enum Turn {
    Poll,
    /// As `Poll`; [`end_step`] follows if the body suspends.
    Watch,
    /// The body is dropped.
    Cancel(Option<Arc<str>>),
}

/// Delivers what was asked of a task, before its body is polled (C1). An abort by a waker is for after the step.
#[cold]
pub(crate) fn begin_step(
    lp: &LoopRef,
    task: TaskKey,
    asked: Asked,
    wakes: &mut Undeterred,
) -> Turn {
    let reason = match asked {
        Asked::Abort(reason) => return Turn::Cancel(reason),
        Asked::Cancel(reason) => Some(reason),
        Asked::Nothing => None,
    };
    let Some(tree) = tree(&lp.inner, task) else {
        return reason.map_or(Turn::Poll, Turn::Cancel);
    };
    let (delivery, marked, waits) = {
        let mut tree = tree.borrow_mut();
        if let Some(reason) = reason {
            tree.ask(ROOT, reason);
        }
        let delivery = tree.deliver();
        (delivery, tree.node(ROOT.index).marked > 0, tree.is_waiting())
    };
    // The task's own waker is among them: it is to find the task queued.
    while_queued(&lp.inner, task, || {
        for waker in delivery.wakers {
            wakes.run(|| guard::wake(lp, waker));
        }
    });
    if waits {
        // For the step in which the body ends, whatever comes before (C7).
        attend_later(&lp.inner, task);
    }
    match delivery.cancelled {
        Some(request) => Turn::Cancel(request.reason),
        None if marked => Turn::Watch,
        None => Turn::Poll,
    }
}

/// Looks for what was asked and not polled; `woken` says whether the task will have another step.
#[cold]
pub(crate) fn end_step(inner: &Inner, task: TaskKey, woken: bool) {
    let tree = tree(inner, task);
    if tree.is_some_and(|tree| tree.borrow_mut().end_step(woken)) {
        attend(inner, task);
    }
}

/// The task is over, but futures of its tree may be left: leaked, or kept to be resumed elsewhere.
#[cold]
pub(crate) fn forget(lp: &LoopRef, tree: &SharedTree) {
    let left = tree.borrow_mut().take_remains();
    for remains in left {
        guard::discard(lp, remains.waker);
        let timer = remains.timer.and_then(|key| lp.inner.take_timer(key));
        drop(timer);
    }
}

/// The request that a body has left behind when it ended by itself: undelivered, put back or
/// propagated (C7).
#[cold]
pub(crate) fn left_over(
    inner: &Rc<Inner>,
    task: TaskKey,
    asked: Asked,
) -> Option<Option<Arc<str>>> {
    match asked {
        Asked::Abort(reason) | Asked::Cancel(reason) => Some(reason),
        Asked::Nothing => {
            let tree = tree(inner, task)?;
            let mut tree = tree.borrow_mut();
            let back = tree.node_mut(ROOT.index).back.take()?;
            tree.has(back.target).then_some(back.reason)
        }
    }
}
