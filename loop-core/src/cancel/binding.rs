//! The place of a future in the tree of the task that polls it.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use super::node::{Kind, NodeId, Request};
use super::tree::Tree;
use crate::current;
use crate::inbox::Message;
use crate::inner::{Inner, TimerItem};
use crate::loops;
use crate::task::{TaskKey, attend, own_task, running_task};

pub(crate) type SharedTree = Rc<RefCell<Tree>>;

/// A node that a future has in some tree, by numbers, so that the future stays `Send`. Dropping it
/// takes the node out; it belongs behind the future's body, which has to go first.
#[derive(Default)]
pub(crate) struct Binding {
    place: Option<Place>,
}

#[derive(Clone)]
pub(crate) struct Place {
    loop_id: u64,
    task: TaskKey,
    node: NodeId,
}

/// The tree of a task, if it has one.
pub(super) fn tree(inner: &Inner, task: TaskKey) -> Option<SharedTree> {
    inner.tasks.borrow().get(task)?.tree.clone()
}

/// The running task and its tree, which it gets if it has none. `None` outside a task.
pub(super) fn running() -> Option<(Rc<Inner>, TaskKey, SharedTree)> {
    let inner = current::running()?;
    let task = running_task(inner.id)?;
    let tree = inner.tasks.borrow_mut().get_mut(task).map(|entry| {
        let new = || Rc::new(RefCell::new(Tree::new()));
        entry.tree.get_or_insert_with(new).clone()
    })?;
    Some((inner, task, tree))
}

impl Place {
    /// Runs `f` with the tree, if the node is still there and this is its thread.
    pub(super) fn with<R>(&self, f: impl FnOnce(&mut Tree, u32) -> R) -> Option<R> {
        let inner = current::find(self.loop_id)?;
        let tree = tree(&inner, self.task)?;
        let mut tree = tree.borrow_mut();
        tree.has(self.node).then(|| f(&mut tree, self.node.index))
    }

    /// The scope asks for its own end.
    pub(super) fn ask(&self) {
        if let Some(inner) = current::find(self.loop_id) {
            ask(&inner, self.task, self.node, false);
        }
    }

    /// Replaces the scope's deadline. One that has passed is a timer like others: it is due before the
    /// task's next step.
    pub(super) fn set_deadline(&self, deadline: Option<Instant>) {
        let Some(inner) = current::find(self.loop_id) else { return };
        let expire = TimerItem::Expire(self.task, self.node);
        let new = deadline.map(|deadline| inner.insert_timer(deadline, expire));
        let old = self.with(|tree, node| std::mem::replace(&mut tree.node_mut(node).timer, new));
        // If the scope is gone, the new one is nobody's.
        if let Some(key) = old.unwrap_or(new) {
            let item = inner.take_timer(key);
            drop(item);
        }
    }
}

/// A scope asks for its own end, because its time is up or because it wants to.
pub(crate) fn ask(inner: &Inner, task: TaskKey, node: NodeId, expired: bool) {
    let Some(tree) = tree(inner, task) else { return };
    {
        let mut tree = tree.borrow_mut();
        if !tree.has(node) {
            return;
        }
        tree.node_mut(node.index).expired |= expired;
        tree.ask(node, None);
    }
    attend(inner, task);
}

/// Takes a node out of its tree.
pub(crate) fn unbind(inner: &Inner, task: TaskKey, node: NodeId) {
    let Some(tree) = tree(inner, task) else { return };
    let (remains, waiting) = {
        let mut tree = tree.borrow_mut();
        if !tree.has(node) {
            return;
        }
        (tree.remove(node.index), tree.is_waiting())
    };
    if waiting {
        attend(inner, task);
    }
    let timer = remains.timer.and_then(|key| inner.take_timer(key));
    drop((remains.waker, timer));
}

impl Binding {
    pub(crate) fn place(&self) -> Option<&Place> {
        self.place.as_ref()
    }

    /// Comes before the future's body is polled: sees to it that it has a node below the one that is
    /// being polled in this task (C5). `None` outside a task.
    pub(crate) fn enter(&mut self, kind: Kind) -> Option<Here> {
        let Some((inner, task, tree)) = running() else {
            self.leave();
            return None;
        };
        let same = |place: &&Place| place.task == task && place.loop_id == inner.id;
        let bound = self.place.as_ref().filter(same).map(|place| place.node);
        let node = match bound.filter(|node| tree.borrow().has(*node)) {
            Some(node) => {
                tree.borrow_mut().move_here(node.index);
                node
            }
            None => {
                self.leave();
                let node = tree.borrow_mut().insert(kind);
                self.place = Some(Place { loop_id: inner.id, task, node });
                node
            }
        };
        Some(Here { inner, task, tree, node: node.index })
    }

    /// Gives a scope its deadline.
    pub(crate) fn set_deadline(&self, deadline: Option<Instant>) {
        if let Some(place) = &self.place {
            place.set_deadline(deadline);
        }
    }

    /// The future is done, or gone.
    pub(crate) fn leave(&mut self) {
        let Some(place) = self.place.take() else { return };
        if let Some(inner) = current::find(place.loop_id) {
            unbind(&inner, place.task, place.node);
        } else if let Some(inbox) = loops::inbox(place.loop_id) {
            // A closed loop has no trees left.
            drop(inbox.send(Message::Unbind(place.task, place.node)));
        }
    }
}

