//! The command line: `loop-bench list`, `loop-bench run timers/churn echo --quick`.

#![forbid(unsafe_code)]

use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use clap::{Parser, Subcommand};
use loop_bench::{
    Machine, Plan, Rng, Workload, contest_lines, machine_line, row_line, verdict_line,
};

/// Compares event loops, selectors and timer stores
#[derive(Parser, Debug)]
#[command(version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Name every workload
    List,
    /// Run workloads; exits with 1 if an answer was wrong
    Run {
        /// `timers`, `timers/churn`, …; without any, all
        workloads: Vec<String>,
        /// Smaller sizes and fewer rounds
        #[arg(long)]
        quick: bool,
        /// Write the results to FILE too, one JSON object a line
        #[arg(long, value_name = "FILE")]
        json: Option<PathBuf>,
        /// Repeat the data and the order of an earlier run
        #[arg(long, value_name = "N")]
        seed: Option<u64>,
    },
}

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::List => list(),
        Command::Run { workloads, quick, json, seed } => {
            let plan = Plan { quick, seed: seed.unwrap_or_else(any_seed) };
            run(&workloads, &plan, json)
        }
    };
    done.unwrap_or_else(|error| {
        eprintln!("loop-bench: {error}");
        ExitCode::from(2)
    })
}

fn list() -> io::Result<ExitCode> {
    let mut out = io::stdout().lock();
    for workload in Workload::ALL {
        writeln!(out, "{:<8} {}", workload.name, workload.about)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn run(patterns: &[String], plan: &Plan, json: Option<PathBuf>) -> io::Result<ExitCode> {
    let mut contests = Vec::new();
    for pattern in patterns {
        let before = contests.len();
        contests.extend(Workload::ALL.iter().flat_map(|family| family.contests(plan, pattern)));
        if contests.len() == before {
            let message = format!("no workload is called {pattern}; see `loop-bench list`");
            return Err(io::Error::new(io::ErrorKind::NotFound, message));
        }
    }
    if patterns.is_empty() {
        let all = Workload::ALL.iter().flat_map(|family| family.contests(plan, family.name));
        contests.extend(all);
    }

    let machine = Machine::look();
    println!("{machine}\nseed {}", plan.seed);
    let mut file = json.map(File::create).transpose()?;
    if let Some(file) = &mut file {
        writeln!(file, "{}", machine_line(&machine))?;
    }
    let mut rng = Rng::new(plan.seed);
    let mut all_right = true;
    let mut rows = Vec::new();
    for contest in contests {
        let outcome = contest.run(plan, &mut rng);
        print!("{}", contest_lines(&outcome.rows));
        for (workload, subject, wrong) in &outcome.wrong {
            println!("WRONG {workload} {subject}: {wrong}");
            all_right = false;
        }
        if let Some(file) = &mut file {
            for row in &outcome.rows {
                writeln!(file, "{}", row_line(row))?;
            }
        }
        rows.extend(outcome.rows);
    }
    let bars = Workload::ALL.iter().flat_map(|family| family.bars);
    for verdict in bars.flat_map(|bar| bar.verdicts(&rows)) {
        println!("{verdict}");
        if let Some(file) = &mut file {
            writeln!(file, "{}", verdict_line(&verdict))?;
        }
    }
    Ok(if all_right { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// A run without a seed takes the time of day, and prints it.
fn any_seed() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}
