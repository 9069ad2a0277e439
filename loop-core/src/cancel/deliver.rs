//! How requests move: inward to the innermost catch points, and back outward (C2, C4, C5).

use std::collections::BinaryHeap;
use std::task::Waker;

use super::node::{Kind, NONE, ROOT, Request};
use super::tree::Tree;

/// A task that is never quiet reaches a marked node within this many steps, or the node is not being
/// awaited. A combinator may have to poll a hundred busy futures first, two of them a step.
const STEPS: u8 = 64;

/// What the beginning of a step came to.
#[derive(Default)]
pub(super) struct Delivery {
    /// The request that ends the task.
    pub(super) cancelled: Option<Request>,
    /// What to wake so that combinators poll the marked nodes.
    pub(super) wakers: Vec<Waker>,
}

impl Tree {
    /// Lets act whatever has settled, then hands down what was asked since. In this order, for what came
    /// back is older: it must not wait for a deadline that it outranks (B-TMO-13).
    pub(super) fn deliver(&mut self) -> Delivery {
        let mut delivery = Delivery::default();
        self.settle(&mut delivery);
        while let Some(source) = self.take_outermost_asking() {
            let Some(mut request) = self.node_mut(source).own.take() else { continue };
            request.round = self.next_round();
            request.since = request.round;
            self.hand_down(source, &request, &mut delivery);
        }
        delivery
    }

    /// Outer requests first, so that inner ones find the points marked and merge.
    fn take_outermost_asking(&mut self) -> Option<u32> {
        let asking = std::mem::take(&mut self.asking);
        let present =
            |index: &u32| self.nodes.get(*index as usize).is_some_and(|n| n.own.is_some());
        let mut asking: Vec<u32> = asking.into_iter().filter(present).collect();
        let position = (0..asking.len()).min_by_key(|at| self.depth(asking[*at]))?;
        let outermost = asking.remove(position);
        self.asking = asking;
        Some(outermost)
    }

    /// Asks the innermost live catch points below a node, or the node itself if there are none.
    fn hand_down(&mut self, start: u32, request: &Request, delivery: &mut Delivery) {
        let round = request.round();
        let mut stack = vec![start];
        while let Some(index) = stack.pop() {
            // What a group asks itself is not what others ask it: they wait for its children (C9).
            let own = request.target == self.id(index);
            let node = self.node_mut(index);
            if !own {
                node.round = node.round.max(round);
            }
            let innermost = node.barrier || node.act.is_some();
            if innermost || !self.push_below(index, &mut stack) {
                let mut request = request.clone();
                request.set_stands(false);
                self.act(index, request, delivery);
            }
        }
    }

    /// Pushes the outermost live catch points below a node, the first one last; whether there are any.
    fn push_below(&self, index: u32, stack: &mut Vec<u32>) -> bool {
        let before = stack.len();
        let mut walk = vec![self.node(index).last];
        while let Some(at) = walk.pop() {
            if at == NONE {
                continue;
            }
            let node = self.node(at);
            walk.push(node.previous);
            if !node.kind.catches() {
                walk.push(node.last);
            } else if node.live {
                stack.push(at);
            }
        }
        stack.len() > before
    }

    /// The outermost live catch points below a node that a round has not asked: also those below
    /// points that it has.
    fn unasked_below(&self, index: u32, round: u64) -> Vec<u32> {
        let mut unasked = Vec::new();
        let mut stack = Vec::new();
        self.push_below(index, &mut stack);
        while let Some(at) = stack.pop() {
            if self.node(at).round < round {
                unasked.push(at);
            } else {
                self.push_below(at, &mut stack);
            }
        }
        unasked
    }

    fn act(&mut self, index: u32, request: Request, delivery: &mut Delivery) {
        match self.node(index).kind {
            Kind::Root => delivery.cancelled = self.merge(delivery.cancelled.take(), request),
            Kind::Scope if request.target != self.id(index) => {
                self.give_back(self.node(index).parent, request);
            }
            _ => delivery.wakers.extend(self.mark(index, request)),
        }
    }

    /// Lets nodes act on what came back to them (C4), innermost first: a node above may have to wait for
    /// what that brings about. A node acts when nobody below has still to decide and everybody has been
    /// asked; points that have not been are asked now.
    fn settle(&mut self, delivery: &mut Delivery) {
        let mut heap = BinaryHeap::new();
        let mut waiting = Vec::new();
        loop {
            for index in std::mem::take(&mut self.backs) {
                if self.nodes.contains(index as usize) {
                    heap.push((self.depth(index), index));
                }
            }
            let Some((_, index)) = heap.pop() else { break };
            let Some(request) = self.node_mut(index).back.take() else { continue };
            let Some(request) = self.alive(request) else { continue };
            let request = self.open(index, request);
            if self.node(index).act.is_some() {
                self.act(index, request, delivery);
                continue;
            }
            let round = request.round();
            let settled = self.node(index).marked == 0 && !self.waits_for_token(index, round);
            let unasked = match settled {
                true => self.unasked_below(index, round),
                false => Vec::new(),
            };
            for point in &unasked {
                self.hand_down(*point, &request, delivery);
            }
            match (settled, unasked.is_empty()) {
                (true, true) => self.act(index, request, delivery),
                // The points that were asked now have it.
                (true, false) if !request.stands() => {}
                _ => {
                    self.node_mut(index).back.set(Some(request));
                    waiting.push(index);
                }
            }
        }
        self.backs = waiting;
    }

    /// A protected future that asks for its own end waits to be dropped: it protects no more, and what it
    /// held goes outward with what it asked.
    fn open(&mut self, index: u32, request: Request) -> Request {
        if self.node(index).kind != Kind::Protect {
            return request;
        }
        let held = self.release(index);
        let act = self.unmark(index);
        let node = self.node_mut(index);
        (node.kind, node.barrier) = (Kind::Scope, false);
        let outer = [act, Some(request)].into_iter().flatten();
        outer.fold(held, |held, request| self.merge(held, request)).expect("its target lives")
    }

    /// The end of a step: a marked node that was not polled, though nothing keeps the task from
    /// resting, is not being awaited, and what it was asked goes back outward (C5). Whether another
    /// step has to follow.
    pub(super) fn end_step(&mut self, woken: bool) -> bool {
        if self.node(ROOT.index).marked == 0 {
            self.stalled = 0;
            return false;
        }
        self.stalled = if std::mem::take(&mut self.reached) { 0 } else { self.stalled + 1 };
        if woken && self.stalled < STEPS {
            return true;
        }
        self.stalled = 0;
        let mut walk = vec![ROOT.index];
        while let Some(index) = walk.pop() {
            let mut child = self.node(index).first;
            while child != NONE {
                if self.node(child).marked > 0 {
                    walk.push(child);
                }
                child = self.node(child).next;
            }
            if let Some(request) = self.unmark(index) {
                self.node_mut(index).live = false;
                self.give_back(self.node(index).parent, request);
            }
        }
        true
    }
}
