//! [`Selection`]: which workloads, which subjects.

use clap::Args;
use loop_bench::{Contest, Finding, Plan, Probe, Subject, Workload, backends};

/// What a command line picks out of all there is.
#[derive(Args, Clone, Debug, Default)]
pub(super) struct Selection {
    /// `timers`, `timers/churn`, …; without any, all
    #[arg(value_name = "WORKLOAD")]
    workloads: Vec<String>,
    /// Only these subjects: `tokio`, `loop-core/poll`, or `loop-core` for all of its backends
    #[arg(long = "subject", value_name = "NAME", value_delimiter = ',')]
    subjects: Vec<String>,
    /// Of this project's subjects, only those on these selectors
    #[arg(long = "backend", value_name = "NAME", value_delimiter = ',')]
    backends: Vec<String>,
    /// Every rival, where a quick run takes three a workload; of those that are missing on this machine it tells how
    /// to get them
    #[arg(long)]
    all_rivals: bool,
}

/// How many rivals a quick run takes.
const QUICK_RIVALS: usize = 3;

impl Selection {
    /// The contests, each with those of its subjects that are wanted.
    ///
    /// # Errors
    /// If a name is not known, the text lists the known ones; if a subject is missing on this machine, how to get it.
    pub(super) fn contests(&self, plan: &Plan) -> Result<Vec<Contest>, String> {
        self.check_backends()?;
        let mut contests = Vec::new();
        for pattern in self.patterns() {
            let found = Workload::ALL.iter().flat_map(|family| family.contests(plan, pattern));
            let before = contests.len();
            contests.extend(found);
            // A family of which nobody is here is known all the same: who is missing is told elsewhere.
            let is_known = Workload::ALL.iter().any(|family| family.name == pattern)
                || !self.probes_of(pattern).is_empty();
            if contests.len() == before && !is_known {
                return Err(unknown("workload", pattern, known_workloads(plan)));
            }
        }
        // In the order of the families, whatever the order of the names: some spoil what others measure.
        contests.sort_by_key(|contest| {
            let family = contest.workload().split('/').next();
            Workload::ALL.iter().position(|one| family == Some(one.name))
        });
        let known = contests.iter().flat_map(|contest| contest.subjects()).map(Subject::name);
        let known: Vec<String> = known.map(str::to_owned).collect();
        for subject in &self.subjects {
            if !known.iter().any(|name| is_meant(subject, name)) {
                return Err(self.why_not(subject, plan, known));
            }
        }
        for contest in &mut contests {
            contest.retain(|name| self.takes_part(name));
            if plan.quick && !self.all_rivals && self.subjects.is_empty() {
                contest.keep_rivals(QUICK_RIVALS);
            }
        }
        contests.retain(|contest| !contest.subjects().is_empty());
        Ok(contests)
    }

    /// Why no subject of that name can be had: it is missing here, or there is none.
    fn why_not(&self, subject: &str, plan: &Plan, known: Vec<String>) -> String {
        let absent = self.patterns().flat_map(|pattern| absent(plan, pattern));
        // Where nobody can take part, what is missing is missing for all.
        let is_why = |finding: &String| known.is_empty() || is_meant(subject, finding);
        let told: Vec<String> = absent.map(|one| one.to_string()).filter(is_why).collect();
        if told.is_empty() {
            unknown("subject of these workloads", subject, known)
        } else {
            told.join("; ")
        }
    }

    /// Who is missing on this machine in the workloads that were named as a whole, or in any if all rivals are wanted:
    /// why, and how to get it.
    pub(super) fn absences(&self, plan: &Plan) -> Vec<Finding> {
        let mut absences = Vec::new();
        let whole = |pattern: &&str| self.all_rivals || !pattern.contains('/');
        for finding in self.patterns().filter(whole).flat_map(|pattern| absent(plan, pattern)) {
            // What is missing is missing for several.
            let wanted = self.subjects.is_empty() || {
                let told = finding.to_string();
                self.subjects.iter().any(|subject| is_meant(subject, &told))
            };
            if wanted && !absences.contains(&finding) {
                absences.push(finding);
            }
        }
        absences
    }

    /// The probes. They have subjects of their own, so a choice of subjects leaves them out.
    pub(super) fn probes(&self) -> Vec<Probe> {
        if !self.subjects.is_empty() || !self.backends.is_empty() {
            return Vec::new();
        }
        self.patterns().flat_map(|pattern| self.probes_of(pattern)).collect()
    }

    fn probes_of(&self, pattern: &str) -> Vec<Probe> {
        Workload::ALL.iter().flat_map(|family| family.probes(pattern)).collect()
    }

    /// The names that were given, or all families.
    fn patterns(&self) -> impl Iterator<Item = &str> {
        let all = Workload::ALL.iter().map(|family| family.name);
        let all = all.filter(|_| self.workloads.is_empty());
        self.workloads.iter().map(String::as_str).chain(all)
    }

    fn check_backends(&self) -> Result<(), String> {
        let known = backends();
        match self.backends.iter().find(|name| !known.contains(&name.as_str())) {
            Some(name) => {
                Err(unknown("backend", name, known.iter().map(|&name| name.into()).collect()))
            }
            None => Ok(()),
        }
    }

