//! What the selectors ought to reach, and how that is found out.

use super::selector_loads::{Sources, Waits, steady, wait};
use super::selectors::subjects;
use crate::bar::{Bar, Verdict};
use crate::finding::{Finding, Probe};
use crate::rng::Rng;
use crate::sample::{Plan, Wrong};
use crate::stats::Summary;
use crate::tool::{callgrind, system_calls};

const EPOLL: &str = "loop-selector/epoll";
const URING: &str = "loop-selector/uring";

/// Sources of the probes.
const N: usize = 1_000;

pub(super) const BARS: &[Bar] = &[
    // The hand-written loop writes to its eventfd at each wake; ours only when the loop sleeps.
    Bar {
        workload: "selectors/wake_busy",
        params: &[],
        ours: EPOLL,
        rivals: &["rustix"],
        at_most: 0.15,
    },
    growth(EPOLL),
    growth(URING),
    growth("loop-selector/mio"),
];

/// A selector that looks at every source in a wait grows hundreds of times more than this.
const fn growth(ours: &'static str) -> Bar {
    Bar { workload: "selectors/growth", params: &[], ours, rivals: &["rustix"], at_most: 3.0 }
}

pub(super) const PROBES: &[Probe] = &[
    Probe { name: "selectors/pairs", run: pairs },
    Probe { name: "selectors/instructions", run: instructions },
    Probe { name: "selectors/calls", run: calls },
];

fn not_measured(what: impl Into<String>, why: impl ToString) -> Vec<Finding> {
    vec![Finding::NotMeasured { what: what.into(), why: why.to_string() }]
}

