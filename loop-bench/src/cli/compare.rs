//! `loop-bench compare`.

use std::path::PathBuf;
use std::process::ExitCode;

use loop_bench::{Comparison, Results};

use super::{Done, answer};

#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  loop-bench run --json old.json      before a change
  loop-bench run --json new.json      and after it, on the same machine
  loop-bench compare old.json new.json

The three rounds of a quick run are too few to find fifteen percent: give it --rounds 15 --passes 5.
All rows are judged together: of a thousand comparisons of a program with itself, one is to flag
anything. What moved by less than five percent is never flagged. Exit codes: 0, nothing is slower
beyond the noise; 1, something is, or an answer of the newer run was wrong; 2, a file is damaged.")]
pub(super) struct Args {
    /// The older run
    #[arg(value_name = "OLD")]
    old: PathBuf,
    /// The newer run
    #[arg(value_name = "NEW")]
    new: PathBuf,
}

pub(super) fn compare(args: &Args) -> Done {
    let (old, new) = (Results::read(&args.old)?, Results::read(&args.new)?);
    let comparison = Comparison::of(&old, &new);
    answer(&comparison)?;
    if comparison.judgements.is_empty() {
        return Err("the two files have no row in common".into());
    }
    let is_worse = comparison.slower().next().is_some() || !new.wrong.is_empty();
    Ok(if is_worse { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
