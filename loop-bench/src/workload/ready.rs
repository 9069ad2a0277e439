//! The ready queue: schedule a thousand, run a thousand.

use std::cell::Cell;
use std::collections::VecDeque;
use std::rc::Rc;

use crate::rival::{loop_core, tokio};
use crate::sample::{Contest, Lap, Plan, Subject, Wrong};

const BATCH: u64 = 1_000;

pub(super) fn contests(plan: &Plan) -> Vec<Contest> {
    let batches = plan.size(100, 500);
    let params = [("batch", BATCH)];
    vec![
        Contest::new(
            "ready/callback",
            &params,
            vec![
                Subject::new(loop_core::name(), move |_seed| loop_core::callbacks(batches, BATCH)),
                Subject::new("std", move |_seed| boxed_closures(batches)),
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

/// The floor: a queue of boxed closures, without handles, contexts or a guard against panics.
fn boxed_closures(batches: u64) -> Result<Lap, Wrong> {
    let mut queue: VecDeque<Box<dyn FnOnce()>> = VecDeque::new();
    let ran = Rc::new(Cell::new(0));
    let (lap, ()) = Lap::time(batches * BATCH, || {
        for _ in 0..batches {
            for _ in 0..BATCH {
                let ran = Rc::clone(&ran);
                queue.push_back(Box::new(move || ran.set(ran.get() + 1)));
            }
            while let Some(callback) = queue.pop_front() {
                callback();
            }
        }
    });
    Wrong::unless_equal("callbacks that ran", ran.get(), batches * BATCH)?;
    Ok(lap)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_subject_runs_all_it_was_given() {
        for (name, lap) in [
            ("callbacks of loop-core", loop_core::callbacks(3, 100)),
            ("tasks of loop-core", loop_core::tasks(3, 100)),
            ("tasks of tokio", tokio::local_tasks(3, 100)),
        ] {
            let lap = lap.unwrap_or_else(|wrong| panic!("{name}: {wrong}"));
            assert_eq!(lap.ops, 300, "{name}");
        }
        assert_eq!(boxed_closures(3).unwrap().ops, 3 * BATCH);
    }
}
