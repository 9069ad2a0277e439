//! The contract's rules about requests, as a walk over the program.

use std::collections::BTreeMap;

use crate::program::{Child, Decision, Program, until_phase};

/// A request. Targets are told apart by how far out they are: of those around a given place, no two are
/// equally far.
#[derive(Debug, Clone)]
struct Request {
    /// 0 for the task, else the depth of the scope.
    target: usize,
    round: u32,
    since: u32,
    stands: bool,
    reason: Option<String>,
}

/// C6, C8: one request, with the outermost target and its reason.
fn merge(slot: &mut Option<Request>, new: Request) {
    *slot = Some(match slot.take() {
        None => new,
        Some(old) => {
            let (round, stands) = (old.round.max(new.round), old.stands || new.stands);
            let new_wins = (new.target, new.since) < (old.target, old.since);
            let (mut merged, other) = if new_wins { (new, old) } else { (old, new) };
            if other.target == merged.target && merged.reason.is_none() {
                merged.reason = other.reason;
            }
            Request { round, stands, ..merged }
        }
    });
}

/// What each place that requests stop at has of them.
#[derive(Debug, Default)]
struct Point {
    live: bool,
    round: u32,
    act: Option<Request>,
    back: Option<Request>,
}

enum State<'p> {
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
    Child(&'p crate::program::Task, Option<usize>),
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

struct Task<'p> {
    number: u32,
    phase: u64,
    body: State<'p>,
    asked: Option<Option<String>>,
    started: bool,
    back: Option<Request>,
    /// How it ended: `Some(None)` with its value, else cancelled, with a reason.
    end: Option<Option<Option<String>>>,
    /// The group that it is in, and whether it fails there.
    member: Option<(usize, bool)>,
}

impl<'p> Task<'p> {
    fn new(number: u32, phase: u64, program: &'p Program) -> Self {
        Task {
            number,
            phase,
            body: start(program, 1),
            asked: None,
            started: false,
            back: None,
            end: None,
            member: None,
        }
    }

    fn cancel(&mut self, reason: Option<String>) -> bool {
        if self.end.is_none() && self.asked.is_none() {
            self.asked = Some(reason);
        }
        self.end.is_none()
    }
}

#[derive(Default)]
struct Group {
    children: Vec<usize>,
    /// How many of them have not ended.
    left: usize,
    errors: Vec<u32>,
    ending: bool,
    over: bool,
    /// It asks for its own end from now on.
    asks: bool,
}

pub struct Model<'p>(Env<'p>);

struct Env<'p> {
    now: u64,
    period: u64,
    round: u32,
    armed: u32,
    /// Anything happened.
    moved: bool,
    /// The task whose step it is.
    current: usize,
    tasks: Vec<Task<'p>>,
    groups: Vec<Group>,
    lines: BTreeMap<u32, Vec<String>>,
}

impl<'p> Env<'p> {
    fn note(&mut self, line: String) {
        self.moved = true;
        self.lines.entry(self.tasks[self.current].number).or_default().push(line);
    }

    /// When a wait that begins now is over.
    fn after(&self, limit: u64) -> u64 {
        self.now + until_phase(self.now, limit, self.tasks[self.current].phase, self.period)
    }

    fn spawn(&mut self, task: &'p crate::program::Task) -> usize {
        self.moved = true;
        self.tasks.push(Task::new(task.number, task.phase, &task.program));
        self.tasks.len() - 1
    }

    fn end(&mut self, task: usize, end: Option<Option<String>>) {
        self.moved = true;
        self.tasks[task].end = Some(end);
        if let Some((group, _)) = self.tasks[task].member {
            self.groups[group].left -= 1;
        }
    }

    fn end_cancelled(&mut self, task: usize, reason: Option<String>) {
        let body = std::mem::replace(&mut self.tasks[task].body, State::Done);
        discard(body, self);
        self.end(task, Some(reason));
    }

