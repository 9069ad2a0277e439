//! The ready queue: schedule a thousand, run a thousand.

use super::handles::{self, BATCH};
use crate::bar::Bar;
use crate::rival::loop_core::Callbacks;
use crate::rival::std_boxes::Boxes;
use crate::rival::{loop_core, tokio};
use crate::sample::{Contest, Plan, Subject};

/// `std` is a floor: boxed closures, without handles, contexts or a guard against panics.
pub(super) const BARS: &[Bar] = &[Bar {
    workload: "ready/callback",
    params: &[],
    ours: "loop-core/epoll",
    rivals: &["std"],
    at_most: 1.5,
}];

pub(super) fn contests(plan: &Plan) -> Vec<Contest> {
    let batches = plan.size(100, 500);
    let params = [("batch", BATCH)];
    vec![
        Contest::new(
            "ready/callback",
            &params,
            vec![
                Subject::new(loop_core::name(), move |_seed| handles::once::<Callbacks>(batches)),
                Subject::new("std", move |_seed| handles::once::<Boxes>(batches)),
            ],
        ),
        Contest::new(
            "ready/task",
            &params,
            vec![
                Subject::new(loop_core::name(), move |_seed| loop_core::tasks(batches, BATCH)),
                Subject::new("tokio", move |_seed| tokio::local_tasks(batches, BATCH)),
            ],
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_subject_runs_all_it_was_given() {
        for (name, lap) in [
            ("callbacks of loop-core", handles::once::<Callbacks>(3)),
            ("callbacks of std", handles::once::<Boxes>(3)),
            ("tasks of loop-core", loop_core::tasks(3, BATCH)),
            ("tasks of tokio", tokio::local_tasks(3, BATCH)),
        ] {
            let lap = lap.unwrap_or_else(|wrong| panic!("{name}: {wrong}"));
            assert_eq!(lap.ops, 3 * BATCH, "{name}");
        }
    }
}