    fn takes_part(&self, name: &str) -> bool {
        let is_wanted = |subject: &String| is_meant(subject, name);
        let by_name = self.subjects.is_empty() || self.subjects.iter().any(is_wanted);
        let backend = name.strip_prefix("loop-").and_then(|name| name.split_once('/'));
        // What follows a space says how the subject differs from others on the same selector.
        let backend = backend.and_then(|(_, backend)| backend.split(' ').next());
        let backend = backend.filter(|name| backends().contains(name));
        let by_backend = self.backends.is_empty()
            || backend.is_none_or(|backend| self.backends.iter().any(|wanted| wanted == backend));
        by_name && by_backend
    }
}

fn absent(plan: &Plan, pattern: &str) -> Vec<Finding> {
    Workload::ALL.iter().flat_map(|family| family.absent(plan, pattern)).collect()
}

/// Whether `wanted` is the subject's name with which `text` begins, or what stands before its slash.
fn is_meant(wanted: &str, text: &str) -> bool {
    let is_end = |rest: &str| rest.is_empty() || rest.starts_with(['/', ' ', ':']);
    text.strip_prefix(wanted).is_some_and(is_end)
}

fn known_workloads(plan: &Plan) -> Vec<String> {
    let mut known = Vec::new();
    for family in Workload::ALL {
        known.push(family.name.to_owned());
        let contests = family.contests(plan, family.name);
        known.extend(contests.iter().map(|contest| contest.workload().to_owned()));
    }
    known
}

fn unknown(what: &str, name: &str, mut known: Vec<String>) -> String {
    known.sort_unstable();
    known.dedup();
    format!("no {what} is called {name}; there are {}", known.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: Plan = Plan::quick(1);

    fn names(selection: &Selection) -> Vec<String> {
        let contests = selection.contests(&PLAN).unwrap();
        let subjects = contests.iter().flat_map(|contest| contest.subjects());
        subjects.map(|subject| subject.name().to_owned()).collect()
    }

    fn selection(workload: &str) -> Selection {
        Selection { workloads: vec![workload.into()], ..Selection::default() }
    }

    #[test]
    fn subjects_are_chosen_by_name_or_by_what_stands_before_the_slash() {
        let of = |subject: &str| {
            names(&Selection { subjects: vec![subject.into()], ..selection("handles/once") })
        };
        assert_eq!(of("std"), ["std"]);
        assert_eq!(of("loop-handle"), ["loop-handle", "loop-handle/fresh"]);
        assert_eq!(of("loop-handle/fresh"), ["loop-handle/fresh"]);
    }

    #[test]
    fn sleeps_come_before_what_slows_the_clock_of_a_rival() {
        let workloads = ["timers/hold", "sleep"].map(str::to_owned).into();
        let selection = Selection { workloads, ..Selection::default() };
        let contests = selection.contests(&PLAN).unwrap();
        assert_eq!(contests[0].workload(), "sleep/fresh");
        assert_eq!(contests.last().unwrap().workload(), "timers/hold");
    }

    #[test]
    fn backends_leave_rivals_alone() {
        let poll = Selection { backends: vec!["poll".into()], ..selection("wake/parked") };
        assert_eq!(names(&poll), ["loop-core/poll", "tokio"]);
        let storm = Selection { backends: vec!["poll".into()], ..selection("accept/storm") };
        let storm = names(&storm);
        assert_eq!(storm[..4], ["loop-net/poll", "loop-net/poll streams", "tokio", "mio"]);
    }

    #[test]
    fn a_quick_run_takes_three_rivals_unless_asked_for_all() {
        let rivals = |all_rivals| {
            let names = names(&Selection { all_rivals, ..selection("timers/hold") });
            names.iter().filter(|name| !name.starts_with("loop-")).count()
        };
        assert_eq!(rivals(false), 2 * QUICK_RIVALS);
        assert!(rivals(true) > 2 * QUICK_RIVALS);
    }

    #[test]
    fn a_rival_that_is_missing_is_told_with_the_way_to_get_it() {
        let echo = Selection { all_rivals: true, ..selection("echo/small") };
        for absence in echo.absences(&PLAN) {
            let told = absence.to_string();
            println!("{told}");
            let (name, why) = told.split_once(": ").unwrap();
            let alone = Selection { subjects: vec![name.into()], ..selection("echo/small") };
            assert_eq!(alone.contests(&PLAN).unwrap_err(), told);
            assert_eq!(alone.absences(&PLAN).len(), 0, "a member does not tell for its family");
            assert!(why.starts_with("not measured: "), "{told}");
        }
        let wanted = Selection { subjects: vec!["tokio".into()], ..selection("echo") };
        assert!(wanted.absences(&PLAN).is_empty(), "it is here");
    }

    /// Whatever is installed: of redis there may be nothing here.
    #[test]
    fn every_family_can_be_named() {
        for family in Workload::ALL {
            assert!(selection(family.name).contests(&PLAN).is_ok(), "{}", family.name);
        }
        assert!(Selection::default().contests(&PLAN).is_ok());
    }

    #[test]
    fn an_unknown_name_is_told_the_known_ones() {
        let error = |selection: Selection| selection.contests(&PLAN).unwrap_err();
        let told = error(selection("nonsense"));
        assert!(told.starts_with("no workload is called nonsense; there are "), "{told}");
        assert!(told.contains("timers/churn"), "{told}");
        let subjects = vec!["nonsense".into()];
        let told = error(Selection { subjects, ..selection("handles/once") });
        assert!(told.contains("called nonsense; there are async-task, calloop, loop-"), "{told}");
        let backends = vec!["nonsense".into()];
        let told = error(Selection { backends, ..selection("wake") });
        assert!(told.contains("no backend is called nonsense") && told.contains("poll"), "{told}");
    }
}
