//! The tree of a task's catch points and scopes (C2). Nothing here runs user code: wakers are moved
//! out, never cloned or dropped.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::Waker;

use loop_timer::TimerKey;
use slab::Slab;

use super::node::{Kind, NONE, Node, NodeId, ROOT, Request, Token};

pub(crate) struct Tree {
    pub(super) nodes: Slab<Node>,
    pub(super) tokens: Slab<Token>,
    /// How many tokens there are of each round.
    rounds: BTreeMap<u64, u32>,
    serial: u32,
    pub(super) round: u64,
    /// The innermost node that is being polled.
    pub(super) current: u32,
    /// Nodes with a request of their own.
    pub(super) asking: Vec<u32>,
    /// Nodes that something came back to. An entry may be stale; the node says so.
    pub(super) backs: Vec<u32>,
    /// A marked node was polled in this step.
    pub(super) reached: bool,
    /// Steps in a row that reached no marked node.
    pub(super) stalled: u8,
}

/// What is left of a node; the caller drops it with no borrow held.
#[must_use]
pub(super) struct Remains {
    pub(super) waker: Option<Waker>,
    pub(super) timer: Option<TimerKey>,
}

impl Tree {
    pub(crate) fn new() -> Self {
        let mut nodes = Slab::new();
        nodes.insert(Node::new(Kind::Root, ROOT.serial));
        Tree {
            nodes,
            tokens: Slab::new(),
            rounds: BTreeMap::new(),
            serial: ROOT.serial,
            round: 0,
            current: ROOT.index,
            asking: Vec::new(),
            backs: Vec::new(),
            reached: false,
            stalled: 0,
        }
    }

    pub(super) fn node(&self, index: u32) -> &Node {
        &self.nodes[index as usize]
    }

    pub(super) fn node_mut(&mut self, index: u32) -> &mut Node {
        &mut self.nodes[index as usize]
    }

    pub(super) fn id(&self, index: u32) -> NodeId {
        NodeId { index, serial: self.node(index).serial }
    }

    pub(super) fn has(&self, id: NodeId) -> bool {
        self.nodes.get(id.index as usize).is_some_and(|node| node.serial == id.serial)
    }

    /// Whether something that came back waits for others to decide.
    pub(super) fn is_waiting(&self) -> bool {
        !self.backs.is_empty()
    }

    fn next_serial(&mut self) -> u32 {
        self.serial = self.serial.wrapping_add(1);
        self.serial
    }

    pub(super) fn next_round(&mut self) -> u64 {
        self.round += 1;
        self.round
    }

    pub(super) fn depth(&self, mut index: u32) -> u32 {
        let mut depth = 0;
        while index != ROOT.index {
            index = self.node(index).parent;
            depth += 1;
        }
        depth
    }

    pub(super) fn is_below(&self, mut index: u32, above: u32) -> bool {
        while index != above && index != NONE {
            index = self.node(index).parent;
        }
        index == above
    }

    /// Adds a node below the current one.
    pub(super) fn insert(&mut self, kind: Kind) -> NodeId {
        let serial = self.next_serial();
        let index = self.nodes.insert(Node::new(kind, serial));
        let index = u32::try_from(index).expect("more than 2^32 catch points in a task");
        self.link(index, self.current);
        NodeId { index, serial }
    }

    /// Sees to it that a node is a child of the current one. What it has been asked, and did not act
    /// on, stays where it was (C5).
    pub(super) fn move_here(&mut self, index: u32) {
        let (old, new) = (self.node(index).parent, self.current);
        if old == new {
            return;
        }
        self.give_up(index, old);
        self.unlink(index);
        self.link(index, new);
    }

    /// Takes a node out. Its own requests end with it, those of others go outward (C8).
    pub(super) fn remove(&mut self, index: u32) -> Remains {
        let parent = self.node(index).parent;
        self.give_up(index, parent);
        let held = self.release(index);
        if let Some(request) = held {
            self.give_back(parent, request);
        }
        // What was kept in a future that is gone, but not dropped, goes to the one around it.
        while self.node(index).first != NONE {
            let child = self.node(index).first;
            self.unlink(child);
            self.link(child, parent);
        }
        while self.node(index).first_token != NONE {
            let token = self.node(index).first_token;
            self.unlink_token(token);
            self.link_token(token, parent);
            // Its parents go on counting it.
            self.node_mut(index).tokens -= 1;
        }
        self.unlink(index);
        let node = self.nodes.remove(index as usize);
        Remains { waker: node.waker, timer: node.timer }
    }

