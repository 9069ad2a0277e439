//! The subjects, each behind the small trait of its kind, so that a workload is written once.

pub(crate) mod async_executor;
pub(crate) mod async_task;
pub(crate) mod btree_map;
pub(crate) mod callback_queue;
pub(crate) mod calloop;
pub(crate) mod calloop_echo;
pub(crate) mod calloop_idle;
#[cfg(all(feature = "compio", target_os = "linux"))]
pub(crate) mod compio;
pub(crate) mod corrupting;
pub(crate) mod delay_queue;
pub(crate) mod eager;
pub(crate) mod echo_server;
pub(crate) mod foreign;
pub(crate) mod handle_queue;
pub(crate) mod http;
pub(crate) mod hub;
pub(crate) mod instant_selector;
pub(crate) mod keyed_queues;
pub(crate) mod layouts;
pub(crate) mod lazy;
pub(crate) mod libuv;
pub(crate) mod loop_core;
pub(crate) mod loop_core_tasks;
pub(crate) mod loop_net;
pub(crate) mod loop_selector;
pub(crate) mod mio;
#[cfg(all(feature = "monoio", target_os = "linux"))]
pub(crate) mod monoio;
mod one_read;
pub(crate) mod optional;
pub(crate) mod polling;
pub(crate) mod polling_echo;
#[cfg(target_os = "linux")]
pub(crate) mod rustix_epoll;
pub(crate) mod sleeping;
#[cfg(feature = "smol")]
pub(crate) mod smol;
pub(crate) mod std_boxes;
pub(crate) mod timer_heap;
pub(crate) mod timer_store;
pub(crate) mod timer_wheels;
pub(crate) mod tokio;
pub(crate) mod tokio_sleep;
pub(crate) mod tokio_tasks;
pub(crate) mod two_boxes;
pub(crate) mod waiting;
