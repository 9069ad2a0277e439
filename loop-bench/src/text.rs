//! What a run says to people: plain lines with ratios.

use std::fmt::Write;

use crate::row::{Costs, Row};
use crate::stats::{Ratio, Summary};

/// Of the longest name that is usual.
const WIDTH: usize = 23;

/// The rows of one contest, each with the ratio of the first of this project's subjects to it, round by round:
/// below 1 ours is faster, `~` says that the difference is inside the spread: a tie.
pub fn contest_lines(rows: &[Row]) -> String {
    let mut text = String::new();
    let Some(first) = rows.first() else { return text };
    _ = writeln!(text, "{}{} ({})", first.workload, first.params, first.unit);
    for row in rows {
        let Summary { median, min, max, samples: _ } = row.summary;
        _ = write!(text, "  {:<WIDTH$} {median:>11.1}  [{min:.1} .. {max:.1}]", row.subject);
        if !row.is_ours() {
            // The first of ours: what a program gets that does not choose.
            let ours = rows.iter().find(|row| row.is_ours());
            let ratio = ours.and_then(|ours| Some((ours, Ratio::of(&ours.rounds, &row.rounds)?)));
            if let Some((ours, ratio)) = ratio {
                _ = write!(text, "  {} : {} = {ratio}", ours.subject, row.subject);
            }
        }
        _ = writeln!(text);
        counted(&mut text, &row.costs);
        if let [(_, _), .., (_, longest)] = row.curve[..] {
            _ = write!(text, "  {:<WIDTH$}", "");
            for &(percentile, nanos) in &row.curve {
                if [50.0, 90.0, 99.0, 99.9].contains(&percentile) {
                    _ = write!(text, " p{percentile} {:.1} µs,", nanos / 1e3);
                }
            }
            _ = writeln!(text, " longest {:.1} µs", longest / 1e3);
        }
    }
    text
}

/// What was counted besides the time, if anything was.
fn counted(text: &mut String, costs: &Costs) {
    let Costs { user: _, system: _, instructions, allocations, calls, resident } = *costs;
    let counts = [
        ("instructions", instructions),
        ("allocations", allocations),
        ("system calls", calls),
        ("MiB at most", resident.map(|bytes| bytes / 1_048_576.0)),
    ];
    let told: Vec<String> = counts
        .into_iter()
        .filter_map(|(name, value)| Some(format!("{:.1} {name}", value?)))
        .collect();
    if !told.is_empty() {
        _ = writeln!(text, "  {:<WIDTH$} {}", "", told.join(", "));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(subject: &str, samples: &[f64]) -> Row {
        let params = [("n", 100_000), ("turns", 7)];
        Row::of("timers/churn", subject, params, "ns/op", samples.to_vec()).unwrap()
    }

    #[test]
    fn ratios_are_ours_over_the_rival_and_say_when_they_are_noise() {
        let rows =
            [row("loop-timer", &[1.0, 1.0]), row("std", &[4.0, 4.0]), row("tokio", &[0.9, 3.0])];
        let text = contest_lines(&rows);
        assert!(text.starts_with("timers/churn n=100000 turns=7 (ns/op)\n"), "{text}");
        assert!(text.contains("loop-timer : std = 0.25"), "{text}");
        assert!(text.contains("loop-timer : tokio = ~0.72"), "{text}");
        assert!(!text.contains("loop-timer : loop-timer"), "{text}");
    }

    #[test]
    fn no_rows_no_lines() {
        assert_eq!(contest_lines(&[]), "");
    }
}
