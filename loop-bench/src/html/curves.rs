//! Curves on logarithmic axes: latency against percentile, cost against size. The script draws them.

use std::fmt::Write;

use serde::Serialize;

use super::escape::{Text, csv_link, script_data};
use crate::row::Row;

#[derive(Serialize)]
struct Plot {
    /// What lies along the horizontal axis: `percentile`, or a parameter's name.
    x: String,
    unit: String,
    series: Vec<Series>,
}

#[derive(Serialize)]
struct Series {
    name: String,
    ours: bool,
    /// Colour, dashes and marks, so that no curve is told from another by its colour alone.
    style: usize,
    points: Vec<(f64, f64)>,
}

impl Series {
    fn of(style: usize, row: &Row, points: Vec<(f64, f64)>) -> Self {
        Self { name: row.subject.clone(), ours: row.is_ours(), style, points }
    }
}

/// A plot for each contest whose subjects recorded latencies.
pub(super) fn latencies(page: &mut String, contests: &[Vec<&Row>]) {
    for contest in contests {
        let recorded = contest.iter().filter(|row| row.curve.len() > 1);
        let series: Vec<_> = recorded
            .enumerate()
            .map(|(style, row)| Series::of(style, row, row.curve.clone()))
            .collect();
        if !series.is_empty() {
            let title = format!("{}{}", contest[0].workload, contest[0].params);
            let heading = format!("{title}: latency from the intended start");
            plot(page, &heading, &Plot { x: "percentile".into(), unit: "ns".into(), series });
        }
    }
}

/// A plot for each workload and each of its parameters that takes values at least ten times apart, the other
/// parameters being equal.
pub(super) fn growth(page: &mut String, rows: &[&Row]) {
    let mut drawn: Vec<(String, String)> = Vec::new();
    for row in rows.iter().filter(|row| !row.derived) {
        for (x, _) in row.params.iter() {
            let rest = row.params.without(x);
            let key = (format!("{}{rest}", row.workload), x.to_owned());
            if drawn.contains(&key) {
                continue;
            }
            let group: Vec<&Row> = rows
                .iter()
                .filter(|other| other.workload == row.workload)
                .filter(|other| other.params.get(x).is_some() && other.params.without(x) == rest)
                .copied()
                .collect();
            let series = series_of(&group, x);
            let sizes = series.iter().flat_map(|series| &series.points).map(|point| point.0);
            let least = sizes.clone().fold(f64::MAX, f64::min);
            let most = sizes.fold(0.0, f64::max);
            if least > 0.0 && most >= 10.0 * least {
                let heading = format!("{}: cost against {x}", key.0);
                plot(page, &heading, &Plot { x: x.to_owned(), unit: row.unit.to_string(), series });
            }
            drawn.push(key);
        }
    }
}

/// One curve a subject, of those that did more than one size.
fn series_of(group: &[&Row], x: &str) -> Vec<Series> {
    let mut series: Vec<Series> = Vec::new();
    for row in group {
        let Some(size) = row.params.get(x) else { continue };
        let point = (size as f64, row.summary.median);
        match series.iter_mut().find(|known| known.name == row.subject) {
            Some(known) => known.points.push(point),
            None => series.push(Series::of(series.len(), row, vec![point])),
        }
    }
    for one in &mut series {
        one.points.sort_by(|a, b| a.0.total_cmp(&b.0));
    }
    series.retain(|series| series.points.len() > 1);
    series
}

fn plot(page: &mut String, heading: &str, plot: &Plot) {
    _ = write!(page, "<article><div class=\"top\"><h3>{}</h3>", Text(heading));
    let mut lines = vec![vec!["subject".to_owned(), plot.x.clone(), plot.unit.clone()]];
    for series in &plot.series {
        for (x, y) in &series.points {
            lines.push(vec![series.name.clone(), x.to_string(), format!("{y:.3}")]);
        }
    }
    csv_link(page, heading, &lines);
    _ = writeln!(
        page,
        "</div><div class=\"plot\" data-title=\"{}\"><script type=\"application/json\">{}</script>\
         </div></article>",
        Text(heading),
        script_data(plot)
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(subject: &str, n: u64, ready: u64, median: f64) -> Row {
        Row::of("w/a", subject, [("n", n), ("ready", ready)], "ns/op", vec![median]).unwrap()
    }

    #[test]
    fn growth_is_drawn_along_each_parameter_that_grows_alone() {
        let rows = [
            row("loop-x", 10, 1, 5.0),
            row("loop-x", 1_000, 1, 6.0),
            row("loop-x", 1_000, 100, 60.0),
            row("std", 10, 1, 7.0),
            row("std", 1_000, 1, 8.0),
            row("once", 10, 1, 7.0),
        ];
        let mut page = String::new();
        growth(&mut page, &rows.iter().collect::<Vec<_>>());
        assert_eq!(page.matches("<article>").count(), 2, "{page}");
        assert!(page.contains("w/a ready=1: cost against n"), "{page}");
        assert!(page.contains("w/a n=1000: cost against ready"), "{page}");
        assert!(page.contains(r#""points":[[10.0,7.0],[1000.0,8.0]]"#), "{page}");
        assert!(!page.contains("once"), "{page}");
    }

    #[test]
    fn latencies_are_drawn_if_there_are_any() {
        let plain = row("std", 1, 1, 1.0);
        let recorded = Row { curve: vec![(50.0, 1.0), (100.0, 9.0)], ..row("loop-x", 1, 1, 1.0) };
        let mut page = String::new();
        latencies(&mut page, &[vec![&plain]]);
        assert_eq!(page, "");
        latencies(&mut page, &[vec![&recorded, &plain]]);
        assert_eq!(page.matches("<article>").count(), 1);
        assert!(page.contains("[50.0,1.0],[100.0,9.0]"), "{page}");
    }
}
