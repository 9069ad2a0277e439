//! All rows of a family as a table, which sorts by a column when its header is clicked.

use std::fmt::Write;

use super::escape::Text;
use crate::human::{human, three};
use crate::row::Row;

/// Name of a column, and its value in a row.
type Column = (&'static str, fn(&Row) -> Option<f64>);

/// Each is there if some row has it.
const COSTS: &[Column] = &[
    ("user", |row| row.costs.user),
    ("system", |row| row.costs.system),
    ("instructions", |row| row.costs.instructions),
    ("allocations", |row| row.costs.allocations),
    ("system calls", |row| row.costs.calls),
    ("resident", |row| row.costs.resident),
    ("p50", |row| at(row, 50.0)),
    ("p99", |row| at(row, 99.0)),
    ("p99.9", |row| at(row, 99.9)),
];

fn at(row: &Row, percentile: f64) -> Option<f64> {
    row.curve.iter().find(|point| point.0 == percentile).map(|point| point.1)
}

/// The unit of a column of costs.
fn unit_of(column: &str) -> &'static str {
    match column {
        "resident" => "bytes",
        "instructions" | "allocations" | "system calls" => "",
        _ => "ns",
    }
}

pub(super) fn table(page: &mut String, rows: &[&Row]) {
    let costs: Vec<&Column> =
        COSTS.iter().filter(|(_, of)| rows.iter().any(|row| of(row).is_some())).collect();
    _ = write!(
        page,
        "<details><summary>All {} rows as a table</summary><div class=\"wide\"><table class=\"sorts\">\
         <thead><tr>",
        rows.len()
    );
    for name in ["workload", "subject"] {
        _ = write!(page, "<th class=\"text\" scope=\"col\"><button>{name}</button></th>");
    }
    for name in ["median", "least", "greatest"].iter().chain(costs.iter().map(|(name, _)| name)) {
        _ = write!(page, "<th scope=\"col\"><button>{name}</button></th>");
    }
    page.push_str("</tr></thead><tbody>\n");
    for row in rows {
        let class = if row.is_ours() { " class=\"ours\"" } else { "" };
        _ = write!(
            page,
            "<tr{class}><td class=\"text\">{}{}</td><td class=\"text\">{}</td>",
            Text(&row.workload),
            Text(&row.params.to_string()),
            Text(&row.subject)
        );
        let summary = &row.summary;
        for value in [summary.median, summary.min, summary.max] {
            cell(page, Some(value), &row.unit);
        }
        for (name, of) in &costs {
            cell(page, of(row), unit_of(name));
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</tbody></table></div></details>\n");
}

fn cell(page: &mut String, value: Option<f64>, unit: &str) {
    match value {
        None => page.push_str("<td data-value=\"\"></td>"),
        Some(value) => {
            let shown = if unit.is_empty() { three(value) } else { human(value, unit) };
            _ = write!(page, "<td data-value=\"{value:.3}\">{}</td>", Text(&shown));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::Costs;

    #[test]
    fn columns_are_there_if_some_row_has_a_value() {
        let plain = Row::of("w/a", "std", [("n", 1)], "ns/op", vec![1.0, 2.0]).unwrap();
        let costs = Costs { user: Some(1_500.0), ..Costs::default() };
        let costly = Row { subject: "loop-x".into(), costs, ..plain.clone() };
        let mut page = String::new();
        table(&mut page, &[&plain, &costly]);
        assert!(page.contains("<button>user</button>") && !page.contains("allocations"), "{page}");
        assert!(page.contains("<td data-value=\"1500.000\">1.50 µs</td>"), "{page}");
        assert!(page.contains("<td data-value=\"\"></td>"), "{page}");
        assert!(page.contains("<tr class=\"ours\"><td class=\"text\">w/a n=1</td>"), "{page}");
    }
}
