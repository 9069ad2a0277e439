//! Compares event loops, selectors and timer stores, fairly or not at all.
//!
//! A *workload* does one kind of work, on data that a seed stands for, and knows the right answer.
//! Its *subjects* are this project's crates and their rivals. In a *contest* all subjects do the
//! same work, interleaved round by round in random order after a warm-up, so that a slow spell of
//! the machine hits all alike; the result is the median of the rounds with its range. A wrong
//! answer makes the run fail: a fast wrong answer is not a result.
//!
//! The program `loop-bench` is the way to use it. As a library it compares what you bring, in a release build:
//!
//! ```
//! use loop_bench::{Contest, Lap, Plan, Rng, Subject, Wrong, contest_lines};
//!
//! let sum_to = |n: u64, sum: fn(u64) -> u64| {
//!     move |_seed| {
//!         let (lap, found) = Lap::time(n, || sum(n));
//!         Wrong::unless_equal("sum", found, n * (n + 1) / 2)?;
//!         Ok(lap)
//!     }
//! };
//! let subjects = vec![
//!     Subject::new("iterator", sum_to(1_000, |n| (1..=n).sum())),
//!     Subject::new("fold", sum_to(1_000, |n| (1..=n).fold(0, |sum, x| sum + x))),
//! ];
//! let plan = Plan::quick(1);
//! let outcome =
//!     Contest::new("sums/linear", &[("n", 1_000)], subjects).run(&plan, &mut Rng::new(plan.seed));
//! assert!(outcome.wrong.is_empty());
//! println!("{}", contest_lines(&outcome.rows));
//! ```
//!
//! # Map
//!
//! - [`bench_selector`]: a selector of your own among those that are compared;
//! - [`Contest`], [`Subject`], [`Lap`], [`Plan`], [`Outcome`]: one round after another;
//! - [`Summary`], [`Ratio`]: what is said of rounds, and of pairs of them;
//! - [`Latencies`], [`Schedule`]: answers that are late, counted from when they were due;
//! - [`Row`], [`Params`], [`Costs`], [`contest_lines`]: what comes out;
//! - [`Results`], [`Recorder`], [`Line`], [`ReadError`]: the file that keeps it;
//! - [`Comparison`], [`Judgement`], [`Change`]: two runs, and what is slower in the newer one; [`html`], [`markdown`]: a page, and tables;
//! - [`Traffic`], [`Pace`], [`Answers`]: requests for an echo server, at a set rate or in a closed loop;
//! - [`Bar`], [`Verdict`]: what ought to come out, and whether it did;
//! - [`Probe`], [`Finding`]: what is not found out by timing rounds;
//! - [`Counter`]: instructions, allocations, system calls and memory, counted;
//! - [`Machine`], [`foreign_versions`], [`RunInfo`], [`Pins`]: where and how it was measured;
//! - [`Workload`], [`backends`]: what there is to run;
//! - [`serve_echo`], [`corrupting_server`], [`rounds_alone`], [`steady_waits`]: what commands of the program are made of.

#![forbid(unsafe_code)]

mod bar;
mod bring;
mod c_source;
mod child;
mod client;
mod compare;
mod counts;
mod duel;
mod finding;
mod html;
mod human;
mod latency;
mod line;
mod machine;
mod markdown;
mod meter;
mod params;
mod pin;
mod recorder;
mod results;
mod rival;
mod rng;
mod round;
mod row;
mod run_info;
mod sample;
mod stats;
mod sys;
mod text;
mod tool;
mod traffic;
mod workload;

pub use bar::{Bar, Verdict};
pub use bring::{SelectorBench, bench_selector};
pub use compare::{Change, Comparison, Judgement};
pub use counts::{Counter, rounds_alone};
pub use finding::{Finding, Probe};
pub use html::html;
pub use latency::{Latencies, Schedule};
pub use line::{Line, WrongAnswer};
pub use machine::Machine;
pub use markdown::markdown;
pub use params::Params;
pub use pin::Pins;
pub use recorder::Recorder;
pub use results::{ReadError, Results};
pub use rival::foreign::foreign_versions;
pub use rng::Rng;
pub use round::{Lap, Plan, Wrong};
pub use row::{Costs, Row};
pub use run_info::RunInfo;
pub use sample::{Contest, Outcome, Subject, Turn};
pub use stats::{Ratio, Summary};
pub use text::contest_lines;
pub use traffic::{Answers, Pace, Traffic};
pub use workload::{Workload, backends, corrupting_server, serve_echo, steady_waits};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct WorkspaceReadme;
