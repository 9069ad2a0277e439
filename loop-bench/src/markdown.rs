//! Results as tables of Markdown, for a page of documentation.

use std::fmt::Write;

use crate::duel::Duel;
use crate::human::{human, three};
use crate::results::Results;
use crate::row::{Row, contests};

/// Makes tables of a run: where and when, then each contest of ours with a rival, the losses first.
///
/// Ours is the default of this project's subjects, the rival is the best of those that took part. The factor is ours
/// to the rival's, by the pairs of the rounds, with its spread; a tie is a difference inside the spread.
pub fn markdown(run: &Results) -> String {
    let mut text = String::new();
    let (machine, info) = (&run.machine, &run.run);
    _ = writeln!(text, "{}, {machine}; {info}.\n", info.date);
    let contests = contests(run.rows.iter().filter(|row| !row.derived));
    let mut duels: Vec<Duel<'_>> =
        contests.iter().filter_map(|contest| Duel::of(contest)).collect();
    duels.sort_by(|a, b| b.ratio.median.total_cmp(&a.ratio.median));
    let (behind, rest): (Vec<_>, Vec<_>) = duels.into_iter().partition(Duel::is_behind);
    let (ahead, ties): (Vec<_>, Vec<_>) = rest.into_iter().partition(Duel::is_ahead);
    for (title, duels) in [("Behind", behind), ("Ties", ties), ("Ahead", ahead)] {
        table(&mut text, title, &duels);
    }
    text
}

fn table(text: &mut String, title: &str, duels: &[Duel<'_>]) {
    if duels.is_empty() {
        return;
    }
    _ = writeln!(text, "### {title}: {}\n", duels.len());
    _ = writeln!(
        text,
        "| Contest | Ours | | Best rival | | Factor | Spread |\n|---|---|--:|---|--:|--:|--:|"
    );
    for Duel { ours, rival, ratio } in duels {
        let value = |row: &Row| human(row.summary.median, &row.unit);
        _ = writeln!(
            text,
            "| `{}`{} | {} | {} | {} | {} | {} | {} to {} |",
            ours.workload,
            ours.params,
            ours.subject,
            value(ours),
            rival.subject,
            value(rival),
            three(ratio.median),
            three(ratio.low),
            three(ratio.high)
        );
    }
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::machine::Machine;
    use crate::run_info::RunInfo;

    #[test]
    fn losses_come_first() {
        let row = |workload: &'static str, subject, nanos| {
            Row::of(workload, subject, [("n", 10)], "ns/op", vec![nanos; 3])
        };
        let rows = [
            row("a/won", "loop-x", 1.0),
            row("a/won", "std", 2.0),
            row("a/lost", "loop-x", 3_000.0),
            row("a/lost", "std", 1_500.0),
            row("a/alone", "loop-x", 1.0),
        ];
        let run = Results {
            path: PathBuf::new(),
            machine: Machine::default(),
            run: RunInfo::default(),
            rows: rows.into_iter().flatten().collect(),
            findings: Vec::new(),
            wrong: Vec::new(),
        };
        let text = markdown(&run);
        let lost = "| `a/lost` n=10 | loop-x | 3.00 µs | std | 1.50 µs | 2.00 | 2.00 to 2.00 |";
        assert!(text.find(lost) < text.find("a/won") && text.contains(lost), "{text}");
        assert!(text.contains("### Behind: 1") && !text.contains("alone"), "{text}");
    }
}
