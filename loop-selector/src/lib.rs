//! Waiting for many descriptors at once: Python's `selectors`, native in Rust.
//!
//! A [`Selector`] answers one question: which of these descriptors are ready? You [`register`] the
//! *owner* of a descriptor, anything that is [`AsFd`], together with an [`Interest`], and get a
//! [`Token`]. [`select`] waits, and fills a buffer with one [`Event`] for each token that is ready.
//! Nothing runs behind your back: you look at the events and do what you want.
//!
//! ```
//! use loop_selector::{Event, Events, Interest, Selector, default_selector};
//! use std::io::{Read, Write};
//! use std::os::unix::net::UnixStream;
//! use std::rc::Rc;
//!
//! let (near, mut far) = UnixStream::pair()?;
//! let near = Rc::new(near);
//!
//! let mut selector = default_selector()?; // the best that this system has
//! let token = selector.register(near.clone(), Interest::READ)?;
//!
//! far.write_all(b"hello")?;
//! let mut events = Events::new(); // reused from wait to wait
//! selector.select(&mut events, None)?;
//!
//! for event in &events {
//!     match event {
//!         Event::Ready { token: ready, readiness } => {
//!             assert!(*ready == token && readiness.is_readable());
//!             let mut buffer = [0; 16];
//!             assert_eq!((&*near).read(&mut buffer)?, 5);
//!         }
//!         _ => unreachable!("nothing else was asked for"),
//!     }
//! }
//!
//! selector.deregister(token)?; // gives the owner back, and so the right to close it
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! Readiness is level-triggered: what was not read is reported by the next wait again. A hang-up or
//! an error makes a descriptor ready for whatever it is watched for, so that the next read or
//! write tells.
//!
//! Two things end a wait from elsewhere. Any thread may [`wake`](Waker::wake) the selector's
//! [`Waker`]; and a [`SignalWatcher`] does so when a signal arrives, and counts.
//!
//! # A selector of your own
//!
//! The trait is meant to be implemented elsewhere: over another system call, in a simulation, as a
//! wrapper that records, for which [`forward_selector!`] writes what it leaves alone. [`Registry`] does
//! the bookkeeping, [`Waker`] the wake-up protocol, [`whole_millis`] the rounding, [`SelectorError`] the
//! messages. The feature `conformance` is the suite that the backends here pass: `conformance_tests!(mine, || Ok(Box::new(Mine::new()?)))`.
//!
//! # Map
//!
//! | to | use |
//! |---|---|
//! | choose a backend | [`default_selector`], [`by_name`], [`available`], [`SelectorChoice`] |
//! | know why it was chosen | [`probe`], [`ProbeReport`], [`Refusal`] |
//! | name one | [`EpollSelector`], [`PollSelector`], [`SelectSelector`], and others where they exist |
//! | watch a descriptor | [`Selector`], [`AsSource`], [`OwnedSource`], [`RawSource`], [`RegisterError`] |
//! | until a value is dropped | [`SharedSelector`], [`Registration`] |
//! | say and hear what for | [`Interest`], [`Readiness`], [`Token`], [`Event`], [`Events`] |
//! | see what is registered | [`Registry`], [`Entry`] |
//! | wake it up | [`Waker`], [`SignalWatcher`], [`Signal`], [`raise`], [`with_clear_mask`] |
//!
//! Ids such as B-SEL-15 name behaviours of the contract in the project's `docs/contract.md`; tests
//! bear them in their names.
//!
//! [`register`]: Selector::register
//! [`select`]: Selector::select
//! [`AsFd`]: std::os::fd::AsFd

#![cfg(unix)]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![deny(missing_docs, unsafe_code)]

mod backend;
#[cfg(feature = "conformance")]
#[cfg_attr(docsrs, doc(cfg(feature = "conformance")))]
pub mod conformance;
mod default;
mod error;
mod event;
mod forward;
mod interest;
mod probe;
mod process;
mod registration;
mod registry;
mod room;
mod selector;
mod signal;
mod source;
mod timeout;
mod token;
mod wake_fd;
mod wake_state;
mod waker;

#[cfg(any(target_os = "illumos", target_os = "solaris"))]
pub use backend::devpoll::DevpollSelector;
#[cfg(any(target_os = "linux", target_os = "android", target_os = "illumos"))]
pub use backend::epoll::EpollSelector;
#[cfg(any(
    target_vendor = "apple",
    target_os = "freebsd",
    target_os = "dragonfly",
    target_os = "netbsd",
    target_os = "openbsd"
))]
pub use backend::kqueue::KqueueSelector;
#[cfg(all(feature = "mio", target_pointer_width = "64"))]
#[cfg_attr(docsrs, doc(cfg(feature = "mio")))]
pub use backend::mio::MioSelector;
pub use backend::poll::PollSelector;
pub use backend::select::SelectSelector;
#[cfg(all(feature = "uring", target_os = "linux"))]
#[cfg_attr(docsrs, doc(cfg(feature = "uring")))]
pub use backend::uring::IoUringSelector;
pub use default::{SelectorChoice, available, by_name, default_selector, probe};
pub use error::{RegisterError, SelectorError};
pub use event::{Event, Events};
pub use interest::{Interest, Readiness};
pub use probe::{ProbeReport, Refusal};
pub use process::Process;
pub use registration::{Registration, SharedSelector};
pub use registry::{Entry, Registry};
pub use selector::Selector;
pub use signal::{Signal, SignalWatcher, raise, with_clear_mask};
pub use source::{AsSource, OwnedSource, RawSource};
pub use timeout::whole_millis;
pub use token::Token;
pub use waker::Waker;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
