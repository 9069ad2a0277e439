//! [`Contest`]: subjects doing the same work on the same data, round by round in random order.

use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;
use std::time::{Duration, Instant};

use crate::latency::Latencies;
use crate::line::WrongAnswer;
use crate::meter::Meter;
use crate::params::Params;
use crate::rng::Rng;
use crate::row::{Costs, Row, is_ours};
use crate::stats::median;

// With them, all that a workload needs to make a contest.
pub use crate::round::{Lap, Plan, Wrong};

type Round = Box<dyn FnMut(u64) -> Result<Lap, Wrong>>;

/// One competitor: its name, which is for ever, and its round.
pub struct Subject {
    name: String,
    round: Round,
    latencies: Option<Rc<RefCell<Latencies>>>,
    is_elsewhere: bool,
}

impl Subject {
    /// `round` is given a seed, does the work on the data that the seed stands for, checks its
    /// own answer, and says how long the measured part took.
    pub fn new(
        name: impl Into<String>,
        round: impl FnMut(u64) -> Result<Lap, Wrong> + 'static,
    ) -> Self {
        Self { name: name.into(), round: Box::new(round), latencies: None, is_elsewhere: false }
    }

    /// The same; `latencies` is what the rounds record into. The warm-up's are thrown away.
    pub fn recording(self, latencies: Rc<RefCell<Latencies>>) -> Self {
        Self { latencies: Some(latencies), ..self }
    }

