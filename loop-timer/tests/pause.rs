//! What one call may cost. The clock of a test machine proves nothing, so times are printed, and the entries that a call
//! gives up are counted.

use std::time::{Duration, Instant};

use loop_timer::{PurgePolicy, TimerHeap};

/// What the worst `cancel` costs while all but one in a hundred of `n` timers are cancelled, out of order: how many
/// entries it gives up, and how long it takes.
fn worst_cancel(policy: PurgePolicy, n: u64) -> (usize, Duration) {
    let mut heap = TimerHeap::with_policy(policy);
    let scattered = |id: u64| id.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 34;
    let mut keys: Vec<_> =
        (0..n).map(|id| (scattered(id), heap.insert(scattered(!id), id))).collect();
    keys.sort_unstable_by_key(|key| key.0);
    let entries = |heap: &TimerHeap<u64>| heap.statistics().live + heap.statistics().cancelled;
    let (mut most, mut longest) = (0, Duration::ZERO);
    for (_, key) in &keys[n as usize / 100..] {
        let before = entries(&heap);
        let start = Instant::now();
        let value = heap.cancel(*key);
        longest = longest.max(start.elapsed());
        most = most.max(before - entries(&heap));
        assert!(value.is_some());
    }
    (most, longest)
}

#[test]
fn a_gradual_purge_gives_up_a_block_at_a_time() {
    for n in [30_000, 300_000] {
        let (at_once, time_at_once) = worst_cancel(PurgePolicy::Asyncio, n);
        let (gradual, time_gradual) = worst_cancel(PurgePolicy::Gradual, n);
        println!(
            "of {n}: at once {at_once}, {time_at_once:?}; gradual {gradual}, {time_gradual:?}"
        );
        assert!(at_once > n as usize / 3, "{at_once} of {n}");
        assert!(gradual <= 512, "{gradual} of {n}: a block and what is in front");
    }
}

/// How long `next_deadline` takes when all of `n` timers were put off since it was last asked.
fn look_after_all_were_put_off(policy: PurgePolicy, n: u64) -> Duration {
    let mut heap = TimerHeap::with_policy(policy);
    let scattered = |id: u64| id.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 50;
    let keys: Vec<_> = (0..n).map(|id| heap.insert(scattered(id), id)).collect();
    for (key, id) in keys.iter().zip(0..) {
        heap.reschedule(*key, (1 << 20) + scattered(!id));
    }
    let start = Instant::now();
    let first = heap.next_deadline();
    let taken = start.elapsed();
    assert_eq!(first, (0..n).map(|id| (1 << 20) + scattered(!id)).min());
    assert_eq!(heap.statistics().cancelled, 0, "all that was too early was looked at");
    taken
}

/// The price of `PurgePolicy::Asyncio`'s cheap `reschedule`, to be read and not judged.
#[test]
fn a_look_after_all_were_put_off_is_exact() {
    for policy in [PurgePolicy::Asyncio, PurgePolicy::Gradual] {
        let taken = look_after_all_were_put_off(policy, 100_000);
        println!("next_deadline of 100,000 that were put off: {taken:?} {policy:?}");
    }
}
