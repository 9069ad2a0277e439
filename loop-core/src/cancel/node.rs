//! What a tree of catch points is made of.

use std::sync::Arc;
use std::task::Waker;

use loop_timer::TimerKey;

/// No node, no token.
pub(super) const NONE: u32 = u32::MAX;

/// The body of the task.
pub(super) const ROOT: NodeId = NodeId { index: 0, serial: 0 };

/// A node, by number. The serial tells a slot's nodes apart, so that a request does not take a later
/// node for its target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NodeId {
    pub(super) index: u32,
    pub(super) serial: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The body of the task.
    Root,
    /// A future that ends with a request.
    Catch,
    /// A future that holds requests until it is done.
    Protect,
    /// A future that ends with a request of its own, and passes others on.
    Scope,
    /// Both a scope and, for the requests of others, a catch point (C9).
    Group,
}

impl Kind {
    /// Whether a request from outside is handed to such a node.
    pub(super) fn catches(self) -> bool {
        matches!(self, Kind::Catch | Kind::Protect | Kind::Group)
    }
}

/// A request, wherever it is on its way.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    /// Who asks, and is ended by it: the root, or a scope.
    pub(super) target: NodeId,
    /// Requests are numbered as they are handed down. A later one does not wait for the clean-ups of
    /// earlier ones (C6). See [`round`](Self::round).
    pub(super) round: u64,
    /// The round whose reason it has: of several requests that became one, the first one's stays.
    pub(super) since: u64,
    /// Whether somebody below waits for it to be acted on, for ever: it was propagated. Else another
    /// point below may take it over.
    pub(super) stands: bool,
    pub(super) reason: Option<Arc<str>>,
    /// What a scope further in asked, and became one with this. It is that scope's own business: it
    /// counts inside that scope, and is left behind there (C8).
    pub(super) inner: Option<Box<Request>>,
}

impl Request {
    pub(super) fn new(target: NodeId, round: u64, reason: Option<Arc<str>>) -> Self {
        Request { target, round, since: round, stands: false, reason, inner: None }
    }

    /// The latest round in it.
    pub(super) fn round(&self) -> u64 {
        self.inner.as_ref().map_or(self.round, |inner| self.round.max(inner.round()))
    }

    pub(super) fn stands(&self) -> bool {
        self.stands || self.inner.as_ref().is_some_and(|inner| inner.stands())
    }

    pub(super) fn set_stands(&mut self, stands: bool) {
        self.stands = stands;
        if let Some(inner) = &mut self.inner {
            inner.set_stands(stands);
        }
    }

    /// What is left of it without the targets that `keep` refuses.
    pub(super) fn retain(mut self, keep: &impl Fn(NodeId) -> bool) -> Option<Self> {
        let inner = self.inner.take().and_then(|inner| inner.retain(keep));
        if !keep(self.target) {
            return inner;
        }
        self.inner = inner.map(Box::new);
        Some(self)
    }
}

/// Where a request may be kept. Nearly always there is none, so the place takes no more than a pointer: a
/// node is made and gone for each time limit.
#[derive(Default)]
pub(super) struct Kept(Option<Box<Request>>);

impl Kept {
    pub(super) fn is_some(&self) -> bool {
        self.0.is_some()
    }

    pub(super) fn take(&mut self) -> Option<Request> {
        self.0.take().map(|request| *request)
    }

    pub(super) fn set(&mut self, request: Option<Request>) {
        self.0 = request.map(Box::new);
    }
}

/// A node. Siblings are linked: tens of thousands of them are no rarity, and any may leave.
pub(super) struct Node {
    pub(super) serial: u32,
    pub(super) kind: Kind,
    pub(super) parent: u32,
    pub(super) previous: u32,
    pub(super) next: u32,
    pub(super) first: u32,
    pub(super) last: u32,
    /// Its future is suspended, and as far as anybody knows it is being awaited.
    pub(super) live: bool,
    /// Requests from outside stop here: a protected future, or a group that waits for its children.
    pub(super) barrier: bool,
    /// The latest round that asked it.
    pub(super) round: u64,
    /// Reaches it inside a combinator that polls only what was woken. `None` if the task polls it itself.
    pub(super) waker: Option<Waker>,
    /// A scope's own request, before it is handed down.
    pub(super) own: Kept,
    /// What it acts on when it is polled next: it is marked.
    pub(super) act: Kept,
    /// What came back from below; it acts on that once everything below has settled (C4).
    pub(super) back: Kept,
    /// What a barrier keeps for later.
    pub(super) held: Kept,
    /// The token that says so to the nodes above.
    pub(super) hold: u32,
    /// How many nodes are marked, here and below.
    pub(super) marked: u32,
    /// How many tokens are undecided, here and below.
    pub(super) tokens: u32,
    pub(super) first_token: u32,
    /// The deadline of a scope.
    pub(super) timer: Option<TimerKey>,
    pub(super) expired: bool,
}

impl Node {
    pub(super) fn new(kind: Kind, serial: u32) -> Self {
        Node {
            serial,
            kind,
            parent: NONE,
            previous: NONE,
            next: NONE,
            first: NONE,
            last: NONE,
            live: false,
            barrier: kind == Kind::Protect,
            round: 0,
            waker: None,
            own: Kept::default(),
            act: Kept::default(),
            back: Kept::default(),
            held: Kept::default(),
            hold: NONE,
            marked: 0,
            tokens: 0,
            first_token: NONE,
            timer: None,
            expired: false,
        }
    }
}

/// A request that was issued as a [`Cancelled`](super::Cancelled) and is undecided, or that a barrier
/// holds. Nodes above its home wait for it.
pub(super) struct Token {
    pub(super) serial: u32,
    /// The node that it was issued under.
    pub(super) home: u32,
    pub(super) previous: u32,
    pub(super) next: u32,
    pub(super) round: u64,
}
