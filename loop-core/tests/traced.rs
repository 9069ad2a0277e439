//! The feature `tracing`: spans around what runs, reports as events.
#![cfg(feature = "tracing")]

mod common;

use std::fmt::{self, Write};
use std::sync::{Arc, Mutex};

use common::turn;
use loop_core::{EventLoop, yield_now};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// Notes what is entered, left and emitted.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    spans: Vec<String>,
    lines: Vec<String>,
}

struct Fields<'a>(&'a mut String);

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let _ = match field.name() {
            "message" => write!(self.0, " {value:?}"),
            "task" => Ok(()), // a number that differs from run to run
            name => write!(self.0, " {name}={value:?}"),
        };
    }
}

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "loop_core"
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut text = span.metadata().name().to_owned();
        span.record(&mut Fields(&mut text));
        let mut state = self.0.lock().unwrap();
        state.spans.push(text);
        Id::from_u64(state.spans.len() as u64)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut text = event.metadata().level().to_string();
        event.record(&mut Fields(&mut text));
        self.0.lock().unwrap().lines.push(text);
    }

    fn enter(&self, span: &Id) {
        let mut state = self.0.lock().unwrap();
        let line = format!("enter {}", state.spans[span.into_u64() as usize - 1]);
        state.lines.push(line);
    }

    fn exit(&self, _: &Id) {
        self.0.lock().unwrap().lines.push("exit".to_owned());
    }
}

#[test]
fn callbacks_and_steps_have_spans_and_reports_are_events() {
    let log = Log::default();
    tracing::subscriber::with_default(log.clone(), || {
        let mut event_loop = EventLoop::new().unwrap();
        let line = line!() + 1;
        event_loop.call_soon(|| tracing::info!(target: "loop_core", "inside"));
        let task = event_loop.spawn(yield_now());
        task.set_name("traced");
        event_loop.call_soon(|| -> Result<(), &str> { Err("no") });
        turn(&mut event_loop);
        turn(&mut event_loop);
        let lines = std::mem::take(&mut log.0.lock().unwrap().lines);
        let file = file!();
        let name = "traced::callbacks_and_steps_have_spans_and_reports_are_events::\
                    {{closure}}::{{closure}}";
        let step = format!("enter step name=\"traced\" site={file}:{}:31", line + 1);
        let site = format!("{file}:{}:20", line + 3);
        assert_eq!(
            lines,
            [
                format!("enter callback name=\"{name}\" site={file}:{line}:20"),
                "INFO inside".to_owned(),
                "exit".to_owned(),
                step.clone(),
                "exit".to_owned(),
                format!("enter callback name=\"{name}\" site={site}"),
                format!(
                    "ERROR callback failed; callback {name} created at {site}; failure error \"no\""
                ),
                "exit".to_owned(),
                step,
                "exit".to_owned(),
            ]
        );
    });
}
