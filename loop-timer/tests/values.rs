//! Values are user code when they are dropped: they come out whole, once, and may use the heap.

use std::cell::{Cell, RefCell};
use std::cmp::Ordering;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::{Rc, Weak};

use loop_timer::{Deadline, PurgePolicy, TimerHeap, TimerKey};

type Shared = RefCell<TimerHeap<Reenters>>;

/// Uses its heap while it is dropped: cancels another timer and inserts a new one.
struct Reenters {
    heap: Weak<Shared>,
    victim: Cell<Option<TimerKey>>,
    dropped: Rc<Cell<u32>>,
}

impl Drop for Reenters {
    fn drop(&mut self) {
        self.dropped.set(self.dropped.get() + 1);
        if let (Some(heap), Some(victim)) = (self.heap.upgrade(), self.victim.take()) {
            let cancelled = heap.borrow_mut().cancel(victim);
            drop(cancelled);
            let heir = Reenters {
                heap: Weak::new(),
                victim: Cell::new(None),
                dropped: self.dropped.clone(),
            };
            heap.borrow_mut().insert(99, heir);
        }
    }
}

/// A chain of timers, each of which cancels the next one when it is dropped.
fn chain(length: u64) -> (Rc<Shared>, TimerKey, Rc<Cell<u32>>) {
    let heap = Rc::new(RefCell::new(TimerHeap::new()));
    let dropped = Rc::new(Cell::new(0));
    let mut next = None;
    for when in (0..length).rev() {
        let value = Reenters {
            heap: Rc::downgrade(&heap),
            victim: Cell::new(next),
            dropped: dropped.clone(),
        };
        next = Some(heap.borrow_mut().insert(when, value));
    }
    (heap, next.expect("a chain has a first timer"), dropped)
}

#[test]
fn a_cancelled_value_may_cancel_and_insert_when_it_is_dropped() {
    let (heap, first, dropped) = chain(150);
    let value = heap.borrow_mut().cancel(first);
    drop(value);
    assert_eq!(dropped.get(), 150);
    assert_eq!(heap.borrow().len(), 149, "one heir for each that had a victim");
    assert_eq!(heap.borrow_mut().next_deadline(), Some(99));
    assert!(heap.borrow().statistics().purges > 0, "purged in the midst of it");
}

#[test]
fn a_popped_value_may_cancel_what_is_due_as_well() {
    let (heap, _, dropped) = chain(3);
    let first = heap.borrow_mut().pop_due(50);
    drop(first);
    assert_eq!(dropped.get(), 3);
    assert!(heap.borrow_mut().pop_due(50).is_none(), "the victims were due, but are gone");
    assert_eq!(heap.borrow().len(), 2);
}

#[test]
fn a_drained_value_finds_an_empty_heap() {
    let (heap, _, dropped) = chain(10);
    let drained = heap.borrow_mut().drain();
    drop(drained);
    assert_eq!(dropped.get(), 10);
    assert_eq!(heap.borrow().len(), 9, "the heirs");
}

/// Counts its drops.
struct Counted<'a>(&'a Cell<u32>);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() + 1);
    }
}

#[test]
fn each_value_is_dropped_once_whichever_way_it_goes() {
    let drops = Cell::new(0);
    let mut heap = TimerHeap::new();
    let keys: Vec<_> = (0..60_u64).map(|when| heap.insert(when, Counted(&drops))).collect();
    heap.reschedule(keys[0], 70);
    assert_eq!(drops.get(), 0);
    for key in &keys[30..40] {
        heap.cancel(*key);
    }
    assert_eq!(drops.get(), 10);
    while heap.pop_due(9).is_some() {}
    assert_eq!(drops.get(), 19, "timers 1 to 9; timer 0 was put off");
    heap.purge();
    heap.shrink_to_fit();
    assert_eq!(drops.get(), 19);
    heap.clear();
    assert_eq!(drops.get(), 60);
    heap.insert(1, Counted(&drops));
    drop(heap);
    assert_eq!(drops.get(), 61);
}

#[test]
fn retained_values_stay_and_refused_ones_are_dropped() {
    let drops = Cell::new(0);
    let mut heap = TimerHeap::new();
    let keys: Vec<_> = (0..300_u64).map(|when| heap.insert(when, Counted(&drops))).collect();
    heap.retain(|when, _, _| when % 10 == 0);
    assert_eq!((drops.get(), heap.len()), (270, 30));
    assert!(heap.contains(keys[10]) && !heap.contains(keys[11]));
    let result = catch_unwind(AssertUnwindSafe(|| {
        heap.retain(|when, _, _| {
            assert!(when < 100, "enough");
            false
        });
    }));
    assert!(result.is_err());
    assert_eq!((drops.get(), heap.len()), (280, 20), "what it had not seen stays");
    assert_eq!(heap.next_deadline(), Some(100));
}