    /// C9: everybody in it is asked once, but for the child that has failed; so is the body, if it is there.
    fn end_group(&mut self, group: usize, except: Option<usize>) {
        if std::mem::replace(&mut self.groups[group].ending, true) || self.groups[group].over {
            return;
        }
        self.moved = true;
        self.groups[group].asks = true;
        for child in self.groups[group].children.clone() {
            if Some(child) != except {
                self.tasks[child].cancel(None);
            }
        }
    }

    fn step(&mut self, current: usize) {
        self.current = current;
        let task = &mut self.tasks[current];
        let mut body = std::mem::replace(&mut task.body, State::Done);
        let mut back = task.back.take();
        let cancelled = self.advance(&mut body, &mut back);
        self.tasks[current].body = body;
        match cancelled {
            Some(Ended::Cancelled(reason)) => self.end_cancelled(current, reason),
            Some(Ended::Itself) => match self.tasks[current].member {
                Some((group, true)) => {
                    if !self.groups[group].over {
                        let number = self.tasks[current].number;
                        self.groups[group].errors.push(number);
                        self.end_group(group, Some(current));
                    }
                    self.end(current, Some(None));
                }
                _ => self.end(current, back.map(|request| request.reason)),
            },
            None => self.tasks[current].back = back,
        }
    }

    fn advance(&mut self, body: &mut State<'p>, back: &mut Option<Request>) -> Option<Ended> {
        // What came back, the innermost first.
        for request in settle(body, self) {
            merge(back, request);
        }
        if let Some(request) = back.take() {
            if let Some(request) = settle_point(body, request, back, self) {
                return Some(Ended::Cancelled(request.reason));
            }
        }
        // What was asked since, the outermost first.
        let started = std::mem::replace(&mut self.tasks[self.current].started, true);
        if let Some(reason) = self.tasks[self.current].asked.take() {
            self.round += 1;
            let round = self.round;
            let request = Request { target: 0, round, since: round, stands: false, reason };
            if !started || !ask_below(body, &request) {
                return Some(Ended::Cancelled(request.reason));
            }
            self.moved = true;
        }
        expire(body, self);
        while let Some(order) = first_asking(body, 0) {
            self.round += 1;
            hand_down_own(body, order, self.round);
            self.moved = true;
        }
        poll(body, back, self).then_some(Ended::Itself)
    }
}

/// How a task came to its end.
enum Ended {
    Itself,
    Cancelled(Option<String>),
}

impl<'p> Model<'p> {
    pub fn new(program: &'p Program, period: u64) -> Self {
        Model(Env {
            now: 0,
            period,
            round: 0,
            armed: 0,
            moved: false,
            current: 0,
            tasks: vec![Task::new(0, 0, program)],
            groups: Vec::new(),
            lines: BTreeMap::new(),
        })
    }

    fn task(&self, number: u32) -> Option<usize> {
        self.0.tasks.iter().position(|task| task.number == number)
    }

    pub fn cancel(&mut self, number: u32, reason: &str) -> bool {
        let task = self.task(number).expect("the model has no such task");
        self.0.tasks[task].cancel(Some(reason.to_owned()))
    }

    pub fn is_done(&self, number: u32) -> bool {
        self.task(number).is_some_and(|task| self.0.tasks[task].end.is_some())
    }

    pub fn tasks(&self) -> usize {
        self.0.tasks.len()
    }

    pub fn lines(&self) -> &BTreeMap<u32, Vec<String>> {
        &self.0.lines
    }

    /// How the program ended: `None` with its value, else cancelled, with a reason.
    pub fn end(&self) -> Option<Option<String>> {
        self.0.tasks[0].end.clone().flatten()
    }

    /// All steps of one instant.
    pub fn run(&mut self, now: u64) {
        let env = &mut self.0;
        env.now = now;
        env.moved = true;
        while std::mem::take(&mut env.moved) {
            // One that was started in this round is queued before who started it.
            let mut task = 0;
            while task < env.tasks.len() {
                if env.tasks[task].end.is_none() {
                    env.step(task);
                }
                task += 1;
            }
        }
    }
}

