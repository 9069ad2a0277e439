//! What the model knows of a program that runs.

use std::collections::BTreeMap;

use crate::program::{Decision, Program, Task};

/// A request. Targets are told apart by how far out they are: of those around a given place, no two are
/// equally far.
#[derive(Debug, Clone)]
pub struct Request {
    /// Who asks: 0 for the task, else the depth of the scope; in which round, and whether it stands.
    asks: BTreeMap<usize, (u32, bool)>,
    since: u32,
    pub reason: Option<String>,
}

impl Request {
    pub fn new(target: usize, round: u32, reason: Option<String>) -> Self {
        Request { asks: BTreeMap::from([(target, (round, false))]), since: round, reason }
    }

    /// The outermost that asks.
    pub fn target(&self) -> usize {
        *self.asks.keys().next().unwrap()
    }

    pub fn round(&self) -> u32 {
        self.asks.values().map(|(round, _)| *round).max().unwrap()
    }

    pub fn stands(&self) -> bool {
        self.asks.values().any(|(_, stands)| *stands)
    }

    /// As it is once it was propagated, or with `false` while nobody waits for it.
    pub fn standing(mut self, stands: bool) -> Self {
        self.asks.values_mut().for_each(|ask| ask.1 = stands);
        self
    }

    /// C8: outside a scope what that asked is no part of it.
    pub fn out_of(mut self, scope: usize) -> Option<Self> {
        self.asks.remove(&scope);
        Some(self).filter(|request| !request.asks.is_empty())
    }
}

/// C6, C8: one request, with the outermost target and its reason.
pub fn merge(slot: &mut Option<Request>, new: Request) {
    *slot = Some(match slot.take() {
        None => new,
        Some(old) => {
            let new_wins = (new.target(), new.since) < (old.target(), old.since);
            let (mut merged, other) = if new_wins { (new, old) } else { (old, new) };
            if other.target() == merged.target() && merged.reason.is_none() {
                merged.reason = other.reason;
            }
            for (target, (round, stands)) in other.asks {
                let ask = merged.asks.entry(target).or_default();
                *ask = (ask.0.max(round), ask.1 || stands);
            }
            merged
        }
    });
}

/// What each place that requests stop at has of them.
#[derive(Debug, Default)]
pub struct Point {
    pub live: bool,
    pub round: u32,
    pub act: Option<Request>,
    pub back: Option<Request>,
}

pub enum State<'p> {
    Done,
    Leaf(&'p Program, Option<u64>),
    Then(Box<State<'p>>, &'p Program, usize),
    Pair(Box<State<'p>>, Box<State<'p>>, bool),
    Catch {
        program: &'p Program,
        depth: usize,
        body: Box<State<'p>>,
        point: Point,
    },
    Cleaning {
        number: u32,
        cleanup: Box<State<'p>>,
        request: Option<Request>,
        decision: Decision,
    },
    Protect {
        number: u32,
        body: Box<State<'p>>,
        point: Point,
        held: Option<Request>,
        open: bool,
    },
    Scope {
        number: u32,
        depth: usize,
        body: Box<State<'p>>,
        point: Point,
        limit: u64,
        deadline: Option<(u64, u32)>,
        own: bool,
        outranked: bool,
    },
    /// Its place among the tasks, once it is started.
    Child(&'p Task, Option<usize>),
    Group {
        program: &'p Program,
        depth: usize,
        /// `None`: it waits for its children.
        body: Option<Box<State<'p>>>,
        point: Point,
        held: Option<Request>,
        /// When it asks for its own end, as a scope does.
        deadline: Option<(u64, u32)>,
        own: bool,
        value: bool,
        outranked: bool,
        /// Its place among the groups, once it is started.
        group: Option<usize>,
    },
}

pub fn start(program: &Program, depth: usize) -> State<'_> {
    match program {
        Program::Ready => State::Done,
        Program::Sleep(_) | Program::Pending | Program::Raise(_) => State::Leaf(program, None),
        Program::Then(first, second) => State::Then(Box::new(start(first, depth)), second, depth),
        Program::Join(one, other) => {
            State::Pair(Box::new(start(one, depth)), Box::new(start(other, depth)), false)
        }
        Program::Select(one, other) => {
            State::Pair(Box::new(start(one, depth)), Box::new(start(other, depth)), true)
        }
        Program::Catch { body, .. } => State::Catch {
            program,
            depth,
            body: Box::new(start(body, depth + 1)),
            point: Point::default(),
        },
        Program::Protect(number, body) => State::Protect {
            number: *number,
            body: Box::new(start(body, depth + 1)),
            point: Point::default(),
            held: None,
            open: false,
        },
        Program::Timeout(number, limit, body) => State::Scope {
            number: *number,
            depth,
            body: Box::new(start(body, depth + 1)),
            point: Point::default(),
            limit: *limit,
            deadline: None,
            own: false,
            outranked: false,
        },
        Program::Child(task) => State::Child(task, None),
        Program::Group { body, .. } => State::Group {
            program,
            depth,
            body: Some(Box::new(start(body, depth + 1))),
            point: Point::default(),
            held: None,
            deadline: None,
            own: false,
            value: false,
            outranked: false,
            group: None,
        },
    }
}

/// Visits the parts that belong to the same enclosing point.
pub fn parts<'s, 'p>(state: &'s mut State<'p>) -> Vec<&'s mut State<'p>> {
    match state {
        State::Then(first, ..) => vec![first],
        State::Pair(one, other, _) => vec![one, other],
        State::Cleaning { cleanup, .. } => vec![cleanup],
        _ => Vec::new(),
    }
}
