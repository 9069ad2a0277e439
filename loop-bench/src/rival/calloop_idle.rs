//! calloop's idle callbacks, the only ones of it that run once and can be cancelled. They live in its
//! event loop, so a run is a dispatch; at a thousand callbacks each, its system call is lost in them.

use std::time::Duration;

use calloop::{EventLoop, Idle};

use super::callback_queue::{CallbackQueue, Cancellable};

pub(crate) struct Idles(EventLoop<'static, ()>);

impl CallbackQueue for Idles {
    fn new() -> Self {
        Self(EventLoop::try_new().expect("an epoll descriptor is to be had"))
    }

    fn push(&mut self, callback: impl FnOnce() + 'static) {
        self.0.handle().insert_idle(|()| callback());
    }

    fn run(&mut self) {
        self.0.dispatch(Duration::ZERO, &mut ()).expect("epoll does not fail");
    }
}

impl Cancellable for Idles {
    type Handle = Option<Idle<'static>>;

    fn push_kept(&mut self, callback: impl FnOnce() + 'static) -> Self::Handle {
        Some(self.0.handle().insert_idle(|()| callback()))
    }

    fn cancel(handle: &mut Self::Handle) {
        handle.take().expect("it is cancelled once").cancel();
    }

    fn detach(_: Self::Handle) {}
}
