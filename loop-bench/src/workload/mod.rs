//! [`Workload`]: what is measured. Each file checks its own answers.

mod accept;
mod dispatch;
mod echo;
mod echo_round;
mod echo_servers;
mod handles;
mod http;
mod idle;
mod latency;
mod load;
mod ping_pong;
mod pipelining;
mod ready;
mod redis;
mod selector_bars;
mod selector_loads;
mod selectors;
mod sleep;
mod tasks;
mod timer_bars;
mod timer_loads;
mod timer_order;
mod timers;
mod wake;

use std::fmt;

use crate::bar::Bar;
use crate::finding::{Finding, Probe};
use crate::row::Row;
use crate::sample::{Contest, Plan};

pub use echo::{corrupting_server, serve_echo};
pub use selector_bars::steady_waits;
pub(crate) use selectors::{Guest, selector_contests};

/// The names of this project's selectors that this system knows, best first.
pub fn backends() -> &'static [&'static str] {
    ::loop_selector::available()
}

/// A family of contests, `timers`, whose members are `timers/churn` and so on.
pub struct Workload {
    /// The family's name.
    pub name: &'static str,
    /// What is measured, in a line.
    pub about: &'static str,
    /// What ought to come of it.
    pub bars: &'static [Bar],
    contests: fn(&Plan) -> Vec<Contest>,
    derived: fn(&[Row]) -> Vec<Row>,
    probes: &'static [Probe],
    absent: fn(&Plan) -> Vec<Finding>,
}

impl Workload {
    /// Every workload there is, in the order in which they are run.
    pub const ALL: &[Self] = &[
        Self {
            name: "handles",
            about: "cancellable callbacks alone: once, again, mixed, cancel",
            bars: handles::BARS,
            contests: handles::contests,
            derived: nothing,
            probes: &[],
            absent: nobody,
        },
        Self {
            name: "ready",
            about: "the ready queue: callback; iteration",
            bars: ready::BARS,
            contests: ready::contests,
            derived: nothing,
            probes: &[],
            absent: ready::absences,
        },
        Self {
            name: "sleep",
            about: "sleeps that are dropped before their time: fresh, later, replaced",
            bars: sleep::BARS,
            contests: sleep::contests,
            derived: nothing,
            probes: &[],
            absent: nobody,
        },
        Self {
            name: "timers",
            about: "timer stores alone: insert_pop, ordered, churn, cancel99, hold, reschedule, overtake",
            bars: timer_bars::BARS,
            contests: timers::contests,
            derived: nothing,
            probes: &[],
            absent: nobody,
        },
        Self {
            name: "tasks",
            about: "tasks: spawn, yield, handover",
            bars: tasks::BARS,
            contests: tasks::contests,
            derived: nothing,
            probes: &[],
            absent: nobody,
        },
        Self {
            name: "dispatch",
            about: "the price of our choices: select, dyn against static; callback, one allocation against two; timer, \
                    lazy cancel against eager",
            bars: &[],
            contests: dispatch::contests,
            derived: nothing,
            probes: &[],
            absent: nobody,
        },
        selectors::WORKLOAD,
        Self {
            name: "wake",
            about: "another thread: parked, busy, calls (to a busy loop); ping_pong: over a socket; _cpu: what it costs",
            bars: wake::BARS,
            contests: wake::contests,
            derived: nothing,
            probes: &[],
            absent: |_plan| selectors::refused(),
        },
        Self {
            name: "echo",
            about: "echo servers on loopback: small, streams, 64 connections; matrix, 1 to 1,024, messages of 64 B to \
                    16 KiB, three levels of ours; _cpu: what they cost",
            bars: &[],
            contests: echo::contests,
            derived: nothing,
            probes: &[],
            absent: echo::absences,
        },
        Self {
            name: "pipelining",
            about: "echo servers, 64 connections with 16 requests under way on each: echo; _cpu: what they cost",
            bars: &[],
            contests: pipelining::contests,
            derived: nothing,
            probes: &[],
            absent: |_plan| echo_servers::absences(),
        },
        Self {
            name: "accept",
            about: "echo servers whose clients come, say one byte and go: storm, the time of one; _cpu: what it costs",
            bars: &[],
            contests: accept::contests,
            derived: nothing,
            probes: &[],
            absent: |_plan| echo_servers::absences(),
        },
        Self {
            name: "latency",
            about: "echo servers at a set rate, 64 connections: p99, from when a request was due",
            bars: &[],
            contests: latency::contests,
            derived: nothing,
            probes: &[],
            absent: nobody,
        },
        Self {
            name: "idle",
            about: "echo servers with connections that say nothing: memory, the resident bytes of one",
            bars: &[],
            contests: idle::contests,
            derived: nothing,
            probes: &[],
            absent: |_plan| idle::absences(),
        },
        Self {
            name: "redis",
            about: "loop-net's key-value server under redis-benchmark: requests, requests_cpu",
            bars: redis::BARS,
            contests: redis::contests,
            derived: nothing,
            probes: &[],
            absent: redis::absences,
        },
        Self {
            name: "http",
            about: "hyper under wrk, 64 connections: hello, hello_cpu",
            bars: http::BARS,
            contests: http::contests,
            derived: nothing,
            probes: &[],
            absent: http::absences,
        },
    ];