fn start(program: &Program, depth: usize) -> State<'_> {
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
fn parts<'s, 'p>(state: &'s mut State<'p>) -> Vec<&'s mut State<'p>> {
    match state {
        State::Then(first, ..) => vec![first],
        State::Pair(one, other, _) => vec![one, other],
        State::Cleaning { cleanup, .. } => vec![cleanup],
        _ => Vec::new(),
    }
}

/// Deadlines that have come, and groups that are to end.
fn expire(state: &mut State<'_>, env: &mut Env<'_>) {
    match state {
        State::Catch { body, .. } | State::Protect { body, .. } => expire(body, env),
        State::Scope { body, deadline, own, .. } => {
            *own |= deadline.is_some_and(|(when, _)| when <= env.now);
            expire(body, env);
        }
        State::Group { body, deadline, own, group, .. } => {
            if group.is_some_and(|group| std::mem::take(&mut env.groups[group].asks)) {
                env.armed += 1;
                *deadline = Some((env.now, env.armed));
                *own = true;
            }
            if let Some(body) = body {
                expire(body, env);
            }
        }
        state => parts(state).into_iter().for_each(|part| expire(part, env)),
    }
}

/// The scope that is to hand its own request down next: depth in the tree of points, then the order in
/// which the deadlines came.
fn first_asking(state: &State<'_>, level: usize) -> Option<(usize, u64, u32)> {
    match state {
        State::Catch { body, .. } | State::Protect { body, .. } => first_asking(body, level + 1),
        State::Scope { body, deadline, own, .. } => {
            let (when, order) = deadline.unwrap_or_default();
            let this = own.then_some((level, when, order)).filter(|_| order > 0);
            this.into_iter().chain(first_asking(body, level + 1)).min()
        }
        State::Group { body, deadline, own, .. } => {
            let (when, order) = deadline.unwrap_or_default();
            let this = own.then_some((level, when, order)).filter(|_| order > 0);
            let below = body.as_ref().and_then(|body| first_asking(body, level + 1));
            this.into_iter().chain(below).min()
        }
        State::Then(first, ..) => first_asking(first, level),
        State::Pair(one, other, _) => {
            first_asking(one, level).into_iter().chain(first_asking(other, level)).min()
        }
        State::Cleaning { cleanup, .. } => first_asking(cleanup, level),
        State::Done | State::Leaf(..) | State::Child(..) => None,
    }
}

fn hand_down_own(state: &mut State<'_>, which: (usize, u64, u32), round: u32) {
    match state {
        State::Catch { body, .. } | State::Protect { body, .. } => {
            hand_down_own(body, which, round)
        }
        State::Scope { body, deadline, own, point, depth, .. } => {
            if *own && deadline.is_some_and(|(_, order)| order == which.2) {
                // Once: an order of zero is never found again.
                *deadline = Some((u64::MAX, 0));
                let request =
                    Request { target: *depth, round, since: round, stands: false, reason: None };
                if point.act.is_some() || !ask_below(body, &request) {
                    merge(&mut point.act, request);
                }
                return;
            }
            hand_down_own(body, which, round);
        }
        State::Group { body, deadline, own, point, depth, .. } => {
            if *own && deadline.is_some_and(|(_, order)| order == which.2) {
                *deadline = Some((u64::MAX, 0));
                let request =
                    Request { target: *depth, round, since: round, stands: false, reason: None };
                let body = body.as_mut().filter(|_| point.act.is_none());
                if !body.is_some_and(|body| ask_below(body, &request)) {
                    merge(&mut point.act, request);
                }
                return;
            }
            if let Some(body) = body {
                hand_down_own(body, which, round);
            }
        }
        state => parts(state).into_iter().for_each(|part| hand_down_own(part, which, round)),
    }
}

