//! The behaviours of timers that belong to the heap, and public bug reports that broke them.

use std::iter;
use std::mem;
use std::time::Duration;
#[cfg(feature = "std")]
use std::time::Instant;

use loop_timer::{Deadline, PurgePolicy, TimerHeap, TimerKey};

fn due<T, W: Deadline>(heap: &mut TimerHeap<T, W>, now: W) -> Vec<T> {
    iter::from_fn(|| heap.pop_due(now)).map(|(_, _, value)| value).collect()
}

fn entries<T, W: Deadline>(heap: &TimerHeap<T, W>) -> usize {
    heap.statistics().live + heap.statistics().cancelled
}

/// Cancels `cancelled` of `total` timers, none of them the newest, which is at the head, and returns
/// the entries held.
fn held_after(total: usize, cancelled: usize) -> usize {
    let mut heap = TimerHeap::new();
    let keys: Vec<_> = (0..total as u64).rev().map(|when| heap.insert(when, when)).collect();
    for key in keys.iter().take(cancelled) {
        assert!(heap.cancel(*key).is_some());
    }
    assert_eq!(heap.next_deadline(), Some(0));
    assert_eq!(heap.len(), total - cancelled);
    entries(&heap)
}

#[test]
fn b_tmr_01_timers_leave_in_the_order_of_their_deadlines() {
    let mut heap = TimerHeap::new();
    for when in [5_u64, 1, 4, 2, 3, 0] {
        heap.insert(when, when);
    }
    assert_eq!(due(&mut heap, 3), [0, 1, 2, 3]);
    assert_eq!(due(&mut heap, 9), [4, 5]);
}

#[test]
fn b_tmr_02_equal_deadlines_leave_in_insertion_order() {
    let mut heap = TimerHeap::new();
    for value in 0..500 {
        heap.insert(7_u64, value);
    }
    assert_eq!(due(&mut heap, 7), (0..500).collect::<Vec<_>>());
}

#[test]
fn b_tmr_02_a_rescheduled_timer_counts_as_inserted_now() {
    let mut heap = TimerHeap::new();
    let a = heap.insert(7_u64, 'a');
    heap.insert(7, 'b');
    assert!(heap.reschedule(a, 7));
    heap.insert(7, 'c');
    assert_eq!(due(&mut heap, 7), ['b', 'a', 'c']);
}

#[test]
fn b_tmr_02_a_reused_slot_does_not_inherit_its_place() {
    let mut heap = TimerHeap::new();
    let a = heap.insert(7_u64, 'a');
    heap.insert(7, 'b');
    heap.cancel(a);
    heap.insert(7, 'c');
    assert_eq!(due(&mut heap, 7), ['b', 'c']);
}

#[test]
fn b_tmr_03_a_deadline_equal_to_now_is_due() {
    let mut heap = TimerHeap::new();
    heap.insert(10_u64, ());
    assert_eq!(heap.pop_due(9), None);
    assert!(matches!(heap.pop_due(10), Some((10, _, ()))));
}

#[test]
fn b_tmr_04_the_purge_rule_at_its_boundaries() {
    assert_eq!(held_after(101, 50), 101);
    assert_eq!(held_after(101, 51), 50);
    assert_eq!(held_after(102, 51), 102);
    assert_eq!(held_after(102, 52), 50);
    assert_eq!(held_after(100, 99), 100);
}

#[test]
fn b_tmr_04_cancel_itself_applies_the_rule() {
    let mut heap = TimerHeap::new();
    let mut before = heap.insert(0_u64, 0);
    for value in 1..100_000 {
        let key = heap.insert(u64::MAX, value);
        assert_eq!(heap.cancel(mem::replace(&mut before, key)), Some(value - 1));
        assert!(entries(&heap) <= 100);
    }
    assert!(heap.statistics().purges > 0);
    assert_eq!(heap.statistics().high_water, 101);
}

#[test]
fn b_tmr_04_reschedule_applies_the_rule_too() {
    let mut heap = TimerHeap::new();
    let key = heap.insert(100_000_u64, 'v');
    let other = heap.insert(100_001, 'w');
    for when in (10..100_000).rev() {
        assert!(heap.reschedule(other, when + 1));
        assert!(heap.reschedule(key, when));
        assert!(entries(&heap) <= 100);
    }
    assert!(heap.statistics().purges > 900, "each that goes to an earlier deadline leaves one");
    assert_eq!(heap.deadline(key), Some(10));
    assert_eq!(due(&mut heap, 9), []);
    assert_eq!(due(&mut heap, 11), ['v', 'w']);
}