/// Workload, whether reads are timed too, rivals and how much of their time ours may take.
type Pairs = (&'static str, bool, &'static [(&'static str, f64)]);

const PAIRS: &[Pairs] = &[
    ("selectors/pairs", false, &[("rustix", 1.10), ("polling", 0.90)]),
    ("selectors/pairs_with_reads", true, &[("mio", 1.10)]),
];

/// The time of a wait, as the median of the ratios of rounds that were run one after the other.
///
/// With mio the reads are timed as well. It tells of changes: it spares the kernel a second look at
/// what was ready last time, and owes it to its user to read until there is nothing.
fn pairs(plan: &Plan) -> Vec<Finding> {
    let mut findings = Vec::new();
    for &(workload, with_reads, rivals) in PAIRS {
        for ready in [1, N / 10, N] {
            let count = (plan.size(5_000, 20_000) / ready as u64).clamp(5, 1_000);
            let found = paired(plan, workload, Waits { ready, count, with_reads }, rivals);
            findings.extend(found.unwrap_or_else(|wrong| not_measured(workload, wrong)));
        }
    }
    findings
}

fn paired(
    plan: &Plan,
    workload: &'static str,
    waits: Waits,
    rivals: &[(&str, f64)],
) -> Result<Vec<Finding>, Wrong> {
    let sources = Sources::new(N)?;
    let takes_part = |name: &str| name == EPOLL || rivals.iter().any(|rival| rival.0 == name);
    let makes: Vec<_> = subjects().into_iter().filter(|(name, _)| takes_part(name)).collect();
    let mut rng = Rng::new(plan.seed);
    let mut order: Vec<usize> = (0..makes.len()).collect();
    let mut samples = vec![Vec::new(); makes.len()];
    for _ in 0..plan.size(15, 41) {
        let seed = rng.draw();
        rng.shuffle(&mut order);
        for &subject in &order {
            let lap = wait(&mut *makes[subject].1()?, &sources, waits, seed)?;
            samples[subject].push(lap.elapsed.as_nanos() as f64 / lap.ops as f64);
        }
    }
    let of = |name: &str| {
        let index = makes.iter().position(|(known, _)| known == name)?;
        Some(&samples[index])
    };
    let verdict = |&(rival, at_most): &(&str, f64)| {
        let ratios: Vec<f64> = of(EPOLL)?.iter().zip(of(rival)?).map(|(a, b)| a / b).collect();
        let ratio = Summary::of(&ratios)?.median;
        Some(held(workload, waits.ready, EPOLL, rival, ratio, at_most))
    };
    Ok(rivals.iter().filter_map(verdict).collect())
}

fn held(
    workload: &'static str,
    ready: usize,
    ours: &'static str,
    rival: &str,
    ratio: f64,
    at_most: f64,
) -> Finding {
    let params = [("n", N as u64), ("ready", ready as u64)].into();
    let (workload, ours, rival) = (workload.into(), ours.into(), rival.into());
    Finding::Held(Verdict { workload, params, ours, rival, ratio, at_most })
}

/// The arguments that make this program wait `waits` times and do nothing else.
fn steady_run(subject: &str, ready: usize, waits: u64) -> Vec<String> {
    ["steady", subject, &N.to_string(), &ready.to_string(), &waits.to_string()]
        .map(String::from)
        .to_vec()
}

/// What the difference of a long and a short run, 200 waits, counts: set-up cancels out.
fn difference(
    subject: &str,
    ready: usize,
    count: impl Fn(&[String]) -> Result<Vec<u64>, String>,
) -> Result<Vec<f64>, String> {
    let short = count(&steady_run(subject, ready, 100))?;
    let long = count(&steady_run(subject, ready, 300))?;
    Ok(long.iter().zip(short).map(|(long, short)| (*long as f64 - short as f64) / 200.0).collect())
}

/// Instructions of the user's process an event, and allocations a wait.
fn instructions(_plan: &Plan) -> Vec<Finding> {
    let mut findings = Vec::new();
    let counted = |subject: &str, ready| {
        difference(subject, ready, |run| {
            callgrind(run).map(|cost| vec![cost.instructions, cost.allocations])
        })
    };
    for ready in [1, N / 10, N] {
        let (ours, rival) = match (counted(EPOLL, ready), counted("rustix", ready)) {
            (Ok(ours), Ok(rival)) => (ours, rival),
            (Err(why), _) | (_, Err(why)) => return not_measured("selectors/instructions", why),
        };
        for (subject, counts) in [(EPOLL, &ours), ("rustix", &rival)] {
            let each = counts[0] / ready as f64;
            println!("selectors/instructions n={N} ready={ready}: {subject} {each:.1} an event");
        }
        let ratio = ours[0] / rival[0];
        // With one event this is what a wait costs, and that is not held against the loop by hand,
        // which has neither a backend to be chosen nor wakes that cost nothing.
        if ready > 1 {
            findings.push(held("selectors/instructions", ready, EPOLL, "rustix", ratio, 1.30));
        }
        findings.push(held("selectors/allocations", ready, EPOLL, "one wait", ours[1], 0.0));
    }
    findings
}

/// System calls a wait, when a tenth is ready.
fn calls(_plan: &Plan) -> Vec<Finding> {
    let counted = |subject| {
        difference(subject, N / 10, |run| system_calls(run).map(|calls| vec![calls]))
            .map(|calls| calls[0])
    };
    match (counted(URING), counted(EPOLL)) {
        (Ok(uring), Ok(epoll)) => {
            vec![held("selectors/calls", N / 10, URING, EPOLL, uring / epoll, 1.0)]
        }
        (Err(why), _) | (_, Err(why)) => not_measured("selectors/calls", why),
    }
}

/// Lets one subject of `selectors` wait `waits` times for `ready` of `n` sources, and do nothing
/// else: what a profiler is to look at.
///
/// # Errors
/// If the subject is not known, `n` is odd or less than `ready`, or the answer is wrong.
pub fn steady_waits(subject: &str, n: usize, ready: usize, waits: u64) -> Result<(), Wrong> {
    if !n.is_multiple_of(2) || n < ready {
        return Err(Wrong(format!("{ready} of {n} sources: an even number, and enough of them")));
    }
    let make = subjects().into_iter().find(|(name, _)| name == subject);
    let (_, make) = make.ok_or_else(|| Wrong(format!("no subject is called {subject}")))?;
    let sources = Sources::new(n)?;
    steady(&mut *make()?, &sources, ready, waits)
}
