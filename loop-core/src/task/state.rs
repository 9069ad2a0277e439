//! The flag bits of a task.
//!
//! In the task table, about scheduling:
//!
//! | bit | set when | cleared when | never with |
//! |---|---|---|---|
//! | `QUEUED` | the task joins the ready queue | its step begins | `RUNNING` |
//! | `RUNNING` | a step begins | the step ends | `QUEUED` |
//! | `WOKEN` | it is woken while it runs | the step ends; it is queued again then | `QUEUED` |
//! | `ATTEND` | a handle, a scope or a catch point has something for the next step to deliver | that step begins | |
//! | `GEARED` | a step ends, or the task begins, with a waker or a context of its own | a step begins | `RUNNING` |
//!
//! In the part that is shared with handles, about the outcome:
//!
//! | bit | set when | cleared when |
//! |---|---|---|
//! | `DONE` | the outcome is stored and the body dropped | never |
//! | `CANCELLED` | it is done because of a request | never |
//! | `LEFT` | the body has left its output | never |
//! | `TAKEN` | the outcome has been taken | never |
//! | `POLLED` | somebody awaited the handle | never |
//! | `UNHANDLED` | no handle is left to read the outcome | never |
//! | `IGNORED` | nobody is to be told how it fails | never |
//! | `TELLS_ERRORS` | an `Err` that nobody reads is to be reported | never |
//! | `WAITED` | somebody waits for the end, or has waited | never |
//! | `ROOT` | it is the future of a `run_until_complete` | never |

pub(crate) const QUEUED: u8 = 1 << 0;
pub(crate) const RUNNING: u8 = 1 << 1;
pub(crate) const WOKEN: u8 = 1 << 2;
pub(crate) const ATTEND: u8 = 1 << 3;
pub(crate) const GEARED: u8 = 1 << 4;

pub(crate) const DONE: u16 = 1 << 0;
pub(crate) const CANCELLED: u16 = 1 << 1;
pub(crate) const LEFT: u16 = 1 << 2;
pub(crate) const POLLED: u16 = 1 << 3;
pub(crate) const UNHANDLED: u16 = 1 << 4;
pub(crate) const ROOT: u16 = 1 << 5;
pub(crate) const IGNORED: u16 = 1 << 6;
pub(crate) const TAKEN: u16 = 1 << 7;
pub(crate) const WAITED: u16 = 1 << 8;
pub(crate) const TELLS_ERRORS: u16 = 1 << 9;
