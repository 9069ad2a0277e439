//! `loop-bench list`.

use std::fmt::Write;
use std::process::ExitCode;

use loop_bench::{Contest, Plan, Subject, Workload};

use super::{Done, answer};

#[derive(clap::Args, Debug)]
pub(super) struct Args {
    /// What a quick run does: smaller sizes
    #[arg(long)]
    quick: bool,
}

/// Each workload with what is measured, its members with their sizes, and who takes part.
pub(super) fn list(args: &Args) -> Done {
    let plan = Plan::new(args.quick, 0);
    let mut out = String::new();
    for workload in Workload::ALL {
        writeln!(out, "{:<10} {}", workload.name, workload.about)?;
        let contests = workload.contests(&plan, workload.name);
        for member in contests.chunk_by(|a, b| a.workload() == b.workload()) {
            let sizes: Vec<String> = member.iter().map(size).collect();
            writeln!(out, "  {:<24} {}", member[0].workload(), sizes.join("; "))?;
            writeln!(out, "  {:<24} {}", "", subjects(member).join(", "))?;
        }
        for probe in workload.probes(workload.name) {
            writeln!(out, "  {:<24} held against bars, or why it cannot be", probe.name)?;
        }
        for absence in workload.absent(&plan, workload.name) {
            writeln!(out, "  {absence}")?;
        }
        writeln!(out)?;
    }
    answer(out)?;
    Ok(ExitCode::SUCCESS)
}

fn size(contest: &Contest) -> String {
    let params: Vec<_> =
        contest.params().iter().map(|(name, value)| format!("{name}={value}")).collect();
    params.join(" ")
}

/// Everyone who takes part at some size, in the order of their first part.
fn subjects(member: &[Contest]) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for name in member.iter().flat_map(|contest| contest.subjects()).map(Subject::name) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}
