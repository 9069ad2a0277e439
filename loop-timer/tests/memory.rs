//! What timers cost in bytes, and how long a purge keeps its caller waiting: by a counting allocator
//! and by the clock. A binary of its own, because it counts everything that it allocates.

use std::mem::size_of;

use loop_timer::TimerHeap;

/// Bytes a timer, beyond those of its value.
fn overhead<T>(n: usize, when: impl Fn(u64) -> u64, value: impl Fn() -> T) -> f64 {
    let mut heap = TimerHeap::new();
    let held = allocation_counter::measure(|| {
        for id in 0..n as u64 {
            heap.insert(when(id), value());
        }
    })
    .bytes_current;
    assert_eq!(heap.len(), n);
    held as f64 / n as f64 - size_of::<T>() as f64
}

fn scattered(id: u64) -> u64 {
    id.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 44
}

#[test]
fn a_timer_costs_less_than_its_budget() {
    let power = 131_072;
    assert!(overhead(power, scattered, || 0_u64) <= 48.0);
    assert!(overhead(power, scattered, || 0_u32) <= 48.0);
    assert!(overhead(power, scattered, || [0_u64; 4]) <= 48.0);
    assert!(overhead(power, |id| id, || 0_u64) <= 48.0, "ascending");
    assert!(overhead(power, |_| 7, || 0_u64) <= 48.0, "equal");
    assert!(overhead(power, |id| scattered(id) << 43, || 0_u64) <= 48.0, "far");

    let worst = (100_000..140_000)
        .step_by(1_111)
        .chain([power - 1, power + 1])
        .map(|n| (overhead(n, scattered, || 0_u64), n))
        .fold((0.0, 0), |worst, this| if this.0 > worst.0 { this } else { worst });
    assert!(worst.0 <= 64.0, "{worst:?}");
    let worst = overhead(power + 1, scattered, || [0_u64; 4]);
    assert!(worst <= 72.0, "{worst}");

    // What was cancelled gives its memory back, but for the table of slots.
    let mut heap = TimerHeap::new();
    let held = allocation_counter::measure(|| {
        let keys: Vec<_> = (0..power as u64).map(|id| heap.insert(scattered(id), id)).collect();
        for key in &keys[100..] {
            heap.cancel(*key);
        }
        drop(keys);
        heap.shrink_to_fit();
    })
    .bytes_current;
    assert!(held <= power as i64 * 32 + 65_536, "{held}");
}
