//! Sequences of operations on a heap, against a sorted list that has no cleverness to get wrong.
//!
//! A step is three bytes: what to do, to which key, and a deadline. The deadline's byte is a place
//! and a distance, so that short inputs reach equal, near, far and extreme deadlines.

#![no_main]

use libfuzzer_sys::fuzz_target;
use loop_timer::{PurgePolicy, TimerHeap, TimerKey};

fuzz_target!(|data: &[u8]| {
    let Some((&policy, steps)) = data.split_first() else { return };
    let mut heap = TimerHeap::with_policy(match policy % 4 {
        0 => PurgePolicy::Asyncio,
        1 => PurgePolicy::Gradual,
        2 => PurgePolicy::Never,
        _ => PurgePolicy::Custom(|total, cancelled| total > 8 && cancelled > total / 2),
    });
    let mut oracle: Vec<(u64, TimerKey, usize)> = Vec::new();
    let mut keys: Vec<TimerKey> = Vec::new();
    let insert = |oracle: &mut Vec<(u64, TimerKey, usize)>, timer: (u64, TimerKey, usize)| {
        let at = oracle.iter().position(|other| other.0 > timer.0).unwrap_or(oracle.len());
        oracle.insert(at, timer);
    };

    for (value, step) in steps.chunks_exact(3).enumerate() {
        let when = match step[2] {
            255 => u64::MAX,
            byte => u64::from(byte & 7).wrapping_shl(u32::from(byte >> 3) * 2),
        };
        let key = keys.get(usize::from(step[1]) % keys.len().max(1)).copied();
        match (step[0] % 16, key) {
            (0..=5, _) => {
                let key = heap.insert(when, value);
                keys.push(key);
                insert(&mut oracle, (when, key, value));
            }
            (6..=8, Some(key)) => {
                let at = oracle.iter().position(|timer| timer.1 == key);
                assert_eq!(heap.cancel(key), at.map(|at| oracle.remove(at).2));
            }
            (9 | 10, Some(key)) => {
                let at = oracle.iter().position(|timer| timer.1 == key);
                assert_eq!(heap.reschedule(key, when), at.is_some());
                if let Some(at) = at {
                    let (_, key, value) = oracle.remove(at);
                    insert(&mut oracle, (when, key, value));
                }
            }
            (11 | 12, _) => {
                let due = oracle.first().map_or(false, |timer| timer.0 <= when);
                assert_eq!(heap.pop_due(when), due.then(|| oracle.remove(0)));
            }
            (13, _) => {
                assert_eq!(heap.next_deadline(), oracle.first().map(|timer| timer.0));
            }
            (14, _) => {
                let divisor = usize::from(step[1]) + 2;
                heap.retain(|_, _, value| *value % divisor != 0);
                oracle.retain(|timer| timer.2 % divisor != 0);
            }
            (15, _) if step[1] < 8 => {
                assert!(heap.drain().eq(oracle.drain(..)));
            }
            (15, _) if step[1] < 64 => heap.shrink_to_fit(),
            (_, Some(key)) => {
                let expected = oracle.iter().find(|timer| timer.1 == key);
                assert_eq!(heap.get(key), expected.map(|timer| &timer.2));
                assert_eq!(heap.deadline(key), expected.map(|timer| timer.0));
            }
            (_, None) => {}
        }
        assert_eq!(heap.len(), oracle.len());
    }
    assert_eq!(heap.iter().count(), oracle.len());
    assert!(std::iter::from_fn(|| heap.pop_due(u64::MAX)).eq(oracle));
    assert_eq!(heap.statistics().cancelled, 0);
});
