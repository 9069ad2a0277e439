//! Iterations of libuv, by a small program in C.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use crate::c_source::CSource;
use crate::sample::{Lap, Wrong};

const SOURCE: CSource = CSource {
    name: "libuv-idle",
    text: include_str!("../../c/libuv_idle.c"),
    flags: &["-luv"],
    package: "libuv1-dev",
};

/// The program.
pub(crate) struct LibUv {
    program: PathBuf,
}

impl LibUv {
    /// It, or what is missing.
    pub(crate) fn get() -> Result<&'static Self, &'static str> {
        static BUILT: OnceLock<Result<LibUv, String>> = OnceLock::new();
        let build = || SOURCE.compile().map(|program| Self { program });
        BUILT.get_or_init(build).as_ref().map_err(String::as_str)
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