/// C2 (a): the innermost live points below a place are marked; whether there are any.
fn ask_below(state: &mut State<'_>, request: &Request) -> bool {
    match state {
        State::Catch { point: Point { live: false, .. }, .. } => false,
        State::Catch { body, point, .. } => {
            point.round = point.round.max(request.round);
            if point.act.is_some() || !ask_below(body, request) {
                merge(&mut point.act, Request { stands: false, ..request.clone() });
            }
            true
        }
        State::Protect { body, open: true, .. } => ask_below(body, request),
        State::Protect { point: Point { live: false, .. }, .. } => false,
        State::Protect { point, .. } => {
            point.round = point.round.max(request.round);
            merge(&mut point.act, Request { stands: false, ..request.clone() });
            true
        }
        State::Scope { body, .. } => ask_below(body, request),
        State::Group { point: Point { live: false, .. }, .. } => false,
        State::Group { body, point, .. } => {
            point.round = point.round.max(request.round);
            let body = body.as_mut().filter(|_| point.act.is_none());
            if !body.is_some_and(|body| ask_below(body, request)) {
                merge(&mut point.act, Request { stands: false, ..request.clone() });
            }
            true
        }
        state => parts(state).into_iter().fold(false, |any, part| ask_below(part, request) | any),
    }
}

/// C4: points that this round has not asked; also below those that it has.
fn ask_unasked(state: &mut State<'_>, request: &Request) -> bool {
    match state {
        State::Catch { point: Point { live: false, .. }, .. } => false,
        State::Catch { body, point, .. } if point.round >= request.round => {
            ask_unasked(body, request)
        }
        State::Protect { point, open: false, .. } if point.round >= request.round => false,
        State::Group { point: Point { live: false, .. }, .. } => false,
        State::Group { body, point, .. } if point.round >= request.round => {
            body.as_mut().is_some_and(|body| ask_unasked(body, request))
        }
        State::Group { .. } => ask_below(state, request),
        State::Catch { .. } | State::Protect { open: false, .. } => ask_below(state, request),
        State::Protect { body, .. } | State::Scope { body, .. } => ask_unasked(body, request),
        state => parts(state).into_iter().fold(false, |any, part| ask_unasked(part, request) | any),
    }
}

/// C4: somebody below is marked and unpolled, or holds a request of this round or a later one.
fn is_undecided(state: &mut State<'_>, round: u32) -> bool {
    match state {
        State::Catch { body, point, .. } => point.act.is_some() || is_undecided(body, round),
        State::Protect { body, point, held, .. } => {
            point.act.is_some() || held.is_some() || is_undecided(body, round)
        }
        State::Scope { body, point, .. } => point.act.is_some() || is_undecided(body, round),
        State::Group { body, point, held, .. } => {
            point.act.is_some()
                || held.is_some()
                || body.as_mut().is_some_and(|body| is_undecided(body, round))
        }
        State::Cleaning { cleanup, request, .. } => {
            request.as_ref().is_some_and(|request| request.round >= round)
                || is_undecided(cleanup, round)
        }
        state => parts(state).into_iter().any(|part| is_undecided(part, round)),
    }
}

/// A point that something came back to: what it acts on now, if everything below has settled.
fn settle_point(
    body: &mut State<'_>,
    request: Request,
    back: &mut Option<Request>,
    env: &mut Env<'_>,
) -> Option<Request> {
    if is_undecided(body, request.round) {
        *back = Some(request);
        return None;
    }
    if ask_unasked(body, &request) {
        env.moved = true;
        if request.stands {
            *back = Some(request);
        }
        return None;
    }
    env.moved = true;
    Some(request)
}

