//! Who is told of a connection's end.

use std::rc::Rc;

/// A server.
pub(crate) trait Acceptor {
    /// The connection that it knows by this number is over.
    fn is_over(&self, client: u64);
}

/// That a connection was accepted. Its acceptor hears of the end when this is dropped.
pub(crate) struct Accepted {
    by: Rc<dyn Acceptor>,
    client: u64,
}

impl Accepted {
    pub(crate) fn new(by: Rc<dyn Acceptor>, client: u64) -> Self {
        Accepted { by, client }
    }
}

impl Drop for Accepted {
    fn drop(&mut self) {
        self.by.is_over(self.client);
    }
}
