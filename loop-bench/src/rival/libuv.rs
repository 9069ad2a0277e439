//! libuv, by a small program in C that is built when it is first needed, if a compiler and libuv's headers
//! are there.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;
use std::{env, fs, process};

use crate::sample::{Lap, Wrong};

const SOURCE: &str = include_str!("libuv_idle.c");

/// The program.
pub(crate) struct LibUv {
    program: PathBuf,
}

impl LibUv {
    /// It, or what is missing.
    pub(crate) fn get() -> Result<&'static Self, &'static str> {
        static BUILT: OnceLock<Result<LibUv, String>> = OnceLock::new();
        BUILT.get_or_init(Self::build).as_ref().map_err(String::as_str)
    }

    /// Beside this program, where what is built belongs. Under another name first, for another run may
    /// be doing the same.
    fn build() -> Result<Self, String> {
        let ours = env::current_exe().map_err(|error| error.to_string())?;
        let named = |suffix: &str| ours.with_file_name(format!("libuv-idle{suffix}"));
        let (source, new) =
            (named(&format!("-{}.c", process::id())), named(&process::id().to_string()));
        let compiled = fs::write(&source, SOURCE)
            .map_err(|error| format!("{}: {error}", source.display()))
            .and_then(|()| compile(&source, &new));
        // What was compiled serves without it.
        _ = fs::remove_file(&source);
        compiled?;
        let program = named("");
        fs::rename(&new, &program).map_err(|error| format!("{}: {error}", program.display()))?;
        Ok(Self { program })
    }

    /// `n` iterations, in each of which one idle callback runs, with a descriptor watched.
    pub(crate) fn iterations(&self, n: u64) -> Result<Lap, Wrong> {
        let output = Command::new(&self.program).arg(n.to_string()).output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        let mut numbers = text.split_whitespace().map(str::parse::<u64>);
        let (Some(Ok(ran)), Some(Ok(took))) = (numbers.next(), numbers.next()) else {
            return Err(Wrong(format!("libuv's program: {}, {text:?}", output.status)));
        };
        Wrong::unless_equal("iterations", ran, n)?;
        Ok(Lap { elapsed: Duration::from_nanos(took), ops: n })
    }
}

fn compile(source: &Path, program: &Path) -> Result<(), String> {
    let mut command = Command::new("cc");
    command.arg("-O2").arg("-o").arg(program).arg(source).arg("-luv");
    let output = command.output().map_err(|error| format!("cc: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    let told = text.lines().find(|line| line.contains("error") || line.contains("cannot find"));
    Err(format!("cc -luv: {}", told.unwrap_or("failed").trim()))
}
