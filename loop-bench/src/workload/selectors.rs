//! Selectors alone, without a loop: sockets, some of which have something to read.

use std::cell::RefCell;
use std::fmt;
use std::io;
use std::rc::Rc;
use std::sync::OnceLock;

use ::loop_selector::{Selector, available};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::Workload;
use super::selector_loads::{Sources, Waits, modify, register, wait, wake};
use crate::finding::Finding;
#[cfg(target_os = "linux")]
use crate::rival::rustix_epoll;
use crate::rival::waiting::Make;
use crate::rival::{loop_selector, mio, polling};
use crate::row::Row;
use crate::sample::{Contest, Lap, Plan, Subject, Wrong};

/// `select` has no bits for higher numbers.
pub(super) const SELECT_LIMIT: usize = 1024;

/// polling's buffer is no longer, and cannot be made so.
const POLLING_LIMIT: usize = 1024;

/// What a program has open besides its sources.
const SPARE: usize = 16;

pub(super) const WORKLOAD: Workload = Workload {
    name: "selectors",
    about: "selectors alone, 10 to 10,000 sockets: wait, register, modify, wake_parked, wake_busy",
    bars: super::selector_bars::BARS,
    contests,
    derived,
    probes: super::selector_bars::PROBES,
    absent: absences,
};

fn sizes(plan: &Plan) -> &'static [usize] {
    plan.size(&[10, 1_000], &[10, 100, 1_000, 10_000])
}

fn contests(plan: &Plan) -> Vec<Contest> {
    selector_contests(plan, None)
}

/// A selector that somebody brings.
#[derive(Clone)]
pub(crate) struct Guest {
    pub(crate) name: String,
    pub(crate) make: Rc<dyn Fn() -> io::Result<Box<dyn Selector>>>,
}

impl fmt::Debug for Guest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guest").field("name", &self.name).finish_non_exhaustive()
    }
}

/// All contests, with one more subject in each if there is a guest.
pub(crate) fn selector_contests(plan: &Plan, guest: Option<&Guest>) -> Vec<Contest> {
    let mut contests = Vec::new();
    let contest = |workload, params: &[_], n, ready, round: Round| {
        contest(guest, workload, params, n, ready, round)
    };
    for &n in sizes(plan) {
        let mut counts = vec![1, n / 10, n];
        counts.dedup();
        for ready in counts {
            let count = (plan.size(2_000, 20_000) / ready as u64).clamp(5, 300);
            let waits = Waits { ready, count, with_reads: false };
            let params = [("n", n as u64), ("ready", ready as u64)];
            contests.push(contest(
                "selectors/wait",
                &params,
                n,
                ready,
                Rc::new(move |make, sources, seed| wait(&mut *make()?, sources, waits, seed)),
            ));
        }
    }
    for &n in sizes(plan) {
        let times = (plan.size(2_000, 10_000) / n as u64).max(1);
        let params = [("n", n as u64)];
        contests.push(contest(
            "selectors/register",
            &params,
            n,
            1,
            Rc::new(move |make, sources, _| register(&mut *make()?, sources, times)),
        ));
        contests.push(contest(
            "selectors/modify",
            &params,
            n,
            n,
            Rc::new(move |make, sources, _| modify(&mut *make()?, sources, times)),
        ));
    }
    let wakes = plan.size(2_000, 10_000);
    contests.push(contest(
        "selectors/wake_parked",
        &[],
        2,
        0,
        Rc::new(move |make, _, _| wake(&mut *make()?, false, wakes)),
    ));
    let wakes = plan.size(100_000, 500_000);
    contests.push(contest(
        "selectors/wake_busy",
        &[],
        2,
        0,
        Rc::new(move |make, _, _| wake(&mut *make()?, true, wakes)),
    ));
    contests
}

/// One round with a selector that is made for it, on the sources of the contest and the data of a seed.
type Round = Rc<dyn Fn(&Make, &Sources, u64) -> Result<Lap, Wrong>>;