    /// Empties a tree whose task is over.
    pub(super) fn take_remains(&mut self) -> Vec<Remains> {
        let nodes = self.nodes.drain();
        nodes.map(|node| Remains { waker: node.waker, timer: node.timer }).collect()
    }

    /// What a node was to act on goes outward, except its own.
    fn give_up(&mut self, index: u32, outward: u32) {
        let node = self.node(index);
        let asked = node.own.is_some() || node.act.is_some() || node.back.is_some();
        if !asked {
            return;
        }
        self.node_mut(index).own.set(None);
        let act = self.unmark(index);
        let back = self.node_mut(index).back.take();
        for request in [act, back].into_iter().flatten() {
            if request.target != self.id(index) {
                self.give_back(outward, request);
            }
        }
    }

    /// A request comes back to a node from below. What scopes asked that it has left, or that are gone,
    /// is no part of it any more.
    pub(super) fn give_back(&mut self, index: u32, mut request: Request) {
        let around = |scope: NodeId| self.has(scope) && self.is_below(index, scope.index);
        let inner = request.inner.take().and_then(|inner| inner.retain(&around));
        request.inner = inner.map(Box::new);
        let back = self.node_mut(index).back.take();
        if back.is_none() {
            self.backs.push(index);
        }
        let merged = self.merge(back, request);
        self.node_mut(index).back.set(merged);
    }

    /// A scope asks for its own end.
    pub(super) fn ask(&mut self, id: NodeId, reason: Option<Arc<str>>) {
        let own = self.node_mut(id.index).own.take();
        if own.is_none() {
            self.asking.push(id.index);
        }
        let merged = self.merge(own, Request::new(id, 0, reason));
        self.node_mut(id.index).own.set(merged);
    }

    /// What is left of a request without targets that have ended.
    pub(super) fn alive(&self, request: Request) -> Option<Request> {
        request.retain(&|target| self.has(target))
    }

    /// Requests that have not been delivered are one, with the outermost target and its reason (C6,
    /// C8). One whose target has ended is none.
    pub(super) fn merge(&self, first: Option<Request>, second: Request) -> Option<Request> {
        match (first.and_then(|first| self.alive(first)), self.alive(second)) {
            (Some(first), Some(second)) => Some(self.join(first, second)),
            (first, second) => first.or(second),
        }
    }

    /// Two requests as one. O(depth) for each scope that has part in it.
    fn join(&self, first: Request, second: Request) -> Request {
        let order = |request: &Request| (self.depth(request.target.index), request.since);
        let (mut outer, inner) = match order(&first) <= order(&second) {
            true => (first, second),
            false => (second, first),
        };
        let further_in = if inner.target == outer.target {
            outer.round = outer.round.max(inner.round);
            outer.stands |= inner.stands;
            outer.reason = outer.reason.or(inner.reason);
            inner.inner
        } else {
            let inside = self.is_below(inner.target.index, outer.target.index);
            inside.then(|| Box::new(inner))
        };
        outer.inner = match (outer.inner.take(), further_in) {
            (Some(one), Some(other)) => Some(Box::new(self.join(*one, *other))),
            (one, other) => one.or(other),
        };
        outer
    }

    /// Marks a node: it acts when it is polled next. Gives the waker to see to that.
    pub(super) fn mark(&mut self, index: u32, request: Request) -> Option<Waker> {
        let act = self.node_mut(index).act.take();
        if act.is_none() {
            self.count(index, |node| node.marked += 1);
        }
        let merged = self.merge(act, request);
        let node = self.node_mut(index);
        node.act.set(merged);
        if !node.act.is_some() {
            self.count(index, |node| node.marked -= 1);
            return None;
        }
        self.node_mut(index).waker.take()
    }

    pub(super) fn unmark(&mut self, index: u32) -> Option<Request> {
        let act = self.node_mut(index).act.take()?;
        self.count(index, |node| node.marked -= 1);
        self.alive(act)
    }

