//! The workload `timers` under criterion: `cargo bench -p loop-bench --bench timers`. Its statistics
//! are finer than those of `loop-bench run timers`; its subjects do not take turns, so ratios are the
//! business of the latter.

use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use loop_bench::{Lap, Plan, Subject, Workload};

fn timers(criterion: &mut Criterion) {
    let plan = Plan { quick: true, seed: 1 };
    for family in Workload::ALL.iter().filter(|family| family.name == "timers") {
        for contest in family.contests(&plan, family.name) {
            let sizes = contest.params().iter().map(|(name, size)| format!("/{name}={size}"));
            let title = format!("{}{}", contest.workload(), sizes.collect::<String>());
            let mut group = criterion.benchmark_group(title);
            for mut subject in contest.into_subjects() {
                let name = subject.name().to_owned();
                group.bench_function(name, |bencher| {
                    bencher.iter_custom(|operations| time(&mut subject, plan.seed, operations));
                });
            }
            group.finish();
        }
    }
}

/// How long `operations` operations take, by whole rounds.
fn time(subject: &mut Subject, seed: u64, operations: u64) -> Duration {
    let mut total = Lap::default();
    while total.ops < operations {
        match subject.round(seed) {
            Ok(lap) => total = total.plus(lap),
            Err(wrong) => panic!("{}: {wrong}", subject.name()),
        }
    }
    total.elapsed.mul_f64(operations as f64 / total.ops as f64)
}

criterion_group!(benches, timers);
criterion_main!(benches);
