//! [`Comparison`]: two runs of one set of workloads, and what is slower in the newer one.
//!
//! A run of a hundred rows has a few that are off by chance, and a machine is now and then slower for
//! minutes. So no row is judged alone:
//!
//! - What a row costs is taken twice: by its least round, for noise only ever adds, and by the middle
//!   of its rounds relative to the rivals of the same round, for a slow spell hits all of a round
//!   alike. The rivals have not changed, or not all of them, so what moved them all, the *drift*,
//!   is the machine's doing.
//! - The noise is what moved between the two runs that should not have: the usual change of the
//!   rivals, or of all rows if that is less.
//! - A subject's change is the median of its rows', relative to the rivals, as far as the least rounds show at
//!   least half of it. It is flagged if that is so many times the noise that one flag in a thousand
//!   comparisons, of all subjects together, is left to chance.
//! - A row's change is the smaller of its two, and none if they disagree in direction. It is flagged if it moved far
//!   beyond the noise, its family's and its own, which its rounds tell of, those of one process as one; if all of its newer
//!   rounds are on one side of all the older; and if there is a rival beside it.
//! - All of this is done twice, with the time of the rounds and with their processor time, which a busy
//!   machine moves less and which does not see who waits.
//! - What moved by less than five percent is never flagged: the layout of a program in memory does that.

mod change;
mod judgement;
mod pair;

use std::fmt;

use self::change::percent;
use self::judgement::MEASURES;
use self::pair::is_same;
use crate::results::Results;

pub use self::change::Change;
pub use self::judgement::Judgement;

/// Two runs, compared.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// By the time of the rounds, and by their processor time.
    pub judgements: Vec<Judgement>,
    /// Rows that only the older run has.
    pub gone: Vec<String>,
    /// Rows that only the newer run has.
    pub fresh: Vec<String>,
    /// What makes the comparison doubtful.
    pub warnings: Vec<String>,
}

impl Comparison {
    /// Compares what both runs have.
    pub fn of(old: &Results, new: &Results) -> Self {
        let judgements = MEASURES.map(|measure| Judgement::of(measure, old, new));
        Self {
            // Not every row has a processor time.
            judgements: judgements.into_iter().filter(|one| !one.rows.is_empty()).collect(),
            gone: missing(old, new),
            fresh: missing(new, old),
            warnings: warnings(old, new),
        }
    }

    /// Subjects and rows that are slower, beyond noise, each with its measure.
    pub fn slower(&self) -> impl Iterator<Item = (&'static str, &Change)> {
        self.all().filter(|(_, change)| change.is_slower())
    }

    /// Subjects and rows that are faster, beyond noise, each with its measure.
    pub fn faster(&self) -> impl Iterator<Item = (&'static str, &Change)> {
        self.all().filter(|(_, change)| change.is_faster())
    }

    fn all(&self) -> impl Iterator<Item = (&'static str, &Change)> {
        self.judgements.iter().flat_map(|one| one.all().map(|change| (one.measure, change)))
    }
}

/// The lines that `loop-bench compare` prints.
impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for warning in &self.warnings {
            writeln!(f, "CAUTION {warning}")?;
        }
        for row in &self.gone {
            writeln!(f, "only in the older: {row}")?;
        }
        for row in &self.fresh {
            writeln!(f, "only in the newer: {row}")?;
        }
        for (measure, change) in self.faster() {
            writeln!(f, "faster by {measure}: {change}")?;
        }
        for (measure, change) in self.slower() {
            writeln!(f, "SLOWER by {measure}: {change}")?;
        }
        for one in &self.judgements {
            let slower = one.all().filter(|change| change.is_slower()).count();
            let faster = one.all().filter(|change| change.is_faster()).count();
            write!(
                f,
                "{} rows of {} subjects by {}: ",
                one.rows.len(),
                one.subjects.len(),
                one.measure
            )?;
            match (slower, faster) {
                (0, 0) => write!(f, "no change beyond the noise")?,
                _ => write!(f, "{slower} flagged as slower, {faster} as faster")?,
            }
            let (drift, noise) = (percent(one.drift), percent(one.noise));
            writeln!(
                f,
                "; all rivals moved by {drift:+.1} %, a row moves by {noise:.1} % by chance"
            )?;
        }
        Ok(())
    }
}

fn missing(from: &Results, other: &Results) -> Vec<String> {
    let rows = from.rows.iter().filter(|row| !row.derived);
    rows.filter(|row| !other.rows.iter().any(|known| is_same(row, known)))
        .map(|row| format!("{}{}  {}", row.workload, row.params, row.subject))
        .collect()
}

