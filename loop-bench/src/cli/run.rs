//! `loop-bench run`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr;
use std::time::{SystemTime, UNIX_EPOCH};

use loop_bench::{
    Contest, Counter, Finding, Line, Machine, Pins, Plan, Recorder, Rng, Row, RunInfo, Workload,
    contest_lines, corrupting_server, foreign_versions,
};

use super::Done;
use super::passes::{Earlier, pass_of};
use super::progress::Progress;
use super::selection::Selection;

#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES, args_override_self = true)]
pub(super) struct Args {
    #[command(flatten)]
    selection: Selection,
    /// Smaller sizes, three rounds, three rivals
    #[arg(long, conflicts_with = "full")]
    quick: bool,
    /// Full sizes and nine rounds, which is what happens without --quick
    #[arg(long)]
    full: bool,
    /// So many rounds, whatever the sizes
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    rounds: Option<u16>,
    /// Spread the rounds over so many passes, each in a process of its own; without it, three at full size and one of
    /// a quick run
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    passes: Option<u16>,
    /// Write the results to FILE too, one JSON object a line
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Repeat the data and the order of an earlier run
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// The cores of the server and of the rest, or `none`; without it, the first two
    #[arg(long, value_name = "A,B")]
    pin: Option<Pinning>,
    /// Count instructions, allocations, system calls and memory too, where valgrind and strace are
    /// installed: slow
    #[arg(long)]
    counts: bool,
    /// This is an earlier pass of another run, which does what is done once
    #[arg(long, hide = true)]
    part: bool,
    /// To try out the tool itself: `corrupt` adds a server that changes a byte, `slow:SUBJECT:PERCENT` slows a
    /// subject
    #[arg(long, hide = true, value_name = "FAULT")]
    fault: Option<Fault>,
}

/// Of a run at full size.
const FULL_PASSES: usize = 3;

const EXAMPLES: &str = "\
Examples:
  loop-bench run                            everything, at full size
  loop-bench run timers echo/small --quick  a family and a member of another
  loop-bench run --quick --rounds 15 --passes 5
                                            small sizes, and enough rounds for `compare`
  loop-bench run wake --pin 2,3             senders on core 2, the loops on core 3
  loop-bench run --seed 7 --json new.json   the same data and order as any run with seed 7

In each round all subjects do the same work, in random order. What is told is the median with the
least and the greatest, and the ratio of each pair; `~` marks a tie.";

#[derive(Clone, Copy, Debug)]
enum Pinning {
    None,
    Cores(Pins),
}

impl FromStr for Pinning {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "none" { Ok(Self::None) } else { text.parse().map(Self::Cores) }
    }
}

#[derive(Clone, Debug)]
enum Fault {
    Corrupt,
    Slow { subject: String, percent: u32 },
}

impl FromStr for Fault {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "corrupt" {
            return Ok(Self::Corrupt);
        }
        let slow = text.strip_prefix("slow:").and_then(|rest| rest.rsplit_once(':'));
        let slow = slow.and_then(|(subject, percent)| {
            Some(Self::Slow { subject: subject.to_owned(), percent: percent.parse().ok()? })
        });
        slow.ok_or_else(|| "corrupt, or slow:SUBJECT:PERCENT".into())
    }
}

impl Fault {
    fn spoil(&self, contest: &mut Contest, plan: &Plan) {
        match self {
            Self::Corrupt if contest.workload() == "echo/small" => {
                contest.add(corrupting_server(plan));
            }
            Self::Corrupt => {}
            Self::Slow { subject, percent } => {
                contest.map(|one| if one.name() == subject { one.slowed(*percent) } else { one })
            }
        }
    }
}

impl Args {
    fn plan(&self) -> Result<(Plan, usize), String> {
        let plan = Plan::new(self.quick, self.seed.unwrap_or_else(any_seed));
        let plan = self.rounds.map_or(plan, |rounds| plan.with_rounds(rounds.into()));
        let usual = plan.size(1, FULL_PASSES).min(plan.rounds());
        let passes = self.passes.map_or(usual, usize::from);
        if passes > plan.rounds() {
            return Err(format!("{passes} passes cannot share {} rounds", plan.rounds()));
        }
        Ok((plan, passes))
    }

    fn contests(&self, plan: &Plan) -> Result<Vec<Contest>, String> {
        let mut contests = self.selection.contests(plan)?;
        if let Some(fault) = &self.fault {
            contests.iter_mut().for_each(|contest| fault.spoil(contest, plan));
        }
        Ok(contests)
    }

