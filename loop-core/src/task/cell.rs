//! The loop's side of its tasks: bodies, and which of them are queued.

use std::num::{NonZeroU32, NonZeroU64};
use std::rc::Rc;
use std::task::Waker;

use slab::Slab;

use super::body::{AnyBody, SpareBodies};
use super::join::{AnyJoin, SpareJoins};
use super::state::{QUEUED, RUNNING};
use super::waker::TaskWaker;
use crate::cancel::SharedTree;
use crate::inner::Inner;

/// A task, by number: a slot in the table, and a serial, never zero, that tells the slot's tasks apart. The
/// serial wraps after 2^32 tasks, and a waker kept that long may wake another task once: a spurious wake,
/// which every future must bear.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TaskKey(NonZeroU64);

impl TaskKey {
    /// No task's: there are never so many at once.
    pub(crate) const NONE: TaskKey = TaskKey(NonZeroU64::MAX);

    fn new(index: u32, serial: NonZeroU32) -> Self {
        Self::from_bits(u64::from(serial.get()) << 32 | u64::from(index))
    }

    fn index(self) -> usize {
        self.to_bits() as u32 as usize
    }

    pub(crate) fn to_bits(self) -> u64 {
        self.0.get()
    }

    pub(crate) fn from_bits(bits: u64) -> Self {
        NonZeroU64::new(bits).map_or(TaskKey::NONE, TaskKey)
    }
}

pub(crate) struct Entry {
    pub(crate) key: TaskKey,
    pub(crate) state: u8,
    /// `None` during a step.
    pub(crate) body: Option<AnyBody>,
    /// Its catch points and scopes, once it has had one.
    pub(crate) tree: Option<SharedTree>,
    pub(crate) join: Rc<dyn AnyJoin>,
}

impl Entry {
    /// Its waker, between its steps, if it has one; see [`give_wakers`].
    pub(crate) fn waker(&self) -> Option<&Waker> {
        Some(self.body.as_ref()?.gear().waker.as_ref()?.waker())
    }

    /// Whether its next step is in the ready queue.
    pub(crate) fn is_queued(&self) -> bool {
        self.state & QUEUED != 0
    }
}

#[derive(Default)]
pub(crate) struct TaskTable {
    entries: Slab<Entry>,
    /// Of the task that was added last.
    serial: Option<NonZeroU32>,
    pub(crate) bodies: SpareBodies,
    pub(crate) joins: SpareJoins,
}

impl TaskTable {
    /// Adds an entry; `make` gets the key it will have.
    pub(crate) fn insert(&mut self, make: impl FnOnce(TaskKey) -> Entry) -> TaskKey {
        let vacant = self.entries.vacant_entry();
        let index = u32::try_from(vacant.key()).expect("more than 2^32 tasks at once");
        let serial = self.serial.and_then(|last| last.checked_add(1)).unwrap_or(NonZeroU32::MIN);
        self.serial = Some(serial);
        let key = TaskKey::new(index, serial);
        vacant.insert(make(key));
        key
    }

    pub(crate) fn get(&self, key: TaskKey) -> Option<&Entry> {
        self.entries.get(key.index()).filter(|entry| entry.key == key)
    }

    pub(crate) fn get_mut(&mut self, key: TaskKey) -> Option<&mut Entry> {
        self.entries.get_mut(key.index()).filter(|entry| entry.key == key)
    }

    /// Begins a step: the state that it ends, and the body. The task is RUNNING from here on.
    #[inline(always)]
    pub(crate) fn begin_step(&mut self, key: TaskKey) -> Option<(u8, AnyBody)> {
        let entry = self.get_mut(key)?;
        let body = entry.body.take()?;
        Some((std::mem::replace(&mut entry.state, RUNNING), body))
    }

    pub(crate) fn remove(&mut self, key: TaskKey) -> Option<Entry> {
        self.get(key)?;
        self.entries.try_remove(key.index())
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Entry> {
        self.entries.iter_mut().map(|(_, entry)| entry)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().map(|(_, entry)| entry)
    }

    /// The unfinished tasks, oldest slot first. O(n).
    pub(crate) fn joins(&self) -> Vec<Rc<dyn AnyJoin>> {
        self.entries.iter().map(|(_, entry)| entry.join.clone()).collect()
    }

    /// How many slots there are, vacant ones included.
    pub(crate) fn slots(&self) -> usize {
        self.entries.capacity()
    }

    /// The task in a slot, for closing.
    pub(crate) fn key_at(&self, slot: usize) -> Option<TaskKey> {
        Some(self.entries.get(slot)?.key)
    }
}

/// Gives each task that is between its steps a waker, to be known by. O(n).
pub(crate) fn give_wakers(inner: &Inner) {
    for entry in inner.tasks.borrow_mut().iter_mut() {
        let key = entry.key;
        if let Some(body) = &mut entry.body {
            let waker = &mut body.as_mut().gear_mut().waker;
            waker.get_or_insert_with(|| TaskWaker::new(inner.inbox.clone(), key));
        }
    }
}