fn warnings(old: &Results, new: &Results) -> Vec<String> {
    let mut warnings = Vec::new();
    let mut differ = |what: &str, old: &str, new: &str| {
        if old != new {
            warnings.push(format!("the {what} differs: {old}, {new}"));
        }
    };
    differ("processor", &old.machine.cpu, &new.machine.cpu);
    differ("number of cores", &old.machine.cores.to_string(), &new.machine.cores.to_string());
    differ("kernel", &old.machine.kernel, &new.machine.kernel);
    differ("compiler", &old.machine.rustc, &new.machine.rustc);
    differ("build", &old.machine.profile, &new.machine.profile);
    differ("pinning", &old.run.pins, &new.run.pins);
    let plan = |run: &Results| if run.run.quick { "quick" } else { "full" };
    differ("plan", plan(old), plan(new));
    for wrong in &new.wrong {
        warnings.push(format!("{} {} was wrong: {}", wrong.workload, wrong.subject, wrong.why));
    }
    warnings
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::machine::Machine;
    use crate::rng::Rng;
    use crate::row::Row;
    use crate::run_info::RunInfo;

    const SUBJECTS: [&str; 6] = ["loop-x/epoll", "loop-x/poll", "loop-y", "std", "tokio", "mio"];

    /// A machine that is as bad as those that one measures on: from run to run, and row by row, some
    /// percent; a slow spell now and then that hits all of a round; and now and then a row alone.
    fn run(rng: &mut Rng, rounds: usize, workloads: usize, slowed: Option<&str>) -> Results {
        let mut chance = Rng::new(rng.draw());
        let mut normal = move || {
            let uniform = |_| chance.below(1 << 20) as f64 / f64::from(1 << 20);
            (0..12).map(uniform).sum::<f64>() - 6.0
        };
        let drift = 0.05 * normal();
        let mut rows = Vec::new();
        for workload in 0..workloads {
            let noise = [0.01, 0.02, 0.04][workload % 3];
            let spells: Vec<f64> =
                (0..rounds).map(|_| if rng.below(8) == 0 { 0.3 } else { 0.0 }).collect();
            for (place, subject) in SUBJECTS.into_iter().enumerate() {
                let slow = if Some(subject) == slowed { 0.15_f64.ln_1p() } else { 0.0 };
                let day = drift + noise * normal() / 2.0 + slow;
                let rounds = spells.iter().map(|spell| {
                    let hiccup = if rng.below(40) == 0 { 0.5 } else { 0.0 };
                    let base = 50.0 * (1 + place + workload) as f64;
                    base * (day + spell + hiccup + noise * normal()).exp()
                });
                let name = format!("family{}/w", workload % 3);
                let params = [("n", workload as u64)];
                rows.extend(Row::of(name, subject, params, "ns/op", rounds.collect()));
            }
        }
        Results {
            path: PathBuf::from("made-up"),
            machine: Machine::default(),
            run: RunInfo::default(),
            rows,
            findings: Vec::new(),
            wrong: Vec::new(),
        }
    }

    #[test]
    fn two_runs_of_the_same_are_not_told_apart() {
        let mut rng = Rng::new(1);
        for rounds in [3, 9] {
            let mut alarms = 0;
            for _ in 0..100 {
                let (old, new) = (run(&mut rng, rounds, 12, None), run(&mut rng, rounds, 12, None));
                alarms += usize::from(Comparison::of(&old, &new).slower().next().is_some());
            }
            assert_eq!(alarms, 0, "of 100 comparisons of {rounds} rounds");
        }
    }

    #[test]
    fn a_subject_that_is_slowed_by_fifteen_percent_is_found_and_no_other() {
        let mut rng = Rng::new(2);
        for rounds in [3, 9] {
            for slowed in ["loop-x/epoll", "loop-y", "tokio"] {
                for number in 0..20 {
                    let old = run(&mut rng, rounds, 12, None);
                    let new = run(&mut rng, rounds, 12, Some(slowed));
                    let comparison = Comparison::of(&old, &new);
                    let found: Vec<_> = comparison.judgements[0]
                        .subjects
                        .iter()
                        .filter(|one| one.is_slower())
                        .collect();
                    let is_found = found.len() == 1 && found[0].subject == slowed;
                    let subjects = &comparison.judgements[0].subjects;
                    assert!(is_found, "{slowed}, {rounds} rounds, {number}: {subjects:?}");
                }
            }
        }
    }

    #[test]
    fn what_a_busy_machine_hides_from_the_clock_shows_in_the_processor_time() {
        let mut rng = Rng::new(5);
        // The rounds of one run as the processor time of another, whose own rounds are far too noisy.
        let mut busy = |slowed| {
            let mut results = run(&mut rng, 3, 12, slowed);
            for row in &mut results.rows {
                row.processor = row.rounds.clone();
                let noise = |round: &f64| round * (1.0 + rng.below(3_000) as f64 / 1e3);
                let rounds = row.rounds.iter().map(noise).collect();
                let name = (row.workload.clone(), row.subject.clone(), row.params.clone());
                let noisy = Row::of(name.0, name.1, name.2, "ns/op", rounds).unwrap();
                *row = Row { processor: row.processor.clone(), ..noisy };
            }
            results
        };
        let comparison = Comparison::of(&busy(None), &busy(Some("loop-y")));
        let slower: Vec<_> = comparison.slower().filter(|(_, one)| one.rows > 1).collect();
        assert_eq!(slower.len(), 1, "{comparison}");
        assert_eq!((slower[0].0, &*slower[0].1.subject), ("processor time", "loop-y"));
    }

    #[test]
    fn what_is_faster_is_told_and_is_no_regression() {
        let mut rng = Rng::new(3);
        let new = run(&mut rng, 9, 12, None);
        let old = run(&mut rng, 9, 12, Some("loop-y"));
        let comparison = Comparison::of(&old, &new);
        assert_eq!(comparison.slower().count(), 0, "{comparison}");
        assert!(comparison.faster().any(|(_, change)| change.subject == "loop-y"), "{comparison}");
    }

    #[test]
    fn what_is_missing_and_what_differs_is_told() {
        let mut rng = Rng::new(4);
        let (old, mut new) = (run(&mut rng, 3, 1, None), run(&mut rng, 3, 1, None));
        new.rows.remove(0);
        new.run.quick = true;
        let text = Comparison::of(&old, &new).to_string();
        assert!(text.contains("only in the older: family0/w n=0  loop-x/epoll"), "{text}");
        assert!(text.contains("CAUTION the plan differs: full, quick"), "{text}");
    }
}
