//! The program: `loop-bench list`, `loop-bench run timers/churn echo --quick`.

#![forbid(unsafe_code)]

mod cli;

use std::process::ExitCode;
<<<<<<< HEAD

fn main() -> ExitCode {
    cli::main()
=======
use std::time::{SystemTime, UNIX_EPOCH};

use clap::{Parser, Subcommand};
use loop_bench::{
    Contest, Finding, Machine, Plan, Rng, Row, Workload, contest_lines, finding_line, machine_line,
    row_line, steady_waits,
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
    /// Waits, and does nothing else: what a profiler runs
    #[command(hide = true)]
    Steady { subject: String, n: usize, ready: usize, waits: u64 },
}

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::List => list(),
        Command::Run { workloads, quick, json, seed } => {
            let plan = Plan { quick, seed: seed.unwrap_or_else(any_seed) };
            run(&workloads, &plan, json)
        }
        Command::Steady { subject, n, ready, waits } => steady_waits(&subject, n, ready, waits)
            .map(|()| ExitCode::SUCCESS)
            .map_err(io::Error::other),
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
    let (mut contests, mut probes) = (Vec::new(), Vec::new());
    for pattern in patterns {
        let before = contests.len() + probes.len();
        contests.extend(Workload::ALL.iter().flat_map(|family| family.contests(plan, pattern)));
        probes.extend(Workload::ALL.iter().flat_map(|family| family.probes(pattern)));
        if contests.len() + probes.len() == before {
            let message = format!("no workload is called {pattern}; see `loop-bench list`");
            return Err(io::Error::new(io::ErrorKind::NotFound, message));
        }
    }
    if patterns.is_empty() {
        let all = Workload::ALL.iter().flat_map(|family| family.contests(plan, family.name));
        contests.extend(all);
        probes.extend(Workload::ALL.iter().flat_map(|family| family.probes(family.name)));
    }

    contests.sort_by_key(|contest: &Contest| {
        let family = contest.workload().split('/').next();
        Workload::ALL.iter().position(|one| family == Some(one.name))
    });

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
        write_rows(&mut file, &outcome.rows)?;
        rows.extend(outcome.rows);
    }
    let derived: Vec<Row> = Workload::ALL.iter().flat_map(|family| family.derived(&rows)).collect();
    for contest in derived.chunk_by(|a, b| (a.workload, &a.params) == (b.workload, &b.params)) {
        print!("{}", contest_lines(contest));
    }
    write_rows(&mut file, &derived)?;
    rows.extend(derived);
    let bars = Workload::ALL.iter().flat_map(|family| family.bars);
    let mut findings: Vec<Finding> = probes.iter().flat_map(|probe| (probe.run)(plan)).collect();
    findings.extend(bars.flat_map(|bar| bar.verdicts(&rows)).map(Finding::Held));
    for finding in &findings {
        println!("{finding}");
        if let Some(file) = &mut file {
            writeln!(file, "{}", finding_line(finding))?;
        }
    }
    Ok(if all_right { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn write_rows(file: &mut Option<File>, rows: &[Row]) -> io::Result<()> {
    let Some(file) = file else { return Ok(()) };
    rows.iter().try_for_each(|row| writeln!(file, "{}", row_line(row)))
}

/// A run without a seed takes the time of day, and prints it.
fn any_seed() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
>>>>>>> b4f4ea1 (Wakes of one task from other threads are one message until it runs; loop-bench compares iterations, calls and busy polling)
}
