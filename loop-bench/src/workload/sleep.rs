//! Sleeping futures that are dropped before their time, as those of most time limits are: in the step in which
//! they began (`fresh`), in the task's next step (`later`), or at random (`replaced`).

use crate::bar::Bar;
use crate::rival::{loop_core, loop_core_tasks, tokio_tasks};
use crate::sample::{Contest, Plan, Subject};

/// tokio has its feature `test-util` here, because `timers` moves its clock. Until that clock is paused for
/// the first time the feature costs an atomic load a look; from then on a lock, in every runtime of the
/// process. So this family runs before `timers`.
pub(super) const BARS: &[Bar] = &[Bar {
    workload: "sleep/fresh",
    params: &[("live", 100_000)],
    ours: "loop-core/epoll",
    rivals: &["tokio"],
    at_most: 0.4,
}];

pub(super) fn contests(plan: &Plan) -> Vec<Contest> {
    let live = plan.size(10_000, 100_000);
    let steps = plan.size(50_000, 500_000);
    let contest = |name, random: bool| {
        Contest::new(
            name,
            &[("live", live)],
            vec![
                Subject::new(loop_core::name(), move |seed| {
                    loop_core_tasks::sleeps(live, steps, random.then_some(seed))
                }),
                Subject::new("tokio", move |seed| {
                    tokio_tasks::sleeps(live, steps, random.then_some(seed))
                }),
            ],
        )
    };
    let later = Contest::new(
        "sleep/later",
        &[("live", live)],
        vec![
            Subject::new(loop_core::name(), move |_| loop_core_tasks::sleeps_of_tasks(live, steps)),
            Subject::new("tokio", move |_| tokio_tasks::sleeps_of_tasks(live, steps)),
        ],
    );
    vec![contest("sleep/fresh", false), later, contest("sleep/replaced", true)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_subject_wakes_before_its_time() {
        for random in [None, Some(7)] {
            for lap in [
                loop_core_tasks::sleeps(100, 1_000, random),
                tokio_tasks::sleeps(100, 1_000, random),
            ] {
                assert_eq!(lap.unwrap().ops, 1_000);
            }
        }
        for lap in
            [loop_core_tasks::sleeps_of_tasks(100, 1_000), tokio_tasks::sleeps_of_tasks(100, 1_000)]
        {
            assert_eq!(lap.unwrap().ops, 1_000);
        }
    }
}
