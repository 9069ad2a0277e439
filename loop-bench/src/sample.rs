//! [`Contest`]: subjects doing the same work on the same data, round by round in random order.

use std::fmt;
use std::time::{Duration, Instant};

use crate::rng::Rng;
use crate::stats::Summary;

/// How a run is to be done.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Smaller sizes and fewer rounds.
    pub quick: bool,
    /// Decides the data and the order of the subjects.
    pub seed: u64,
}

impl Plan {
    /// Counted rounds of each subject, after one that warms up.
    pub fn rounds(&self) -> usize {
        if self.quick { 3 } else { 9 }
    }

    /// `quick` or `full`, whichever the plan is.
    pub fn size<T>(&self, quick: T, full: T) -> T {
        if self.quick { quick } else { full }
    }
}

/// An answer that is not the one the workload knows to be right, or none at all: what was expected
/// and what came. One of these makes the whole run fail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong(pub String);

impl Wrong {
    /// `Ok` if the two are equal, else what differs.
    pub fn unless_equal<T: PartialEq + fmt::Debug>(
        what: &str,
        found: T,
        expected: T,
    ) -> Result<(), Self> {
        if found == expected {
            return Ok(());
        }
        Err(Self(format!("{what}: found {found:?}, expected {expected:?}")))
    }
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Wrong {}

impl From<std::io::Error> for Wrong {
    fn from(error: std::io::Error) -> Self {
        Self(format!("input/output: {error}"))
    }
}

/// What one round of one subject took: the time of the measured part alone, and the operations in it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lap {
    /// Of the measured part, without set-up and checks.
    pub elapsed: Duration,
    /// How many operations the measured part did.
    pub ops: u64,
}

impl Lap {
    /// Times `work`, which does `ops` operations.
    pub fn time<R>(ops: u64, work: impl FnOnce() -> R) -> (Self, R) {
        let start = Instant::now();
        let result = work();
        (Self { elapsed: start.elapsed(), ops }, result)
    }

    /// The two laps as one.
    pub fn plus(self, other: Self) -> Self {
        Self { elapsed: self.elapsed + other.elapsed, ops: self.ops + other.ops }
    }

    fn nanoseconds_per_op(self) -> f64 {
        self.elapsed.as_nanos() as f64 / self.ops.max(1) as f64
    }
}

type Round = Box<dyn FnMut(u64) -> Result<Lap, Wrong>>;

/// One competitor: its name, which is for ever, and its round.
pub struct Subject {
    name: String,
    round: Round,
}

