//! What `handles` and `ready` ask of a queue of callbacks.

use std::cell::Cell;
use std::hint::black_box;
use std::rc::Rc;

/// A queue of closures that run once, in order.
pub(crate) trait CallbackQueue {
    fn new() -> Self;
    fn push(&mut self, callback: impl FnOnce() + 'static);
    /// Runs all that is queued.
    fn run(&mut self);
}

/// One whose callbacks can be cancelled.
pub(crate) trait Cancellable: CallbackQueue {
    type Handle;
    fn push_kept(&mut self, callback: impl FnOnce() + 'static) -> Self::Handle;
    fn cancel(handle: &mut Self::Handle);
    /// Drops the handle without cancelling.
    fn detach(handle: Self::Handle);
}

/// The closure that is queued: adds `n` and two more to the sum. It captures 32 bytes, of which the
/// compiler knows nothing.
pub(crate) fn adder(sum: &Rc<Cell<u64>>, n: u64) -> impl Fn() + 'static + use<> {
    let (sum, [n, a, b]) = (Rc::clone(sum), black_box([n, 1, 2]));
    move || sum.set(sum.get() + n + a + b)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_adder_captures_32_bytes_and_adds() {
        let sum = Rc::default();
        let add = adder(&sum, 10);
        assert_eq!(size_of_val(&add), 32);
        add();
        assert_eq!(sum.get(), 13);
    }
}
