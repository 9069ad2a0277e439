//! Tasks: futures that the loop polls to their end.

mod awaiter;
mod body;
mod builder;
mod cell;
mod gear;
mod handle;
mod hook;
mod join;
mod member;
mod request;
mod running;
mod shield;
mod spawn;
mod state;
mod step;
mod task_ref;
mod unread;
mod waker;
mod watch;

pub(crate) use awaiter::{Kind as AwaiterKind, own_task};
pub(crate) use builder::InContext;
pub(crate) use cell::{TaskKey, TaskTable, give_wakers};
pub(crate) use request::Asked;
pub(crate) use running::{Outer, running_task};
pub(crate) use spawn::{add_root, remove_root};
pub(crate) use step::{Advance, attend, attend_later, while_queued};
pub(crate) use step::{Lent, Root, drop_all, schedule, step};
pub(crate) use task_ref::find;
pub(crate) use waker::{RemoteWake, TaskWaker};

pub use awaiter::Awaiter;
pub use builder::TaskBuilder;
pub use handle::Task;
pub use hook::{EagerSpawn, SpawnHook, TaskBody};
pub use shield::{Shield, shield};
pub use spawn::{current_task, spawn};
pub use task_ref::TaskRef;
pub use watch::Watch;
