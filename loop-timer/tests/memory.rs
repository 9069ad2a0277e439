//! What timers cost in bytes, and how long a purge keeps its caller waiting: by a counting allocator
//! and by the clock. A binary of its own, because it counts everything that it allocates.

use std::alloc::{GlobalAlloc, Layout, System};
use std::mem::size_of;
use std::sync::atomic::{AtomicUsize, Ordering};

use loop_timer::TimerHeap;

struct Counting;

static LIVE: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call goes to the system's allocator as it came; counting touches no memory of it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promise about `layout` is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: `pointer` came from `alloc` above, with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Bytes a timer, beyond those of its value.
fn overhead<T>(n: usize, when: impl Fn(u64) -> u64, value: impl Fn() -> T) -> f64 {
    let before = LIVE.load(Ordering::Relaxed);
    let mut heap = TimerHeap::new();
    for id in 0..n as u64 {
        heap.insert(when(id), value());
    }
    let held = LIVE.load(Ordering::Relaxed) - before;
    assert_eq!(heap.len(), n);
    held as f64 / n as f64 - size_of::<T>() as f64
}

fn scattered(id: u64) -> u64 {
    id.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 44
}

/// One test, so that nothing else allocates meanwhile.
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
    assert!(worst.0 <= 96.0, "{worst:?}");
    assert!(overhead(power + 1, scattered, || [0_u64; 4]) <= 96.0);

    // What was cancelled gives its memory back, but for the table of slots.
    let before = LIVE.load(Ordering::Relaxed);
    let mut heap = TimerHeap::new();
    let keys: Vec<_> = (0..power as u64).map(|id| heap.insert(scattered(id), id)).collect();
    for key in &keys[100..] {
        heap.cancel(*key);
    }
    drop(keys);
    heap.shrink_to_fit();
    let held = LIVE.load(Ordering::Relaxed) - before;
    assert!(held <= power * 24 + 65_536, "{held}");
}
