//! Tasks: to begin and await them, to give way, to hand over from one to the other.

use super::handles::BATCH;
use crate::bar::Bar;
use crate::rival::{async_executor, loop_core, loop_core_tasks, tokio_tasks};
use crate::sample::{Contest, Plan, Subject};

pub(super) const BARS: &[Bar] = &[
    Bar {
        workload: "tasks/spawn",
        params: &[],
        ours: "loop-core/epoll",
        rivals: &["tokio LocalSet"],
        at_most: 0.60,
    },
    Bar {
        workload: "tasks/spawn",
        params: &[],
        ours: "loop-core/epoll",
        rivals: &["async-executor"],
        at_most: 0.80,
    },
    Bar {
        workload: "tasks/yield",
        params: &[],
        ours: "loop-core/epoll",
        rivals: &["tokio"],
        at_most: 0.75,
    },
    Bar {
        workload: "tasks/handover",
        params: &[("descriptors", 0)],
        ours: "loop-core/epoll",
        rivals: &["tokio"],
        at_most: 0.75,
    },
];

pub(super) fn contests(plan: &Plan) -> Vec<Contest> {
    let batches = plan.size(100, 500);
    let steps = plan.size(100, 500);
    let switches = plan.size(50_000, 200_000);
    let batch = [("batch", BATCH)];
    let handover = |watched: bool| {
        let ours = move |_seed| loop_core_tasks::handover(switches, watched);
        Contest::new(
            "tasks/handover",
            &[("descriptors", u64::from(watched))],
            vec![
                Subject::new(loop_core::name(), ours),
                Subject::new("tokio", move |_seed| tokio_tasks::handover(switches)),
            ],
        )
    };
    vec![
        Contest::new(
            "tasks/spawn",
            &batch,
            vec![
                Subject::new(loop_core::name(), move |_| loop_core_tasks::spawn(batches, BATCH)),
                Subject::new("tokio LocalSet", move |_| tokio_tasks::spawn(batches, BATCH)),
                Subject::new("async-executor", move |_| async_executor::spawn(batches, BATCH)),
            ],
        ),
        Contest::new(
            "tasks/yield",
            &[("tasks", BATCH)],
            vec![
                Subject::new(loop_core::name(), move |_| loop_core_tasks::give_way(BATCH, steps)),
                Subject::new("tokio", move |_| tokio_tasks::give_way(BATCH, steps)),
            ],
        ),
        handover(false),
        handover(true),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_subject_does_all_it_was_given() {
        for (name, ops, lap) in [
            ("spawn of loop-core", 3 * BATCH, loop_core_tasks::spawn(3, BATCH)),
            ("spawn of tokio", 3 * BATCH, tokio_tasks::spawn(3, BATCH)),
            ("spawn of async-executor", 3 * BATCH, async_executor::spawn(3, BATCH)),
            ("yield of loop-core", 3 * BATCH, loop_core_tasks::give_way(BATCH, 3)),
            ("yield of tokio", 3 * BATCH, tokio_tasks::give_way(BATCH, 3)),
            ("handover of loop-core", 100, loop_core_tasks::handover(100, false)),
            ("handover beside a descriptor", 100, loop_core_tasks::handover(100, true)),
            ("handover of tokio", 100, tokio_tasks::handover(100)),
        ] {
            let lap = lap.unwrap_or_else(|wrong| panic!("{name}: {wrong}"));
            assert_eq!(lap.ops, ops, "{name}");
        }
    }
}
