//! A dump for people.

use std::collections::HashSet;
use std::fmt;
use std::time::Duration;

use loop_selector::Interest;

use super::dump::{DescriptorInfo, Dump, TaskInfo, TaskState, TimerInfo, TimerKind, WaitsFor};

/// Deeper levels are not indented any further.
const MAX_INDENT: usize = 24;

impl fmt::Display for Dump {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Dump { loop_id, selector, ready, .. } = self;
        let state = if self.running { "running" } else { "not running" };
        writeln!(f, "event loop {loop_id} on {selector}, {state}, {ready} ready")?;
        writeln!(f, "tasks: {}", self.tasks.len() + self.more_tasks)?;
        self.fmt_tree(f)?;
        more(f, self.more_tasks)?;
        writeln!(f, "timers: {}", self.timers.len() + self.more_timers)?;
        for timer in &self.timers {
            self.fmt_timer(f, timer)?;
        }
        more(f, self.more_timers)?;
        writeln!(f, "descriptors: {}", self.descriptors.len() + self.more_descriptors)?;
        for descriptor in &self.descriptors {
            fmt_descriptor(f, descriptor)?;
        }
        more(f, self.more_descriptors)
    }
}

fn more(f: &mut fmt::Formatter<'_>, count: usize) -> fmt::Result {
    match count {
        0 => Ok(()),
        count => writeln!(f, "  and {count} more"),
    }
}

impl Dump {
    /// Tasks that nobody awaits first, each above those that it awaits. Every task has one line of its
    /// own; where it is awaited again, and where a circle closes, its name stands alone.
    fn fmt_tree(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let awaited: HashSet<u64> = self.tasks.iter().flat_map(awaits).collect();
        let mut shown = HashSet::new();
        let (roots, rest): (Vec<_>, Vec<_>) =
            self.tasks.iter().partition(|task| !awaited.contains(&task.id));
        // What is left after the roots is awaited in a circle.
        for root in roots.into_iter().chain(rest) {
            if shown.contains(&root.id) {
                continue;
            }
            // A stack of its own: chains may be long.
            let mut stack = vec![(root.id, 1)];
            while let Some((id, depth)) = stack.pop() {
                let indent = 2 * depth.min(MAX_INDENT);
                let Some(task) = self.task(id) else { continue };
                if !shown.insert(id) {
                    writeln!(f, "{:indent$}{} (above)", "", task.name)?;
                    continue;
                }
                writeln!(f, "{:indent$}{}", "", self.line(task))?;
                let awaited: Vec<_> = awaits(task).collect();
                stack.extend(awaited.into_iter().rev().map(|id| (id, depth + 1)));
            }
        }
        Ok(())
    }

    /// What a task is called here.
    fn name(&self, id: u64) -> String {
        self.task(id).map_or_else(|| format!("task {id}"), |task| task.name.clone())
    }

    /// A task in one line.
    pub(crate) fn line<'a>(&'a self, task: &'a TaskInfo) -> Line<'a> {
        Line { dump: self, task }
    }

    fn fmt_waits(&self, f: &mut fmt::Formatter<'_>, task: &TaskInfo) -> fmt::Result {
        f.write_str("waits for ")?;
        if task.waits_for.is_empty() {
            return f.write_str("something without a name");
        }
        for (index, waits_for) in task.waits_for.iter().enumerate() {
            if index > 0 {
                f.write_str(" or ")?;
            }
            match waits_for {
                WaitsFor::Task(id) => f.write_str(&self.name(*id))?,
                WaitsFor::Timer(due_in) => write!(f, "a timer {}", due(*due_in))?,
                WaitsFor::Timeout(due_in) => write!(f, "a timeout {}", due(*due_in))?,
                WaitsFor::Descriptor { fd, interest } => {
                    write!(f, "fd {fd} to be ready for {}", ready_for(*interest))?;
                }
                WaitsFor::Object { kind, site, holder } => {
                    write!(f, "{kind} created at {site}")?;
                    if let Some(holder) = holder {
                        write!(f, " and held by {}", self.name(*holder))?;
                    }
                }
            }
        }
        Ok(())
    }

    fn fmt_timer(&self, f: &mut fmt::Formatter<'_>, timer: &TimerInfo) -> fmt::Result {
        write!(f, "  {}: ", due(timer.due_in))?;
        match timer.kind {
            TimerKind::Callback { name, site } => writeln!(f, "{name} scheduled at {site}"),
            TimerKind::Task(id) => writeln!(f, "wakes {}", self.name(id)),
            TimerKind::Timeout(id) => writeln!(f, "ends a timeout in {}", self.name(id)),
            TimerKind::Waker => writeln!(f, "wakes something without a name"),
        }
    }
}

/// A task in one line.
pub(crate) struct Line<'a> {
    dump: &'a Dump,
    task: &'a TaskInfo,
}

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Line { dump, task } = self;
        write!(f, "{}: ", task.name)?;
        match task.state {
            TaskState::Running => f.write_str("running")?,
            TaskState::Ready => f.write_str("ready")?,
            TaskState::Waiting => dump.fmt_waits(f, task)?,
        }
        let began = if task.root { "run" } else { "spawned" };
        write!(f, "; {began} at {}", task.site)
    }
}

fn awaits(task: &TaskInfo) -> impl Iterator<Item = u64> + '_ {
    task.waits_for.iter().filter_map(|waits_for| match waits_for {
        WaitsFor::Task(id) => Some(*id),
        _ => None,
    })
}

fn due(due_in: Duration) -> String {
    match due_in {
        Duration::ZERO => "due now".to_owned(),
        due_in => format!("in {due_in:?}"),
    }
}

fn ready_for(interest: Interest) -> &'static str {
    match (interest.is_readable(), interest.is_writable()) {
        (true, true) => "reading and writing",
        (true, false) => "reading",
        (false, _) => "writing",
    }
}

fn fmt_descriptor(f: &mut fmt::Formatter<'_>, descriptor: &DescriptorInfo) -> fmt::Result {
    write!(f, "  {}: ", descriptor.fd)?;
    match descriptor.interest {
        None => f.write_str("silent")?,
        Some(interest) => f.write_str(ready_for(interest))?,
    }
    if let Some(site) = descriptor.reader {
        write!(f, ", reader added at {site}")?;
    }
    if let Some(site) = descriptor.writer {
        write!(f, ", writer added at {site}")?;
    }
    writeln!(f)
}
