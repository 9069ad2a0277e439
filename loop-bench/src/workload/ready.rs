//! The ready queue: schedule a thousand, run a thousand.

use super::handles::{self, BATCH};
use crate::bar::Bar;
use crate::rival::calloop_idle::Idles;
use crate::rival::loop_core;
use crate::rival::loop_core::Callbacks;
use crate::rival::std_boxes::Boxes;
use crate::sample::{Contest, Plan, Subject};

/// `std` is a floor: boxed closures, without handles, contexts or a guard against panics.
pub(super) const BARS: &[Bar] = &[
    Bar {
        workload: "ready/callback",
        params: &[],
        ours: "loop-core/epoll",
        rivals: &["std"],
        at_most: 1.5,
    },
    Bar {
        workload: "ready/callback",
        params: &[],
        ours: "loop-core/epoll",
        rivals: &["calloop"],
        at_most: 0.8,
    },
];

pub(super) fn contests(plan: &Plan) -> Vec<Contest> {
    let batches = plan.size(100, 500);
    let params = [("batch", BATCH)];
    vec![Contest::new(
        "ready/callback",
        &params,
        vec![
            Subject::new(loop_core::name(), move |_seed| handles::once::<Callbacks>(batches)),
            Subject::new("std", move |_seed| handles::once::<Boxes>(batches)),
            Subject::new("calloop", move |_seed| handles::once::<Idles>(batches)),
        ],
    )]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_subject_runs_all_it_was_given() {
        for (name, lap) in [
            ("callbacks of loop-core", handles::once::<Callbacks>(3)),
            ("callbacks of std", handles::once::<Boxes>(3)),
            ("idle callbacks of calloop", handles::once::<Idles>(3)),
        ] {
            let lap = lap.unwrap_or_else(|wrong| panic!("{name}: {wrong}"));
            assert_eq!(lap.ops, 3 * BATCH, "{name}");
        }
    }
}
