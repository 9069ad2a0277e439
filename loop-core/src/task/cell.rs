//! The loop's side of its tasks: bodies, and which of them are queued.

use std::num::NonZeroU64;
use std::rc::Rc;
use std::task::Waker;

use loop_handle::Snapshot;
use slab::Slab;

use super::body::{AnyBody, SpareBodies};
use super::gear::Gear;
use super::join::{self, AnyJoin, SpareJoins};
use super::state::{GEARED, QUEUED, RUNNING};
use super::waker::TaskWaker;
use crate::cancel::SharedTree;
use crate::inner::Inner;

/// A task, by number: a slot in the table, and what the task's [id](super::join::Header::id) ends in, which is
/// never zero and tells the slot's tasks apart. That wraps after 2^32 tasks, and a waker kept that long may wake
/// another task once: a spurious wake, which every future must bear.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TaskKey(NonZeroU64);

impl TaskKey {
    /// No task's: there are never so many at once.
    pub(crate) const NONE: TaskKey = TaskKey(NonZeroU64::MAX);

    pub(super) fn new(index: u32, id: u64) -> Self {
        Self::from_bits(id << 32 | u64::from(index))
    }

    fn serial(self) -> u32 {
        (self.to_bits() >> 32) as u32
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
    serial: u32,
    pub(crate) state: u8,
    /// `None` during a step.
    pub(crate) body: Option<AnyBody>,
    /// With `GEARED`; else there is nothing in it.
    pub(crate) gear: Gear,
    /// Its catch points and scopes, once it has had one.
    pub(crate) tree: Option<SharedTree>,
    pub(crate) join: Rc<dyn AnyJoin>,
}

impl Entry {
    /// Its waker, between its steps, if it has one; see [`give_wakers`].
    pub(crate) fn waker(&self) -> Option<&Waker> {
        self.gear.waker.as_ref()
    }

    /// Whether its next step is in the ready queue.
    pub(crate) fn is_queued(&self) -> bool {
        self.state & QUEUED != 0
    }
}

#[derive(Default)]
pub(crate) struct TaskTable {
    entries: Slab<Entry>,
    pub(crate) bodies: SpareBodies,
    pub(crate) joins: SpareJoins,
}

impl TaskTable {
    /// Adds the task with this id, in a copy of the current context; where it is.
    #[inline(never)]
    pub(super) fn insert(
        &mut self,
        id: u64,
        state: u8,
        body: AnyBody,
        join: Rc<dyn AnyJoin>,
    ) -> u32 {
        if self.entries.len() == self.entries.capacity() {
            self.grow();
        }
        let vacant = self.entries.vacant_entry();
        let index = u32::try_from(vacant.key()).expect("more than 2^32 tasks at once");
        let gear = Gear { waker: None, values: Snapshot::current() };
        let state = if gear.is_empty() { state } else { state | GEARED };
        let body = Some(body);
        vacant.insert(Entry { serial: id as u32, state, body, gear, tree: None, join });
        index
    }

    /// A large table grows by a quarter: what is not used of it is memory too.
    #[cold]
    fn grow(&mut self) {
        let slots = self.entries.len();
        self.entries.reserve_exact(if slots < 1_024 { slots.max(4) } else { slots / 4 });
    }

    pub(crate) fn get(&self, key: TaskKey) -> Option<&Entry> {
        self.entries.get(key.index()).filter(|entry| entry.serial == key.serial())
    }

    pub(crate) fn get_mut(&mut self, key: TaskKey) -> Option<&mut Entry> {
        self.entries.get_mut(key.index()).filter(|entry| entry.serial == key.serial())
    }

    /// The body of a task leaves its output.
    #[inline(always)]
    pub(super) fn leave<T: 'static>(&self, key: TaskKey, value: T) {
        let entry = self.get(key).expect("a task leaves the table after its output");
        join::leave(&*entry.join, value);
    }

    /// Begins a step: the state that it ends, and the body. The task is RUNNING from here on.
    #[inline(always)]
    pub(crate) fn begin_step(&mut self, key: TaskKey) -> Option<(u8, AnyBody)> {
        let entry = self.get_mut(key)?;
        let body = entry.body.take()?;
        Some((std::mem::replace(&mut entry.state, RUNNING), body))
    }

    /// That of a task whose step has not ended, which stays where it is.
    #[inline(always)]
    pub(crate) fn stepping(&mut self, key: TaskKey) -> Option<&mut Entry> {
        let entry = self.entries.get_mut(key.index());
        debug_assert!(entry.as_ref().is_none_or(|entry| entry.serial == key.serial()));
        entry
    }

    /// What the steps of a task need that has begun one.
    pub(crate) fn take_gear(&mut self, key: TaskKey) -> Gear {
        self.get_mut(key).map(|entry| std::mem::take(&mut entry.gear)).unwrap_or_default()
    }

    /// What it will need, before the step ends.
    pub(crate) fn put_gear(&mut self, key: TaskKey, gear: Gear) {
        if let Some(entry) = self.get_mut(key).filter(|_| !gear.is_empty()) {
            entry.gear = gear;
            entry.state |= GEARED;
        }
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
        Some(self.entries.get(slot)?.join.header().key())
    }
}

/// Gives each task that is between its steps a waker, to be known by. O(n).
pub(crate) fn give_wakers(inner: &Inner) {
    for entry in inner.tasks.borrow_mut().iter_mut() {
        let key = entry.join.header().key();
        if entry.body.is_some() {
            let waker = &mut entry.gear.waker;
            waker.get_or_insert_with(|| TaskWaker::new(inner.inbox.clone(), key).into_waker());
            entry.state |= GEARED;
        }
    }
}