    /// The same; another process does its work, so the costs of this one say nothing of it and are left out.
    pub fn elsewhere(self) -> Self {
        Self { is_elsewhere: true, ..self }
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

    /// The same subject, slowed: after the measured part of each round it burns `percent` of that
    /// part's time, and owns up to it. To try out what finds regressions.
    pub fn slowed(self, percent: u32) -> Self {
        let Self { name, mut round, latencies, is_elsewhere } = self;
        let round = Box::new(move |seed| {
            let lap = round(seed)?;
            Ok(Lap { elapsed: lap.elapsed + burn(lap.elapsed * percent / 100), ..lap })
        });
        Self { name, round, latencies, is_elsewhere }
    }
}

/// Keeps the processor busy for `time`; how long it really was.
fn burn(time: Duration) -> Duration {
    let start = Instant::now();
    while start.elapsed() < time {
        std::hint::spin_loop();
    }
    start.elapsed()
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
    unit: &'static str,
}

impl Contest {
    /// A contest of the workload `workload` (`timers/churn`), with the numbers that shape it.
    pub fn new(
        workload: &'static str,
        params: &[(&'static str, u64)],
        subjects: Vec<Subject>,
    ) -> Self {
        Self { workload, params: params.to_vec(), subjects, unit: "ns/op" }
    }

    /// The same, in another unit than nanoseconds, `bytes`: each nanosecond of a lap stands for one, and a row tells how
    /// many there are to an operation.
    pub fn measuring(self, unit: &'static str) -> Self {
        Self { unit, ..self }
    }

    /// Lets one more subject take part.
    pub fn add(&mut self, subject: Subject) {
        self.subjects.push(subject);
    }

    /// Lets only those take part whom `takes_part` names.
    pub fn retain(&mut self, mut takes_part: impl FnMut(&str) -> bool) {
        self.subjects.retain(|subject| takes_part(&subject.name));
    }

    /// Lets no more than `count` rivals take part, those that come first, beside all of ours.
    pub fn keep_rivals(&mut self, count: usize) {
        let mut rivals = 0;
        self.retain(|name| {
            let is_ours = is_ours(name);
            rivals += usize::from(!is_ours);
            is_ours || rivals <= count
        });
    }

    /// Puts what `change` makes of each subject in its place.
    pub fn map(&mut self, change: impl FnMut(Subject) -> Subject) {
        self.subjects = std::mem::take(&mut self.subjects).into_iter().map(change).collect();
    }

    /// The workload's full name.
    pub fn workload(&self) -> &'static str {
        self.workload
    }

    /// The numbers that shape it.
    pub fn params(&self) -> &[(&'static str, u64)] {
        &self.params
    }

    /// The subjects.
    pub fn subjects(&self) -> &[Subject] {
        &self.subjects
    }

    /// The subjects, for a harness other than [`run`](Self::run).
    pub fn into_subjects(self) -> Vec<Subject> {
        self.subjects
    }

    /// Runs the contest: one round of each subject to warm up, then `plan.rounds()` rounds; in each
    /// round all subjects get the same seed, in a new random order, so that a slow spell of the
    /// machine hits all alike. A subject whose answer is wrong leaves the contest.
    pub fn run(self, plan: &Plan, rng: &mut Rng) -> Outcome {
        self.run_watched(plan, rng, |_turn| {})
    }

    /// The same; `watch` is told of each turn before it begins. It runs outside the measured part.
    pub fn run_watched(
        mut self,
        plan: &Plan,
        rng: &mut Rng,
        mut watch: impl FnMut(Turn<'_>),
    ) -> Outcome {
        let mut scores: Vec<Score> = self.subjects.iter().map(|_| Score::default()).collect();
        let mut order: Vec<usize> = (0..self.subjects.len()).collect();
        for round in 0..=plan.rounds() {
            let seed = rng.draw();
            rng.shuffle(&mut order);
            for &index in &order {
                let (subject, score) = (&mut self.subjects[index], &mut scores[index]);
                if score.wrong.is_some() {
                    continue;
                }
                watch(Turn { subject: &subject.name, round });
                let meter = Meter::start();
                match (subject.round)(seed) {
                    Ok(lap) if round > 0 => score.add(lap, meter.stop()),
                    Ok(_warm_up) => {
                        subject.latencies.iter().for_each(|all| all.borrow_mut().clear())
                    }
                    Err(error) => score.wrong = Some(error),
                }
            }
        }
        self.outcome(scores)
    }

    fn outcome(self, scores: Vec<Score>) -> Outcome {
        let mut outcome = Outcome::default();
        for (subject, score) in self.subjects.into_iter().zip(scores) {
            let Score { rounds, user, system, wrong } = score;
            let (name, params) = (subject.name, Params::from(&self.params[..]));
            let row = Row::of(self.workload, name.clone(), params, self.unit, rounds);
            match (wrong, row) {
                (None, Some(row)) if subject.is_elsewhere => outcome.rows.push(row),
                (None, Some(row)) => outcome.rows.push(Row {
                    processor: user
                        .iter()
                        .zip(&system)
                        .map(|(user, system)| user + system)
                        .collect(),
                    costs: Costs { user: median(&user), system: median(&system), ..row.costs },
                    curve: subject.latencies.map_or(vec![], |all| all.borrow().curve()),
                    ..row
                }),
                (wrong, _) => outcome.wrong.push(WrongAnswer {
                    workload: self.workload.to_owned(),
                    subject: name,
                    why: wrong.map_or_else(|| "no round was run".into(), |wrong| wrong.0),
                }),
            }
        }
        outcome
    }
}

/// What is about to be run.
#[derive(Clone, Copy, Debug)]
pub struct Turn<'a> {
    /// Whose turn it is.
    pub subject: &'a str,
    /// The round; 0 is the warm-up.
    pub round: usize,
}

/// A subject's counted rounds, an operation.
#[derive(Default)]
struct Score {
    rounds: Vec<f64>,
    user: Vec<f64>,
    system: Vec<f64>,
    wrong: Option<Wrong>,
}

impl Score {
    fn add(&mut self, lap: Lap, meter: Meter) {
        let each = |time: Duration| time.as_nanos() as f64 / lap.ops.max(1) as f64;
        self.rounds.push(each(lap.elapsed));
        self.user.push(each(meter.user));
        self.system.push(each(meter.system));
    }
}

/// What came of a contest.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// One a subject whose answers were all right.
    pub rows: Vec<Row>,
    /// Whose were not.
    pub wrong: Vec<WrongAnswer>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Summary;

    const PLAN: Plan = Plan::quick(1);

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
    fn what_is_not_time_bears_its_unit() {
        let subject = Subject::new("a", |_| Ok(Lap::of_bytes(4_096, 2)));
        let contest = Contest::new("w", &[], vec![subject]).measuring("bytes");
        let row = contest.run(&PLAN, &mut Rng::new(1)).rows.remove(0);
        assert_eq!((&*row.unit, row.summary.median), ("bytes", 2_048.0));
    }

    #[test]
    fn what_is_done_elsewhere_has_no_costs_here() {
        let here = Subject::new("here", |_| Ok(lap(1, 1)));
        let there = Subject::new("there", |_| Ok(lap(1, 1))).elsewhere().slowed(1);
        let outcome = Contest::new("w", &[], vec![here, there]).run(&PLAN, &mut Rng::new(1));
        let [here, there] = &outcome.rows[..] else { panic!("{outcome:?}") };
        assert!(here.costs.user.is_some() && here.processor.len() == 3);
        assert!(there.costs.is_empty() && there.processor.is_empty() && there.rounds.len() == 3);
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
        assert_eq!(outcome.wrong.len(), 1);
        assert_eq!(outcome.wrong[0].to_string(), "w flaky: 2 + 2 = 5");
        assert_eq!(outcome.rows.len(), 1);
        assert_eq!(outcome.rows[0].subject, "sound");
    }
}
