//! Task wakers: waking is scheduling.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Wake, Waker};

use super::cell::TaskKey;
use super::step::schedule;
use crate::current;
use crate::inbox::{Inbox, Message};

/// What a waker knows: keys, no pointer into the loop, so it is `Send` and `Sync` as it stands.
struct Target {
    /// Which task; it changes only while nobody but the loop holds the waker.
    key: AtomicU64,
    inbox: Arc<Inbox>,
}

impl Wake for Target {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    /// At home the task joins the ready queue at once; from elsewhere a message goes through the
    /// inbox. A finished task, and a closed loop, make it a no-op (B-TASK-26, B-TASK-27).
    fn wake_by_ref(self: &Arc<Self>) {
        let key = TaskKey::from_bits(self.key.load(Ordering::Relaxed));
        if !current::with_running(self.inbox.loop_id, |inner| schedule(inner, key)) {
            self.wake_idle(key);
        }
    }
}

impl Target {
    /// The task's loop does not run on this thread, or not at all.
    #[cold]
    fn wake_idle(&self, key: TaskKey) {
        match current::find(self.inbox.loop_id) {
            Some(inner) => schedule(&inner, key),
            None => drop(self.inbox.send(Message::Wake(key))),
        }
    }
}

/// A waker and a second reference to what it points to, to see whether anybody else holds one.
pub(crate) struct TaskWaker {
    target: Arc<Target>,
    waker: Waker,
}

impl TaskWaker {
    pub(crate) fn new(inbox: Arc<Inbox>, key: TaskKey) -> Self {
        let target = Arc::new(Target { key: AtomicU64::new(key.to_bits()), inbox });
        TaskWaker { waker: Waker::from(target.clone()), target }
    }

    pub(crate) fn waker(&self) -> &Waker {
        &self.waker
    }

    /// Whether somebody keeps a clone. If nobody does, nobody can make one meanwhile.
    pub(crate) fn is_kept(&self) -> bool {
        Arc::strong_count(&self.target) > 2
    }

    /// Points a waker that nobody keeps at another task.
    pub(crate) fn retarget(&self, key: TaskKey) {
        debug_assert!(!self.is_kept(), "a kept waker cannot change its task");
        self.target.key.store(key.to_bits(), Ordering::Relaxed);
    }
}
