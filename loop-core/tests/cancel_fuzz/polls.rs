//! What a poll does in the model, and in it what points do that were asked.

use crate::asks::take;
use crate::model::{Env, Group};
use crate::program::{Child, Decision, Program};
use crate::state::{Request, State, merge, start};

/// One poll; whether it is done. `back` is what comes back to the enclosing point.
pub fn poll<'p>(state: &mut State<'p>, back: &mut Option<Request>, env: &mut Env<'p>) -> bool {
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
                merge(back, Request::new(0, round, reason).standing(true));
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
                Decision::DropUndecided => merge(back, request.standing(false)),
                Decision::Propagate => {
                    merge(back, request.standing(true));
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

pub fn poll_catch<'p>(
    state: &mut State<'p>,
    back: &mut Option<Request>,
    env: &mut Env<'p>,
) -> bool {
    let State::Catch { program, depth, body, point } = state else { unreachable!() };
    let Program::Catch { number, cleanup, decision, .. } = program else { unreachable!() };
    if let Some(request) = point.act.take() {
        // C3: the future is dropped; what comes back with that is part of the request.
        take(body, &mut point.back, env);
        let mut caught = Some(request.standing(false));
        point.back.take().into_iter().for_each(|request| merge(&mut caught, request));
        let caught = caught.map(|request| request.standing(false));
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

pub fn poll_scope<'p>(
    state: &mut State<'p>,
    back: &mut Option<Request>,
    env: &mut Env<'p>,
) -> bool {
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
            if request.target() != *depth {
                // C8: a deadline turns nobody else's request into its own.
                *outranked = true;
                let outer = request.out_of(*depth).unwrap();
                merge(back, outer.standing(true));
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
            let left = point.back.take().and_then(|request| request.out_of(*depth));
            left.into_iter().for_each(|request| merge(back, request));
            true
        }
    };
    env.note(format!("{number} in time: {in_time}"));
    *state = State::Done;
    true
}

/// C9.
pub fn poll_group<'p>(
    state: &mut State<'p>,
    back: &mut Option<Request>,
    env: &mut Env<'p>,
) -> bool {
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
        if request.target() != *depth {
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
            let outer = request.out_of(*depth).unwrap();
            merge(back, outer.standing(true));
            return false;
        }
    }
    let left = [point.back.take(), held.take()].into_iter().flatten();
    left.filter_map(|request| request.out_of(*depth)).for_each(|request| merge(back, request));
    let outcome = if *value && failed.is_empty() { Ok(()) } else { Err(failed) };
    env.note(format!("{number} group {outcome:?}"));
    *state = State::Done;
    true
}

/// Starts the children, and gives their group's place.
pub fn start_group<'p>(children: &'p [Child], env: &mut Env<'p>) -> usize {
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
