//! `loop-bench report`.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use loop_bench::{Results, html, markdown};

use super::{Done, answer};

#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  loop-bench report new.json -o report.html
  loop-bench report epoll.json poll.json -o both.html   two runs side by side")]
pub(super) struct Args {
    /// What `loop-bench run --json` wrote
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Print tables of Markdown instead of making a page
    #[arg(long, conflicts_with = "output")]
    markdown: bool,
    /// Where the page goes
    #[arg(short, long, value_name = "FILE", default_value = "report.html")]
    output: PathBuf,
}

pub(super) fn report(args: &Args) -> Done {
    let runs = args.files.iter().map(|file| Results::read(file)).collect::<Result<Vec<_>, _>>()?;
    if args.markdown {
        runs.iter().try_for_each(|run| answer(markdown(run)))?;
        return Ok(ExitCode::SUCCESS);
    }
    let output = args.output.display();
    fs::write(&args.output, html(&runs)).map_err(|error| format!("{output}: {error}"))?;
    println!("{output}");
    Ok(ExitCode::SUCCESS)
}
