//! What a run says: JSON, one object a line, for programs; plain lines with ratios for people.

use std::fmt::{self, Write};

use crate::bar::Verdict;
use crate::finding::Finding;
use crate::machine::Machine;
use crate::sample::Row;

/// The first line of a JSON file: the machine that all other lines come from.
pub fn machine_line(machine: &Machine) -> String {
    let Machine { cpu, cores, kernel, rustc, profile } = machine;
    format!(
        r#"{{"machine":{{"cpu":{},"cores":{cores},"kernel":{},"rustc":{},"profile":{}}}}}"#,
        Quoted(cpu),
        Quoted(kernel),
        Quoted(rustc),
        Quoted(profile),
    )
}

/// One result as a JSON object, without a line end.
pub fn row_line(row: &Row) -> String {
    let params = params_object(&row.params);
    let summary = &row.summary;
    format!(
        r#"{{"workload":{},"subject":{},"params":{params},"unit":{},"median":{:.3},"min":{:.3},"max":{:.3},"samples":{}}}"#,
        Quoted(row.workload),
        Quoted(&row.subject),
        Quoted(row.unit),
        summary.median,
        summary.min,
        summary.max,
        summary.samples,
    )
}

/// One verdict as a JSON object, without a line end. These are the last lines of a file.
pub fn verdict_line(verdict: &Verdict) -> String {
    format!(
        r#"{{"bar":{},"params":{},"ours":{},"rival":{},"ratio":{:.3},"at_most":{:.3},"met":{}}}"#,
        Quoted(verdict.workload),
        params_object(&verdict.params),
        Quoted(verdict.ours),
        Quoted(&verdict.rival),
        verdict.ratio,
        verdict.at_most,
        verdict.is_met(),
    )
}

/// What a probe found as a JSON object, without a line end.
pub fn finding_line(finding: &Finding) -> String {
    match finding {
        Finding::Held(verdict) => verdict_line(verdict),
        Finding::NotMeasured { what, why } => {
            format!(r#"{{"not_measured":{},"why":{}}}"#, Quoted(what), Quoted(why))
        }
    }
}

fn params_object(params: &[(&'static str, u64)]) -> String {
    let mut object = String::from("{");
    for (index, (name, value)) in params.iter().enumerate() {
        let comma = if index == 0 { "" } else { "," };
        _ = write!(object, "{comma}{}:{value}", Quoted(name));
    }
    object.push('}');
    object
}

/// The rows of one contest, each with the ratio of this project's subjects to it: below 1 ours is
/// faster, `~` says that the ranges overlap and the ratio is noise.
pub fn contest_lines(rows: &[Row]) -> String {
    let mut text = String::new();
    let Some(first) = rows.first() else { return text };
    _ = write!(text, "{}", first.workload);
    for (name, value) in &first.params {
        _ = write!(text, " {name}={value}");
    }
    _ = writeln!(text, " ({})", first.unit);
    for row in rows {
        let summary = &row.summary;
        _ = write!(
            text,
            "  {:<20} {:>11.1}  [{:.1} .. {:.1}]",
            row.subject, summary.median, summary.min, summary.max
        );
        if !is_ours(row) {
            for ours in rows.iter().filter(|row| is_ours(row)) {
                let about = if ours.summary.overlaps(summary) { "~" } else { "" };
                let ratio = ours.summary.median / summary.median;
                _ = write!(text, "  {} : {} = {about}{ratio:.2}", ours.subject, row.subject);
            }
        }
        _ = writeln!(text);
    }
    text
}

/// This project's crates all begin so, and no rival does.
fn is_ours(row: &Row) -> bool {
    row.subject.starts_with("loop-")
}

/// A string as JSON writes it.
struct Quoted<'a>(&'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('"')?;
        for character in self.0.chars() {
            match character {
                '"' | '\\' => write!(f, "\\{character}")?,
                control if control < ' ' => write!(f, "\\u{:04x}", control as u32)?,
                other => f.write_char(other)?,
            }
        }
        f.write_char('"')
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Summary;

    fn row(subject: &str, samples: &[f64]) -> Row {
        Row {
            workload: "timers/churn",
            subject: subject.into(),
            params: vec![("n", 100_000), ("turns", 7)],
            unit: "ns/op",
            summary: Summary::of(samples).unwrap(),
        }
    }

    #[test]
    fn a_row_is_one_json_object_with_these_names_in_this_order() {
        assert_eq!(
            row_line(&row("loop-timer", &[1.0, 2.5, 4.0])),
            r#"{"workload":"timers/churn","subject":"loop-timer","params":{"n":100000,"turns":7},"unit":"ns/op","median":2.500,"min":1.000,"max":4.000,"samples":3}"#
        );
    }

    #[test]
    fn a_row_without_params_has_an_empty_object() {
        let row = Row { params: vec![], ..row("std", &[1.0]) };
        assert!(row_line(&row).contains(r#""params":{},"#));
    }

    #[test]
    fn a_verdict_is_one_json_object() {
        let verdict = Verdict {
            workload: "timers/churn",
            params: vec![("n", 1_000)],
            ours: "loop-timer",
            rival: "std".into(),
            ratio: 0.4,
            at_most: 0.5,
        };
        assert_eq!(
            verdict_line(&verdict),
            r#"{"bar":"timers/churn","params":{"n":1000},"ours":"loop-timer","rival":"std","ratio":0.400,"at_most":0.500,"met":true}"#
        );
    }

    #[test]
    fn what_was_not_measured_is_one_json_object_too() {
        let finding = Finding::NotMeasured { what: "a/b".into(), why: "no valgrind".into() };
        assert_eq!(finding_line(&finding), r#"{"not_measured":"a/b","why":"no valgrind"}"#);
        assert_eq!(finding.to_string(), "a/b: not measured: no valgrind");
    }

    #[test]
    fn what_json_reserves_is_escaped() {
        let machine = Machine {
            cpu: "a \"fast\" one\\two\n".into(),
            cores: 2,
            kernel: "Linux 6".into(),
            rustc: "rustc 1".into(),
            profile: "release",
        };
        assert_eq!(
            machine_line(&machine),
            r#"{"machine":{"cpu":"a \"fast\" one\\two\u000a","cores":2,"kernel":"Linux 6","rustc":"rustc 1","profile":"release"}}"#
        );
    }

    #[test]
    fn ratios_are_ours_over_the_rival_and_say_when_they_are_noise() {
        let rows =
            [row("loop-timer", &[1.0, 1.0]), row("std", &[4.0, 4.0]), row("tokio", &[1.0, 3.0])];
        let text = contest_lines(&rows);
        assert!(text.starts_with("timers/churn n=100000 turns=7 (ns/op)\n"), "{text}");
        assert!(text.contains("loop-timer : std = 0.25"), "{text}");
        assert!(text.contains("loop-timer : tokio = ~0.50"), "{text}");
        assert!(!text.contains("loop-timer : loop-timer"), "{text}");
    }

    #[test]
    fn no_rows_no_lines() {
        assert_eq!(contest_lines(&[]), "");
    }
}
