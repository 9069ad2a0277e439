//! [`Duel`]: the contest of two that people ask about.

use crate::row::Row;
use crate::stats::Ratio;

/// Ours against the best of the rivals, in one contest.
pub(crate) struct Duel<'a> {
    pub(crate) ours: &'a Row,
    pub(crate) rival: &'a Row,
    /// Ours to the rival's, pair by pair.
    pub(crate) ratio: Ratio,
}

impl<'a> Duel<'a> {
    /// Ours is the first of our subjects: what a program gets that does not choose. Choosing the fastest after the
    /// race would flatter.
    pub(crate) fn of(contest: &[&'a Row]) -> Option<Self> {
        let ours = contest.iter().find(|row| row.is_ours())?;
        let rivals = contest.iter().filter(|row| !row.is_ours());
        let rival = rivals.min_by(|a, b| a.summary.median.total_cmp(&b.summary.median))?;
        Some(Self { ours, rival, ratio: Ratio::of(&ours.rounds, &rival.rounds)? })
    }

    pub(crate) fn is_ahead(&self) -> bool {
        !self.ratio.is_tie() && self.ratio.median < 1.0
    }

    pub(crate) fn is_behind(&self) -> bool {
        !self.ratio.is_tie() && self.ratio.median > 1.0
    }
}
