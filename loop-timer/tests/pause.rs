//! How long one call may take. The clock of a test machine proves little, so the bounds are wide:
//! they tell a pause that grows with the heap from one that does not.

use std::time::{Duration, Instant};

use loop_timer::{PurgePolicy, TimerHeap};

/// The longest `cancel` while all but one in a hundred of `n` timers are cancelled, out of order.
fn longest_cancel(policy: PurgePolicy, n: u64) -> Duration {
    let mut heap = TimerHeap::with_policy(policy);
    let scattered = |id: u64| id.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 34;
    let mut keys: Vec<_> =
        (0..n).map(|id| (scattered(id), heap.insert(scattered(!id), id))).collect();
    keys.sort_unstable_by_key(|key| key.0);
    let mut longest = Duration::ZERO;
    for (_, key) in &keys[n as usize / 100..] {
        let start = Instant::now();
        let value = heap.cancel(*key);
        longest = longest.max(start.elapsed());
        assert!(value.is_some());
    }
    longest
}

#[test]
fn a_gradual_purge_pauses_less_than_one_in_one_go() {
    // The least of several, since the system may take the processor away at any time.
    let least = |policy| (0..5).map(|_| longest_cancel(policy, 300_000)).min().unwrap();
    let (at_once, gradual) = (least(PurgePolicy::Asyncio), least(PurgePolicy::Gradual));
    println!("longest cancel of 300,000: {at_once:?} at once, {gradual:?} gradual");
    assert!(gradual < at_once, "{gradual:?} gradual, {at_once:?} at once");
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
