//! [`Progress`]: how far a run is.

use std::io::{IsTerminal, stderr};

use indicatif::{ProgressBar, ProgressStyle};
use loop_bench::Turn;

/// A bar on a terminal; when standard error is none, nothing, for the results are lines already.
pub(super) struct Progress(ProgressBar);

impl Progress {
    /// Of so many turns in all.
    pub(super) fn of(turns: u64) -> Self {
        if !stderr().is_terminal() {
            return Self(ProgressBar::hidden());
        }
        let bar = ProgressBar::new(turns);
        let style = ProgressStyle::with_template("{bar:24} {percent:>3}%  {eta:>4} left  {msg}");
        bar.set_style(style.expect("the template is well-formed"));
        Self(bar)
    }

    /// A turn begins.
    pub(super) fn turn(&self, contest: &str, turn: Turn<'_>) {
        self.0.inc(1);
        self.0.set_message(format!("{contest}  {}", turn.subject));
    }

    /// Something else begins, which is no turn.
    pub(super) fn say(&self, what: &str) {
        self.0.set_message(what.to_owned());
        self.0.tick();
    }

    /// Prints lines above the bar.
    pub(super) fn print(&self, lines: &str) {
        self.0.suspend(|| print!("{lines}"));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
