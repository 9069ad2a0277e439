//! [`Results`]: what a run found, read from the file that keeps it: one JSON object a line.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use crate::finding::Finding;
use crate::line::{Line, WrongAnswer};
use crate::machine::Machine;
use crate::row::Row;
use crate::run_info::RunInfo;

/// All that a file holds.
#[derive(Clone, Debug)]
pub struct Results {
    /// Where it came from, to name it.
    pub path: PathBuf,
    /// Where it was measured.
    pub machine: Machine,
    /// How it was measured.
    pub run: RunInfo,
    /// What was measured.
    pub rows: Vec<Row>,
    /// What was held against bars, and what could not be measured.
    pub findings: Vec<Finding>,
    /// What was wrong.
    pub wrong: Vec<WrongAnswer>,
}

impl Results {
    /// Reads a file that `loop-bench run --json` wrote. Empty lines are passed over.
    ///
    /// # Errors
    /// If it cannot be read, or a line is damaged or missing: the error names file and line.
    pub fn read(path: &Path) -> Result<Self, ReadError> {
        let text = fs::read_to_string(path).map_err(|error| ReadError {
            path: path.into(),
            line: None,
            what: error.to_string(),
        })?;
        Self::parse(path, &text)
    }

    fn parse(path: &Path, text: &str) -> Result<Self, ReadError> {
        let (mut machine, mut run) = (None, None);
        let (mut rows, mut findings, mut wrong) = (Vec::new(), Vec::new(), Vec::new());
        let mut last = 0;
        for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            last = index + 1;
            let fail = |what| ReadError { path: path.into(), line: Some(index + 1), what };
            match Line::parse(line).map_err(fail)? {
                Line::Machine(it) if machine.is_none() => machine = Some(it),
                Line::Run(it) if run.is_none() => run = Some(it),
                Line::Machine(_) | Line::Run(_) => {
                    return Err(fail("a second run begins; a file holds one".into()));
                }
                Line::Row(row) => rows.push(row),
                Line::Finding(finding) => findings.push(finding),
                Line::Wrong(answer) => wrong.push(answer),
            }
        }
        let missing = |what: &str| {
            let what = format!("the line with the {what} is missing");
            ReadError { path: path.into(), line: Some(last), what }
        };
        let machine = machine.ok_or_else(|| missing("machine"))?;
        let run = run.ok_or_else(|| missing("run"))?;
        Ok(Self { path: path.into(), machine, run, rows, findings, wrong })
    }
}

/// Why a file of results cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadError {
    /// The file.
    pub path: PathBuf,
    /// The line, counted from 1, if it is about one.
    pub line: Option<usize>,
    /// What is wrong with it.
    pub what: String,
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.path.display())?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        write!(f, ": {}", self.what)
    }
}

impl std::error::Error for ReadError {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bar::Verdict;
    use crate::params::Params;
    use crate::row::Costs;

    fn row(params: Params, rounds: &[f64]) -> Row {
        Row::of("timers/churn", "loop-timer", params, "ns/op", rounds.to_vec()).unwrap()
    }

    fn machine() -> Machine {
        let load = "0.50".into();
        Machine { cpu: "a \"fast\" one\\two\n".into(), load, ..Machine::look() }
    }

    fn whole() -> Vec<Line> {
        let verdict = Verdict {
            workload: "timers/churn".into(),
            params: [("n", 1_000)].into(),
            ours: "loop-timer".into(),
            rival: "std".into(),
            ratio: 0.4,
            at_most: 0.5,
        };
        let costs = Costs { user: Some(3.5), ..Costs::default() };
        let processor = vec![2.0, 3.0, 4.5];
        let curve = vec![(50.0, 1_000.0), (100.0, 2_000.0)];
        let plain = row([("n", 100_000), ("turns", 7)].into(), &[1.0, 2.5, 4.0]);
        vec![
            Line::Machine(machine()),
            Line::Run(RunInfo { seed: u64::MAX, ..RunInfo::default() }),
            Line::Row(Row { processor, costs, curve, ..plain.clone() }),
            Line::Row(plain),
            Line::Finding(Finding::Held(verdict)),
            Line::Finding(Finding::NotMeasured { what: "a/b".into(), why: "no valgrind".into() }),
            Line::Wrong(WrongAnswer {
                workload: "echo/small".into(),
                subject: "faulty".into(),
                why: "other bytes".into(),
            }),
        ]
    }