    /// The contests of this family that `pattern` names: the family, or one member of it.
    pub fn contests(&self, plan: &Plan, pattern: &str) -> Vec<Contest> {
        if !self.is_meant(pattern) {
            return Vec::new();
        }
        let mut contests = (self.contests)(plan);
        contests.retain(|contest| pattern == self.name || pattern == contest.workload());
        contests
    }

    /// What else `rows`, of this family among others, tell: rows that were not measured but
    /// follow.
    pub fn derived(&self, rows: &[Row]) -> Vec<Row> {
        (self.derived)(rows)
    }

    /// The probes of this family that `pattern` names.
    pub fn probes(&self, pattern: &str) -> Vec<Probe> {
        let mut probes = self.probes.to_vec();
        probes.retain(|probe| pattern == self.name || pattern == probe.name);
        probes
    }

    /// Who cannot take part in this family on this machine, why, and how to get what is missing. None if `pattern`
    /// names another.
    pub fn absent(&self, plan: &Plan, pattern: &str) -> Vec<Finding> {
        if self.is_meant(pattern) { (self.absent)(plan) } else { Vec::new() }
    }

    /// Of families that are not, nothing is asked: some look for programs, and compile what is not there yet.
    fn is_meant(&self, pattern: &str) -> bool {
        pattern.split('/').next() == Some(self.name)
    }
}

/// All can take part anywhere.
fn nobody(_plan: &Plan) -> Vec<Finding> {
    Vec::new()
}

/// Rows speak for themselves.
fn nothing(_rows: &[Row]) -> Vec<Row> {
    Vec::new()
}

impl fmt::Debug for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Workload").field("name", &self.name).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: Plan = Plan::quick(1);

    #[test]
    fn a_family_names_all_its_members_and_a_member_itself() {
        let timers = Workload::ALL.iter().find(|workload| workload.name == "timers").unwrap();
        assert_eq!(timers.contests(&PLAN, "timers").len(), 14);
        let churn = timers.contests(&PLAN, "timers/churn");
        assert_eq!(churn.len(), 2);
        assert!(churn.iter().all(|contest| contest.workload() == "timers/churn"));
        assert!(timers.contests(&PLAN, "timers/none").is_empty());
        assert!(timers.contests(&PLAN, "tim").is_empty());
    }

    #[test]
    fn members_bear_their_familys_name() {
        for workload in Workload::ALL {
            for contest in workload.contests(&PLAN, workload.name) {
                let family = contest.workload().split('/').next();
                assert_eq!(family, Some(workload.name), "{}", contest.workload());
            }
        }
    }
}
