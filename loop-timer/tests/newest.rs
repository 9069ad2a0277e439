//! The timer that was added last: cancelled before another comes, it leaves nothing behind, unless it lies
//! near and somebody has looked. In all else it must not differ from the others.

use loop_timer::{PurgePolicy, TimerHeap};

fn entries(heap: &TimerHeap<u32>) -> usize {
    heap.statistics().live + heap.statistics().cancelled
}

#[test]
fn cancelled_before_another_comes_it_leaves_nothing() {
    for policy in [PurgePolicy::Asyncio, PurgePolicy::Gradual, PurgePolicy::Never] {
        let mut heap = TimerHeap::with_policy(policy);
        heap.insert(500, 0);
        for value in 1..1_000 {
            let key = heap.insert(u64::from(value), value);
            assert_eq!(entries(&heap), 2);
            assert_eq!(heap.cancel(key), Some(value));
            assert_eq!(heap.cancel(key), None);
            assert_eq!(entries(&heap), 1);
        }
        assert_eq!((heap.statistics().high_water, heap.statistics().purges), (2, 0));
        assert_eq!(heap.next_deadline(), Some(500));
    }
}

#[test]
fn cancelled_after_a_look_it_leaves_an_entry_if_it_lies_near() {
    const FAR: u64 = 1 << 60;
    let mut heap = TimerHeap::new();
    let near = heap.insert(FAR, 1);
    let key = heap.insert(FAR + 1, 2);
    assert_eq!(heap.next_deadline(), Some(FAR));
    heap.cancel(key);
    assert_eq!(heap.statistics().cancelled, 1);
    assert_eq!(heap.purge(), 1);

    let before = heap.insert(5, 5);
    assert_eq!(heap.next_deadline(), Some(5));
    heap.cancel(before);
    assert_eq!(heap.statistics().cancelled, 1);
    heap.cancel(near);
    assert_eq!(heap.purge(), 2);

    heap.insert(FAR, 1);
    let far = heap.insert(u64::MAX, 3);
    assert_eq!(heap.next_deadline(), Some(FAR));
    heap.cancel(far);
    assert_eq!(entries(&heap), 1, "it was not touched by the look");
}

/// A timer far away is looked at before each wait, as a loop does; those before it come and go.
#[test]
fn cancelled_before_a_far_timer_that_was_looked_at_it_leaves_nothing() {
    let mut heap = TimerHeap::new();
    heap.insert(1 << 40, 0);
    for when in 1..1_000 {
        assert_eq!(heap.next_deadline(), Some(1 << 40));
        let key = heap.insert(when, 1);
        assert_eq!(heap.cancel(key), Some(1));
        assert_eq!(entries(&heap), 1);
    }
}

#[test]
fn the_last_of_many_blocks_goes_and_the_others_stay() {
    let mut heap = TimerHeap::with_policy(PurgePolicy::Never);
    let keys: Vec<_> = (0..600).map(|value| heap.insert(1 << 40, value)).collect();
    // As many as are left in the block that is being filled, and one more.
    for value in (512..600).rev() {
        let key = heap.insert(1 << 40, 1_000);
        assert_eq!(heap.cancel(key), Some(1_000));
        assert_eq!(heap.cancel(keys[value as usize]), Some(value));
        assert_eq!(entries(&heap), 600);
    }
    let order: Vec<u32> = heap.drain().map(|due| due.2).collect();
    assert_eq!(order, (0..512).collect::<Vec<_>>());
}

#[test]
fn cancelled_when_another_has_come_it_leaves_an_entry() {
    let mut heap = TimerHeap::new();
    let first = heap.insert(1, 1);
    let second = heap.insert(2, 2);
    heap.cancel(first);
    assert_eq!(heap.statistics().cancelled, 1);
    // The second is still the newest; who comes in the slot of the first is another timer.
    heap.cancel(second);
    assert_eq!((heap.statistics().live, heap.statistics().cancelled), (0, 1));
    let third = heap.insert(3, 3);
    assert_eq!(heap.cancel(first), None);
    assert_eq!(heap.pop_due(9), Some((3, third, 3)));
    assert_eq!(entries(&heap), 0);
}

#[test]
fn brought_forward_it_leaves_no_entry_for_its_old_deadline() {
    let mut heap = TimerHeap::with_policy(PurgePolicy::Never);
    let key = heap.insert(1_000, 7);
    for when in (1..1_000).rev() {
        assert!(heap.reschedule(key, when));
        assert_eq!(entries(&heap), 1);
    }
    assert_eq!(heap.pop_due(1), Some((1, key, 7)));
}

#[test]
fn put_off_it_is_cancelled_like_any_other() {
    let mut heap = TimerHeap::new();
    let key = heap.insert(1, 7);
    assert!(heap.reschedule(key, 5));
    assert_eq!(heap.cancel(key), Some(7));
    assert_eq!((entries(&heap), heap.next_deadline()), (0, None));
}

#[test]
fn it_is_due_in_its_turn() {
    let mut heap = TimerHeap::new();
    heap.insert(10, 0);
    assert_eq!(heap.next_deadline(), Some(10));
    let early = heap.insert(3, 1);
    assert_eq!(heap.pop_due(2), None);
    assert_eq!(heap.pop_due(3), Some((3, early, 1)));
    heap.insert(10, 2);
    let order: Vec<u32> = heap.drain_due(10, 9).map(|due| due.2).collect();
    assert_eq!(order, [0, 2]);
}

#[test]
fn refused_by_retain_it_is_counted_until_it_goes() {
    let mut heap = TimerHeap::new();
    let key = heap.insert(1, 1);
    heap.retain(|_, _, _| false);
    assert_eq!((heap.statistics().live, heap.statistics().cancelled), (0, 1));
    // Its slot serves again: the dead entry in it is not taken for the new timer's.
    let again = heap.insert(5, 2);
    assert_eq!(heap.cancel(key), None);
    assert_eq!(heap.next_deadline(), Some(5));
    assert_eq!(heap.cancel(again), Some(2));
    assert_eq!(heap.next_deadline(), None);
    assert_eq!(entries(&heap), 0);
}

#[test]
fn a_timer_that_always_goes_at_once_takes_no_memory() {
    let mut heap = TimerHeap::new();
    let key = heap.insert(u64::MAX, 0);
    heap.cancel(key);
    let held = allocation_counter::measure(|| {
        for value in 0..1_000_u32 {
            let key = heap.insert(u64::MAX - u64::from(value) * 1_000_000, value);
            heap.cancel(key);
        }
    });
    assert_eq!(held.count_total, 0);
}

/// The rule holds after this cancel too: of 201 entries 101 would be dead.
#[test]
fn b_tmr_04_the_rule_is_applied_when_the_newest_goes() {
    let mut heap = TimerHeap::new();
    let mut keys: Vec<_> = (0..202_u32).map(|value| heap.insert(u64::from(value), value)).collect();
    let newest = keys.pop().unwrap();
    for key in keys.drain(100..) {
        heap.cancel(key);
    }
    assert_eq!((heap.statistics().live, heap.statistics().cancelled), (101, 101));
    heap.cancel(newest);
    assert_eq!((heap.statistics().live, heap.statistics().cancelled), (100, 0));
    assert_eq!(heap.statistics().purges, 1);
}
