//! `SimSelector`: a selector with no outside world.

use std::io;
use std::os::fd::AsRawFd;
use std::rc::Rc;

use loop_selector::{
    AsSource, Interest, PollSelector, RegisterError, Selector, Token, forward_selector,
};

/// A selector that watches no descriptor and hears only of wakes: under [`AutoJump`](crate::AutoJump) it
/// makes a loop that depends on nothing outside the program, and so runs the same every time.
/// [`Builder::simulated`](crate::Builder::simulated) puts the two together.
///
/// What a simulated program must not touch is refused: registering a descriptor gives an error.
#[derive(Debug)]
pub struct SimSelector {
    /// Waits, on the waker alone, while something holds time.
    wakes: PollSelector,
}

impl SimSelector {
    /// A selector of wakes.
    ///
    /// # Errors
    /// If there is no descriptor left for the waker.
    pub fn new() -> io::Result<Self> {
        Ok(SimSelector { wakes: PollSelector::new()? })
    }
}

impl Selector for SimSelector {
    /// # Errors
    /// Always: `Unsupported`, with the owner.
    fn register(&mut self, owner: Rc<dyn AsSource>, _: Interest) -> Result<Token, RegisterError> {
        let fd = owner.source_fd().as_raw_fd();
        let text = format!("sim: fd {fd} is real, and a simulated selector watches no descriptor");
        Err(RegisterError::new(owner, io::Error::new(io::ErrorKind::Unsupported, text)))
    }

    fn name(&self) -> &'static str {
        "sim"
    }

    forward_selector!(wakes: modify rearm deregister select registry waker as_fd);
}