    fn text(lines: &[Line]) -> String {
        lines.iter().map(|line| line.to_json() + "\n").collect()
    }

    fn parse(text: &str) -> Result<Results, String> {
        Results::parse(Path::new("a.json"), text).map_err(|error| error.to_string())
    }

    #[test]
    fn a_row_is_one_json_object_with_these_names_in_this_order() {
        let row = row([("n", 100_000), ("turns", 7)].into(), &[1.0, 2.5, 4.0]);
        assert_eq!(
            Line::Row(row).to_json(),
            r#"{"workload":"timers/churn","subject":"loop-timer","params":{"n":100000,"turns":7},"unit":"ns/op","median":2.5,"min":1.0,"max":4.0,"rounds":[1.0,2.5,4.0]}"#
        );
    }

    #[test]
    fn a_verdict_is_one_json_object() {
        assert_eq!(
            whole()[4].to_json(),
            r#"{"bar":"timers/churn","params":{"n":1000},"ours":"loop-timer","rival":"std","ratio":0.4,"at_most":0.5}"#
        );
        assert_eq!(whole()[5].to_json(), r#"{"not_measured":"a/b","why":"no valgrind"}"#);
    }

    #[test]
    fn what_is_written_is_read_again() {
        let lines = whole();
        let results = parse(&text(&lines)).unwrap();
        assert_eq!(results.machine, machine());
        assert_eq!(results.run.seed, u64::MAX);
        let rows: Vec<_> = lines
            .iter()
            .filter_map(|line| if let Line::Row(row) = line { Some(row.clone()) } else { None })
            .collect();
        assert_eq!(results.rows, rows);
        assert_eq!(results.findings.len(), 2);
        assert!(matches!(&results.findings[0], Finding::Held(verdict) if verdict.is_met()));
        assert_eq!(results.wrong[0].subject, "faulty");
    }

    #[test]
    fn a_file_that_ends_in_the_middle_of_a_line_is_refused_by_name_and_line() {
        let whole = text(&whole());
        let ends: Vec<usize> = whole.match_indices('\n').map(|(end, _)| end).collect();
        for length in 0..whole.len() {
            if !whole.is_char_boundary(length) || ends.contains(&length) {
                continue;
            }
            let begun = whole[..length].ends_with('\n') || length == 0;
            match parse(&whole[..length]) {
                // Whole lines, and the two first ones among them: a run that was ended.
                Ok(_) => assert!(begun, "{length}"),
                Err(error) => {
                    let line = whole[..length].lines().count();
                    assert!(error.starts_with(&format!("a.json:{line}: ")), "{error}");
                }
            }
        }
    }

    #[test]
    fn damage_is_named() {
        let base = text(&whole()[..2]);
        for (line, what) in [
            ("[1]", "no object"),
            ("nonsense", "expected"),
            (r#"{"other":1}"#, "no line has the names other"),
            (r#"{"workload":"a/b"}"#, "missing field `subject`"),
            (r#"{"workload":"a/b","subject":"s","unit":"ns","rounds":[]}"#, "no rounds"),
            (r#"{"workload":"a/b","subject":"s","unit":"ns","rounds":[-1]}"#, "less than no time"),
            (r#"{"workload":"a/b","subject":"s","unit":"ns","rounds":["x"]}"#, "invalid type"),
            (
                r#"{"workload":"a/b","params":{"n":-1},"subject":"s","unit":"ns","rounds":[1]}"#,
                "-1",
            ),
            (r#"{"bar":"a/b"}"#, "missing field"),
            (r#"{"machine":{}}"#, "missing field `cpu`"),
        ] {
            let error = parse(&format!("{base}\n{line}\n")).unwrap_err();
            assert!(error.starts_with("a.json:4: ") && error.contains(what), "{line}: {error}");
        }
        let twice = parse(&format!("{base}{base}")).unwrap_err();
        assert_eq!(twice, "a.json:3: a second run begins; a file holds one");
        assert_eq!(parse("").unwrap_err(), "a.json:0: the line with the machine is missing");
    }

    #[test]
    fn a_file_that_is_not_there_is_named() {
        let error = Results::read(Path::new("/nowhere/at-all.json")).unwrap_err();
        assert!(error.to_string().starts_with("/nowhere/at-all.json: "), "{error}");
    }
}