impl Subject {
    /// `round` is given a seed, does the work on the data that the seed stands for, checks its
    /// own answer, and says how long the measured part took.
    pub fn new(
        name: impl Into<String>,
        round: impl FnMut(u64) -> Result<Lap, Wrong> + 'static,
    ) -> Self {
        Self { name: name.into(), round: Box::new(round) }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// One round, for a harness other than [`Contest::run`].
    ///
    /// # Errors
    /// If its answer was wrong.
    pub fn round(&mut self, seed: u64) -> Result<Lap, Wrong> {
        (self.round)(seed)
    }
}

impl fmt::Debug for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subject").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Subjects that do the same work with the same parameters.
#[derive(Debug)]
pub struct Contest {
    workload: &'static str,
    params: Vec<(&'static str, u64)>,
    subjects: Vec<Subject>,
}

impl Contest {
    /// A contest of the workload `workload` (`timers/churn`), with the numbers that shape it.
    pub fn new(
        workload: &'static str,
        params: &[(&'static str, u64)],
        subjects: Vec<Subject>,
    ) -> Self {
        Self { workload, params: params.to_vec(), subjects }
    }

    /// Lets one more subject take part.
    pub fn add(&mut self, subject: Subject) {
        self.subjects.push(subject);
    }

    /// The workload's full name.
    pub fn workload(&self) -> &'static str {
        self.workload
    }

    /// The numbers that shape it.
    pub fn params(&self) -> &[(&'static str, u64)] {
        &self.params
    }

    /// The subjects, for a harness other than [`run`](Self::run).
    pub fn into_subjects(self) -> Vec<Subject> {
        self.subjects
    }

    /// Runs the contest: one round of each subject to warm up, then `plan.rounds()` rounds; in each
    /// round all subjects get the same seed, in a new random order, so that a slow spell of the
    /// machine hits all alike. A subject whose answer is wrong leaves the contest.
    pub fn run(mut self, plan: &Plan, rng: &mut Rng) -> Outcome {
        let mut samples = vec![Vec::new(); self.subjects.len()];
        let mut wrong: Vec<Option<Wrong>> = vec![None; self.subjects.len()];
        let mut order: Vec<usize> = (0..self.subjects.len()).collect();
        for round in 0..=plan.rounds() {
            let seed = rng.draw();
            rng.shuffle(&mut order);
            for &subject in &order {
                if wrong[subject].is_some() {
                    continue;
                }
                match (self.subjects[subject].round)(seed) {
                    Ok(lap) if round > 0 => samples[subject].push(lap.nanoseconds_per_op()),
                    Ok(_warm_up) => {}
                    Err(error) => wrong[subject] = Some(error),
                }
            }
        }
        self.outcome(&samples, wrong)
    }

    fn outcome(self, samples: &[Vec<f64>], wrong: Vec<Option<Wrong>>) -> Outcome {
        let mut outcome = Outcome::default();
        for ((subject, samples), wrong) in self.subjects.into_iter().zip(samples).zip(wrong) {
            match (wrong, Summary::of(samples)) {
                (None, Some(summary)) => outcome.rows.push(Row {
                    workload: self.workload,
                    subject: subject.name,
                    params: self.params.clone(),
                    unit: "ns/op",
                    summary,
                }),
                (wrong, _) => {
                    let why = wrong.unwrap_or_else(|| Wrong("no round was run".into()));
                    outcome.wrong.push((self.workload, subject.name, why));
                }
            }
        }
        outcome
    }
}

/// One result: a subject in a contest.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The workload's full name, `timers/churn`.
    pub workload: &'static str,
    /// The subject's name, `tokio-util`.
    pub subject: String,
    /// The numbers that shape the workload, `n` = 100,000.
    pub params: Vec<(&'static str, u64)>,
    /// What the summary counts; less is better in every unit there is.
    pub unit: &'static str,
    /// Of the counted rounds.
    pub summary: Summary,
}

/// What came of a contest.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// One a subject whose answers were all right.
    pub rows: Vec<Row>,
    /// Workload and subject of each wrong answer, and what was wrong.
    pub wrong: Vec<(&'static str, String, Wrong)>,
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use super::*;

    const PLAN: Plan = Plan { quick: true, seed: 1 };

    fn lap(nanoseconds: u64, ops: u64) -> Lap {
        Lap { elapsed: Duration::from_nanos(nanoseconds), ops }
    }

    #[test]
    fn the_warm_up_is_not_counted() {
        let mut took = vec![30, 20, 10, 1_000_000].into_iter().rev();
        let subject = Subject::new("a", move |_| Ok(lap(took.next().unwrap(), 10)));
        let outcome = Contest::new("w", &[("n", 10)], vec![subject]).run(&PLAN, &mut Rng::new(1));
        let summary = outcome.rows[0].summary;
        assert_eq!(summary, Summary { median: 2.0, min: 1.0, max: 3.0, samples: 3 });
    }

    #[test]
    fn a_round_has_one_seed_and_every_subject_once() {
        let log = Rc::new(RefCell::new(Vec::new()));
        let subject = |name: &'static str| {
            let log = Rc::clone(&log);
            Subject::new(name, move |seed| {
                log.borrow_mut().push((seed, name));
                Ok(lap(1, 1))
            })
        };
        let subjects = vec![subject("a"), subject("b"), subject("c")];
        Contest::new("w", &[], subjects).run(&PLAN, &mut Rng::new(1));
        let log = log.borrow();
        assert_eq!(log.len(), 12);
        let mut seeds = Vec::new();
        for round in log.chunks(3) {
            assert!(round.iter().all(|&(seed, _)| seed == round[0].0));
            let mut names: Vec<_> = round.iter().map(|&(_, name)| name).collect();
            names.sort_unstable();
            assert_eq!(names, ["a", "b", "c"]);
            seeds.push(round[0].0);
        }
        seeds.sort_unstable();
        seeds.dedup();
        assert_eq!(seeds.len(), 4);
    }

    #[test]
    fn a_wrong_answer_takes_its_subject_out_and_is_told() {
        let mut rounds = 0;
        let flaky = Subject::new("flaky", move |_| {
            rounds += 1;
            assert!(rounds <= 2, "it was run after its wrong answer");
            if rounds == 2 { Err(Wrong("2 + 2 = 5".into())) } else { Ok(lap(1, 1)) }
        });
        let sound = Subject::new("sound", |_| Ok(lap(1, 1)));
        let outcome = Contest::new("w", &[], vec![flaky, sound]).run(&PLAN, &mut Rng::new(1));
        assert_eq!(outcome.wrong, [("w", "flaky".to_string(), Wrong("2 + 2 = 5".into()))]);
        assert_eq!(outcome.rows.len(), 1);
        assert_eq!(outcome.rows[0].subject, "sound");
    }

    #[test]
    fn unless_equal_names_both_sides() {
        assert_eq!(Wrong::unless_equal("sum", 3, 3), Ok(()));
        let wrong = Wrong::unless_equal("sum", 3, 4).unwrap_err();
        assert_eq!(wrong.to_string(), "sum: found 3, expected 4");
    }
}
