//! The report: one HTML file that needs nothing else.

mod chart;
mod curves;
mod escape;
mod table;
mod words;

use std::collections::BTreeSet;
use std::fmt::Write;

use crate::finding::Finding;
use crate::results::Results;
use crate::row::{Row, contests};
use crate::workload::Workload;

use escape::Text;

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// Makes a report of one or more runs: a summary in words, bars with their spread, curves, tables. The page
/// loads nothing from anywhere, follows the reader's choice of light or dark, and can be read on a
/// telephone; without scripts only the curves and the sorting of tables are missing.
///
/// Where a subject is in several runs, its name is followed by the file's.
pub fn html(runs: &[Results]) -> String {
    let rows = merged(runs);
    let mut page = String::new();
    _ = write!(
        page,
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>loop-bench</title>\n<link rel=\"icon\" href=\"data:,\">\n<style>{STYLE}</style>\n"
    );
    header(&mut page, runs);
    let families = families(&rows);
    _ = write!(page, "<nav aria-label=\"Workloads\"><div><a href=\"#summary\">summary</a>");
    for family in &families {
        _ = write!(page, "<a href=\"#{0}\">{0}</a>", Text(family));
    }
    _ = write!(page, "<a href=\"#machine\">machine</a></div></nav>\n<main>\n");
    words::summary(&mut page, runs, &rows);
    for family in families {
        section(&mut page, family, &rows);
    }
    machine(&mut page, runs);
    _ = write!(
        page,
        "</main>\n<footer>Made by loop-bench {}. Every subject does the same work on the same data, in \
         turns, and has its answers checked. The medians of the rounds are shown; a thin line is the \
         range from the least round to the greatest. A factor with ≈ is a tie: the difference is \
         inside the spread of the rounds’ pairs.</footer>\n<script>{SCRIPT}</script>\n</html>\n",
        env!("CARGO_PKG_VERSION")
    );
    page
}

/// The rows of all runs; one that several runs have says which.
fn merged(runs: &[Results]) -> Vec<Row> {
    let mut rows = Vec::new();
    for run in runs {
        let has = |other: &Results, row: &Row| {
            other.rows.iter().any(|known| known.is_beside(row) && known.subject == row.subject)
        };
        for row in &run.rows {
            let elsewhere = runs.iter().any(|other| other.path != run.path && has(other, row));
            let mut row = row.clone();
            if elsewhere {
                let file = run.path.file_stem().unwrap_or_default().to_string_lossy();
                row.subject = format!("{} ({file})", row.subject);
            }
            rows.push(row);
        }
    }
    rows
}

/// In the order of the first run.
fn families(rows: &[Row]) -> Vec<&str> {
    let mut known = BTreeSet::new();
    rows.iter().map(Row::family).filter(|family| known.insert(*family)).collect()
}

fn header(page: &mut String, runs: &[Results]) {
    _ = write!(page, "<header><h1>Event loops, selectors and timer stores, compared</h1>");
    for run in runs {
        let (machine, info) = (&run.machine, &run.run);
        _ = write!(
            page,
            "<p class=\"soft\">{} · {}, {} cores · {} · {} rounds · seed {}{}</p>",
            Text(&info.date),
            Text(&machine.cpu),
            machine.cores,
            Text(&machine.kernel),
            info.rounds,
            info.seed,
            if info.quick { " · a quick run" } else { "" }
        );
        if machine.profile == "debug" {
            _ = write!(
                page,
                "<p><b class=\"behind\">A debug build: these numbers mean nothing.</b></p>"
            );
        }
    }
    page.push_str("</header>\n");
}

fn section(page: &mut String, name: &str, rows: &[Row]) {
    let of_family: Vec<&Row> = rows.iter().filter(|row| row.family() == name).collect();
    _ = write!(page, "<section id=\"{0}\"><h2>{0}</h2>", Text(name));
    if let Some(known) = Workload::ALL.iter().find(|known| known.name == name) {
        _ = write!(page, "<p class=\"soft\">{}</p>", Text(known.about));
    }
    let contests = contests(of_family.iter().copied());
    page.push_str("<div class=\"contests\">\n");
    for contest in &contests {
        chart::bars(page, contest);
    }
    curves::latencies(page, &contests);
    curves::growth(page, &of_family);
    page.push_str("</div>\n");
    table::table(page, &of_family);
    page.push_str("</section>\n");
}

