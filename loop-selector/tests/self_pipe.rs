//! The example, run on each kind of waker.

#[path = "../examples/self_pipe.rs"]
mod self_pipe;

use loop_selector::Waker;
use loop_selector::conformance::watched;

#[test]
fn the_example_loses_no_number() {
    watched("self_pipe", || {
        let wakers = [
            Waker::new().unwrap(),
            #[cfg(any(target_os = "linux", target_os = "android"))]
            Waker::eventfd().unwrap(),
            Waker::pipe().unwrap(),
            Waker::socketpair().unwrap(),
        ];
        for waker in &wakers {
            let sum = self_pipe::sum_from_threads(waker, 8, 5_000).unwrap();
            assert_eq!(sum, 8 * (5_000 * 4_999 / 2));
        }
    });
}
