//! The contract's rules about requests, as a walk over the program.

use crate::program::{Decision, Program};

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
}

pub struct Model<'p> {
    body: State<'p>,
    env: Env,
    asked: Option<Option<String>>,
    started: bool,
    back: Option<Request>,
    pub log: Vec<String>,
    /// How the task ended: `Some(None)` with its value, else cancelled, with a reason.
    pub end: Option<Option<Option<String>>>,
}

#[derive(Default)]
struct Env {
    now: u64,
    round: u32,
    armed: u32,
    /// Anything happened.
    moved: bool,
    log: Vec<String>,
}

impl Env {
    fn note(&mut self, line: String) {
        self.moved = true;
        self.log.push(line);
    }
}

impl<'p> Model<'p> {
    pub fn new(program: &'p Program) -> Self {
        Model {
            body: start(program, 1),
            env: Env::default(),
            asked: None,
            started: false,
            back: None,
            log: Vec::new(),
            end: None,
        }
    }

    pub fn cancel(&mut self, reason: &str) -> bool {
        if self.end.is_none() && self.asked.is_none() {
            self.asked = Some(Some(reason.to_owned()));
        }
        self.end.is_none()
    }

    /// All steps of one instant.
    pub fn run(&mut self, now: u64) {
        self.env.now = now;
        expire(&mut self.body, now);
        while self.end.is_none() {
            self.env.moved = false;
            self.step();
            if !self.env.moved {
                break;
            }
        }
        self.log.append(&mut self.env.log);
    }

    fn step(&mut self) {
        // What came back, the innermost first.
        for request in settle(&mut self.body, &mut self.env) {
            merge(&mut self.back, request);
        }
        if let Some(request) = self.back.take() {
            let env = &mut self.env;
            if let Some(request) = settle_point(&mut self.body, request, &mut self.back, env) {
                return self.end_cancelled(request.reason);
            }
        }
        // What was asked since, the outermost first.
        if let Some(reason) = self.asked.take() {
            self.env.round += 1;
            let round = self.env.round;
            let request = Request { target: 0, round, since: round, stands: false, reason };
            if !self.started || !ask_below(&mut self.body, &request) {
                return self.end_cancelled(request.reason);
            }
            self.env.moved = true;
        }
        self.started = true;
        while let Some(order) = first_asking(&self.body, 0) {
            self.env.round += 1;
            hand_down_own(&mut self.body, order, self.env.round);
            self.env.moved = true;
        }
        let mut back = self.back.take();
        if poll(&mut self.body, &mut back, &mut self.env) {
            self.end = Some(back.map(|request| request.reason));
            return;
        }
        self.back = back;
    }

    fn end_cancelled(&mut self, reason: Option<String>) {
        self.end = Some(Some(reason));
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

/// Deadlines that have come.
fn expire(state: &mut State<'_>, now: u64) {
    match state {
        State::Catch { body, .. } | State::Protect { body, .. } => expire(body, now),
        State::Scope { body, deadline, own, .. } => {
            if deadline.is_some_and(|(when, _)| when <= now) && !*own {
                *own = true;
            }
            expire(body, now);
        }
        state => parts(state).into_iter().for_each(|part| expire(part, now)),
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
        State::Then(first, ..) => first_asking(first, level),
        State::Pair(one, other, _) => {
            first_asking(one, level).into_iter().chain(first_asking(other, level)).min()
        }
        State::Cleaning { cleanup, .. } => first_asking(cleanup, level),
        State::Done | State::Leaf(..) => None,
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
    env: &mut Env,
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
fn settle(state: &mut State<'_>, env: &mut Env) -> Vec<Request> {
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
        state => parts(state).into_iter().flat_map(|part| settle(part, env)).collect(),
    }
}

/// Drops a part of the program: the requests that have not been decided in it go back (C3, C5), those
/// of its own scopes end (C8).
fn discard(state: State<'_>) -> Vec<Request> {
    match state {
        State::Done | State::Leaf(..) => Vec::new(),
        State::Then(first, ..) => discard(*first),
        State::Pair(one, other, _) => {
            let mut requests = discard(*one);
            requests.extend(discard(*other));
            requests
        }
        State::Cleaning { cleanup, request, .. } => {
            let mut requests = discard(*cleanup);
            requests.extend(request.map(|request| Request { stands: false, ..request }));
            requests
        }
        State::Catch { body, point, .. } => {
            let mut requests = discard(*body);
            requests.extend(point.act);
            requests.extend(point.back);
            requests
        }
        State::Protect { body, point, held, .. } => {
            let mut requests = discard(*body);
            requests.extend([point.act, point.back, held].into_iter().flatten());
            requests
        }
        State::Scope { body, point, depth, .. } => {
            let mut requests = discard(*body);
            requests.extend([point.act, point.back].into_iter().flatten());
            requests.retain(|request| request.target != depth);
            requests
        }
    }
}

/// Takes a part out of the program and drops it.
fn take(state: &mut State<'_>, back: &mut Option<Request>) {
    let left = std::mem::replace(state, State::Done);
    discard(left).into_iter().for_each(|request| merge(back, request));
}

/// One poll; whether it is done. `back` is what comes back to the enclosing point.
fn poll(state: &mut State<'_>, back: &mut Option<Request>, env: &mut Env) -> bool {
    match state {
        State::Done => return true,
        State::Leaf(Program::Sleep(limit), until) => {
            let until = *until.get_or_insert_with(|| {
                env.moved = true;
                env.now + limit
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
                take(other, back);
            } else {
                let second = poll(other, back, env);
                if *select && second {
                    take(one, back);
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
    }
    *state = State::Done;
    env.moved = true;
    true
}

fn poll_catch(state: &mut State<'_>, back: &mut Option<Request>, env: &mut Env) -> bool {
    let State::Catch { program, depth, body, point } = state else { unreachable!() };
    let Program::Catch { number, cleanup, decision, .. } = program else { unreachable!() };
    if let Some(request) = point.act.take() {
        // C3: the future is dropped; what comes back with that is part of the request.
        take(body, &mut point.back);
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

fn poll_scope(state: &mut State<'_>, back: &mut Option<Request>, env: &mut Env) -> bool {
    let State::Scope { number, depth, body, point, limit, deadline, outranked, .. } = state else {
        unreachable!()
    };
    if *outranked {
        return false;
    }
    let in_time = match point.act.take() {
        Some(request) => {
            env.moved = true;
            take(body, &mut point.back);
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
                    *deadline = Some((env.now + *limit, env.armed));
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