fn machine(page: &mut String, runs: &[Results]) {
    page.push_str("<section id=\"machine\"><h2>Where and how</h2>");
    for run in runs {
        let (machine, info) = (&run.machine, &run.run);
        let rounds = match info.passes {
            0 | 1 => format!("{} of each subject, after one that warms up", info.rounds),
            passes => format!(
                "{} of each subject in {passes} processes, each of which warms up for one",
                info.rounds
            ),
        };
        let list =
            |lines: &[String]| if lines.is_empty() { "none".into() } else { lines.join("; ") };
        _ = write!(page, "<dl>");
        for (name, value) in [
            ("File", run.path.display().to_string()),
            ("Processor", format!("{}, {} cores", machine.cpu, machine.cores)),
            ("Kernel", machine.kernel.clone()),
            ("Virtualization", machine.virtualization.clone()),
            ("Governor", machine.governor.clone()),
            ("Load before", machine.load.clone()),
            ("Mitigations", list(&machine.mitigations)),
            ("Compiler", format!("{}, {} build", machine.rustc, machine.profile)),
            ("Versions", list(&machine.versions)),
            ("Selectors", list(&machine.selectors)),
            ("Date", info.date.clone()),
            ("Rounds", rounds),
            ("Seed", info.seed.to_string()),
            ("Cores of peer and main", info.pins.clone()),
        ] {
            _ = write!(page, "<dt>{name}</dt><dd>{}</dd>", Text(&value));
        }
        page.push_str("</dl>");
        let absent: Vec<_> = run
            .findings
            .iter()
            .filter(|finding| matches!(finding, Finding::NotMeasured { .. }))
            .collect();
        if !absent.is_empty() {
            _ = write!(
                page,
                "<details><summary>Not measured: {}</summary><ul class=\"plain\">",
                absent.len()
            );
            for finding in absent {
                _ = write!(page, "<li>{}</li>", Text(&finding.to_string()));
            }
            page.push_str("</ul></details>");
        }
    }
    page.push_str("</section>\n");
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::machine::Machine;
    use crate::run_info::RunInfo;

    fn run(file: &str, rows: Vec<Row>) -> Results {
        Results {
            path: PathBuf::from(file),
            machine: Machine { cpu: "<fast> & \"cheap\"".into(), ..Machine::default() },
            run: RunInfo { date: "2001-02-03".into(), rounds: 3, ..RunInfo::default() },
            rows,
            findings: Vec::new(),
            wrong: Vec::new(),
        }
    }

    fn row(subject: &str, n: u64, rounds: &[f64]) -> Row {
        Row::of("timers/churn", subject, [("n", n)], "ns/op", rounds.to_vec()).unwrap()
    }

    #[test]
    fn the_page_stands_alone_and_escapes_what_it_is_given() {
        let rows = vec![row("loop-timer", 10, &[1.0, 2.0, 3.0]), row("<b>", 10, &[4.0, 5.0, 6.0])];
        let page = html(&[run("a.json", rows)]);
        for outside in ["http://", "https://", "src=", "@import", "url("] {
            let found = page.match_indices(outside).filter(|(at, _)| {
                // The name of SVG's elements, which is no address.
                !page[*at..].starts_with("http://www.w3.org/2000/svg")
            });
            assert_eq!(found.count(), 0, "{outside}");
        }
        assert!(page.contains("&lt;fast&gt; &amp; &quot;cheap&quot;"));
        assert!(!page.contains("<b>:") && page.contains("&lt;b&gt;"));
    }

    #[test]
    fn a_subject_of_two_runs_says_which() {
        let runs = [
            run("a.json", vec![row("loop-timer", 10, &[1.0]), row("std", 10, &[2.0])]),
            run("b.json", vec![row("loop-timer", 10, &[3.0])]),
        ];
        let rows = merged(&runs);
        let names: Vec<_> = rows.iter().map(|row| row.subject.as_str()).collect();
        assert_eq!(names, ["loop-timer (a)", "std", "loop-timer (b)"]);
    }

    #[test]
    fn a_report_of_nothing_is_a_page_too() {
        assert!(html(&[run("a.json", vec![])]).contains("Nothing was measured"));
    }
}
