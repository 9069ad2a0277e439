//! [`Line`]: one JSON object of a file of results.

use std::fmt;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::bar::Verdict;
use crate::finding::Finding;
use crate::machine::Machine;
use crate::params::Params;
use crate::row::{Costs, Row};
use crate::run_info::RunInfo;
use crate::stats::Summary;

/// One line of a file.
#[derive(Debug)]
pub enum Line {
    /// The first: where.
    Machine(Machine),
    /// The second: how.
    Run(RunInfo),
    /// A result.
    Row(Row),
    /// What a probe found, or a bar's verdict.
    Finding(Finding),
    /// An answer that was wrong.
    Wrong(WrongAnswer),
}

/// An answer that was wrong: its subject has no row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WrongAnswer {
    /// The workload's full name.
    #[serde(rename = "wrong")]
    pub workload: String,
    /// Whose it was.
    pub subject: String,
    /// What was wrong.
    pub why: String,
}

impl fmt::Display for WrongAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { workload, subject, why } = self;
        write!(f, "{workload} {subject}: {why}")
    }
}

/// A row as it is written. What follows from the rounds is written too, for those who read the file
/// with other tools, and not read back.
#[derive(Serialize, Deserialize)]
struct RowLine {
    workload: String,
    subject: String,
    #[serde(default)]
    params: Params,
    unit: String,
    #[serde(skip_deserializing)]
    median: f64,
    #[serde(skip_deserializing)]
    min: f64,
    #[serde(skip_deserializing)]
    max: f64,
    rounds: Vec<f64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    processor: Vec<f64>,
    #[serde(default, skip_serializing_if = "Costs::is_empty")]
    costs: Costs,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    curve: Vec<(f64, f64)>,
    #[serde(default, skip_serializing_if = "is_false")]
    derived: bool,
}

fn is_false(value: &bool) -> bool {
    !value
}

#[derive(Serialize, Deserialize)]
struct NotMeasuredLine {
    not_measured: String,
    why: String,
}

impl Line {
    /// The line as JSON, without a line end.
    pub fn to_json(&self) -> String {
        match self {
            Self::Machine(machine) => json(&Wrapped { machine: Some(machine), run: None }),
            Self::Run(run) => json(&Wrapped { machine: None, run: Some(run) }),
            Self::Row(row) => json(&RowLine::from(row)),
            Self::Finding(Finding::Held(verdict)) => {
                json(&Verdict { ratio: thousandths(verdict.ratio), ..verdict.clone() })
            }
            Self::Finding(Finding::NotMeasured { what, why }) => {
                json(&NotMeasuredLine { not_measured: what.clone(), why: why.clone() })
            }
            Self::Wrong(wrong) => json(wrong),
        }
    }

    /// Reads one line; `Err` says what is wrong with it.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let value: Value = read(text)?;
        let object = value.as_object().ok_or("this is no object")?;
        let has = |key| object.contains_key(key);
        if has("machine") {
            return field(&value["machine"]).map(Self::Machine);
        }
        if has("run") {
            return field(&value["run"]).map(Self::Run);
        }
        if has("workload") {
            return read::<RowLine>(text)?.into_row().map(Self::Row);
        }
        if has("bar") {
            return read(text).map(|verdict| Self::Finding(Finding::Held(verdict)));
        }
        if has("not_measured") {
            let NotMeasuredLine { not_measured: what, why } = read(text)?;
            return Ok(Self::Finding(Finding::NotMeasured { what, why }));
        }
        if has("wrong") {
            return read(text).map(Self::Wrong);
        }
        let keys: Vec<_> = object.keys().map(String::as_str).collect();
        Err(format!("no line has the names {}", keys.join(", ")))
    }
}

#[derive(Serialize)]
struct Wrapped<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    machine: Option<&'a Machine>,
    #[serde(skip_serializing_if = "Option::is_none")]
    run: Option<&'a RunInfo>,
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("strings and numbers can be written")
}

/// From the text and not from a [`Value`], which would forget the order of the parameters.
fn read<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    // It counts the lines of what it is given, which is one.
    let tell =
        |error: serde_json::Error| error.to_string().replace("at line 1 column", "at column");
    serde_json::from_str(text).map_err(tell)
}

fn field<T: DeserializeOwned>(value: &Value) -> Result<T, String> {
    T::deserialize(value).map_err(|error| error.to_string())
}

/// More digits than that are noise.
fn thousandths(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}

impl From<&Row> for RowLine {
    fn from(row: &Row) -> Self {
        let Summary { median, min, max, samples: _ } = row.summary;
        Self {
            workload: row.workload.to_string(),
            subject: row.subject.clone(),
            params: row.params.clone(),
            unit: row.unit.to_string(),
            median: thousandths(median),
            min: thousandths(min),
            max: thousandths(max),
            rounds: row.rounds.iter().copied().map(thousandths).collect(),
            processor: row.processor.iter().copied().map(thousandths).collect(),
            costs: row.costs,
            curve: row.curve.clone(),
            derived: row.derived,
        }
    }
}

impl RowLine {
    fn into_row(self) -> Result<Row, String> {
        if !self
            .rounds
            .iter()
            .chain(&self.processor)
            .all(|round| round.is_finite() && *round >= 0.0)
        {
            return Err("a round took less than no time".into());
        }
        let Self {
            workload, subject, params, unit, rounds, processor, costs, curve, derived, ..
        } = self;
        let row = Row::of(workload, subject, params, unit, rounds).ok_or("a row has no rounds")?;
        Ok(Row { processor, costs, curve, derived, ..row })
    }
}
