//! The command line. Each command has a file; `selection` knows what is to be run, `progress` how far it is.

mod compare;
mod list;
mod load;
mod passes;
mod progress;
mod report;
mod run;
mod selection;
mod serve;

use std::fmt::Display;
use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use loop_bench::{Plan, rounds_alone, steady_waits};

/// What a command gives: its exit code, or why it could not do its work, which is exit code 2.
type Done = Result<ExitCode, Box<dyn std::error::Error>>;

/// Prints an answer. Whoever has seen enough of it and closed the pipe, as `head` does, misses nothing.
fn answer(text: impl Display) -> io::Result<()> {
    match write!(io::stdout().lock(), "{text}") {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

/// Compares event loops, selectors and timer stores
#[derive(Parser, Debug)]
#[command(version, after_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  loop-bench list                                    what there is
  loop-bench run --quick --json new.json             everything, in five minutes
  loop-bench run timers/churn --subject loop-timer --subject tokio-util
  loop-bench run selectors --backend epoll,uring     two of ours, and the rivals
  loop-bench report new.json -o report.html          a page with charts
  loop-bench compare old.json new.json               what is slower now

Exit codes: 0, all is well; 1, an answer was wrong or something is slower; 2, it could not be done.";

#[derive(Subcommand, Debug)]
enum Command {
    /// Name every workload, its subjects, and what is measured
    List(list::Args),
    /// Run workloads; exits with 1 if an answer was wrong
    Run(run::Args),
    /// Make a web page of results
    Report(report::Args),
    /// Tell what is slower in a newer run; exits with 1 if anything is, beyond noise
    Compare(compare::Args),
    /// Serve one subject's echo to other machines
    ServeEcho(serve::Args),
    /// Ask an echo server, at a set rate or as fast as it answers
    Load(load::Args),
    /// Does some rounds of one subject, and nothing else: what a counting tool runs
    #[command(hide = true)]
    Rounds {
        workload: String,
        params: String,
        subject: String,
        rounds: usize,
        seed: u64,
        #[arg(long)]
        quick: bool,
    },
    /// Waits, and does nothing else: what a profiler runs
    #[command(hide = true)]
    Steady { subject: String, n: usize, ready: usize, waits: u64 },
}

/// Does what the command line says.
pub(crate) fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::List(args) => list::list(&args),
        Command::Run(args) => run::run(&args),
        Command::Report(args) => report::report(&args),
        Command::Compare(args) => compare::compare(&args),
        Command::ServeEcho(args) => serve::serve(&args),
        Command::Load(args) => load::load(&args),
        Command::Rounds { workload, params, subject, rounds, seed, quick } => {
            let plan = Plan::new(quick, seed);
            rounds_alone(&workload, &params, &subject, rounds, &plan)
                .map(|told| {
                    println!("{told}");
                    ExitCode::SUCCESS
                })
                .map_err(Into::into)
        }
        Command::Steady { subject, n, ready, waits } => {
            steady_waits(&subject, n, ready, waits).map(|()| ExitCode::SUCCESS).map_err(Into::into)
        }
    };
    done.unwrap_or_else(|error| {
        eprintln!("loop-bench: {error}");
        ExitCode::from(2)
    })
}
