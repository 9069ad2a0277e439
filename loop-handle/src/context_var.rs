//! `ContextVar`: a variable whose value belongs to the context that is current.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::values::{self, Value};

/// A variable whose value belongs to the current context, as Python's `contextvars.ContextVar`.
///
/// It is meant to be a `static`. A variable that is dropped leaves its values in the contexts
/// that hold them.
///
/// ```
/// use loop_handle::{ContextVar, Snapshot};
///
/// static USER: ContextVar<String> = ContextVar::with_default(|| "nobody".to_string());
///
/// let before = Snapshot::current();
/// USER.set("ada".to_string());
/// assert_eq!(USER.get().as_deref(), Some("ada"));
/// assert_eq!(before.run(|| USER.get()).as_deref(), Some("nobody"));
/// ```
pub struct ContextVar<T> {
    /// 0 until the variable is first set.
    id: AtomicUsize,
    default: Option<fn() -> T>,
}

impl<T: Send + Sync + 'static> ContextVar<T> {
    /// A variable without a default.
    pub const fn new() -> ContextVar<T> {
        ContextVar { id: AtomicUsize::new(0), default: None }
    }

    /// A variable that reads as `default()` where it is not set. `default` is called at each such
    /// read.
    pub const fn with_default(default: fn() -> T) -> ContextVar<T> {
        ContextVar { id: AtomicUsize::new(0), default: Some(default) }
    }

    /// A clone of the current value, else the default, else `None`.
    pub fn get(&self) -> Option<T>
    where
        T: Clone,
    {
        self.with(|value| value.cloned())
    }

    /// Calls `f` with the current value, else the default, else `None`. `f` may set the variable;
    /// what it was given stays as it was.
    pub fn with<R>(&self, f: impl FnOnce(Option<&T>) -> R) -> R {
        match values::get(self.id.load(Ordering::Relaxed)) {
            Some(value) => f(value.downcast_ref()),
            None => f(self.default.map(|default| default()).as_ref()),
        }
    }

    /// Sets the value in the current context. O(n) in the number of variables that are set there.
    ///
    /// The token puts the previous value back; it may be ignored. Once a thread is destroying its
    /// thread-locals, setting has no effect there.
    ///
    /// # Panics
    /// If a process sets more than `usize::MAX - 1` different variables.
    pub fn set(&self, value: T) -> ResetToken<T> {
        let id = self.id();
        ResetToken { id, old: values::replace(id, Some(Arc::new(value))), of: PhantomData }
    }

    /// Puts the value back that [`set`](ContextVar::set) replaced, "not set" included.
    ///
    /// It acts on the context that is current now. (Python also refuses a token that was made in
    /// another context.)
    ///
    /// # Errors
    /// The token, if another variable made it.
    pub fn reset(&self, token: ResetToken<T>) -> Result<(), ResetToken<T>> {
        if token.id != self.id.load(Ordering::Relaxed) {
            return Err(token);
        }
        drop(values::replace(token.id, token.old));
        Ok(())
    }

    /// The id, drawn now if this is the first use. Relaxed is enough: an id orders nothing, it
    /// only has to be the same for all.
    fn id(&self) -> usize {
        static NEXT: AtomicUsize = AtomicUsize::new(1);
        let id = self.id.load(Ordering::Relaxed);
        if id != 0 {
            return id;
        }
        let fresh = NEXT
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |next| next.checked_add(1))
            .expect("context variables left");
        match self.id.compare_exchange(0, fresh, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => fresh,
            Err(drawn_elsewhere) => drawn_elsewhere,
        }
    }
}

impl<T: Send + Sync + 'static> Default for ContextVar<T> {
    fn default() -> ContextVar<T> {
        ContextVar::new()
    }
}

impl<T> fmt::Debug for ContextVar<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ContextVar<{}>", std::any::type_name::<T>())
    }
}

/// What [`ContextVar::reset`] needs to put a value back.
pub struct ResetToken<T> {
    id: usize,
    old: Option<Value>,
    of: PhantomData<fn() -> T>,
}

impl<T> fmt::Debug for ResetToken<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ResetToken<{}>", std::any::type_name::<T>())
    }
}
