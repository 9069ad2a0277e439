//! The dumps of every loop of the process.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use super::collect::collect;
use super::dump::Dump;
use crate::current;
use crate::loops;
use crate::remote::Remote;

/// What the loops of a process are doing; from [`dump_all`].
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct DumpAll {
    /// Of those that answered, by their ids.
    pub loops: Vec<Dump>,
    /// The ids of those that did not answer in time: they do not run, or are stuck in a callback.
    pub silent: Vec<u64>,
}

/// Dumps every loop of the process (B-INT-03). Those of this thread are looked at, those of other threads
/// are asked to look at themselves: no thread ever reads what belongs to another.
///
/// Blocks until all have answered, for `limit` at the most. Fine in the handler of a signal that asks for
/// a diagnosis; not in the daily work of a loop.
pub fn dump_all(limit: Duration) -> DumpAll {
    let deadline = Instant::now() + limit.min(Duration::from_secs(3600));
    let (sender, answers) = mpsc::channel();
    let mut all = DumpAll::default();
    for inbox in loops::all() {
        let id = inbox.loop_id;
        if let Some(inner) = current::find(id) {
            all.loops.push(collect(&inner));
            continue;
        }
        let sender = sender.clone();
        let asked = Remote::new(inbox).call_soon(move || {
            if let Some(inner) = current::find(id) {
                // Nobody may be waiting any more.
                let _ = sender.send(collect(&inner));
            }
        });
        if asked.is_ok() {
            all.silent.push(id);
        }
    }
    drop(sender);
    while !all.silent.is_empty() {
        let left = deadline.saturating_duration_since(Instant::now());
        match answers.recv_timeout(left) {
            Ok(dump) => {
                all.silent.retain(|id| *id != dump.loop_id);
                all.loops.push(dump);
            }
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
        }
    }
    all.loops.sort_by_key(|dump| dump.loop_id);
    all
}
