//! How requests move in the model: inward to the innermost points, and back outward.

use crate::model::Env;
use crate::state::{Point, Request, State, merge, parts};

/// Deadlines that have come, and groups that are to end.
pub fn expire(state: &mut State<'_>, env: &mut Env<'_>) {
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
pub fn first_asking(state: &State<'_>, level: usize) -> Option<(usize, u64, u32)> {
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

pub fn hand_down_own(state: &mut State<'_>, which: (usize, u64, u32), round: u32) {
    match state {
        State::Catch { body, .. } | State::Protect { body, .. } => {
            hand_down_own(body, which, round)
        }
        State::Scope { body, deadline, own, point, depth, .. } => {
            if *own && deadline.is_some_and(|(_, order)| order == which.2) {
                // Once: an order of zero is never found again.
                *deadline = Some((u64::MAX, 0));
                let request = Request::new(*depth, round, None);
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
                let request = Request::new(*depth, round, None);
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
pub fn ask_below(state: &mut State<'_>, request: &Request) -> bool {
    match state {
        State::Catch { point: Point { live: false, .. }, .. } => false,
        State::Catch { body, point, .. } => {
            point.round = point.round.max(request.round());
            if point.act.is_some() || !ask_below(body, request) {
                merge(&mut point.act, request.clone().standing(false));
            }
            true
        }
        State::Protect { body, open: true, .. } => ask_below(body, request),
        State::Protect { point: Point { live: false, .. }, .. } => false,
        State::Protect { point, .. } => {
            point.round = point.round.max(request.round());
            merge(&mut point.act, request.clone().standing(false));
            true
        }
        State::Scope { body, .. } => ask_below(body, request),
        State::Group { point: Point { live: false, .. }, .. } => false,
        State::Group { body, point, .. } => {
            point.round = point.round.max(request.round());
            let body = body.as_mut().filter(|_| point.act.is_none());
            if !body.is_some_and(|body| ask_below(body, request)) {
                merge(&mut point.act, request.clone().standing(false));
            }
            true
        }
        state => parts(state).into_iter().fold(false, |any, part| ask_below(part, request) | any),
    }
}

/// C4: points that this round has not asked; also below those that it has.
pub fn ask_unasked(state: &mut State<'_>, request: &Request) -> bool {
    match state {
        State::Catch { point: Point { live: false, .. }, .. } => false,
        State::Catch { body, point, .. } if point.round >= request.round() => {
            ask_unasked(body, request)
        }
        State::Protect { point, open: false, .. } if point.round >= request.round() => false,
        State::Group { point: Point { live: false, .. }, .. } => false,
        State::Group { body, point, .. } if point.round >= request.round() => {
            body.as_mut().is_some_and(|body| ask_unasked(body, request))
        }
        State::Group { .. } => ask_below(state, request),
        State::Catch { .. } | State::Protect { open: false, .. } => ask_below(state, request),
        State::Protect { body, .. } | State::Scope { body, .. } => ask_unasked(body, request),
        state => parts(state).into_iter().fold(false, |any, part| ask_unasked(part, request) | any),
    }
}

/// C4: somebody below is marked and unpolled, or holds a request of this round or a later one.
pub fn is_undecided(state: &mut State<'_>, round: u32) -> bool {
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
            request.as_ref().is_some_and(|request| request.round() >= round)
                || is_undecided(cleanup, round)
        }
        state => parts(state).into_iter().any(|part| is_undecided(part, round)),
    }
}

/// A point that something came back to: what it acts on now, if everything below has settled.
pub fn settle_point(
    body: &mut State<'_>,
    request: Request,
    back: &mut Option<Request>,
    env: &mut Env<'_>,
) -> Option<Request> {
    if is_undecided(body, request.round()) {
        *back = Some(request);
        return None;
    }
    if ask_unasked(body, &request) {
        env.moved = true;
        if request.stands() {
            *back = Some(request);
        }
        return None;
    }
    env.moved = true;
    Some(request)
}

/// Lets points act on what came back to them; what goes on to the enclosing one.
pub fn settle(state: &mut State<'_>, env: &mut Env<'_>) -> Vec<Request> {
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
                Some(request) if request.target() == *depth => point.act = Some(request),
                Some(request) => return request.out_of(*depth).into_iter().collect(),
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
pub fn discard<'p>(state: State<'p>, env: &mut Env<'p>) -> Vec<Request> {
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
            requests.extend(request.map(|request| request.standing(false)));
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
            requests.into_iter().filter_map(|request| request.out_of(depth)).collect()
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
            requests.into_iter().filter_map(|request| request.out_of(depth)).collect()
        }
    }
}

/// Takes a part out of the program and drops it.
pub fn take<'p>(state: &mut State<'p>, back: &mut Option<Request>, env: &mut Env<'p>) {
    let left = std::mem::replace(state, State::Done);
    discard(left, env).into_iter().for_each(|request| merge(back, request));
}
