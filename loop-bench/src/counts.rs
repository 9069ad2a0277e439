//! [`Counter`]: what an operation costs in instructions, allocations, system calls, and a round in memory.

use std::collections::BTreeMap;

use crate::finding::Finding;
use crate::meter::peak_resident;
use crate::params::Params;
use crate::round::{Lap, Plan, Wrong};
use crate::row::{Costs, Row};
use crate::tool;
use crate::workload::Workload;

/// Runs a subject alone, in a process of its own, under tools that count. What two rounds cost more than one is
/// the cost of a round, without what the process does before and after. It takes some fifty times as
/// long as the rounds, and must be called by the program `loop-bench` itself, which it starts again.
#[derive(Debug)]
pub struct Counter {
    plan: Plan,
    /// What could not be counted, and why: told once, however many rows there are.
    missing: BTreeMap<&'static str, String>,
}

impl Counter {
    /// Counts nothing yet.
    pub fn new(plan: Plan) -> Self {
        Self { plan, missing: BTreeMap::new() }
    }

    /// The costs of a row, those that it has already and those that are counted.
    pub fn count(&mut self, row: &Row) -> Costs {
        let mut costs = row.costs;
        let run = |rounds: usize| {
            let (params, plan) = (row.params.to_string(), &self.plan);
            let mut arguments: Vec<String> =
                ["rounds", &row.workload, params.trim(), &row.subject].map(String::from).to_vec();
            arguments.extend([rounds.to_string(), plan.seed.to_string()]);
            arguments.extend(plan.quick.then(|| "--quick".to_owned()));
            arguments
        };
        let alone = tool::output(&run(1)).and_then(|text| {
            Alone::parse(&text).ok_or_else(|| "a round alone said nothing".to_owned())
        });
        let alone = match alone {
            Ok(alone) => alone,
            Err(why) => {
                self.missing.insert("a subject alone", why);
                return costs;
            }
        };
        costs.resident = alone.resident;
        let each = |two: u64, one: u64| two.saturating_sub(one) as f64 / alone.ops.max(1) as f64;
        match tool::callgrind(&run(1)).and_then(|one| Ok((one, tool::callgrind(&run(2))?))) {
            Ok((one, two)) => {
                costs.instructions = Some(each(two.instructions, one.instructions));
                costs.allocations = Some(each(two.allocations, one.allocations));
            }
            Err(why) => _ = self.missing.insert("instructions and allocations", why),
        }
        match tool::system_calls(&run(1)).and_then(|one| Ok((one, tool::system_calls(&run(2))?))) {
            Ok((one, two)) => costs.calls = Some(each(two, one)),
            Err(why) => _ = self.missing.insert("system calls", why),
        }
        costs
    }

    /// What could not be counted.
    pub fn findings(self) -> impl Iterator<Item = Finding> {
        let missing = self.missing.into_iter();
        missing.map(|(what, why)| Finding::NotMeasured { what: what.to_owned(), why })
    }
}

/// What a round alone has to say.
#[derive(Debug, PartialEq)]
struct Alone {
    ops: u64,
    resident: Option<f64>,
}

impl Alone {
    fn parse(text: &str) -> Option<Self> {
        let mut words = text.split_whitespace();
        let ops = words.next()?.parse().ok()?;
        Some(Self { ops, resident: words.next().and_then(|bytes| bytes.parse().ok()) })
    }
}

/// Lets one subject do some rounds of one contest and nothing else, which is what the tools look at; the operations
/// of the last round, and the most memory that the process has held, as text.
///
/// # Errors
/// If there is no such contest or subject, or an answer is wrong.
pub fn rounds_alone(
    workload: &str,
    params: &str,
    subject: &str,
    rounds: usize,
    plan: &Plan,
) -> Result<String, Wrong> {
    let mut contests = Workload::ALL.iter().flat_map(|family| family.contests(plan, workload));
    let contest = contests
        .find(|contest| Params::from(contest.params()).to_string().trim() == params)
        .ok_or_else(|| Wrong(format!("there is no contest {workload} {params}")))?;
    let mut subjects = contest.into_subjects().into_iter();
    let mut subject = subjects
        .find(|known| known.name() == subject)
        .ok_or_else(|| Wrong(format!("no subject of {workload} is called {subject}")))?;
    let mut lap = Lap::default();
    for _ in 0..rounds {
        // The same data each time, so that what two rounds cost more than one is one round's.
        lap = subject.round(plan.seed)?;
    }
    let resident = peak_resident().map_or(String::new(), |bytes| bytes.to_string());
    Ok(format!("{} {resident}", lap.ops))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_alone_say_their_operations_and_memory() {
        let plan = Plan::quick(1);
        let told = rounds_alone("handles/once", "batch=1000", "std", 2, &plan).unwrap();
        let alone = Alone::parse(&told).unwrap();
        assert_eq!(alone.ops, 100_000);
        assert!(alone.resident.is_none_or(|bytes| bytes > 100_000.0), "{told}");
        for (params, subject) in [("batch=1", "std"), ("batch=1000", "nonsense")] {
            assert!(rounds_alone("handles/once", params, subject, 1, &plan).is_err());
        }
    }
}
