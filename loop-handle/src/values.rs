//! The values of context variables, and the ones that are current on this thread.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::mem;
use std::rc::Rc;
use std::sync::Arc;

/// A variable's value. Shared, so that it can be looked at while its variable is set anew.
pub(crate) type Value = Arc<dyn Any + Send + Sync>;

/// An immutable map from a variable's id to its value, sorted by id. `None` while it is empty, so
/// that contexts cost a null pointer until someone sets a variable.
#[derive(Clone, Default)]
pub(crate) struct Values(Option<Arc<Vec<(usize, Value)>>>);

impl Values {
    pub(crate) const EMPTY: Values = Values(None);

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.as_ref().map_or(0, |entries| entries.len())
    }

    fn get(&self, id: usize) -> Option<Value> {
        let entries = self.0.as_ref()?;
        let at = entries.binary_search_by_key(&id, |entry| entry.0).ok()?;
        Some(entries[at].1.clone())
    }

    /// Sets or removes one value: O(n) in the number of variables set, a copy if the map is
    /// shared. Drops no value: the old one is returned, with the map that was shared if there was
    /// one, for the caller to drop when it holds no borrow.
    fn replace(&mut self, id: usize, value: Option<Value>) -> (Option<Value>, Values) {
        let mut shared = Values::EMPTY;
        let mut entries = match self.0.take().map(Arc::try_unwrap) {
            None => Vec::new(),
            Some(Ok(entries)) => entries,
            Some(Err(others)) => {
                let copy = Vec::clone(&others);
                shared = Values(Some(others));
                copy
            }
        };
        let old = match (entries.binary_search_by_key(&id, |entry| entry.0), value) {
            (Ok(at), Some(value)) => Some(mem::replace(&mut entries[at].1, value)),
            (Ok(at), None) => Some(entries.remove(at).1),
            (Err(at), Some(value)) => {
                entries.insert(at, (id, value));
                None
            }
            (Err(_), None) => None,
        };
        if !entries.is_empty() {
            self.0 = Some(Arc::new(entries));
        }
        (old, shared)
    }
}

/// The values of an explicit context. They are here unless the context is the innermost one that
/// is entered: then they are in [`CURRENT`], where variables are read and written.
pub(crate) struct Shared {
    pub(crate) values: Cell<Values>,
    pub(crate) entered: Cell<bool>,
}

/// What is current: the values, and the context that will keep them, if one will.
#[derive(Default)]
struct Current {
    values: Values,
    owner: Option<Rc<Shared>>,
}

thread_local! {
    static CURRENT: RefCell<Current> =
        const { RefCell::new(Current { values: Values::EMPTY, owner: None }) };
    /// Whether `CURRENT` holds anything. A flag without a destructor is all that entering nothing
    /// from nothing has to look at, and that is what most callbacks of most programs do.
    static ACTIVE: Cell<bool> = const { Cell::new(false) };
}

fn note_active(current: &Current) {
    ACTIVE.with(|active| active.set(current.values.0.is_some() || current.owner.is_some()));
}

impl Current {
    /// Makes `self` current and returns what was. While the thread's locals are being destroyed
    /// there is no current: `self` comes back, and variables read as unset.
    fn swap(mut self) -> Current {
        let _ = CURRENT.try_with(|current| {
            let mut current = current.borrow_mut();
            mem::swap(&mut *current, &mut self);
            note_active(&current);
        });
        self
    }
}

/// Whether any variable is set, or a context entered.
#[inline]
pub(crate) fn is_active() -> bool {
    ACTIVE.with(Cell::get)
}

/// The current values.
#[inline]
pub(crate) fn current() -> Values {
    if is_active() { shared_current() } else { Values::EMPTY }
}

/// Out of line, for [`current`] is part of making every handle.
#[inline(never)]
fn shared_current() -> Values {
    CURRENT.try_with(|current| current.borrow().values.clone()).unwrap_or_default()
}

/// The values of an explicit context, wherever they are.
pub(crate) fn of(shared: &Rc<Shared>) -> Values {
    let innermost = CURRENT.try_with(|current| {
        let current = current.borrow();
        let owner = current.owner.as_ref()?;
        Rc::ptr_eq(owner, shared).then(|| current.values.clone())
    });
    if let Ok(Some(values)) = innermost {
        return values;
    }
    let values = shared.values.take();
    shared.values.set(values.clone());
    values
}

/// The current value of one variable.
pub(crate) fn get(id: usize) -> Option<Value> {
    CURRENT.try_with(|current| current.borrow().values.get(id)).ok().flatten()
}

/// Sets or unsets one variable in what is current, and returns its old value.
pub(crate) fn replace(id: usize, value: Option<Value>) -> Option<Value> {
    // What replace leaves over is dropped at the end of this function, unborrowed.
    let (old, _shared) = CURRENT
        .try_with(|current| {
            let mut current = current.borrow_mut();
            let replaced = current.values.replace(id, value);
            note_active(&current);
            replaced
        })
        .unwrap_or_default();
    old
}

/// Values made current until this guard is dropped. Guards are dropped in the reverse order of
/// their making, because only `run` functions make them. `None` inside: nothing was current.
pub(crate) struct Entered(Option<Current>);

/// Whether entering `values` changes nothing, because nothing is set there and nothing is current.
#[inline]
pub(crate) fn is_trivial(values: &Values) -> bool {
    values.0.is_none() && !is_active()
}

/// What entering is in that case: nothing to set up, and at the end to forget what was set meanwhile.
pub(crate) struct Forget;

impl Drop for Forget {
    #[inline]
    fn drop(&mut self) {
        if is_active() {
            drop(Entered(None));
        }
    }
}

impl Entered {
    /// Enters values that nobody keeps.
    #[inline]
    pub(crate) fn discarding(values: Values) -> Entered {
        if is_trivial(&values) {
            return Entered(None);
        }
        Entered::enter(Current { values, owner: None })
    }

    /// Enters a context that keeps what is written; `None` if it is entered already.
    pub(crate) fn keeping(shared: &Rc<Shared>) -> Option<Entered> {
        if shared.entered.replace(true) {
            return None;
        }
        let values = shared.values.take();
        Some(Entered::enter(Current { values, owner: Some(shared.clone()) }))
    }

    #[inline(never)]
    fn enter(next: Current) -> Entered {
        let mut previous = next.swap();
        if let Some(owner) = &previous.owner {
            owner.values.set(mem::take(&mut previous.values));
        }
        Entered(Some(previous))
    }

    /// Restores what was current.
    #[inline(never)]
    fn leave(&mut self) {
        let mut previous = self.0.take().unwrap_or_default();
        if let Some(owner) = &previous.owner {
            previous.values = owner.values.take();
        }
        let finished = previous.swap();
        if let Some(owner) = finished.owner {
            owner.values.set(finished.values);
            owner.entered.set(false);
        }
    }
}

impl Drop for Entered {
    #[inline]
    fn drop(&mut self) {
        if self.0.is_some() || is_active() {
            self.leave();
        }
    }
}
