//! The subjects, each behind the small trait of its kind, so that a workload is written once.

pub(crate) mod delay_queue;
pub(crate) mod echo_server;
pub(crate) mod hub;
pub(crate) mod loop_core;
pub(crate) mod loop_net;
pub(crate) mod loop_selector;
pub(crate) mod mio;
pub(crate) mod std_timers;
pub(crate) mod timer_heap;
pub(crate) mod timer_store;
pub(crate) mod tokio;
pub(crate) mod waiting;