/// A contest over `n` sources, `ready` of which are ready at once. All subjects share the sources;
/// they are made by the first that needs them.
fn contest(
    guest: Option<&Guest>,
    workload: &'static str,
    params: &[(&'static str, u64)],
    n: usize,
    ready: usize,
    round: Round,
) -> Contest {
    let shared: Rc<RefCell<Option<Sources>>> = Rc::default();
    let subject = |(name, make): (String, Make)| {
        let (shared, round) = (Rc::clone(&shared), Rc::clone(&round));
        Subject::new(name, move |seed| {
            let sources = match shared.take() {
                Some(sources) => sources,
                None => Sources::new(n)?,
            };
            let lap = round(&make, &sources, seed)?;
            // Only now: a subject that failed may have left something unread.
            shared.replace(Some(sources));
            Ok(lap)
        })
    };
    let takes_part = |(name, _): &(String, Make)| reason_against(name, n, ready).is_none();
    let guest = guest.map(|Guest { name, make }| {
        let make = Rc::clone(make);
        (name.clone(), Box::new(move || Ok(loop_selector::waiting(make()?))) as Make)
    });
    let subjects = subjects().into_iter().filter(takes_part).chain(guest).map(subject).collect();
    Contest::new(workload, params, subjects)
}

/// Every backend of this system by name, and the rivals.
pub(super) fn subjects() -> Vec<(String, Make)> {
    // Names of subjects are for ever, so they are not taken from the crate's name at hand.
    let ours = available()
        .iter()
        .map(|&name| (format!("loop-selector/{name}"), loop_selector::make(name)));
    let rivals: Vec<(&str, Make)> = vec![
        #[cfg(target_os = "linux")]
        ("rustix", Box::new(rustix_epoll::make)),
        ("mio", Box::new(mio::make)),
        ("polling", Box::new(polling::make)),
    ];
    ours.chain(rivals.into_iter().map(|(name, make)| (name.into(), make))).collect()
}

/// Why a subject cannot take part in a contest over `n` sources, `ready` of which are ready at once.
fn reason_against(subject: &str, n: usize, ready: usize) -> Option<String> {
    let limit = open_files();
    if n + SPARE > limit {
        return Some(format!("this process may open {limit} files"));
    }
    match subject {
        "loop-selector/select" if n + SPARE > SELECT_LIMIT => {
            Some(format!("select takes no number from {SELECT_LIMIT} on"))
        }
        "polling" if ready > POLLING_LIMIT => {
            Some(format!("polling tells of no more than {POLLING_LIMIT} in a wait"))
        }
        _ => loop_selector::refusal(subject.strip_prefix("loop-selector/")?).map(str::to_owned),
    }
}

/// How many files this process may have open, after the limit was raised as far as it goes.
pub(super) fn open_files() -> usize {
    static LIMIT: OnceLock<usize> = OnceLock::new();
    *LIMIT.get_or_init(|| {
        let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
        // If it is refused, what there is must do.
        _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
        let current = getrlimit(Resource::Nofile).current;
        current.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX))
    })
}

/// Who did not take part in which size, and why.
pub(super) fn absences(plan: &Plan) -> Vec<Finding> {
    let mut absences = Vec::new();
    for (subject, _) in subjects() {
        for &n in sizes(plan) {
            let (few, all) = (reason_against(&subject, n, 1), reason_against(&subject, n, n));
            let what = match few {
                Some(_) => format!("{subject} at n={n}"),
                None => format!("{subject} at n={n}, all ready"),
            };
            absences.extend(few.or(all).map(|why| Finding::NotMeasured { what, why }));
        }
    }
    absences
}

/// The backends that this system refuses, for workloads that are about what is built on them.
pub(super) fn refused() -> Vec<Finding> {
    let refusal = |&name| Some((name, loop_selector::refusal(name)?));
    let refused = available().iter().filter_map(refusal);
    refused
        .map(|(name, why)| Finding::NotMeasured { what: name.to_owned(), why: why.to_owned() })
        .collect()
}