    fn pins(&self) -> Result<Option<Pins>, String> {
        let pins = match self.pin {
            Some(Pinning::None) => None,
            Some(Pinning::Cores(pins)) => Some(pins),
            None => Pins::usual(),
        };
        pins.map(Pins::check).transpose()?;
        Ok(pins)
    }
}

/// Runs what is selected, and prints and writes each result as soon as it is there.
pub(super) fn run(args: &Args) -> Done {
    let (plan, passes) = args.plan()?;
    let contests = args.contests(&plan)?;
    let pins = args.pins()?;
    let machine = machine(&contests);
    let info = RunInfo::new(&plan, passes, pins);
    println!("{machine}\n{info}");
    if cfg!(debug_assertions) {
        println!(
            "CAUTION this is a debug build: its numbers mean nothing; try cargo run --release"
        );
    }
    let mut recorder = Recorder::create(args.json.as_deref())?;
    recorder.write(&Line::Machine(machine))?;
    recorder.write(&Line::Run(info))?;
    // First, while there is time to get what is missing.
    for absence in args.selection.absences(&plan) {
        println!("{absence}");
        recorder.write(&Line::Finding(absence))?;
    }

    // Before the pins, which children would inherit.
    let earlier = Earlier::run(&plan, passes)?;
    pins.map(Pins::apply).transpose()?;
    let pass = pass_of(&plan, passes, passes);
    let (mut rng, mut counter) = (Rng::new(plan.seed), Counter::new(plan));
    let (mut rows, mut done) = (Vec::new(), ExitCode::SUCCESS);
    let mut wrong = earlier.wrong();
    let subjects: usize = contests.iter().map(|contest| contest.subjects().len()).sum();
    let progress = Progress::of((subjects * (pass.rounds() + 1)) as u64);
    for contest in contests {
        let name = contest.workload();
        let outcome = contest.run_watched(&pass, &mut rng, |turn| progress.turn(name, turn));
        let joined = outcome.rows.into_iter().filter_map(|row| earlier.with(row));
        let mut joined: Vec<Row> = joined.collect();
        // What another process did would not be counted.
        let is_counted = |row: &&mut Row| args.counts && !args.part && !row.costs.is_empty();
        for row in joined.iter_mut().filter(is_counted) {
            progress.say(&format!("{name}  {}: counting", row.subject));
            row.costs = counter.count(row);
        }
        progress.print(&contest_lines(&joined));
        record(&mut recorder, &joined)?;
        rows.extend(joined);
        for answer in wrong.drain(..).chain(outcome.wrong) {
            progress.print(&format!("WRONG {answer}\n"));
            recorder.write(&Line::Wrong(answer))?;
            done = ExitCode::FAILURE;
        }
    }
    if args.part {
        return Ok(done);
    }
    let derived: Vec<Row> = Workload::ALL.iter().flat_map(|family| family.derived(&rows)).collect();
    derived.chunk_by(Row::is_beside).for_each(|contest| progress.print(&contest_lines(contest)));
    record(&mut recorder, &derived)?;
    rows.extend(derived);

    let mut findings: Vec<Finding> = counter.findings().collect();
    for probe in args.selection.probes() {
        progress.say(probe.name);
        findings.extend((probe.run)(&plan));
    }
    drop(progress);
    let bars = Workload::ALL.iter().flat_map(|family| family.bars);
    findings.extend(bars.flat_map(|bar| bar.verdicts(&rows)).map(Finding::Held));
    for finding in findings {
        println!("{finding}");
        recorder.write(&Line::Finding(finding))?;
    }
    Ok(done)
}

/// This machine, with the versions of the rivals that take part.
fn machine(contests: &[Contest]) -> Machine {
    let takes_part = |name: &str| {
        let mut subjects = contests.iter().flat_map(|contest| contest.subjects());
        subjects.any(|subject| subject.name() == name)
    };
    let mut machine = Machine::look();
    machine.versions.extend(foreign_versions(takes_part));
    machine
}

fn record(recorder: &mut Recorder, rows: &[Row]) -> std::io::Result<()> {
    rows.iter().try_for_each(|row| recorder.write(&Line::Row(row.clone())))
}

/// A run without a seed takes the time of day, and prints it.
fn any_seed() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}
