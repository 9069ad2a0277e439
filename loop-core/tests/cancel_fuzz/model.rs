//! The contract's rules about requests, as a walk over the program: the tasks, and their steps.

use std::collections::BTreeMap;

use crate::asks::{ask_below, discard, expire, first_asking, hand_down_own, settle, settle_point};
use crate::polls::poll;
use crate::program::{Program, until_phase};
use crate::state::{Request, State, merge, start};

pub struct Task<'p> {
    pub number: u32,
    pub phase: u64,
    pub body: State<'p>,
    pub asked: Option<Option<String>>,
    pub started: bool,
    pub back: Option<Request>,
    /// How it ended: `Some(None)` with its value, else cancelled, with a reason.
    pub end: Option<Option<Option<String>>>,
    /// The group that it is in, and whether it fails there.
    pub member: Option<(usize, bool)>,
    pub failed: bool,
}

impl<'p> Task<'p> {
    pub fn new(number: u32, phase: u64, program: &'p Program) -> Self {
        Task {
            number,
            phase,
            body: start(program, 1),
            asked: None,
            started: false,
            back: None,
            end: None,
            member: None,
            failed: false,
        }
    }

    pub fn cancel(&mut self, reason: Option<String>) -> bool {
        if self.end.is_none() && self.asked.is_none() {
            self.asked = Some(reason);
        }
        self.end.is_none()
    }
}

#[derive(Default)]
pub struct Group {
    pub children: Vec<usize>,
    /// How many of them have not ended.
    pub left: usize,
    pub errors: Vec<u32>,
    pub ending: bool,
    pub over: bool,
    /// It asks for its own end from now on.
    pub asks: bool,
}

pub struct Model<'p>(Env<'p>);

pub struct Env<'p> {
    pub now: u64,
    pub period: u64,
    pub round: u32,
    pub armed: u32,
    /// Anything happened.
    pub moved: bool,
    /// The task whose step it is.
    pub current: usize,
    pub tasks: Vec<Task<'p>>,
    pub groups: Vec<Group>,
    pub lines: BTreeMap<u32, Vec<String>>,
}

impl<'p> Env<'p> {
    pub fn note(&mut self, line: String) {
        self.moved = true;
        self.lines.entry(self.tasks[self.current].number).or_default().push(line);
    }

    /// When a wait that begins now is over.
    pub fn after(&self, limit: u64) -> u64 {
        self.now + until_phase(self.now, limit, self.tasks[self.current].phase, self.period)
    }

    pub fn spawn(&mut self, task: &'p crate::program::Task) -> usize {
        self.moved = true;
        self.tasks.push(Task::new(task.number, task.phase, &task.program));
        self.tasks.len() - 1
    }

    pub fn end(&mut self, task: usize, end: Option<Option<String>>) {
        self.moved = true;
        self.tasks[task].end = Some(end);
        if let Some((group, _)) = self.tasks[task].member {
            self.groups[group].left -= 1;
        }
    }

    pub fn end_cancelled(&mut self, task: usize, reason: Option<String>) {
        let body = std::mem::replace(&mut self.tasks[task].body, State::Done);
        discard(body, self);
        self.end(task, Some(reason));
    }

    /// C9: everybody in it is asked once, but for the child that has failed; so is the body, if it is there.
    pub fn end_group(&mut self, group: usize, except: Option<usize>) {
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
                // One that fails tells its group, and ends in its next step.
                Some((group, true)) if !self.tasks[current].failed => {
                    self.moved = true;
                    self.tasks[current].failed = true;
                    self.tasks[current].back = back;
                    if !self.groups[group].over {
                        let number = self.tasks[current].number;
                        self.groups[group].errors.push(number);
                        self.end_group(group, Some(current));
                    }
                }
                Some((_, true)) => self.end(current, Some(None)),
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
            let request = Request::new(0, round, reason);
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
pub enum Ended {
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
