//! What a handle points to: state, context and closure in one allocation, behind one trait.

use std::any::Any;
use std::mem;
use std::panic::Location;

use crate::callback::{Callback, Once};
use crate::context::{AlreadyEntered, Context, Snapshot};
use crate::run::Run;
use crate::state::State;

/// A node whose types are erased. A whole run is one of its methods, so that a single indirect call
/// reaches code that knows the closure, its size and its kind of context.
pub(crate) trait Node {
    fn head(&self) -> &Head;
    fn callback(&self) -> &dyn Callback;
    fn scope(&self) -> Scope<'_>;
    /// Runs the callback in its context.
    fn run(&self) -> Run;
    /// Prepares the node to be filled again: drops what it holds of a user's. False if it is not done,
    /// or not worth keeping.
    fn clear(&mut self) -> bool;
    /// For the pool, which finds out whether a closure fits.
    fn as_any_mut(&mut self) -> &mut dyn Any;
}

/// What a node knows of itself, whatever its types are.
pub(crate) struct Head {
    pub(crate) state: State,
    pub(crate) site: &'static Location<'static>,
}

/// A node. `S` is a [`Snapshot`] or a [`Context`].
pub(crate) struct Inner<S, C> {
    pub(crate) head: Head,
    pub(crate) scope: S,
    pub(crate) callback: C,
}

impl<F> Inner<Snapshot, Once<F>> {
    /// Makes a cleared node a new one.
    #[inline]
    pub(crate) fn refill(&mut self, site: &'static Location<'static>, f: F) {
        self.head = Head { state: State::once(), site };
        // It holds nothing that would have to be dropped.
        mem::forget(mem::replace(&mut self.scope, Snapshot::current()));
        mem::forget(mem::replace(&mut self.callback, Once::new(f)));
    }
}

impl<S: InScope, C: Callback> Inner<S, C> {
    #[inline(never)]
    fn clear_rest(&mut self) -> bool {
        self.callback.clear();
        self.scope.clear()
    }
}

/// No node of more bytes is kept, so that a full pool stays small.
const LARGEST_KEPT: usize = 256;

impl<S: InScope + 'static, C: Callback + 'static> Node for Inner<S, C> {
    fn head(&self) -> &Head {
        &self.head
    }

    fn callback(&self) -> &dyn Callback {
        &self.callback
    }

    fn scope(&self) -> Scope<'_> {
        self.scope.scope()
    }

    fn run(&self) -> Run {
        let state = &self.head.state;
        let running = match state.start() {
            Some(running) => running,
            None => return Run::Skipped,
        };
        let result = match self.scope.scope().run(|| self.callback.call(state)) {
            Ok(result) => result,
            Err(_) => {
                if !state.is_repeating() {
                    self.callback.release();
                }
                Err(AlreadyEntered(()).into())
            }
        };
        if result.is_ok() {
            running.end_clean();
        }
        result.into()
    }

    fn clear(&mut self) -> bool {
        if mem::size_of::<Self>() > LARGEST_KEPT || !self.head.state.is_done() {
            return false;
        }
        // Behind a run there is nothing left.
        (self.callback.is_gone() && self.scope.is_empty()) || self.clear_rest()
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

/// What a callback runs in.
pub(crate) enum Scope<'a> {
    Snapshot(&'a Snapshot),
    Context(&'a Context),
}

impl Scope<'_> {
    #[inline]
    pub(crate) fn run<R, F: FnOnce() -> R>(&self, f: F) -> Result<R, AlreadyEntered<F>> {
        match self {
            Scope::Snapshot(snapshot) => Ok(snapshot.run(f)),
            Scope::Context(context) => context.run(f),
        }
    }
}

/// The two types of scope.
pub(crate) trait InScope {
    fn scope(&self) -> Scope<'_>;
    /// Whether it has no values, and nobody else may give it any.
    fn is_empty(&self) -> bool;
    /// Forgets all values; false if that is not possible.
    fn clear(&mut self) -> bool;
}

impl InScope for Snapshot {
    fn scope(&self) -> Scope<'_> {
        Scope::Snapshot(self)
    }

    fn is_empty(&self) -> bool {
        Snapshot::is_empty(self)
    }

    fn clear(&mut self) -> bool {
        drop(mem::take(self));
        true
    }
}

impl InScope for Context {
    fn scope(&self) -> Scope<'_> {
        Scope::Context(self)
    }

    fn is_empty(&self) -> bool {
        false
    }

    /// A context is shared, and there is no handle without one.
    fn clear(&mut self) -> bool {
        false
    }
}
