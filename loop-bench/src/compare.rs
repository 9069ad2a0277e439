//! [`Comparison`]: two runs of one set of workloads, and what is slower in the newer one.
//!
//! A run of a hundred rows has a few that are off by chance, and a machine is now and then slower for
//! minutes. So no row is judged alone:
//!
//! - What a row costs is taken twice: by its least round, for noise only ever adds, and by the median
//!   of its rounds relative to the rivals of the same round, for a slow spell hits all of a round
//!   alike. The rivals have not changed, or not all of them, so what moved them all, the *drift*,
//!   is the machine's doing. A change counts as the smaller of the two, and as none if they
//!   disagree in direction.
//! - The noise is what moved between the two runs that should not have: the usual change of the
//!   rivals, or of all rows if that is less.
//! - A subject is flagged if the median of its rows moved by so many times the noise that one flag
//!   in a thousand comparisons, of all subjects together, is left to chance.
//! - A row is flagged if it moved far beyond the noise, its family's and its own, which its rounds
//!   tell of; and if all of its newer rounds are on one side of all the older.
//! - All of this is done twice, with the time of the rounds and with their processor time, which a busy
//!   machine moves less and which does not see who waits.
//! - What moved by less than five percent is never flagged: the layout of a program in memory does that.

use std::collections::BTreeMap;
use std::fmt;

use crate::results::Results;
use crate::row::Row;
use crate::stats::{Summary, median};

/// What moved by less is not worth a flag, as a logarithm.
const LEAST: f64 = 0.05;

/// The chance that a comparison of two runs of the same program flags anything.
const FALSE_ALARM: f64 = 1e-3;

/// No noise is less than this, whatever a few rows say.
const LEAST_NOISE: f64 = 0.01;

/// Single rows stray further than the normal distribution knows: their limits are so much wider.
const TAILS: f64 = 1.4;

/// So many independent rows a subject's rows are worth at most: they share the program and the day.
const INDEPENDENT: usize = 4;

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

/// Two runs, compared by one measure.
#[derive(Clone, Debug)]
pub struct Judgement {
    /// `time` or `processor time`.
    pub measure: &'static str,
    /// Each row that both runs have, in the order of the newer.
    pub rows: Vec<Change>,
    /// Each subject, over all of its rows.
    pub subjects: Vec<Change>,
    /// The change of all rivals alike, which is the machine's: a logarithm.
    pub drift: f64,
    /// What a row moves by chance: a standard deviation, as a logarithm.
    pub noise: f64,
}

/// A row, or a subject, in two runs.
#[derive(Clone, Debug)]
pub struct Change {
    /// The workload with its parameters; empty for a subject over all of its rows.
    pub contest: String,
    /// Whose.
    pub subject: String,
    /// How many rows it speaks for.
    pub rows: usize,
    /// The logarithm of the ratio of the newer cost to the older: above 0, slower.
    pub change: f64,
    /// What the change would have to exceed to be flagged.
    pub limit: f64,
}

impl Change {
    /// Whether it is slower, beyond noise.
    pub fn is_slower(&self) -> bool {
        self.change > self.limit
    }

    /// Whether it is faster, beyond noise.
    pub fn is_faster(&self) -> bool {
        -self.change > self.limit
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { contest, subject, rows, change, limit } = self;
        if contest.is_empty() {
            write!(f, "{subject}, {rows} rows")?;
        } else {
            write!(f, "{contest}  {subject}")?;
        }
        write!(f, ": {:+.1} % (noise: up to {:.1} %)", percent(*change), percent(*limit))
    }
}

fn percent(logarithm: f64) -> f64 {
    logarithm.exp_m1() * 100.0
}

