//! A dump for programs.

use std::fmt::{self, Write};

use super::dump::{DescriptorInfo, Dump, TaskInfo, TaskState, TimerInfo, TimerKind, WaitsFor};

impl Dump {
    /// The dump as JSON: one object with the fields of this type by their names. Times are seconds as
    /// numbers, sites are `"file:line:column"`, what a task waits for and what a timer does are objects
    /// with a `"kind"`.
    pub fn to_json(&self) -> String {
        struct Json<'a>(&'a Dump);
        impl fmt::Display for Json<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                dump(f, self.0)
            }
        }
        Json(self).to_string()
    }
}

/// A string with what JSON wants escaped.
struct Text<D>(D);

impl<D: fmt::Display> fmt::Display for Text<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        struct Escape<'a, 'b>(&'a mut fmt::Formatter<'b>);
        impl fmt::Write for Escape<'_, '_> {
            fn write_str(&mut self, text: &str) -> fmt::Result {
                text.chars().try_for_each(|character| match character {
                    '"' => self.0.write_str("\\\""),
                    '\\' => self.0.write_str("\\\\"),
                    control if control < ' ' => write!(self.0, "\\u{:04x}", u32::from(control)),
                    other => self.0.write_char(other),
                })
            }
        }
        f.write_char('"')?;
        write!(Escape(f), "{}", self.0)?;
        f.write_char('"')
    }
}

/// `null` for nothing.
struct OrNull<T>(Option<T>);

impl<T: fmt::Display> fmt::Display for OrNull<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(value) => value.fmt(f),
            None => f.write_str("null"),
        }
    }
}

type Item<T> = fn(&mut fmt::Formatter<'_>, &T) -> fmt::Result;

fn list<T>(f: &mut fmt::Formatter<'_>, name: &str, items: &[T], item: Item<T>) -> fmt::Result {
    write!(f, "\"{name}\":[")?;
    for (index, value) in items.iter().enumerate() {
        if index > 0 {
            f.write_char(',')?;
        }
        item(f, value)?;
    }
    f.write_char(']')
}

fn dump(f: &mut fmt::Formatter<'_>, dump: &Dump) -> fmt::Result {
    let Dump { loop_id, selector, running, ready, .. } = dump;
    write!(f, "{{\"loop_id\":{loop_id},\"selector\":{},", Text(selector))?;
    write!(f, "\"running\":{running},\"ready\":{ready},")?;
    list(f, "tasks", &dump.tasks, task)?;
    write!(f, ",\"more_tasks\":{},", dump.more_tasks)?;
    list(f, "timers", &dump.timers, timer)?;
    write!(f, ",\"more_timers\":{},", dump.more_timers)?;
    list(f, "descriptors", &dump.descriptors, descriptor)?;
    write!(f, ",\"more_descriptors\":{}}}", dump.more_descriptors)
}

fn task(f: &mut fmt::Formatter<'_>, task: &TaskInfo) -> fmt::Result {
    let state = match task.state {
        TaskState::Running => "running",
        TaskState::Ready => "ready",
        TaskState::Waiting => "waiting",
    };
    write!(f, "{{\"id\":{},\"name\":{},\"site\":{},", task.id, Text(&task.name), Text(task.site))?;
    write!(f, "\"root\":{},\"state\":\"{state}\",", task.root)?;
    list(f, "waits_for", &task.waits_for, waits_for)?;
    f.write_char('}')
}

fn waits_for(f: &mut fmt::Formatter<'_>, waits_for: &WaitsFor) -> fmt::Result {
    match waits_for {
        WaitsFor::Task(id) => write!(f, "{{\"kind\":\"task\",\"id\":{id}}}"),
        WaitsFor::Timer(due_in) => {
            write!(f, "{{\"kind\":\"timer\",\"due_in\":{:?}}}", due_in.as_secs_f64())
        }
        WaitsFor::Timeout(due_in) => {
            write!(f, "{{\"kind\":\"timeout\",\"due_in\":{:?}}}", due_in.as_secs_f64())
        }
        WaitsFor::Descriptor { fd, interest } => {
            let (read, write) = (interest.is_readable(), interest.is_writable());
            write!(f, "{{\"kind\":\"descriptor\",\"fd\":{fd},\"read\":{read},\"write\":{write}}}")
        }
        WaitsFor::Object { kind, site, holder } => {
            let (kind, site, holder) = (Text(kind), Text(site), OrNull(*holder));
            write!(f, "{{\"kind\":{kind},\"site\":{site},\"holder\":{holder}}}")
        }
    }
}

fn timer(f: &mut fmt::Formatter<'_>, timer: &TimerInfo) -> fmt::Result {
    write!(f, "{{\"due_in\":{:?},", timer.due_in.as_secs_f64())?;
    match timer.kind {
        TimerKind::Callback { name, site } => {
            write!(f, "\"kind\":\"callback\",\"name\":{},\"site\":{}}}", Text(name), Text(site))
        }
        TimerKind::Task(id) => write!(f, "\"kind\":\"task\",\"id\":{id}}}"),
        TimerKind::Timeout(id) => write!(f, "\"kind\":\"timeout\",\"id\":{id}}}"),
        TimerKind::Waker => f.write_str("\"kind\":\"waker\"}"),
    }
}

fn descriptor(f: &mut fmt::Formatter<'_>, descriptor: &DescriptorInfo) -> fmt::Result {
    let read = descriptor.interest.is_some_and(|interest| interest.is_readable());
    let write = descriptor.interest.is_some_and(|interest| interest.is_writable());
    write!(f, "{{\"fd\":{},\"read\":{read},\"write\":{write},", descriptor.fd)?;
    let (reader, writer) = (descriptor.reader.map(Text), descriptor.writer.map(Text));
    write!(f, "\"reader\":{},\"writer\":{}}}", OrNull(reader), OrNull(writer))
}