/// Lets points act on what came back to them; what goes on to the enclosing one.
fn settle(state: &mut State<'_>, env: &mut Env<'_>) -> Vec<Request> {
    match state {
        State::Catch { body, point, .. } => {
            settle(body, env).into_iter().for_each(|request| merge(&mut point.back, request));
            let Some(request) = point.back.take() else { return Vec::new() };
            if point.act.is_some() {
                merge(&mut point.act, request);
            } else if let Some(request) = settle_point(body, request, &mut point.back, env) {
                point.act = Some(request);
            }
            Vec::new()
        }
        State::Protect { body, point, held, open, .. } => {
            settle(body, env).into_iter().for_each(|request| merge(&mut point.back, request));
            let Some(request) = point.back.take() else { return Vec::new() };
            let mut all = held.take();
            [point.act.take(), Some(request)]
                .into_iter()
                .flatten()
                .for_each(|r| merge(&mut all, r));
            *open = true;
            settle_point(body, all.unwrap(), &mut point.back, env).into_iter().collect()
        }
        State::Scope { body, point, depth, .. } => {
            settle(body, env).into_iter().for_each(|request| merge(&mut point.back, request));
            let Some(request) = point.back.take() else { return Vec::new() };
            if point.act.is_some() {
                merge(&mut point.act, request);
                return Vec::new();
            }
            match settle_point(body, request, &mut point.back, env) {
                Some(request) if request.target == *depth => point.act = Some(request),
                Some(request) => return vec![request],
                None => {}
            }
            Vec::new()
        }
        State::Group { body, point, .. } => {
            let below = body.as_mut().map_or_else(Vec::new, |body| settle(body, env));
            below.into_iter().for_each(|request| merge(&mut point.back, request));
            let Some(request) = point.back.take() else { return Vec::new() };
            if point.act.is_some() {
                merge(&mut point.act, request);
                return Vec::new();
            }
            let settled = match body {
                Some(body) => settle_point(body, request, &mut point.back, env),
                None => Some(request),
            };
            if settled.is_some() {
                env.moved = true;
                point.act = settled;
            }
            Vec::new()
        }
        state => parts(state).into_iter().flat_map(|part| settle(part, env)).collect(),
    }
}

/// Drops a part of the program: the requests that have not been decided in it go back (C3, C5), those
/// of its own scopes end (C8).
fn discard<'p>(state: State<'p>, env: &mut Env<'p>) -> Vec<Request> {
    match state {
        State::Done | State::Leaf(..) => Vec::new(),
        State::Then(first, ..) => discard(*first, env),
        State::Pair(one, other, _) => {
            let mut requests = discard(*one, env);
            requests.extend(discard(*other, env));
            requests
        }
        State::Cleaning { cleanup, request, .. } => {
            let mut requests = discard(*cleanup, env);
            requests.extend(request.map(|request| Request { stands: false, ..request }));
            requests
        }
        State::Catch { body, point, .. } => {
            let mut requests = discard(*body, env);
            requests.extend(point.act);
            requests.extend(point.back);
            requests
        }
        State::Protect { body, point, held, .. } => {
            let mut requests = discard(*body, env);
            requests.extend([point.act, point.back, held].into_iter().flatten());
            requests
        }
        State::Scope { body, point, depth, .. } => {
            let mut requests = discard(*body, env);
            requests.extend([point.act, point.back].into_iter().flatten());
            requests.retain(|request| request.target != depth);
            requests
        }
        // C10: what was awaited is asked.
        State::Child(_, task) => {
            if task.is_some_and(|task| env.tasks[task].cancel(None)) {
                env.moved = true;
            }
            Vec::new()
        }
        // C9: so are the children, and nobody hears of their errors any more.
        State::Group { body, point, depth, held, group, .. } => {
            let mut requests = body.map_or_else(Vec::new, |body| discard(*body, env));
            if let Some(group) = group {
                env.end_group(group, None);
                env.groups[group].over = true;
            }
            requests.extend([point.act, point.back, held].into_iter().flatten());
            requests.retain(|request| request.target != depth);
            requests
        }
    }
}

