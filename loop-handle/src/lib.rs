//! Callbacks you can cancel: the handles of an event loop, without the loop.
//!
//! A loop keeps its callbacks in queues. Whoever scheduled one wants to cancel it later, wherever
//! it sits by then. A [`Handle`] is that common thing: the loop holds a clone and
//! [`run`](Handle::run)s it, the user holds a clone and [`cancel`](Handle::cancel)s it. This is
//! asyncio's `Handle`, with its promises kept by the type system:
//!
//! - A cancel drops the closure, and what it captured, at once; the queue is tidied up later.
//! - Nothing is locked or borrowed while user code runs, and dropping a closure is user code.
//! - Flags, context and closure are one allocation. A repeating handle runs without another, and
//!   those of one-shot handles serve again if they come from a [`HandlePool`].
//! - Callbacks run in the context they were scheduled in; see [`ContextVar`].
//!
//! ```
//! use loop_handle::{Handle, Run};
//! use std::{cell::RefCell, collections::VecDeque, rc::Rc};
//!
//! let ready = Rc::new(RefCell::new(VecDeque::new()));
//! let later = Handle::once(|| println!("never printed"));
//! let victim = later.clone();
//! ready.borrow_mut().push_back(Handle::once(move || victim.cancel()));
//! ready.borrow_mut().push_back(later.clone());
//!
//! let next = || ready.borrow_mut().pop_front(); // the borrow ends before user code runs
//! while let Some(handle) = next() {
//!     match handle.run() {
//!         Run::Done | Run::Skipped => {}
//!         Run::Failed(error) => eprintln!("{handle:?}: {error}"),
//!     }
//! }
//! assert!(later.is_cancelled());
//! ```
//!
//! # Map
//!
//! | to | use |
//! |---|---|
//! | schedule a closure once, or again and again | [`Handle::once`], [`Handle::repeating`] |
//! | schedule many short closures cheaply | [`HandlePool`] |
//! | give a closure a deadline and its queue a notice of cancels | [`TimerHandle`], [`TimerOwner`] |
//! | schedule from another thread | [`ThreadsafeHandle`] |
//! | bind a callback, or a task, to a scope | [`CancelOnDrop`] |
//! | let a value follow the flow of callbacks | [`ContextVar`], [`Context`], [`Snapshot`] |
//! | let a callback fail | [`Outcome`], [`Run::Failed`] |
//!
//! Panics pass through [`Handle::run`]: whether to catch them is the loop's decision.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod callback;
mod cancel_on_drop;
mod context;
mod context_var;
mod handle;
mod node;
mod pool;
mod run;
mod state;
mod threadsafe;
mod timer_handle;
mod values;

pub use callback::Outcome;
pub use cancel_on_drop::{Cancel, CancelOnDrop};
pub use context::{AlreadyEntered, Context, Snapshot};
pub use context_var::{ContextVar, ResetToken};
pub use handle::Handle;
pub use pool::HandlePool;
pub use run::Run;
pub use threadsafe::ThreadsafeHandle;
pub use timer_handle::{TimerHandle, TimerOwner};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