#[test]
fn ten_million_inserts_and_cancels_stay_bounded() {
    for policy in [PurgePolicy::Asyncio, PurgePolicy::Gradual] {
        let mut heap = TimerHeap::with_policy(policy);
        let live: Vec<_> = (0..1_000_u64).map(|when| heap.insert(when << 30, when)).collect();
        for step in 0..10_000_000_u64 {
            let key = heap.insert(step ^ 0x5555, step);
            assert_eq!(heap.cancel(key), Some(step));
        }
        let statistics = heap.statistics();
        assert!(statistics.high_water <= 2_001, "{statistics:?}");
        assert!(statistics.purges <= 10_000_000 / 1_000, "{statistics:?}");
        assert!(live.iter().all(|key| heap.contains(*key)));
    }
}

#[test]
fn a_million_inserts_and_cancels_stay_bounded() {
    let mut heap = TimerHeap::new();
    for when in 0..1_000_000_u64 {
        let key = heap.insert(when ^ 0x5555, when);
        assert_eq!(heap.cancel(key), Some(when));
    }
    let statistics = heap.statistics();
    assert!(statistics.high_water <= 101, "{statistics:?}");
    // Amortised: a purge needs more than 50 cancels.
    assert!(statistics.purges <= 1_000_000 / 50, "{statistics:?}");
    heap.purge();
    assert_eq!(heap.iter().count(), 0);
}

#[test]
fn a_million_timers_cancelled_at_once_are_purged_a_few_times() {
    let mut heap = TimerHeap::with_capacity(1_000_000);
    let keys: Vec<_> = (0..1_000_000_u64).map(|when| heap.insert(when, ())).collect();
    for key in keys {
        heap.cancel(key);
    }
    let statistics = heap.statistics();
    assert!(statistics.purges <= 20, "each purge halves the heap: {statistics:?}");
    assert!(statistics.cancelled <= 100, "{statistics:?}");
}

#[test]
fn a_policy_that_panics_leaves_the_heap_in_order() {
    let mut heap = TimerHeap::with_policy(PurgePolicy::Custom(|total, cancelled| {
        assert!(total < 5 || cancelled == 0, "policy failed");
        false
    }));
    let keys: Vec<_> = (0..6_u64).map(|when| heap.insert(when, when)).collect();
    assert!(catch_unwind(AssertUnwindSafe(|| heap.cancel(keys[2]))).is_err());
    // The policy fails for as long as there are five entries: once more.
    assert!(catch_unwind(AssertUnwindSafe(|| heap.pop_due(9))).is_err());
    let rest: Vec<_> = heap.drain_due(9, 9).map(|timer| timer.2).collect();
    assert_eq!(rest, [1, 3, 4, 5]);
}

thread_local! {
    static FUSE: Cell<u32> = const { Cell::new(0) };
}

/// A deadline whose comparison fails when the fuse has burnt down.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Fragile(u64);

impl PartialOrd for Fragile {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Fragile {
    fn cmp(&self, other: &Self) -> Ordering {
        FUSE.with(|fuse| match fuse.get() {
            0 => {}
            1 => panic!("comparison failed"),
            left => fuse.set(left - 1),
        });
        self.0.cmp(&other.0)
    }
}

impl Deadline for Fragile {
    fn ticks(self, _origin: Fragile) -> u64 {
        self.0
    }
}

#[test]
fn an_order_that_panics_loses_no_value() {
    for burn in 1..40 {
        let drops = Cell::new(0);
        let mut heap = TimerHeap::new();
        for when in 0..20 {
            heap.insert(Fragile(when * 7 % 20), Counted(&drops));
        }
        let dead: Vec<_> = heap.iter().map(|timer| timer.1).take(5).collect();
        dead.into_iter().for_each(|key| drop(heap.cancel(key)));
        FUSE.with(|fuse| fuse.set(burn));
        let _ = catch_unwind(AssertUnwindSafe(|| {
            heap.purge();
            heap.insert(Fragile(3), Counted(&drops));
            while heap.pop_due(Fragile(u64::MAX)).is_some() {}
        }));
        FUSE.with(|fuse| fuse.set(0));
        let key = heap.insert(Fragile(1), Counted(&drops));
        assert!(heap.statistics().cancelled <= 21);
        assert!(heap.cancel(key).is_some());
        while heap.pop_due(Fragile(u64::MAX)).is_some() {}
        let inserted = drops.get() as usize + heap.len();
        drop(heap);
        assert_eq!(drops.get() as usize, inserted);
        assert!((21..=22).contains(&inserted), "{inserted}");
    }
}