impl Drop for Binding {
    fn drop(&mut self) {
        self.leave();
    }
}

/// # Panics
/// If the future is gone.
pub(super) fn poll_present<F: Future>(
    future: Pin<&mut Option<F>>,
    cx: &mut Context<'_>,
) -> Poll<F::Output> {
    future.as_pin_mut().expect("a future was polled after its end").poll(cx)
}

/// A future's node while the future is polled.
pub(crate) struct Here {
    pub(super) inner: Rc<Inner>,
    pub(super) task: TaskKey,
    pub(super) tree: SharedTree,
    pub(super) node: u32,
}

impl Here {
    /// Whether no timer watches the scope's deadline: it has just come to this task.
    pub(crate) fn is_unwatched(&self) -> bool {
        let tree = self.tree.borrow();
        let node = tree.node(self.node);
        node.timer.is_none() && !node.expired
    }

    pub(crate) fn now(&self) -> Instant {
        self.inner.now()
    }

    /// Runs `f`, which polls or drops what is inside, with this node as the enclosing one.
    pub(crate) fn inside<R>(&self, f: impl FnOnce() -> R) -> R {
        struct Restore<'a>(&'a SharedTree, u32);
        impl Drop for Restore<'_> {
            fn drop(&mut self) {
                self.0.borrow_mut().current = self.1;
            }
        }
        let previous = std::mem::replace(&mut self.tree.borrow_mut().current, self.node);
        let _restore = Restore(&self.tree, previous);
        f()
    }

    /// Polls what is inside, and drops it when it is done.
    ///
    /// # Panics
    /// If it is gone.
    pub(crate) fn poll<F: Future>(
        &self,
        mut future: Pin<&mut Option<F>>,
        cx: &mut Context<'_>,
    ) -> Poll<F::Output> {
        self.inside(|| {
            let value = ready!(poll_present(future.as_mut(), cx));
            future.set(None);
            Poll::Ready(value)
        })
    }

    /// Drops what is inside.
    pub(crate) fn drop_body<F>(&self, mut future: Pin<&mut Option<F>>) {
        self.inside(|| future.set(None));
    }

    /// What the node has to act on now, if it is marked.
    pub(crate) fn take_request(&self) -> Option<Request> {
        let (request, waiting) = {
            let mut tree = self.tree.borrow_mut();
            if !tree.node(self.node).act.is_some() {
                return None;
            }
            tree.reached = true;
            (tree.unmark(self.node), tree.is_waiting())
        };
        // Nodes above may have waited for this.
        if waiting {
            attend(&self.inner, self.task);
        }
        request
    }

    /// `request`, and what came back while the body was dropped.
    pub(crate) fn with_back(&self, request: Request) -> Request {
        let mut tree = self.tree.borrow_mut();
        let back = tree.node_mut(self.node).back.take();
        back.and_then(|back| tree.merge(Some(request.clone()), back)).unwrap_or(request)
    }

    /// Whether it was this node that asked.
    pub(crate) fn is_own(&self, request: &Request) -> bool {
        request.target == self.tree.borrow().id(self.node)
    }

    /// Passes a request outward, to be dropped by whoever acts on it. Until then nobody is to ask this node: it
    /// acts no more.
    pub(crate) fn pass(&self, mut request: Request) {
        request.set_stands(true);
        {
            let mut tree = self.tree.borrow_mut();
            tree.node_mut(self.node).live = false;
            let parent = tree.node(self.node).parent;
            tree.give_back(parent, request);
        }
        attend(&self.inner, self.task);
    }

    /// From now on requests stop here.
    pub(crate) fn set_barrier(&self) {
        self.tree.borrow_mut().node_mut(self.node).barrier = true;
    }

    /// Keeps a request until the node is left, or [`release`](Self::release).
    pub(crate) fn hold(&self, request: Request) {
        self.tree.borrow_mut().hold(self.node, request);
    }

    pub(crate) fn release(&self) -> Option<Request> {
        let (held, waiting) = {
            let mut tree = self.tree.borrow_mut();
            (tree.release(self.node), tree.is_waiting())
        };
        if waiting {
            attend(&self.inner, self.task);
        }
        held
    }

    /// The body is suspended: the node is live. The task's own waker is not kept: requests are delivered at the
    /// beginning of a step, which polls the body anyway.
    pub(crate) fn suspend(&self, cx: &Context<'_>) {
        let own = own_task(self.inner.id, cx.waker()).is_some();
        {
            let mut tree = self.tree.borrow_mut();
            let node = tree.node_mut(self.node);
            node.live = true;
            let same = match &node.waker {
                Some(kept) => kept.will_wake(cx.waker()),
                None => own,
            };
            if same {
                return;
            }
        }
        // Cloning and dropping a waker is user code: no borrow is held around either.
        let new = (!own).then(|| cx.waker().clone());
        let old = std::mem::replace(&mut self.tree.borrow_mut().node_mut(self.node).waker, new);
        drop(old);
    }
}