#[test]
fn b_tmr_04_the_policy_is_the_users() {
    let churn = |policy| {
        let mut heap = TimerHeap::with_policy(policy);
        let mut before = heap.insert(0, 0);
        for value in 1..=1000_u64 {
            let key = heap.insert(value, value);
            heap.cancel(mem::replace(&mut before, key));
        }
        (entries(&heap), heap.statistics().purges)
    };
    assert_eq!(churn(PurgePolicy::Never), (1001, 0));
    assert_eq!(churn(PurgePolicy::Custom(|_, cancelled| cancelled >= 10)), (1, 100));
    assert_eq!(churn(PurgePolicy::Custom(|total, cancelled| total == cancelled + 1)), (1, 1000));
}

#[test]
fn b_tmr_05_a_cancelled_head_never_shortens_the_wait() {
    let mut heap = TimerHeap::new();
    let heads: Vec<_> = (0..5_u64).map(|when| heap.insert(when, when)).collect();
    heap.insert(50, 50);
    for key in heads {
        heap.cancel(key);
    }
    assert_eq!(entries(&heap), 6, "forgotten lazily");
    assert_eq!(heap.next_deadline(), Some(50));
    assert_eq!(entries(&heap), 1);
    assert_eq!(heap.statistics().purges, 0, "trimming is not a purge");
}

#[test]
fn b_tmr_05_trimming_stops_at_emptiness() {
    let mut heap = TimerHeap::new();
    let key = heap.insert(1_u64, ());
    heap.cancel(key);
    assert_eq!(heap.next_deadline(), None);
    assert_eq!(entries(&heap), 0);
}

#[test]
fn b_tmr_06_the_count_of_cancelled_entries_is_exact() {
    let mut heap = TimerHeap::new();
    heap.insert(1_u64, 'a');
    let behind = heap.insert(2, 'b');
    heap.insert(3, 'c');
    heap.cancel(behind);
    assert_eq!(heap.statistics().cancelled, 1);
    // asyncio pops the dead entry as "due" behind a live one and goes on counting it.
    assert_eq!(due(&mut heap, 3), ['a', 'c']);
    assert_eq!(heap.statistics().cancelled, 0);
    assert_eq!(heap.statistics().live, 0);
}

#[test]
fn b_tmr_07_cancelling_what_left_the_heap_counts_nothing() {
    let mut heap = TimerHeap::new();
    let popped = heap.insert(1_u64, 'a');
    let twice = heap.insert(2, 'b');
    heap.insert(3, 'c');
    assert_eq!(heap.pop_due(1), Some((1, popped, 'a')));
    assert_eq!(heap.cancel(popped), None);
    assert_eq!(heap.statistics().cancelled, 0);
    assert_eq!(heap.cancel(twice), Some('b'));
    assert_eq!(heap.cancel(twice), None);
    assert_eq!(heap.statistics().cancelled, 1);
    assert_eq!(heap.purge(), 1);
    assert_eq!(heap.cancel(twice), None);
    assert_eq!(heap.statistics().cancelled, 0);
}

#[test]
fn b_tmr_13_memory_is_bounded_by_the_live_timers() {
    let mut heap = TimerHeap::new();
    let live = 300;
    for when in 0..live {
        heap.insert(when, when);
    }
    for round in 0..200_u64 {
        let keys: Vec<_> = (0..100).map(|i| heap.insert(1000 + round + i, i)).collect();
        for key in keys {
            heap.cancel(key);
            assert!(entries(&heap) <= 100.max(2 * heap.len()));
        }
        heap.next_deadline();
    }
    assert_eq!(heap.len(), live as usize);
    assert!(heap.statistics().high_water <= 2 * live as usize + 100);
}

/// Histories of inserts, cancels, reschedules and pops, none of which may leave too much behind.
#[test]
fn b_tmr_13_memory_is_bounded_after_any_history() {
    for policy in [PurgePolicy::Asyncio, PurgePolicy::Gradual] {
        for seed in 1..=40_u64 {
            let mut state = seed;
            let mut below = |bound: u64| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (state >> 33) % bound
            };
            let mut heap = TimerHeap::with_policy(policy);
            let mut keys = Vec::new();
            let span = 1 << below(40);
            for phase in 0..8 {
                let act = if phase == 0 { 0 } else { below(4) };
                for _ in 0..below(3_000) {
                    match act {
                        0 => keys.push(heap.insert(below(span), ())),
                        1 if !keys.is_empty() => {
                            let key = keys.swap_remove(below(keys.len() as u64) as usize);
                            heap.cancel(key);
                        }
                        2 if !keys.is_empty() => {
                            let key = keys[below(keys.len() as u64) as usize];
                            heap.reschedule(key, below(span));
                        }
                        _ => _ = heap.pop_due(u64::MAX),
                    }
                    let (held, live) = (entries(&heap), heap.len());
                    assert!(held <= 100.max(2 * live), "{policy:?} {seed}: {held} for {live}");
                }
            }
        }
    }
}