/// Takes a part out of the program and drops it.
fn take<'p>(state: &mut State<'p>, back: &mut Option<Request>, env: &mut Env<'p>) {
    let left = std::mem::replace(state, State::Done);
    discard(left, env).into_iter().for_each(|request| merge(back, request));
}

/// One poll; whether it is done. `back` is what comes back to the enclosing point.
fn poll<'p>(state: &mut State<'p>, back: &mut Option<Request>, env: &mut Env<'p>) -> bool {
    match state {
        State::Done => return true,
        State::Leaf(Program::Sleep(limit), until) => {
            let until = *until.get_or_insert_with(|| {
                env.moved = true;
                env.after(*limit)
            });
            if until > env.now {
                return false;
            }
        }
        State::Leaf(Program::Raise(number), raised) => {
            if raised.replace(0).is_none() {
                env.note(format!("{number} raises"));
                env.round += 1;
                let round = env.round;
                let reason = Some(format!("raised by {number}"));
                merge(back, Request { target: 0, round, since: round, stands: true, reason });
            }
            return false;
        }
        State::Leaf(..) => return false,
        State::Then(first, second, depth) => {
            if !poll(first, back, env) {
                return false;
            }
            *state = start(second, *depth);
            env.moved = true;
            return poll(state, back, env);
        }
        State::Pair(one, other, select) => {
            let first = poll(one, back, env);
            if *select && first {
                take(other, back, env);
            } else {
                let second = poll(other, back, env);
                if *select && second {
                    take(one, back, env);
                } else if !(first && second) {
                    return false;
                }
            }
        }
        State::Catch { .. } => return poll_catch(state, back, env),
        State::Cleaning { number, cleanup, request, decision } => {
            if request.is_none() || !poll(cleanup, back, env) {
                return false;
            }
            env.note(format!("{number} cleaned"));
            let request = request.take().unwrap();
            match decision {
                Decision::Swallow => {}
                Decision::DropUndecided => merge(back, Request { stands: false, ..request }),
                Decision::Propagate => {
                    merge(back, Request { stands: true, ..request });
                    return false;
                }
            }
        }
        State::Protect { number, body, point, held, .. } => {
            if let Some(request) = point.act.take() {
                env.moved = true;
                merge(held, request);
            }
            if !poll(body, &mut point.back, env) {
                point.live = true;
                return false;
            }
            let line = format!("{number} protected");
            [point.act.take(), point.back.take(), held.take()]
                .into_iter()
                .flatten()
                .for_each(|request| merge(back, request));
            env.note(line);
        }
        State::Scope { .. } => return poll_scope(state, back, env),
        State::Child(task, place) => {
            let place = *place.get_or_insert_with(|| env.spawn(task));
            let Some(end) = env.tasks[place].end.clone() else { return false };
            let number = task.number;
            env.note(match end {
                None => format!("{number} ended"),
                Some(reason) => format!("{number} ended cancelled {:?}", reason.as_deref()),
            });
        }
        State::Group { .. } => return poll_group(state, back, env),
    }
    *state = State::Done;
    env.moved = true;
    true
}

fn poll_catch<'p>(state: &mut State<'p>, back: &mut Option<Request>, env: &mut Env<'p>) -> bool {
    let State::Catch { program, depth, body, point } = state else { unreachable!() };
    let Program::Catch { number, cleanup, decision, .. } = program else { unreachable!() };
    if let Some(request) = point.act.take() {
        // C3: the future is dropped; what comes back with that is part of the request.
        take(body, &mut point.back, env);
        let mut caught = Some(Request { stands: false, ..request });
        point.back.take().into_iter().for_each(|request| merge(&mut caught, request));
        let caught = caught.map(|request| Request { stands: false, ..request });
        env.note(format!("{number} caught {:?}", caught.as_ref().unwrap().reason.as_deref()));
        let cleanup = Box::new(start(cleanup, *depth));
        let (number, decision) = (*number, *decision);
        *state = State::Cleaning { number, cleanup, request: caught, decision };
        return poll(state, back, env);
    }
    if !poll(body, &mut point.back, env) {
        point.live = true;
        return false;
    }
    point.back.take().into_iter().for_each(|request| merge(back, request));
    env.note(format!("{number} done"));
    *state = State::Done;
    true
}

