//! The workload `handles` under criterion: `cargo bench -p loop-bench --bench handles`. Its statistics
//! are finer than those of `loop-bench run handles`; its subjects do not take turns, so ratios are the
//! business of the latter.

use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use loop_bench::{Lap, Plan, Subject, Workload};

fn handles(criterion: &mut Criterion) {
    let plan = Plan { quick: true, seed: 1 };
    for family in Workload::ALL.iter().filter(|family| family.name == "handles") {
        for contest in family.contests(&plan, family.name) {
            let mut group = criterion.benchmark_group(contest.workload());
            for mut subject in contest.into_subjects() {
                let name = subject.name().to_owned();
                group.bench_function(name, |bencher| {
                    bencher.iter_custom(|callbacks| time(&mut subject, plan.seed, callbacks));
                });
            }
            group.finish();
        }
    }
}

/// How long `callbacks` callbacks take, by whole rounds.
fn time(subject: &mut Subject, seed: u64, callbacks: u64) -> Duration {
    let mut total = Lap::default();
    while total.ops < callbacks {
        match subject.round(seed) {
            Ok(lap) => total = total.plus(lap),
            Err(wrong) => panic!("{}: {wrong}", subject.name()),
        }
    }
    total.elapsed.mul_f64(callbacks as f64 / total.ops as f64)
}

criterion_group!(benches, handles);
criterion_main!(benches);
