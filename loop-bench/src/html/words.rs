//! The summary in words: what was won, tied and lost, the losses first.

use std::fmt::Write;

use super::escape::Text;
use crate::duel::Duel;
use crate::finding::Finding;
use crate::human::{human, three};
use crate::results::Results;
use crate::row::{Row, contests};

/// So many losses are told at once, the rest on demand.
const FIRST: usize = 8;

pub(super) fn summary(page: &mut String, runs: &[Results], rows: &[Row]) {
    page.push_str("<section id=\"summary\"><h2>In short</h2>\n");
    wrong_answers(page, runs);
    if rows.is_empty() {
        page.push_str("<p>Nothing was measured.</p></section>\n");
        return;
    }
    let contests = contests(rows.iter().filter(|row| !row.derived));
    let mut duels: Vec<Duel> = contests.iter().filter_map(|contest| Duel::of(contest)).collect();
    if duels.is_empty() {
        page.push_str("<p>No contest has a subject of this project and a rival.</p></section>\n");
        return;
    }
    let behind = duels.iter().filter(|duel| duel.is_behind()).count();
    let ahead = duels.iter().filter(|duel| duel.is_ahead()).count();
    let ties = duels.len() - ahead - behind;
    _ = writeln!(
        page,
        "<p>In each contest the default of this project’s subjects against the best of the rivals that took \
         part, by the time of an operation.</p><div class=\"tally\">\
         <div class=\"behind\"><b>{behind}</b><span>behind the best rival</span></div>\
         <div><b>{ties}</b><span>ties: inside the spread</span></div>\
         <div class=\"ahead\"><b>{ahead}</b><span>ahead of all rivals</span></div></div>"
    );
    by_family(page, &duels);
    duels.sort_by(|a, b| b.ratio.median.total_cmp(&a.ratio.median));
    losses(page, &duels);
    bars(page, runs);
    page.push_str("</section>\n");
}

fn by_family(page: &mut String, duels: &[Duel<'_>]) {
    page.push_str("<ul class=\"plain\">");
    for duels in duels.chunk_by(|a, b| a.ours.family() == b.ours.family()) {
        let name = duels[0].ours.family();
        let ahead = duels.iter().filter(|duel| duel.is_ahead()).count();
        let behind = duels.iter().filter(|duel| duel.is_behind()).count();
        let mut ratios: Vec<f64> = duels.iter().map(|duel| duel.ratio.median).collect();
        ratios.sort_by(f64::total_cmp);
        let (least, most) = (ratios[0], ratios[ratios.len() - 1]);
        _ = write!(
            page,
            "<li><a href=\"#{0}\">{0}</a>: {1} behind, {2} tied, {3} ahead; ours takes {4} of the best \
             rival’s time</li>",
            Text(name),
            behind,
            duels.len() - ahead - behind,
            ahead,
            if duels.len() == 1 {
                times(least)
            } else {
                format!("{} to {}", times(least), times(most))
            }
        );
    }
    page.push_str("</ul>\n");
}

fn times(ratio: f64) -> String {
    format!("{} ×", three(ratio))
}

/// `duels`, the worst first.
fn losses(page: &mut String, duels: &[Duel<'_>]) {
    let lost: Vec<&Duel> = duels.iter().filter(|duel| duel.is_behind()).collect();
    if lost.is_empty() {
        return;
    }
    page.push_str("<h3>Where ours is behind</h3>");
    list(page, &lost[..lost.len().min(FIRST)]);
    if lost.len() > FIRST {
        _ = write!(page, "<details><summary>{} more</summary>", lost.len() - FIRST);
        list(page, &lost[FIRST..]);
        page.push_str("</details>");
    }
}

fn list(page: &mut String, duels: &[&Duel<'_>]) {
    page.push_str("<ol class=\"losses\">");
    for duel in duels {
        let Duel { ours, rival, ratio } = duel;
        _ = write!(
            page,
            "<li><b class=\"behind\">{}</b><span>{}{}: {} {}, {} {} <span class=\"soft\">({} to {})</span>\
             </span></li>",
            times(ratio.median),
            Text(&ours.workload),
            Text(&ours.params.to_string()),
            Text(&ours.subject),
            human(ours.summary.median, &ours.unit),
            Text(&rival.subject),
            human(rival.summary.median, &rival.unit),
            times(ratio.low),
            times(ratio.high)
        );
    }
    page.push_str("</ol>\n");
}

/// What was promised and not kept, and how much was.
fn bars(page: &mut String, runs: &[Results]) {
    let verdicts: Vec<_> = runs
        .iter()
        .flat_map(|run| &run.findings)
        .filter_map(|finding| match finding {
            Finding::Held(verdict) => Some(verdict),
            Finding::NotMeasured { .. } => None,
        })
        .collect();
    if verdicts.is_empty() {
        return;
    }
    let met = verdicts.iter().filter(|verdict| verdict.is_met()).count();
    _ = write!(
        page,
        "<p>Of {} ratios that are held against a bar, {met} meet it.</p>",
        verdicts.len()
    );
    let missed: Vec<_> = verdicts.iter().filter(|verdict| !verdict.is_met()).collect();
    for (title, is_open, verdicts) in
        [("Not met", true, missed), ("All", false, verdicts.iter().collect())]
    {
        if verdicts.is_empty() {
            continue;
        }
        let open = if is_open { " open" } else { "" };
        _ = write!(page, "<details{open}><summary>{title}</summary><ul class=\"plain\">");
        for verdict in verdicts {
            _ = write!(page, "<li>{}</li>", Text(&verdict.to_string()));
        }
        page.push_str("</ul></details>");
    }
}

fn wrong_answers(page: &mut String, runs: &[Results]) {
    let wrong: Vec<_> = runs.iter().flat_map(|run| &run.wrong).collect();
    if wrong.is_empty() {
        return;
    }
    page.push_str("<p><b class=\"behind\">Answers were wrong; their subjects are not shown:</b></p><ul class=\"plain\">");
    for answer in wrong {
        let text = format!("{} {}: {}", answer.workload, answer.subject, answer.why);
        _ = write!(page, "<li>{}</li>", Text(&text));
    }
    page.push_str("</ul>\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(workload: &'static str, subject: &str, rounds: &[f64]) -> Row {
        Row::of(workload, subject, [], "ns/op", rounds.to_vec()).unwrap()
    }

    #[test]
    fn losses_come_first_and_ties_are_neither() {
        let rows = [
            row("a/lost", "loop-x/epoll", &[4.0, 4.0, 4.0]),
            row("a/lost", "loop-x/poll", &[1.0, 1.0, 1.0]),
            row("a/lost", "std", &[2.0, 2.0, 2.0]),
            row("a/tied", "loop-x", &[1.0, 3.0, 2.0]),
            row("a/tied", "std", &[2.0, 2.0, 2.0]),
            row("b/won", "loop-x", &[1.0, 1.0, 1.0]),
            row("b/won", "std", &[2.0, 2.0, 2.0]),
            row("b/alone", "loop-x", &[1.0, 1.0, 1.0]),
        ];
        let mut page = String::new();
        summary(&mut page, &[], &rows);
        assert!(page.contains("<b>1</b><span>behind the best"), "{page}");
        assert!(page.contains("<b>1</b><span>ties"), "{page}");
        assert!(page.contains("<b>1</b><span>ahead"), "{page}");
        assert!(
            page.contains("2.00 ×</b><span>a/lost: loop-x/epoll 4.00 ns, std 2.00 ns"),
            "{page}"
        );
        assert!(page.contains("<a href=\"#a\">a</a>: 1 behind, 1 tied, 0 ahead"), "{page}");
    }
}
