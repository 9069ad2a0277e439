//! [`Earlier`]: all passes of a run but the last, each in a process of its own.
//!
//! For as long as it lives a process keeps where its memory happens to lie, and a machine keeps the mood of the
//! minute. Either moves a result by several percent, for all rounds of a process alike: more rounds do not help, more
//! processes, at other times, do. Sources: Mytkowicz and others, "Producing wrong data without doing anything
//! obviously wrong!", 2009; Kalibera and Jones, "Rigorous benchmarking in reasonable time", 2013.

use std::error::Error;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::{env, fs, process};

use loop_bench::{Plan, Results, Row, WrongAnswer};

/// What the earlier passes found.
pub(super) struct Earlier(Vec<Results>);

impl Earlier {
    /// Runs the command line of this process once for each pass but the last.
    ///
    /// # Errors
    /// If a pass cannot be run, or says that it could not do its work.
    pub(super) fn run(plan: &Plan, passes: usize) -> Result<Self, Box<dyn Error>> {
        let mut earlier = Vec::new();
        for pass in 1..passes {
            earlier.push(run(&pass_of(plan, pass, passes), pass)?);
            println!("pass {pass} of {passes} is done");
        }
        Ok(Self(earlier))
    }

    /// What was wrong in any of them.
    pub(super) fn wrong(&self) -> Vec<WrongAnswer> {
        self.0.iter().flat_map(|pass| &pass.wrong).cloned().collect()
    }

    /// A row of the last pass with the rounds of all before; `None` if one of them has no such row, because an answer
    /// was wrong.
    pub(super) fn with(&self, row: Row) -> Option<Row> {
        self.0.iter().rev().try_fold(row, |row, pass| {
            let same = |old: &&Row| old.is_beside(&row) && old.subject == row.subject;
            let old = pass.rows.iter().find(same)?;
            Some(row.after(old))
        })
    }
}

/// What is left for one pass of several, counted from 1: the last has the seed of the whole.
pub(super) fn pass_of(plan: &Plan, pass: usize, passes: usize) -> Plan {
    let upto = |pass: usize| plan.rounds() * pass / passes;
    let rounds = upto(pass) - upto(pass - 1);
    let seed = plan.seed.wrapping_add((passes - pass) as u64);
    Plan::new(plan.quick, seed).with_rounds(rounds)
}

fn run(plan: &Plan, pass: usize) -> Result<Results, Box<dyn Error>> {
    let file = Passing(env::temp_dir().join(format!("loop-bench-{}-{pass}.json", process::id())));
    let status = Command::new(env::current_exe()?)
        .args(env::args_os().skip(1))
        .args(["--part", "--passes", "1", "--rounds", &plan.rounds().to_string()])
        .args(["--seed", &plan.seed.to_string(), "--json"])
        .arg(&file.0)
        .stdout(Stdio::null())
        .status()?;
    // With 1 it says that an answer was wrong, which is in the file.
    if !matches!(status.code(), Some(0 | 1)) {
        return Err(format!("pass {pass} came to nothing: {status}").into());
    }
    Ok(Results::read(&file.0)?)
}

/// A file that is gone when this is dropped.
struct Passing(PathBuf);

impl Drop for Passing {
    fn drop(&mut self) {
        // It may never have been made.
        _ = fs::remove_file(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passes_share_the_rounds_and_no_seed() {
        let plan = Plan::full(7).with_rounds(10);
        let passes: Vec<Plan> = (1..=4).map(|pass| pass_of(&plan, pass, 4)).collect();
        assert_eq!(passes.iter().map(Plan::rounds).collect::<Vec<_>>(), [2, 3, 2, 3]);
        assert_eq!(passes.iter().map(|plan| plan.seed).collect::<Vec<_>>(), [10, 9, 8, 7]);
        assert_eq!(pass_of(&plan, 1, 1).rounds(), 10);
    }
}
