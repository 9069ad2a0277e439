//! The ready queue: schedule a thousand, run a thousand; and what an iteration costs that runs but one.

use super::handles::{self, BATCH};
use crate::bar::Bar;
use crate::finding::Finding;
use crate::rival::calloop_idle::Idles;
use crate::rival::libuv::LibUv;
use crate::rival::loop_core;
use crate::rival::loop_core::Callbacks;
use crate::rival::std_boxes::Boxes;
use crate::sample::{Contest, Plan, Subject};

/// `std` is a measure: boxed closures, without handles, contexts or a guard against panics.
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
    Bar {
        workload: "ready/iteration",
        params: &[],
        ours: "loop-core/epoll",
        rivals: &["libuv"],
        at_most: 1.15,
    },
    Bar {
        workload: "ready/iteration",
        params: &[],
        ours: "loop-core/epoll unwatching",
        rivals: &["loop-core/epoll"],
        at_most: 0.25,
    },
];

pub(super) fn contests(plan: &Plan) -> Vec<Contest> {
    let batches = plan.size(100, 500);
    let params = [("batch", BATCH)];
    let callbacks = Contest::new(
        "ready/callback",
        &params,
        vec![
            Subject::new(loop_core::name(), move |_seed| handles::once::<Callbacks>(batches)),
            Subject::new("std", move |_seed| handles::once::<Boxes>(batches)),
            Subject::new("calloop", move |_seed| handles::once::<Idles>(batches)),
        ],
    );
    vec![callbacks, iterations(plan.size(50_000, 200_000))]
}

/// One callback is ready in each of `n` iterations, so none waits. With a descriptor registered the
/// kernel is asked all the same; `unwatching` there is nothing to ask it.
fn iterations(n: u64) -> Contest {
    let unwatching = format!("{} unwatching", loop_core::name());
    let mut subjects = vec![
        Subject::new(loop_core::name(), move |_seed| loop_core::iterations(n, true)),
        Subject::new(unwatching, move |_seed| loop_core::iterations(n, false)),
    ];
    if let Ok(libuv) = LibUv::get() {
        subjects.push(Subject::new("libuv", move |_seed| libuv.iterations(n)));
    }
    Contest::new("ready/iteration", &[], subjects)
}

/// Who did not take part, and why.
pub(super) fn absences(_plan: &Plan) -> Vec<Finding> {
    let absence = |why: &str| Finding::NotMeasured { what: "libuv".into(), why: why.into() };
    LibUv::get().err().map(absence).into_iter().collect()
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

    #[test]
    fn every_subject_makes_all_iterations() {
        for watched in [false, true] {
            assert_eq!(loop_core::iterations(100, watched).unwrap().ops, 100, "{watched}");
        }
        match LibUv::get() {
            Ok(libuv) => assert_eq!(libuv.iterations(100).unwrap().ops, 100),
            Err(missing) => println!("libuv: {missing}"),
        }
    }
}