fn poll_scope<'p>(state: &mut State<'p>, back: &mut Option<Request>, env: &mut Env<'p>) -> bool {
    let State::Scope { number, depth, body, point, limit, deadline, outranked, .. } = state else {
        unreachable!()
    };
    if *outranked {
        return false;
    }
    let in_time = match point.act.take() {
        Some(request) => {
            env.moved = true;
            take(body, &mut point.back, env);
            let mut request = Some(request);
            point.back.take().into_iter().for_each(|back| merge(&mut request, back));
            let request = request.unwrap();
            if request.target != *depth {
                // C8: a deadline turns nobody else's request into its own.
                *outranked = true;
                merge(back, Request { stands: true, ..request });
                return false;
            }
            false
        }
        None => {
            if !poll(body, &mut point.back, env) {
                if deadline.is_none() {
                    env.armed += 1;
                    *deadline = Some((env.after(*limit), env.armed));
                }
                return false;
            }
            let left = point.back.take().filter(|request| request.target != *depth);
            left.into_iter().for_each(|request| merge(back, request));
            true
        }
    };
    env.note(format!("{number} in time: {in_time}"));
    *state = State::Done;
    true
}

/// C9.
fn poll_group<'p>(state: &mut State<'p>, back: &mut Option<Request>, env: &mut Env<'p>) -> bool {
    let State::Group { program, depth, body, point, held, value, outranked, group, .. } = state
    else {
        unreachable!()
    };
    let Program::Group { number, children, .. } = *program else { unreachable!() };
    if *outranked {
        return false;
    }
    let group = *group.get_or_insert_with(|| start_group(children, env));
    if let Some(request) = point.act.take() {
        env.moved = true;
        if let Some(mut body) = body.take() {
            take(&mut body, &mut point.back, env);
        }
        let mut request = Some(request);
        point.back.take().into_iter().for_each(|back| merge(&mut request, back));
        let request = request.unwrap();
        if request.target != *depth {
            merge(held, request);
        }
        env.end_group(group, None);
        // There is no body any more that would have to be asked.
        env.groups[group].asks = false;
    }
    if let Some(running) = body {
        if poll(running, &mut point.back, env) {
            *value = true;
            *body = None;
        }
    }
    if body.is_some() || env.groups[group].left > 0 {
        point.live = true;
        return false;
    }
    env.groups[group].over = true;
    let mut failed: Vec<String> =
        std::mem::take(&mut env.groups[group].errors).iter().map(u32::to_string).collect();
    failed.sort();
    if failed.is_empty() {
        if let Some(request) = held.take() {
            env.moved = true;
            // It waits to be dropped, and is asked no more.
            (*outranked, point.live) = (true, false);
            merge(back, Request { stands: true, ..request });
            return false;
        }
    }
    let left = [point.back.take(), held.take()].into_iter().flatten();
    left.filter(|request| request.target != *depth).for_each(|request| merge(back, request));
    let outcome = if *value && failed.is_empty() { Ok(()) } else { Err(failed) };
    env.note(format!("{number} group {outcome:?}"));
    *state = State::Done;
    true
}

/// Starts the children, and gives their group's place.
fn start_group<'p>(children: &'p [Child], env: &mut Env<'p>) -> usize {
    let group = env.groups.len();
    env.groups.push(Group::default());
    for child in children {
        let task = env.spawn(&child.task);
        env.tasks[task].member = Some((group, child.fails));
        env.groups[group].children.push(task);
        env.groups[group].left += 1;
    }
    group
}
