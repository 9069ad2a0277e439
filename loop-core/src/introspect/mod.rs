//! What a loop is doing: its tasks, who awaits whom, its timers and descriptors.

mod all;
mod collect;
mod dump;
mod graph;
mod json;
mod text;

pub use all::{DumpAll, dump_all};
pub use dump::{DescriptorInfo, Dump, TaskInfo, TaskState, TimerInfo, TimerKind, WaitsFor};
pub use graph::{CallGraph, call_graph};
