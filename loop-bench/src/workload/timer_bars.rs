//! What the timer heap ought to reach, at a hundred thousand timers and at a million.

use crate::bar::Bar;

const OURS: &str = "loop-timer";

/// Every rival that can tell the exact next deadline. The two wheels only know a lower bound.
const EXACT: &[&str] = &[
    "tokio-util",
    "tokio/sleep",
    "std/btreemap",
    "std/binaryheap",
    "priority-queue",
    "keyed_priority_queue",
    "calloop",
];

/// `$workload` at both sizes.
macro_rules! bars {
    ($(($workload:literal, $rivals:expr, $at_most:literal)),* $(,)?) => {
        &[$(
            bar($workload, &[("n", 100_000)], $rivals, $at_most),
            bar($workload, &[("n", 1_000_000)], $rivals, $at_most),
        )*]
    };
}

pub(super) const BARS: &[Bar] = bars![
    ("timers/insert_pop", &["tokio-util"], 0.45),
    ("timers/churn", &["tokio-util"], 0.40),
    ("timers/cancel99", &["tokio-util"], 0.35),
    ("timers/hold", &["tokio-util"], 0.45),
    ("timers/insert_pop", EXACT, 0.80),
    ("timers/hold", EXACT, 0.80),
    ("timers/churn", EXACT, 0.80),
    ("timers/ordered", EXACT, 1.10),
    ("timers/cancel99", EXACT, 1.10),
    ("timers/reschedule", EXACT, 1.10),
];

const fn bar(
    workload: &'static str,
    params: &'static [(&'static str, u64)],
    rivals: &'static [&'static str],
    at_most: f64,
) -> Bar {
    Bar { workload, params, ours: OURS, rivals, at_most }
}
