//! The program: `loop-bench list`, `loop-bench run timers/churn echo --quick`.

#![forbid(unsafe_code)]

mod cli;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main()
}
