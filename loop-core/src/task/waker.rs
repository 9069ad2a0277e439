//! Task wakers: waking is scheduling.

use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{self, AtomicBool, AtomicPtr, AtomicU64, Ordering};
use std::task::{RawWakerVTable, Wake, Waker};

use super::cell::TaskKey;
use super::running;
use super::step::schedule;
use crate::current;
use crate::inbox::{Inbox, Message};
use crate::inner::Inner;

/// What a waker knows: keys, no pointer into the loop, so it is `Send` and `Sync` as it stands.
struct Target {
    /// Which task; it changes only while nobody but the loop holds the waker.
    key: AtomicU64,
    /// Whether a message of it is under way.
    sent: AtomicBool,
    inbox: Arc<Inbox>,
}

impl Wake for Target {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    /// At home the task joins the ready queue at once; from elsewhere a message goes through the
    /// inbox. A finished task, and a closed loop, make it a no-op (B-TASK-26, B-TASK-27).
    fn wake_by_ref(self: &Arc<Self>) {
        if running::wake(Arc::as_ptr(self).cast()) {
            return;
        }
        let key = self.key();
        if current::with_running(self.inbox.loop_id, |inner| schedule(inner, key)).is_none() {
            self.wake_idle(key);
        }
    }
}

impl Target {
    fn key(&self) -> TaskKey {
        TaskKey::from_bits(self.key.load(Ordering::Relaxed))
    }

    /// The task's loop does not run on this thread, or not at all.
    #[cold]
    fn wake_idle(self: &Arc<Self>, key: TaskKey) {
        match current::find(self.inbox.loop_id) {
            Some(inner) => schedule(&inner, key),
            // What this thread has done so far is seen by the step that follows the message under way:
            // the loop takes the mark back before it queues the step.
            None if self.sent.swap(true, Ordering::AcqRel) => {}
            None => drop(self.inbox.send(Message::Wake(RemoteWake(self.clone())))),
        }
    }
}

/// A wake from another thread, under way: one a waker, however often it is woken meanwhile.
pub(crate) struct RemoteWake(Arc<Target>);

impl RemoteWake {
    pub(crate) fn arrive(self, inner: &Inner) {
        // A read as well, to acquire what those who found the mark did before.
        self.0.sent.swap(false, Ordering::AcqRel);
        schedule(inner, self.0.key());
    }
}

/// The vtable of these wakers, once there is one. It is compared and never followed.
static VTABLE: AtomicPtr<RawWakerVTable> = AtomicPtr::new(ptr::null_mut());

/// Whether this is a task's waker. `false` may also be for want of knowing.
#[inline]
pub(super) fn is_ours(waker: &Waker) -> bool {
    ptr::eq(VTABLE.load(Ordering::Relaxed), waker.vtable())
}

/// A waker to be lent, and a second reference to what it points to, to see whether anybody else holds one.
pub(crate) struct TaskWaker {
    target: Arc<Target>,
    waker: Waker,
}

impl TaskWaker {
    pub(crate) fn new(inbox: Arc<Inbox>, key: TaskKey) -> Self {
        let target = Arc::new(Target {
            key: AtomicU64::new(key.to_bits()),
            sent: AtomicBool::new(false),
            inbox,
        });
        let waker = Waker::from(target.clone());
        VTABLE.store(ptr::from_ref(waker.vtable()).cast_mut(), Ordering::Relaxed);
        TaskWaker { waker, target }
    }

    /// One that is no task's yet.
    pub(crate) fn to_lend(inner: &Inner) -> Self {
        Self::new(inner.inbox.clone(), TaskKey::NONE)
    }

    /// Whether somebody keeps a clone. If nobody does, nobody can make one meanwhile.
    pub(crate) fn is_kept(&self) -> bool {
        let kept = Arc::strong_count(&self.target) > 2;
        // Whoever has let go looked at the key before that.
        atomic::fence(Ordering::Acquire);
        kept
    }

    /// Points it at the task that is to have a step with it. Nobody keeps it.
    #[inline]
    pub(super) fn aim(&self, key: TaskKey) -> &Waker {
        debug_assert!(!self.is_kept(), "a task has kept it");
        self.target.key.store(key.to_bits(), Ordering::Relaxed);
        &self.waker
    }

    /// For the task that it points at to have for good.
    pub(super) fn into_waker(self) -> Waker {
        self.waker
    }
}
