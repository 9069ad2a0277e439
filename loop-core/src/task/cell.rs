//! The loop's side of its tasks: bodies, and which of them are queued.

use std::mem;
use std::num::NonZeroU64;
use std::rc::Rc;
use std::task::Waker;

use loop_handle::Snapshot;

use super::body::{AnyBody, SpareBodies};
use super::gear::Gear;
use super::join::AnyJoin;
use super::state::{GEARED, QUEUED, RUNNING};
use super::waker::TaskWaker;
use crate::cancel::SharedTree;
use crate::inner::Inner;

/// A task, by number: a slot in the table, and what the task's [id](super::join::Shared::id) ends in, which is
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

/// A slot of the table.
#[derive(Default)]
pub(crate) struct Entry {
    /// Zero, which no key has, while it is vacant; then there is nothing in it.
    serial: u32,
    pub(crate) state: u8,
    /// `None` during a step.
    pub(crate) body: Option<AnyBody>,
    /// With `GEARED`; else there is nothing in it.
    pub(crate) gear: Gear,
    /// Its catch points and scopes, once it has had one.
    pub(crate) tree: Option<SharedTree>,
    /// `None` while it is vacant.
    pub(crate) join: Option<Rc<AnyJoin>>,
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

/// The slots keep what a task leaves empty, so one that begins writes no more than it has: the whole of an entry
/// is most of the memory that a short task would touch.
#[derive(Default)]
pub(crate) struct TaskTable {
    slots: Vec<Entry>,
    vacant: Vec<u32>,
    pub(crate) bodies: SpareBodies,
}

impl TaskTable {
    /// Adds the task with this id, in a copy of the current context; where it is.
    #[inline(never)]
    pub(super) fn insert(&mut self, id: u64, state: u8, body: AnyBody, join: Rc<AnyJoin>) -> u32 {
        let index = self.vacant.pop().unwrap_or_else(|| self.add_slot());
        let entry = &mut self.slots[index as usize];
        entry.serial = id as u32;
        entry.state = state;
        entry.body = Some(body);
        entry.join = Some(join);
        let values = Snapshot::current();
        if !values.is_empty() {
            entry.gear.values = values;
            entry.state |= GEARED;
        }
        index
    }

    /// A large table grows by a quarter: what is not used of it is memory too.
    #[cold]
    fn add_slot(&mut self) -> u32 {
        let slots = self.slots.len();
        let index = u32::try_from(slots).expect("more than 2^32 tasks at once");
        if slots == self.slots.capacity() {
            self.slots.reserve_exact(if slots < 1_024 { slots.max(4) } else { slots / 4 });
        }
        self.slots.push(Entry::default());
        index
    }

    pub(crate) fn get(&self, key: TaskKey) -> Option<&Entry> {
        self.slots.get(key.index()).filter(|entry| entry.serial == key.serial())
    }

    pub(crate) fn get_mut(&mut self, key: TaskKey) -> Option<&mut Entry> {
        self.slots.get_mut(key.index()).filter(|entry| entry.serial == key.serial())
    }

    /// Begins a step: the state that it ends, and the body. The task is RUNNING from here on.
    #[inline(always)]
    pub(crate) fn begin_step(&mut self, key: TaskKey) -> Option<(u8, AnyBody)> {
        let entry = self.get_mut(key)?;
        let body = entry.body.take()?;
        Some((mem::replace(&mut entry.state, RUNNING), body))
    }

    /// That of a task whose step has not ended, which stays where it is.
    #[inline(always)]
    pub(crate) fn stepping(&mut self, key: TaskKey) -> Option<&mut Entry> {
        let entry = self.slots.get_mut(key.index());
        debug_assert!(entry.as_ref().is_none_or(|entry| entry.serial == key.serial()));
        entry
    }

    /// What the steps of a task need that has begun one.
    pub(crate) fn take_gear(&mut self, key: TaskKey) -> Gear {
        self.get_mut(key).map(|entry| mem::take(&mut entry.gear)).unwrap_or_default()
    }

    /// What it will need, before the step ends.
    pub(crate) fn put_gear(&mut self, key: TaskKey, gear: Gear) {
        if let Some(entry) = self.get_mut(key).filter(|_| !gear.is_empty()) {
            entry.gear = gear;
            entry.state |= GEARED;
        }
    }

    /// Takes a task off that has begun its last step.
    #[inline(always)]
    pub(crate) fn remove(&mut self, key: TaskKey) -> Option<Removed> {
        let entry = self.get_mut(key)?;
        debug_assert!(entry.body.is_none() && entry.gear.is_empty(), "a step has them");
        entry.serial = 0;
        let removed = Removed { tree: entry.tree.take(), join: entry.join.take()? };
        self.vacant.push(key.index() as u32);
        Some(removed)
    }

    /// The unfinished tasks, oldest slot first. O(n).
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Entry, &Rc<AnyJoin>)> {
        self.slots.iter().filter_map(|entry| Some((entry, entry.join.as_ref()?)))
    }

    /// How many slots there are, vacant ones included.
    pub(crate) fn slots(&self) -> usize {
        self.slots.len()
    }

    /// The task in a slot, for closing.
    pub(crate) fn key_at(&self, slot: usize) -> Option<TaskKey> {
        Some(self.slots.get(slot)?.join.as_ref()?.key())
    }
}

/// What is left in the table of a task that has ended.
pub(crate) struct Removed {
    pub(crate) tree: Option<SharedTree>,
    pub(crate) join: Rc<AnyJoin>,
}

/// Gives each task that is between its steps a waker, to be known by. O(n).
pub(crate) fn give_wakers(inner: &Inner) {
    for entry in &mut inner.tasks.borrow_mut().slots {
        if let (Some(join), Some(_)) = (&entry.join, &entry.body) {
            let key = join.key();
            let waker = &mut entry.gear.waker;
            waker.get_or_insert_with(|| TaskWaker::new(inner.inbox.clone(), key).into_waker());
            entry.state |= GEARED;
        }
    }
}