#[test]
fn a_key_of_another_heap_names_nothing() {
    let mut heaps: Vec<_> = (0..100).map(|_| TimerHeap::new()).collect();
    let mut keys = Vec::new();
    for (owner, heap) in heaps.iter_mut().enumerate() {
        for use_of_slot in 0..100 {
            let key = heap.insert(1_u64, owner);
            keys.push((owner, key));
            if use_of_slot % 2 == 0 {
                heap.cancel(key);
            }
        }
    }
    for (index, heap) in heaps.iter_mut().enumerate() {
        for &(owner, key) in &keys {
            if owner != index {
                assert_eq!(heap.get(key), None);
                assert!(!heap.reschedule(key, 0));
                assert_eq!(heap.cancel(key), None);
            }
        }
        assert_eq!(heap.len(), 50);
    }
}

#[test]
fn looking_at_what_is_far_does_not_disturb_what_comes_before_it() {
    let mut heap = TimerHeap::new();
    heap.insert(1 << 40, u64::MAX);
    for round in 0..2_000_u64 {
        assert!(heap.next_deadline().is_some());
        heap.insert((1 << 30) - round * 7, round);
        heap.insert((1 << 35) + round, round);
        assert_eq!(heap.next_deadline(), Some((1 << 30) - round * 7));
    }
    let first: Vec<u64> = heap.drain_due(1 << 30, 10_000).map(|timer| timer.2).collect();
    assert_eq!(first, (0..2_000).rev().collect::<Vec<_>>());
    let rest: Vec<u64> = heap.drain().map(|timer| timer.2).collect();
    assert_eq!(rest[..2_000], (0..2_000).collect::<Vec<_>>());
}

#[test]
fn drain_due_stops_at_its_limit_and_leaves_what_it_was_not_asked_for() {
    let mut heap = TimerHeap::new();
    for when in 0..10_u64 {
        heap.insert(when, when);
    }
    assert_eq!(heap.drain_due(7, 3).map(|timer| timer.2).collect::<Vec<_>>(), [0, 1, 2]);
    assert_eq!(heap.drain_due(7, 3).next().map(|timer| timer.2), Some(3));
    assert_eq!(heap.len(), 6);
    assert_eq!(heap.drain_due(7, 99).map(|timer| timer.2).collect::<Vec<_>>(), [4, 5, 6, 7]);
    assert_eq!(heap.drain_due(9, 0).count(), 0);
    assert_eq!(heap.next_deadline(), Some(8));
}

#[test]
fn deadlines_may_be_of_many_types() {
    fn in_order<W: Deadline + std::fmt::Debug>(mut whens: Vec<W>) {
        let mut heap = TimerHeap::new();
        for (value, when) in whens.iter().enumerate() {
            heap.insert(*when, value);
        }
        let found: Vec<W> = heap.drain_due(*whens.iter().max().unwrap(), 99).map(|t| t.0).collect();
        whens.sort();
        assert_eq!(found, whens);
    }
    in_order(vec![7_u32, 3, u32::MAX, 0]);
    in_order(vec![-7_i64, 3, i64::MIN, 0, i64::MAX, -8]);
    in_order(vec![-7_i8, 3, i8::MIN, 0]);
    in_order(vec![
        Duration::MAX,
        Duration::ZERO,
        Duration::from_secs(1 << 40),
        Duration::new(1, 1),
    ]);
    in_order(vec![(5_u64, 'b'), (5, 'a'), (4, 'z'), (u64::MAX, 'c')]);
    #[cfg(feature = "std")]
    {
        let now = Instant::now();
        let at = |seconds| now + Duration::from_secs(seconds);
        in_order(vec![at(5), at(1 << 40), now, at(7), at((1 << 40) + 1), at(6)]);
        in_order(vec![at(1 << 40), at(7), now, at((1 << 40) + 1), at(1 << 41), at(8)]);
    }
}

#[test]
fn a_stale_key_names_nothing() {
    let mut heap = TimerHeap::new();
    let stale = heap.insert(1_u64, 'a');
    heap.cancel(stale);
    let reuses = heap.insert(1, 'b');
    assert_ne!(stale, reuses);
    assert_eq!(heap.get(stale), None);
    assert_eq!(heap.get_mut(stale), None);
    assert_eq!(heap.deadline(stale), None);
    assert!(!heap.contains(stale));
    assert!(!heap.reschedule(stale, 0));
    assert_eq!(heap.cancel(stale), None);
    assert_eq!(heap.get(reuses), Some(&'b'));
    assert_eq!(heap.next_deadline(), Some(1));
}

#[test]
fn a_made_up_key_names_nothing() {
    let mut heap = TimerHeap::new();
    heap.insert(1_u64, 'a');
    for bits in [1, 1 << 32, u64::MAX, 1 << 63, u64::from(u32::MAX)] {
        let key = TimerKey::from_bits(bits);
        assert_eq!(key.to_bits(), bits);
        assert_eq!(heap.cancel(key), None);
        assert!(!heap.reschedule(key, 0));
    }
    assert_eq!(heap.len(), 1);
}