/// What is compared: a name, and the rounds.
type Measure = (&'static str, fn(&Row) -> &[f64]);

const MEASURES: [Measure; 2] =
    [("time", |row| &row.rounds), ("processor time", |row| &row.processor)];

impl Judgement {
    fn of((measure, rounds): Measure, old: &Results, new: &Results) -> Self {
        let pairs: Vec<Pair> = new
            .rows
            .iter()
            .filter(|row| !row.derived)
            .filter_map(|row| Pair::of(row, old, new, rounds))
            .collect();
        let drift = drift(&pairs);
        let noise = strays(&pairs, drift).unwrap_or(0.0).max(LEAST_NOISE);

        let mut families: BTreeMap<&str, Vec<&Pair>> = BTreeMap::new();
        pairs.iter().for_each(|pair| families.entry(pair.row.family()).or_default().push(pair));
        let usual = |pairs: Vec<&Pair>| {
            let told: Vec<f64> = pairs.iter().map(|pair| pair.noise).collect();
            let strays = strays(pairs.iter().copied(), drift).unwrap_or(0.0);
            median(&told).unwrap_or(0.0).max(strays).max(noise)
        };
        let families: BTreeMap<&str, f64> =
            families.into_iter().map(|(family, pairs)| (family, usual(pairs))).collect();
        let limit = |noise: f64, of: usize| {
            // Rows and subjects, by each measure.
            let judged = 2 * MEASURES.len() * of;
            LEAST.max(noise * deviations(FALSE_ALARM / judged as f64))
        };
        let rows: Vec<Change> = pairs
            .iter()
            .map(|pair| Change {
                contest: format!("{}{}", pair.row.workload, pair.row.params),
                subject: pair.row.subject.clone(),
                rows: 1,
                change: pair.change(drift),
                limit: if pair.is_apart {
                    limit(TAILS * pair.noise.max(families[pair.row.family()]), pairs.len())
                } else {
                    f64::INFINITY
                },
            })
            .collect();

        let mut of_subject: BTreeMap<&str, Vec<&Pair>> = BTreeMap::new();
        pairs.iter().for_each(|pair| of_subject.entry(&pair.row.subject).or_default().push(pair));
        let count = of_subject.len();
        let subjects = of_subject.into_iter().map(|(subject, pairs)| {
            let changes: Vec<f64> = pairs.iter().map(|pair| pair.change(drift)).collect();
            let worth = pairs.len().min(INDEPENDENT) as f64;
            // A median of several is known worse than a mean, by a quarter. Of one or two it is
            // no better than a row, which is judged as such.
            let limit = match pairs.len() {
                0..3 => f64::INFINITY,
                _ => limit(1.25 * noise / worth.sqrt(), count),
            };
            let change = median(&changes).unwrap_or(0.0);
            let (contest, subject, rows) = (String::new(), subject.to_owned(), pairs.len());
            Change { contest, subject, rows, change, limit }
        });

        Self { measure, subjects: subjects.collect(), rows, drift, noise }
    }

    fn all(&self) -> impl Iterator<Item = &Change> {
        self.subjects.iter().chain(&self.rows)
    }
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

/// A row in both runs.
struct Pair<'a> {
    row: &'a Row,
    /// The change by the least round, and by the rounds relative to the rivals: logarithms.
    by_least: f64,
    by_rivals: Option<f64>,
    /// The standard error of the change that the rounds tell of.
    noise: f64,
    /// Whether all rounds of one run are above all of the other's.
    is_apart: bool,
}

impl<'a> Pair<'a> {
    fn of(
        row: &'a Row,
        old: &'a Results,
        new: &'a Results,
        rounds: fn(&Row) -> &[f64],
    ) -> Option<Self> {
        let before = old.rows.iter().find(|other| is_same(row, other))?;
        let least = |row: &Row| Some(Summary::of(rounds(row))?.min).filter(|min| *min > 0.0);
        let by_least = (least(row)? / least(before)?).ln();
        let relative = |run: &Results, row: &Row| relative_to_rivals(run, row, rounds);
        let (is, was) = (relative(new, row), relative(old, before));
        let by_rivals =
            is.as_ref().zip(was.as_ref()).and_then(|(is, was)| Some(median(is)? - median(was)?));
        let spread = |relative: Option<&Vec<f64>>, row: &Row| {
            let plain = standard_error(&logarithms(rounds(row)));
            relative.map_or(plain, |relative| standard_error(relative).min(plain))
        };
        let noise = spread(is.as_ref(), row).hypot(spread(was.as_ref(), before));
        let is_apart = match (&is, &was) {
            (Some(is), Some(was)) => are_apart(is, was),
            _ => are_apart(rounds(row), rounds(before)),
        };
        Some(Self { row, by_least, by_rivals, noise, is_apart })
    }

    /// The smaller of the two changes, if they agree in direction.
    fn change(&self, drift: f64) -> f64 {
        let by_least = self.by_least - drift;
        match self.by_rivals {
            None => by_least,
            Some(by_rivals) if by_rivals.signum() != by_least.signum() => 0.0,
            Some(by_rivals) => by_rivals.abs().min(by_least.abs()).copysign(by_least),
        }
    }
}

fn is_same(a: &Row, b: &Row) -> bool {
    a.is_beside(b) && a.subject == b.subject && a.unit == b.unit
}

fn logarithms(rounds: &[f64]) -> Vec<f64> {
    rounds.iter().map(|round| round.max(f64::MIN_POSITIVE).ln()).collect()
}

/// Each round's logarithm less the median of the rivals' in the same round; `None` if there are no
/// other rivals.
fn relative_to_rivals(run: &Results, row: &Row, rounds: fn(&Row) -> &[f64]) -> Option<Vec<f64>> {
    let rivals: Vec<Vec<f64>> = run
        .rows
        .iter()
        .filter(|rival| rival.is_beside(row) && !rival.is_ours() && rival.subject != row.subject)
        .map(|rival| logarithms(rounds(rival)))
        .collect();
    let relative = |(index, round): (usize, f64)| {
        let of_round: Vec<f64> =
            rivals.iter().filter_map(|rival| rival.get(index)).copied().collect();
        Some(round - median(&of_round)?)
    };
    logarithms(rounds(row)).into_iter().enumerate().map(relative).collect()
}

/// Of the median of `samples`, from their median distance to it; of three or fewer from their range.
fn standard_error(samples: &[f64]) -> f64 {
    let Some(middle) = median(samples) else { return 0.0 };
    let distances: Vec<f64> = samples.iter().map(|sample| (sample - middle).abs()).collect();
    let deviation = if samples.len() <= 3 {
        // The range of three normal samples is 1.69 standard deviations, on the average.
        let max = samples.iter().copied().fold(f64::MIN, f64::max);
        let min = samples.iter().copied().fold(f64::MAX, f64::min);
        (max - min) / 1.69
    } else {
        1.4826 * median(&distances).unwrap_or(0.0)
    };
    1.25 * deviation / (samples.len() as f64).sqrt()
}

/// The median of the rivals' changes, each rival's being the median of its rows: if one of them has changed, the
/// others are in the middle. Of fewer than three rivals none can be told from the machine.
fn drift(pairs: &[Pair<'_>]) -> f64 {
    let mut rivals: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for pair in pairs.iter().filter(|pair| !pair.row.is_ours()) {
        rivals.entry(&pair.row.subject).or_default().push(pair.by_least);
    }
    let changes: Vec<f64> = rivals.values().filter_map(|changes| median(changes)).collect();
    if changes.len() < 3 { 0.0 } else { median(&changes).unwrap_or(0.0) }
}

fn are_apart(one: &[f64], other: &[f64]) -> bool {
    match (Summary::of(one), Summary::of(other)) {
        (Some(one), Some(other)) => !one.overlaps(&other),
        _ => false,
    }
}

/// The standard deviation of what moved and should not have, by the median of the distances: of the rivals,
/// for they have not changed, or of all, if that is less: one of few rivals may have changed.
fn strays<'a>(pairs: impl IntoIterator<Item = &'a Pair<'a>> + Clone, drift: f64) -> Option<f64> {
    let distance = |pair: &Pair| {
        let by_least = (pair.by_least - drift).abs();
        pair.by_rivals.map_or(by_least, |by_rivals| by_rivals.abs().min(by_least))
    };
    let all: Vec<f64> = pairs.clone().into_iter().map(distance).collect();
    let rivals = pairs.into_iter().filter(|pair| !pair.row.is_ours());
    let rivals: Vec<f64> = rivals.map(distance).collect();
    let all = median(&all)?;
    Some(1.4826 * median(&rivals).map_or(all, |rivals| rivals.min(all)))
}

/// How many standard deviations above the mean a normal value lies with a probability of `tail`.
/// Source: Abramowitz and Stegun, 26.2.23; off by 0.00045 at most.
fn deviations(tail: f64) -> f64 {
    let t = (-2.0 * tail.ln()).sqrt();
    let over = 2.515_517 + t * (0.802_853 + t * 0.010_328);
    let under = 1.0 + t * (1.432_788 + t * (0.189_269 + t * 0.001_308));
    t - over / under
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
    use crate::results::RunInfo;
    use crate::rng::Rng;

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

    #[test]
    fn deviations_of_the_normal_distribution() {
        for (tail, expected) in [(0.5, 0.0), (0.158_655, 1.0), (0.001_35, 3.0), (2.866_5e-7, 5.0)] {
            assert!((deviations(tail) - expected).abs() < 1e-3, "{tail}");
        }
    }
}
