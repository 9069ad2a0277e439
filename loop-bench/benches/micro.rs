//! The workloads that need no other program, under criterion, one after the other:
//! `cargo bench -p loop-bench -- timers/churn` runs those whose names hold that. Its statistics are finer than those
//! of `loop-bench run`; its subjects do not take turns, so ratios are the business of the latter.

use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use loop_bench::{Contest, Lap, Plan, Subject, Workload};

const PLAN: Plan = Plan::quick(1);
/// In the order of [`Workload::ALL`], for some slow what comes after them.
const FAMILIES: [&str; 8] =
    ["handles", "ready", "sleep", "timers", "tasks", "dispatch", "selectors", "wake"];

fn micro(criterion: &mut Criterion) {
    for family in Workload::ALL.iter().filter(|family| FAMILIES.contains(&family.name)) {
        for contest in family.contests(&PLAN, family.name) {
            let mut group = criterion.benchmark_group(title(&contest));
            for mut subject in contest.into_subjects() {
                let name = subject.name().to_owned();
                group.bench_function(name, |bencher| {
                    bencher.iter_custom(|operations| time(&mut subject, operations));
                });
            }
            group.finish();
        }
    }
}

fn title(contest: &Contest) -> String {
    let sizes = contest.params().iter().map(|(name, size)| format!("/{name}={size}"));
    format!("{}{}", contest.workload(), sizes.collect::<String>())
}

/// How long `operations` operations take, by whole rounds.
fn time(subject: &mut Subject, operations: u64) -> Duration {
    let mut total = Lap::default();
    while total.ops < operations {
        match subject.round(PLAN.seed) {
            Ok(lap) => total = total.plus(lap),
            Err(wrong) => panic!("{}: {wrong}", subject.name()),
        }
    }
    total.elapsed.mul_f64(operations as f64 / total.ops as f64)
}

criterion_group!(benches, micro);
criterion_main!(benches);
