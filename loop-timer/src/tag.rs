//! Where a heap's generations begin, so that keys of different heaps differ.

use crate::counter::Counter;

/// The next heap's first generation. Heaps are numbered, and the numbers spread by the golden
/// ratio: any few of them lie about as far apart as they can.
#[cfg(target_has_atomic = "32")]
pub(crate) fn first_generation() -> Counter {
    use core::sync::atomic::{AtomicU32, Ordering};

    static HEAPS: AtomicU32 = AtomicU32::new(1);
    let number = HEAPS.fetch_add(1, Ordering::Relaxed);
    (number.wrapping_mul(0x9e37_79b9) >> (u32::BITS - Counter::BITS)) as Counter
}

/// Heaps cannot be numbered here: keys of different heaps may be equal.
#[cfg(not(target_has_atomic = "32"))]
pub(crate) fn first_generation() -> Counter {
    0
}
