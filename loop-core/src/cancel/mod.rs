//! Cancellation: requests, the catch points that survive them, and the scopes that make them.
//!
//! A request drops, and the place that wants to survive it says so. Per task there is a tree of such
//! places, made when the task first has one: its root is the body, the others are the futures of this
//! module that are suspended in it. A request moves inward from its target to the innermost catch
//! points, and outward again as their code propagates it, until it is swallowed or ends its target
//! (`docs/contract.md` 0.3, C1 to C11).
//!
//! | file | |
//! |---|---|
//! | `node`, `tree` | the places, what they were asked, and who has still to decide |
//! | `deliver` | how requests move |
//! | `turn` | when: at the beginning and the end of a task's step |
//! | `binding` | a future's place in the tree of the task that polls it |
//! | `catch`, `cancelled` | what users catch, and with what they decide |
//! | `timeout`, `timeout_scope` | scopes that ask when their time is up |
//! | `group`, `child` | tasks that end before the scope that started them |

mod binding;
mod cancelled;
mod catch;
mod child;
mod deliver;
mod group;
mod node;
mod timeout;
mod timeout_scope;
mod tree;
mod turn;

pub(crate) use binding::{SharedTree, ask, unbind};
pub(crate) use node::NodeId;
pub(crate) use turn::{Turn, begin_step, end_step, forget, left_over};

pub use cancelled::{Cancelled, raise_cancelled};
pub use catch::{CatchCancelled, Protect, catch_cancelled, on_cancel, protect};
pub use child::{ChildError, GroupError};
pub use group::{GroupScope, TaskGroup};
pub use timeout::{Timeout, timeout, timeout_at, wait_for};
pub use timeout_scope::{NotActive, TimeoutScope, TimeoutScoped, timeout_scope};
