//! `loop-bench report`.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use loop_bench::{Results, html};

use super::Done;

#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  loop-bench report new.json -o report.html
  loop-bench report epoll.json poll.json -o both.html   two runs side by side")]
pub(super) struct Args {
    /// What `loop-bench run --json` wrote
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Where the page goes
    #[arg(short, long, value_name = "FILE", default_value = "report.html")]
    output: PathBuf,
}

pub(super) fn report(args: &Args) -> Done {
    let runs = args.files.iter().map(|file| Results::read(file)).collect::<Result<Vec<_>, _>>()?;
    let output = args.output.display();
    fs::write(&args.output, html(&runs)).map_err(|error| format!("{output}: {error}"))?;
    println!("{output}");
    Ok(ExitCode::SUCCESS)
}
