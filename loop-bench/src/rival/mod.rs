//! The subjects, each behind the small trait of its kind, so that a workload is written once.

pub(crate) mod async_task;
pub(crate) mod btree_map;
pub(crate) mod callback_queue;
pub(crate) mod calloop;
pub(crate) mod calloop_idle;
pub(crate) mod delay_queue;
pub(crate) mod echo_server;
pub(crate) mod handle_queue;
pub(crate) mod hub;
pub(crate) mod keyed_queues;
pub(crate) mod layouts;
pub(crate) mod lazy;
pub(crate) mod loop_core;
pub(crate) mod loop_net;
pub(crate) mod loop_selector;
pub(crate) mod mio;
pub(crate) mod polling;
pub(crate) mod rustix_epoll;
pub(crate) mod std_boxes;
pub(crate) mod timer_heap;
pub(crate) mod timer_store;
pub(crate) mod timer_wheels;
pub(crate) mod tokio;
pub(crate) mod tokio_sleep;
pub(crate) mod waiting;
