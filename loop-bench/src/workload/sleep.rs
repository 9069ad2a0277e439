//! Sleeping futures that are dropped before their time, as those of most time limits are.

use crate::rival::{loop_core, loop_core_tasks, tokio_tasks};
use crate::sample::{Contest, Plan, Subject};

/// `timers` needs tokio's virtual time, and that feature has every look at tokio's clock take a lock: its
/// rows here are dearer than the sleeps of a program without the feature, so no bar is held to them.
const TOKIO: &str = "tokio with test-util";

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
                Subject::new(TOKIO, move |seed| {
                    tokio_tasks::sleeps(live, steps, random.then_some(seed))
                }),
            ],
        )
    };
    vec![contest("sleep/fresh", false), contest("sleep/replaced", true)]
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
    }
}