/// What follows from the waits: their cost an event, and how it grows with the number of sources,
/// of which one is ready.
fn derived(rows: &[Row]) -> Vec<Row> {
    let param = |row: &Row, name| row.params.get(name).unwrap_or(0);
    let waits: Vec<&Row> = rows.iter().filter(|row| row.workload == "selectors/wait").collect();
    let several = waits.iter().filter(|row| param(row, "ready") > 1);
    let events =
        several.map(|row| row.scaled("selectors/event", "ns/event", param(row, "ready") as f64));
    let single: Vec<&Row> = waits.iter().filter(|row| param(row, "ready") == 1).copied().collect();
    let growth = single.iter().filter_map(|from| {
        let same = single.iter().filter(|row| row.subject == from.subject);
        let to = same.max_by_key(|row| param(row, "n"))?;
        if param(from, "n") != 10 || param(to, "n") == 10 {
            return None;
        }
        let row = to.scaled("selectors/growth", "times", from.summary.median);
        Some(Row { params: [("from", 10), ("to", param(to, "n"))].into(), ..row })
    });
    let mut growth: Vec<Row> = growth.collect();
    growth.sort_by_key(|row| param(row, "to"));
    events.chain(growth).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usable() -> impl Iterator<Item = (String, Make)> {
        subjects().into_iter().filter(|(name, _)| reason_against(name, 20, 20).is_none())
    }

    #[test]
    fn every_selector_gives_right_answers() {
        let sources = Sources::new(20).unwrap();
        for (name, make) in usable() {
            println!("{name}");
            let made = || make().unwrap();
            let check = |result: Result<Lap, Wrong>| {
                result.unwrap_or_else(|wrong| panic!("{name}: {wrong}"));
            };
            for (ready, with_reads) in [(5, false), (5, true), (20, false)] {
                check(wait(&mut *made(), &sources, Waits { ready, count: 50, with_reads }, 1));
            }
            check(register(&mut *made(), &sources, 3));
            check(modify(&mut *made(), &sources, 3));
            check(wake(&mut *made(), false, 200));
            check(wake(&mut *made(), true, 2_000));
        }
    }

    #[test]
    fn who_cannot_take_part_does_not() {
        let takes_part = |subject: &str, n| {
            let of_size = |contest: &Contest| contest.params() == [("n", n), ("ready", n)];
            let contest = contests(&Plan::full(1)).into_iter().find(of_size);
            let subjects = contest.unwrap().into_subjects();
            subjects.iter().any(|one| one.name() == subject)
        };
        for subject in ["loop-selector/select", "polling"] {
            assert!(takes_part(subject, 100));
            assert!(!takes_part(subject, 10_000));
        }
        let absences = absences(&Plan::full(1));
        let told = absences.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
        for what in ["loop-selector/select at n=10000: ", "polling at n=10000"] {
            assert!(told.contains(what), "{told}");
        }
    }

    #[test]
    fn the_growth_is_that_of_one_ready_from_ten_to_the_most() {
        let row = |n, ready, median| {
            let params = [("n", n), ("ready", ready)];
            Row::of("selectors/wait", "x", params, "ns/op", vec![median]).unwrap()
        };
        let rows = [row(10, 1, 4.0), row(10, 10, 50.0), row(100, 1, 6.0), row(1_000, 1, 20.0)];
        let derived = derived(&rows);
        assert_eq!(derived.len(), 2);
        assert_eq!((&*derived[0].workload, derived[0].summary.median), ("selectors/event", 5.0));
        assert_eq!((&*derived[1].workload, derived[1].summary.median), ("selectors/growth", 5.0));
        assert_eq!(derived[1].params.to_string(), " from=10 to=1000");
    }
}
