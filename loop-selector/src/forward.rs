//! `forward_selector!`: the methods of a wrapper that change nothing.

/// Writes methods of [`Selector`](crate::Selector) that pass the call on to a field: for a selector
/// around another one that counts, records or disturbs.
///
/// The field holds a selector or a box of one. A method that is neither listed nor written is
/// missing, which the compiler says.
///
/// ```
/// use loop_selector::{Events, Selector, default_selector, forward_selector};
/// use std::{cell::Cell, io, rc::Rc, time::Duration};
///
/// struct Counting {
///     inner: Box<dyn Selector>,
///     waits: Rc<Cell<u64>>,
/// }
///
/// impl Selector for Counting {
///     fn select(&mut self, events: &mut Events, timeout: Option<Duration>) -> io::Result<()> {
///         self.waits.set(self.waits.get() + 1);
///         self.inner.select(events, timeout)
///     }
///
///     forward_selector!(inner: register modify rearm deregister registry waker name as_fd);
/// }
///
/// let waits = Rc::new(Cell::new(0));
/// let mut selector = Counting { inner: default_selector()?, waits: waits.clone() };
/// selector.select(&mut Events::new(), Some(Duration::ZERO))?;
/// assert_eq!(waits.get(), 1);
/// # Ok::<(), io::Error>(())
/// ```
#[macro_export]
macro_rules! forward_selector {
    ($field:tt: $($method:ident)+) => { $($crate::forward_selector!(@ $field $method);)+ };
    (@ $field:tt register) => {
        fn register(
            &mut self,
            owner: ::std::rc::Rc<dyn $crate::AsSource>,
            interest: $crate::Interest,
        ) -> ::std::result::Result<$crate::Token, $crate::RegisterError> {
            $crate::Selector::register(&mut self.$field, owner, interest)
        }
    };
    (@ $field:tt modify) => {
        fn modify(
            &mut self,
            token: $crate::Token,
            interest: ::std::option::Option<$crate::Interest>,
        ) -> ::std::io::Result<()> {
            $crate::Selector::modify(&mut self.$field, token, interest)
        }
    };
    (@ $field:tt rearm) => {
        fn rearm(&mut self, token: $crate::Token) -> ::std::io::Result<()> {
            $crate::Selector::rearm(&mut self.$field, token)
        }
    };
    (@ $field:tt deregister) => {
        fn deregister(
            &mut self,
            token: $crate::Token,
        ) -> ::std::io::Result<::std::rc::Rc<dyn $crate::AsSource>> {
            $crate::Selector::deregister(&mut self.$field, token)
        }
    };
    (@ $field:tt select) => {
        fn select(
            &mut self,
            events: &mut $crate::Events,
            timeout: ::std::option::Option<::std::time::Duration>,
        ) -> ::std::io::Result<()> {
            $crate::Selector::select(&mut self.$field, events, timeout)
        }
    };
    (@ $field:tt registry) => {
        fn registry(&self) -> &$crate::Registry {
            $crate::Selector::registry(&self.$field)
        }
    };
    (@ $field:tt waker) => {
        fn waker(&self) -> $crate::Waker {
            $crate::Selector::waker(&self.$field)
        }
    };
    (@ $field:tt name) => {
        fn name(&self) -> &'static str {
            $crate::Selector::name(&self.$field)
        }
    };
    (@ $field:tt as_fd) => {
        fn as_fd(&self) -> ::std::option::Option<::std::os::fd::BorrowedFd<'_>> {
            $crate::Selector::as_fd(&self.$field)
        }
    };
}
