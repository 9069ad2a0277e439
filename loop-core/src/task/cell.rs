//! The loop's side of its tasks: bodies, and which of them are queued.

use std::rc::Rc;
use std::task::Waker;

use slab::Slab;

use super::body::{AnyBody, SpareBodies};
use super::gear::Gear;
use super::join::{AnyJoin, SpareJoins};
use super::state::{QUEUED, RUNNING};
use super::waker::TaskWaker;
use crate::cancel::SharedTree;

/// A task, by number. The serial tells a slot's tasks apart; it wraps after 2^32 tasks, and a waker
/// kept that long may wake another task once: a spurious wake, which every future must bear.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TaskKey {
    pub(crate) index: u32,
    pub(crate) serial: u32,
}

impl TaskKey {
    pub(crate) fn to_bits(self) -> u64 {
        u64::from(self.serial) << 32 | u64::from(self.index)
    }

    pub(crate) fn from_bits(bits: u64) -> Self {
        TaskKey { index: bits as u32, serial: (bits >> 32) as u32 }
    }
}

pub(crate) struct Entry {
    pub(crate) serial: u32,
    pub(crate) state: u8,
    /// `None` during a step.
    pub(crate) body: Option<AnyBody>,
    /// Its catch points and scopes, once it has had one.
    pub(crate) tree: Option<SharedTree>,
    pub(crate) join: Rc<dyn AnyJoin>,
}

impl Entry {
    /// Its waker, between its steps, if it has one.
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
    serial: u32,
    /// A waker that nobody holds, for the next task that needs one: a task whose waker is never kept
    /// costs no waker.
    pub(crate) spare: Option<TaskWaker>,
    pub(crate) bodies: SpareBodies,
    pub(crate) joins: SpareJoins,
}

impl TaskTable {
    /// Adds an entry; `make` gets the key it will have.
    pub(crate) fn insert(&mut self, make: impl FnOnce(TaskKey) -> Entry) -> TaskKey {
        let vacant = self.entries.vacant_entry();
        let index = u32::try_from(vacant.key()).expect("more than 2^32 tasks at once");
        self.serial = self.serial.wrapping_add(1);
        let key = TaskKey { index, serial: self.serial };
        vacant.insert(make(key));
        key
    }

    pub(crate) fn get(&self, key: TaskKey) -> Option<&Entry> {
        self.entries.get(key.index as usize).filter(|entry| entry.serial == key.serial)
    }

    pub(crate) fn get_mut(&mut self, key: TaskKey) -> Option<&mut Entry> {
        self.entries.get_mut(key.index as usize).filter(|entry| entry.serial == key.serial)
    }

    /// Begins a step: the state that it ends, and the body. The task is RUNNING from here on.
    #[inline(always)]
    pub(crate) fn begin_step(&mut self, key: TaskKey) -> Option<(u8, AnyBody)> {
        let entry = self.get_mut(key)?;
        let body = entry.body.take()?;
        Some((std::mem::replace(&mut entry.state, RUNNING), body))
    }

    /// Keeps the waker of memory that does not fit the next task.
    pub(crate) fn keep_waker(&mut self, gear: &mut Gear) {
        let waker = gear.waker.take();
        self.spare = waker.or(self.spare.take());
    }

    pub(crate) fn remove(&mut self, key: TaskKey) -> Option<Entry> {
        self.get(key)?;
        Some(self.entries.remove(key.index as usize))
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
        let entry = self.entries.get(slot)?;
        Some(TaskKey { index: slot as u32, serial: entry.serial })
    }
}