#[test]
fn keys_stay_stale_after_clear_drain_and_shrink() {
    let mut heap = TimerHeap::new();
    let mut old = vec![heap.insert(1_u64, 1), heap.insert(2, 2)];
    heap.clear();
    old.extend([heap.insert(1, 3), heap.insert(2, 4)]);
    assert_eq!(heap.drain().map(|timer| timer.2).collect::<Vec<_>>(), [3, 4]);
    heap.shrink_to_fit();
    heap.insert(1, 5);
    heap.insert(2, 6);
    assert!(old.iter().all(|key| !heap.contains(*key)));
    assert_eq!(heap.len(), 2);
}

#[test]
fn drain_yields_in_due_order_and_empties_even_if_it_is_not_consumed() {
    let mut heap = TimerHeap::new();
    let c = heap.insert(3_u64, 'c');
    let a = heap.insert(1, 'a');
    let dead = heap.insert(1, 'x');
    let b = heap.insert(2, 'b');
    heap.cancel(dead);
    let mut drained = heap.drain();
    assert_eq!(drained.next(), Some((1, a, 'a')));
    drop(drained);
    assert!(heap.is_empty() && !heap.contains(b) && !heap.contains(c));
    assert_eq!(entries(&heap), 0);
}

#[test]
fn iter_sees_each_waiting_timer_once() {
    let mut heap = TimerHeap::new();
    let a = heap.insert(2_u64, 'a');
    let b = heap.insert(1, 'b');
    let gone = heap.insert(1, 'x');
    heap.cancel(gone);
    heap.reschedule(a, 9);
    let mut seen: Vec<_> = heap.iter().map(|(when, key, value)| (when, key, *value)).collect();
    seen.sort_by_key(|timer| timer.0);
    assert_eq!(seen, [(1, b, 'b'), (9, a, 'a')]);
}

// uvloop kept what a cancelled timer's callback had captured: MagicStack/uvloop#240.
#[test]
fn s01_a_cancelled_timer_lets_go_of_its_value() {
    let captured = std::rc::Rc::new(());
    let mut heap = TimerHeap::new();
    let key = heap.insert(3600_u64, captured.clone());
    drop(heap.cancel(key));
    assert_eq!(std::rc::Rc::strong_count(&captured), 1);

    let mut keys: Vec<_> = (0..10_000).map(|_| heap.insert(3600, captured.clone())).collect();
    // A fixed permutation: 7919 is prime to 10 000.
    let order: Vec<_> = (0..10_000).map(|i| keys[i * 7919 % 10_000]).collect();
    keys.clear();
    for key in &order[1..] {
        assert!(heap.cancel(*key).is_some());
    }
    heap.next_deadline();
    assert!(entries(&heap) <= 100);
    assert_eq!(std::rc::Rc::strong_count(&captured), 2);
    assert!(heap.contains(order[0]));
}

// tokio panicked or fired at once on a sleep of u64::MAX / 10 seconds: tokio-rs/tokio#5183.
#[test]
fn s05_extreme_deadlines_neither_overflow_nor_fire() {
    let mut heap = TimerHeap::new();
    let never = heap.insert(u64::MAX, "never");
    heap.insert(u64::MAX - 1, "almost");
    heap.insert(0, "past");
    heap.insert(5, "soon");
    assert_eq!(due(&mut heap, 5), ["past", "soon"]);
    assert_eq!(heap.next_deadline(), Some(u64::MAX - 1));
    assert_eq!(heap.cancel(never), Some("never"));
    assert_eq!(due(&mut heap, u64::MAX), ["almost"]);
}

// The same case, in the system's time.
#[test]
#[cfg(feature = "std")]
fn s05_extreme_instants_neither_overflow_nor_fire() {
    let mut heap = TimerHeap::new();
    let now = Instant::now();
    let far = now.checked_add(Duration::from_secs(u64::MAX / 10)).expect("representable");
    let far = heap.insert(far, "far");
    heap.insert(now + Duration::from_millis(5), "soon");
    assert_eq!(due(&mut heap, now + Duration::from_secs(1)), ["soon"]);
    assert_eq!(heap.cancel(far), Some("far"));
    assert_eq!(heap.next_deadline(), None);
}

// node grouped timers by duration and fired a late loop's in the wrong order: nodejs/node#46644.
#[test]
fn s08_late_loop_fires_by_deadline() {
    let mut heap = TimerHeap::new();
    heap.insert(5_u64 + 20, 'a');
    heap.insert(15 + 20, 'c');
    heap.insert(20 + 10, 'b');
    assert_eq!(due(&mut heap, 40), ['a', 'b', 'c']);
    assert!(heap.is_empty());
}
