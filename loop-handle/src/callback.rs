//! The closure of a handle, erased: one that runs once, one that runs often, and none at all.

use std::any::type_name;
use std::cell::Cell;
use std::error::Error;
use std::marker::PhantomData;
use std::mem;

use crate::state::State;

/// What a callback may return: nothing, a `Result` without a value, or never.
///
/// An `Err` reaches whoever runs the handle as [`Run::Failed`](crate::Run::Failed), so a callback
/// may use `?`. The error is any type that converts into a boxed [`Error`]; a `String` does.
///
/// The type of `|| panic!()` is `!` in edition 2024, so `!` is an outcome as well.
pub trait Outcome {
    /// Turns the value into success or a boxed error.
    ///
    /// # Errors
    /// The callback's own error.
    fn into_result(self) -> Result<(), Box<dyn Error>>;
}

impl Outcome for () {
    fn into_result(self) -> Result<(), Box<dyn Error>> {
        Ok(())
    }
}

impl<E: Into<Box<dyn Error>>> Outcome for Result<(), E> {
    fn into_result(self) -> Result<(), Box<dyn Error>> {
        self.map_err(Into::into)
    }
}

// `!` cannot be written as a type on stable, but `fn() -> !` can, and its output projected.
mod never {
    pub trait Returns {
        type Output;
    }
    impl<T> Returns for fn() -> T {
        type Output = T;
    }
    pub type Never = <fn() -> ! as Returns>::Output;
}

impl Outcome for never::Never {
    fn into_result(self) -> Result<(), Box<dyn Error>> {
        self
    }
}

/// An erased closure. It lives behind a shared reference, so each implementor moves its closure
/// out of a cell before running or dropping it: both are user code and may come back here.
pub(crate) trait Callback {
    /// Runs the closure, if it is there.
    fn call(&self, state: &State) -> Result<(), Box<dyn Error>>;
    /// Drops the closure, if it is there.
    fn release(&self);
    /// Whether it is not there any more, for whoever holds it alone.
    fn is_gone(&mut self) -> bool;
    /// `release` for whoever holds it alone: in its place. Behind a run, to move it out would be to read all of where
    /// it was right behind the shorter write that emptied that: a stall in most processors.
    fn clear(&mut self);
    /// The closure's type name.
    fn name(&self) -> &'static str;
}

/// Runs once.
pub(crate) struct Once<F>(Cell<Option<F>>);

impl<F> Once<F> {
    pub(crate) fn new(f: F) -> Once<F> {
        Once(Cell::new(Some(f)))
    }
}

impl<F, R> Callback for Once<F>
where
    F: FnOnce() -> R,
    R: Outcome,
{
    fn call(&self, _: &State) -> Result<(), Box<dyn Error>> {
        match self.0.take() {
            Some(f) => f().into_result(),
            None => Ok(()),
        }
    }

    fn release(&self) {
        drop(self.0.take());
    }

    fn is_gone(&mut self) -> bool {
        self.0.get_mut().is_none()
    }

    fn clear(&mut self) {
        *self.0.get_mut() = None;
    }

    fn name(&self) -> &'static str {
        type_name::<F>()
    }
}

/// Runs any number of times.
pub(crate) struct Repeating<F>(Cell<Option<F>>);

impl<F> Repeating<F> {
    pub(crate) fn new(f: F) -> Repeating<F> {
        Repeating(Cell::new(Some(f)))
    }
}

impl<F, R> Callback for Repeating<F>
where
    F: FnMut() -> R,
    R: Outcome,
{
    fn call(&self, state: &State) -> Result<(), Box<dyn Error>> {
        let mut taken = Taken { f: self.0.take(), home: &self.0, state };
        match &mut taken.f {
            Some(f) => f().into_result(),
            None => Ok(()),
        }
    }

    fn release(&self) {
        drop(self.0.take());
    }

    fn is_gone(&mut self) -> bool {
        self.0.get_mut().is_none()
    }

    fn clear(&mut self) {
        *self.0.get_mut() = None;
    }

    fn name(&self) -> &'static str {
        type_name::<F>()
    }
}

/// A repeating closure that is out of its cell for a run. It goes home when the run ends, also by
/// a panic; if the handle was cancelled meanwhile it is dropped instead.
struct Taken<'a, F> {
    f: Option<F>,
    home: &'a Cell<Option<F>>,
    state: &'a State,
}

impl<F> Drop for Taken<'_, F> {
    fn drop(&mut self) {
        if !self.state.is_cancelled() {
            // Home is empty while the closure is out. To drop what is there all the same would be to
            // read it, right behind the shorter write that emptied it: a stall in most processors.
            mem::forget(self.home.replace(self.f.take()));
        }
    }
}

/// Holds nothing but the name of a closure that will never run.
pub(crate) struct Nothing<F>(PhantomData<fn() -> F>);

impl<F> Nothing<F> {
    pub(crate) fn new() -> Nothing<F> {
        Nothing(PhantomData)
    }
}

impl<F> Callback for Nothing<F> {
    fn call(&self, _: &State) -> Result<(), Box<dyn Error>> {
        Ok(())
    }

    fn release(&self) {}

    fn is_gone(&mut self) -> bool {
        true
    }

    fn clear(&mut self) {}

    fn name(&self) -> &'static str {
        type_name::<F>()
    }
}
