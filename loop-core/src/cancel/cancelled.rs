//! `Cancelled`: a request in the hands of the code that has to decide it.

use std::fmt;
use std::future::{pending, poll_fn};
use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;

use super::binding::{Here, SharedTree, running, tree};
use super::node::{ROOT, Request};
use crate::current;
use crate::inner::Inner;
use crate::task::{TaskKey, attend};

/// A request to end, as [`catch_cancelled`](crate::catch_cancelled) hands it over: what the code that
/// has caught it decides about, by [`swallow`](Self::swallow) or [`propagate`](Self::propagate).
///
/// Catching is not swallowing. A request that is dropped undecided is not lost: it goes back to the
/// enclosing catch point, scope or task, and arrives there at the next suspension (contract C3). So
/// keep it bound while you clean up (`Err(cancelled)`, not `Err(_)`), or it may interrupt the clean-up.
#[must_use = "a request that is dropped arrives again: swallow or propagate it"]
pub struct Cancelled {
    loop_id: u64,
    task: TaskKey,
    token: Option<(u32, u32)>,
    request: Request,
    _not_send: PhantomData<Rc<()>>,
}

impl Cancelled {
    /// Makes the request that ended a catch point the enclosing node's business.
    pub(super) fn issue(here: &Here, mut request: Request) -> Self {
        request.set_stands(false);
        let token = {
            let mut tree = here.tree.borrow_mut();
            let home = tree.node(here.node).parent;
            tree.issue(home, request.round())
        };
        Cancelled {
            loop_id: here.inner.id,
            task: here.task,
            token: Some(token),
            request,
            _not_send: PhantomData,
        }
    }

    /// What the one who asked had to say; see [`Task::cancel_with`](crate::Task::cancel_with). A
    /// deadline says nothing.
    pub fn reason(&self) -> Option<&str> {
        self.request.reason.as_deref()
    }

    /// Takes the request off: the task goes on as if it had not been asked, and a later request
    /// interrupts it again (B-TASK-16).
    pub fn swallow(mut self) {
        self.decide(|_, _, _| ());
    }

    /// Passes the request outward, to the enclosing catch point, scope or task, and never returns: the
    /// code that awaits this is dropped once everything else that was asked has decided (contract C4).
    ///
    #[doc = lost!(propagate)]
    pub async fn propagate(self) -> ! {
        let mut cancelled = Some(self);
        poll_fn(|_| {
            if let Some(cancelled) = cancelled.take() {
                cancelled.pass_outward();
            }
            Poll::Ready(())
        })
        .await;
        wait_to_be_dropped().await
    }

    fn pass_outward(mut self) {
        let target = self.request.target;
        let inside = running().is_some_and(|(inner, task, tree)| {
            let tree = tree.borrow();
            self.is_of(&inner, task)
                && tree.has(target)
                && tree.is_below(tree.current, target.index)
        });
        let reason = self.request.reason.clone();
        self.request.set_stands(inside);
        self.give_back();
        // Carried out of what was asked to end: the code that propagates wants to end all the same.
        if !inside {
            raise(reason);
        }
    }

    fn is_of(&self, inner: &Inner, task: TaskKey) -> bool {
        self.loop_id == inner.id && self.task == task
    }

    /// Back to the enclosing node: of the code that runs, if it belongs to the task.
    fn give_back(&mut self) {
        let runs = running().is_some_and(|(inner, task, _)| self.is_of(&inner, task));
        let request = self.request.clone();
        self.decide(|tree, home, waiting| {
            let mut tree = tree.borrow_mut();
            if !tree.has(request.target) {
                return;
            }
            let near = if runs { tree.current } else { home };
            // Carried out of the scope that asked: back to that.
            let inside = tree.is_below(near, request.target.index);
            let place = if inside { near } else { request.target.index };
            tree.give_back(place, request);
            *waiting = true;
        });
    }

    /// Takes the token off the tree and runs `f`. Nodes may have waited for that.
    fn decide(&mut self, f: impl FnOnce(&SharedTree, u32, &mut bool)) {
        let Some((index, serial)) = self.token.take() else { return };
        // On another thread it cannot be, and a task or loop that has ended has no requests.
        let Some(inner) = current::find(self.loop_id) else { return };
        let Some(tree) = tree(&inner, self.task) else { return };
        let Some(home) = tree.borrow_mut().take_token(index, serial) else { return };
        let mut waiting = tree.borrow().is_waiting();
        f(&tree, home, &mut waiting);
        if waiting {
            attend(&inner, self.task);
        }
    }
}

impl Drop for Cancelled {
    fn drop(&mut self) {
        if self.token.is_some() {
            self.give_back();
        }
    }
}

impl fmt::Debug for Cancelled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cancelled").field("reason", &self.reason()).finish_non_exhaustive()
    }
}

/// Ends the code that awaits it as a request would: the enclosing catch point gets it, or the task is
/// cancelled with `reason`; asyncio's `raise CancelledError` (B-TASK-19).
///
#[doc = lost!(raise_cancelled)]
///
/// Outside a task there is nothing to end, and it waits for ever.
pub async fn raise_cancelled(reason: &str) -> ! {
    let mut reason = Some(Arc::from(reason));
    poll_fn(|_| {
        if let Some(reason) = reason.take() {
            raise(Some(reason));
        }
        Poll::Ready(())
    })
    .await;
    wait_to_be_dropped().await
}

pub(super) fn raise(reason: Option<Arc<str>>) {
    let Some((inner, task, tree)) = running() else { return };
    {
        let mut tree = tree.borrow_mut();
        let round = tree.next_round();
        let current = tree.current;
        let mut request = Request::new(ROOT, round, reason);
        request.set_stands(true);
        tree.give_back(current, request);
    }
    attend(&inner, task);
}

async fn wait_to_be_dropped() -> ! {
    loop {
        pending::<()>().await;
    }
}
