//! What a TLS connection is in.

/// The states of a TLS connection, in their order (B-TLS-01). Each may also be left for `Unwrapped`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    /// Before the first byte.
    New,
    Handshake,
    Wrapped,
    /// Closed by the user; what was written before is being sent.
    Flushing,
    /// Our `close_notify` is sent, and the peer's is waited for.
    Shutdown,
    /// Over: nothing is read or written any more.
    Unwrapped,
}

impl Phase {
    pub(super) fn may_become(self, next: Phase) -> bool {
        use Phase::*;
        matches!(
            (self, next),
            (New, Handshake) | (Handshake, Wrapped) | (Wrapped, Flushing) | (Flushing, Shutdown)
        ) || next == Unwrapped
    }

    /// Whether the user has ended it, or it is over.
    pub(super) fn is_closing(self) -> bool {
        self >= Phase::Flushing
    }
}

#[cfg(test)]
mod tests {
    use super::Phase::*;

    #[test]
    fn b_tls_01_states_follow_each_other_and_lead_to_unwrapped() {
        let all = [New, Handshake, Wrapped, Flushing, Shutdown, Unwrapped];
        for (at, from) in all.iter().enumerate() {
            for (to_at, to) in all.iter().enumerate() {
                let expected = *to == Unwrapped || to_at == at + 1;
                assert_eq!(from.may_become(*to), expected, "{from:?} to {to:?}");
            }
        }
    }
}