    /// Makes a barrier hold a request: whoever is above waits, whatever the round.
    pub(super) fn hold(&mut self, index: u32, request: Request) {
        let held = self.node_mut(index).held.take();
        let merged = self.merge(held, request);
        self.node_mut(index).held.set(merged);
        if self.node(index).hold == NONE {
            self.node_mut(index).hold = self.issue(index, u64::MAX).0;
        }
    }

    pub(super) fn release(&mut self, index: u32) -> Option<Request> {
        let hold = std::mem::replace(&mut self.node_mut(index).hold, NONE);
        if hold != NONE {
            self.drop_token(hold);
        }
        self.node_mut(index).held.take()
    }

    /// Makes a token under a node.
    pub(super) fn issue(&mut self, home: u32, round: u64) -> (u32, u32) {
        let serial = self.next_serial();
        let token = Token { serial, home, previous: NONE, next: NONE, round };
        let index = u32::try_from(self.tokens.insert(token)).expect("more than 2^32 requests");
        self.link_token(index, home);
        self.count(home, |node| node.tokens += 1);
        *self.rounds.entry(round).or_default() += 1;
        (index, serial)
    }

    /// Takes a token that was decided, or dropped undecided, and tells where it belonged.
    pub(super) fn take_token(&mut self, index: u32, serial: u32) -> Option<u32> {
        self.tokens.get(index as usize).filter(|token| token.serial == serial)?;
        Some(self.drop_token(index))
    }

    fn drop_token(&mut self, index: u32) -> u32 {
        let home = self.unlink_token(index);
        self.count(home, |node| node.tokens -= 1);
        let token = self.tokens.remove(index as usize);
        let count = self.rounds.get_mut(&token.round).expect("tokens are counted by round");
        *count -= 1;
        if *count == 0 {
            self.rounds.remove(&token.round);
        }
        home
    }

    /// Whether a request that came back to a node has to wait for a token: one of its own round, or of
    /// a later one. O(1) unless clean-ups of several rounds overlap, O(tokens) then.
    pub(super) fn waits_for_token(&self, index: u32, round: u64) -> bool {
        if self.node(index).tokens == 0 {
            return false;
        }
        let oldest = self.rounds.first_key_value().map_or(u64::MAX, |(round, _)| *round);
        oldest >= round
            || self
                .tokens
                .iter()
                .any(|(_, token)| token.round >= round && self.is_below(token.home, index))
    }

    /// Changes the counts of a node and of all above it.
    fn count(&mut self, mut index: u32, change: impl Fn(&mut Node)) {
        while index != NONE {
            let node = self.node_mut(index);
            change(node);
            index = node.parent;
        }
    }

    fn link(&mut self, index: u32, parent: u32) {
        let last = std::mem::replace(&mut self.node_mut(parent).last, index);
        match last {
            NONE => self.node_mut(parent).first = index,
            last => self.node_mut(last).next = index,
        }
        let node = self.node_mut(index);
        (node.parent, node.previous, node.next) = (parent, last, NONE);
        let (marked, tokens) = (node.marked, node.tokens);
        self.count(parent, |node| {
            node.marked += marked;
            node.tokens += tokens;
        });
    }

    fn unlink(&mut self, index: u32) {
        let node = self.node(index);
        let (parent, previous, next) = (node.parent, node.previous, node.next);
        let (marked, tokens) = (node.marked, node.tokens);
        match previous {
            NONE => self.node_mut(parent).first = next,
            previous => self.node_mut(previous).next = next,
        }
        match next {
            NONE => self.node_mut(parent).last = previous,
            next => self.node_mut(next).previous = previous,
        }
        self.count(parent, |node| {
            node.marked -= marked;
            node.tokens -= tokens;
        });
    }

    fn link_token(&mut self, index: u32, home: u32) {
        let next = std::mem::replace(&mut self.node_mut(home).first_token, index);
        if next != NONE {
            self.tokens[next as usize].previous = index;
        }
        let token = &mut self.tokens[index as usize];
        (token.home, token.previous, token.next) = (home, NONE, next);
    }

    fn unlink_token(&mut self, index: u32) -> u32 {
        let Token { home, previous, next, .. } = self.tokens[index as usize];
        match previous {
            NONE => self.node_mut(home).first_token = next,
            previous => self.tokens[previous as usize].next = next,
        }
        if next != NONE {
            self.tokens[next as usize].previous = previous;
        }
        home
    }
}
