//! Bars with their spread: one chart a contest.

use std::fmt::Write;

use super::escape::{Text, csv_link};
use crate::human::{human, three};
use crate::row::Row;
use crate::stats::Ratio;

/// The bars of one contest, drawn by the style sheet alone. The factor is each row's cost relative to that of our
/// first subject, which is what a program gets that does not choose.
pub(super) fn bars(page: &mut String, contest: &[&Row]) {
    let Some(first) = contest.first() else { return };
    let ours = contest.iter().find(|row| row.is_ours());
    let title = format!("{}{}", first.workload, first.params);
    _ = write!(page, "<article><div class=\"top\"><h3>{}", Text(&first.workload));
    if !first.params.is_empty() {
        _ = write!(page, " <span class=\"soft\">{}</span>", Text(first.params.to_string().trim()));
    }
    page.push_str("</h3>");
    csv(page, &title, contest);
    _ = write!(
        page,
        "</div><div class=\"bars\" role=\"list\"><div class=\"bar heads\" aria-hidden=\"true\"><span></span>\
         <span class=\"track\" style=\"background:none\"></span><span class=\"value\">{}</span>\
         <span class=\"ratio\">{}</span></div>",
        Text(unit(&first.unit)),
        if ours.is_some() { "factor" } else { "" }
    );
    // One bad round must not shrink all bars: a range may leave the chart, and its end is not drawn then.
    let most = |of: fn(&Row) -> f64| contest.iter().map(|row| of(row)).fold(0.0, f64::max);
    let most = most(|row| row.summary.max).min(1.5 * most(|row| row.summary.median));
    let share = |value: f64| if most > 0.0 { 100.0 * value / most } else { 0.0 };
    for row in contest {
        let summary = &row.summary;
        let class = if row.is_ours() { "bar ours" } else { "bar" };
        let (median, least, greatest) = (
            human(summary.median, &row.unit),
            human(summary.min, &row.unit),
            human(summary.max, &row.unit),
        );
        _ = write!(
            page,
            "<div class=\"{class}\" role=\"listitem\" title=\"{}: {median}, from {least} to {greatest}\">\
             <span class=\"name\">{}</span><span class=\"track\"><i style=\"width:{:.2}%\"></i>\
             <u style=\"left:{:.2}%;width:{:.2}%\"></u></span><span class=\"value\">{median}</span>\
             <span class=\"ratio\">{}</span></div>",
            Text(&row.subject),
            Text(&row.subject),
            share(summary.median),
            share(summary.min),
            share(summary.max - summary.min),
            ours.map_or(String::new(), |ours| factor(row, ours)),
        );
    }
    page.push_str("</div></article>\n");
}

/// `2.10×`; `≈` before a tie.
fn factor(row: &Row, ours: &Row) -> String {
    if std::ptr::eq(row, ours) {
        return "1".into();
    }
    let Some(ratio) = Ratio::of(&row.rounds, &ours.rounds) else { return String::new() };
    format!("{}{}×", if ratio.is_tie() { "≈" } else { "" }, three(ratio.median))
}

fn unit(unit: &str) -> &str {
    match unit {
        "ns/op" => "an operation",
        "ns/event" => "an event",
        "times" => "growth",
        other => other,
    }
}

fn csv(page: &mut String, title: &str, contest: &[&Row]) {
    let names = ["subject", "unit", "median", "least", "greatest", "rounds"];
    let mut lines = vec![names.map(str::to_owned).to_vec()];
    for row in contest {
        let rounds: Vec<_> = row.rounds.iter().map(|round| format!("{round:.3}")).collect();
        let number = |value: f64| format!("{value:.3}");
        let summary = &row.summary;
        lines.push(vec![
            row.subject.clone(),
            row.unit.to_string(),
            number(summary.median),
            number(summary.min),
            number(summary.max),
            rounds.join(" "),
        ]);
    }
    csv_link(page, title, &lines);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(subject: &str, rounds: &[f64]) -> Row {
        Row::of("w/a", subject, [("n", 1)], "ns/op", rounds.to_vec()).unwrap()
    }

    #[test]
    fn bars_are_as_long_as_their_medians_and_factors_are_relative_to_ours() {
        let rows = [
            row("loop-x", &[10.0, 20.0, 30.0]),
            row("std", &[40.0, 80.0, 120.0]),
            row("close", &[11.0, 20.0, 27.0]),
        ];
        let mut page = String::new();
        bars(&mut page, &rows.iter().collect::<Vec<_>>());
        assert!(page.contains("<div class=\"bar ours\""), "{page}");
        assert!(page.contains("width:16.67%") && page.contains("width:66.67%"), "{page}");
        assert!(page.contains("<u style=\"left:33.33%;width:66.67%\">"), "{page}");
        assert!(page.contains(">4.00×<") && page.contains(">≈1.00×<"), "{page}");
    }
}
