//! What is lost when a future is dropped before its end: for each public async function, and each future
//! that is more than a wait, one sentence. It is the documentation of that function, and
//! `tests/loss.rs` holds it to it at every await point.

macro_rules! lost {
    (as_completed_next) => {
        "Dropping the future loses no task: the next call goes on."
    };
    (as_completed_within_next) => {
        "Dropping the future loses no task and no `Elapsed`: the next call goes on."
    };
    (barrier_wait) => {
        "Dropping the future takes this one back out and breaks nothing (B-BAR-03)."
    };
    (blocking) => {
        "Dropping it before the closure has started prevents that; one that has started runs to its end, \
         and what it returns is lost (B-EXE-02)."
    };
    (condition_wait) => {
        "Dropping the future loses the lock, which is not held afterwards, and no notification: one that \
         came is passed on (B-COND-04)."
    };
    (condition_wait_while) => {
        "Dropping the future loses the lock, which is not held afterwards, and no notification: one that \
         came is passed on."
    };
    (delay_queue_next) => {
        "Dropping the future loses no value: it comes out next time."
    };
    (event_wait) => {
        "Dropping the future loses nothing."
    };
    (fd_ready) => {
        "Dropping the future loses nothing, and lets go of the descriptor (B-FD-13)."
    };
    (future) => {
        "Dropping the handle loses nothing while there is another: the outcome stays for that."
    };
    (future_into_result) => {
        "Dropping it loses nothing while there is another handle: the outcome stays for that."
    };
    (gather) => {
        "Dropped before its end, a gather that was polled cancels the tasks that have not ended, and the \
         results that were there are lost; one that was never polled lets them run on (contract C10)."
    };
    (group_scope) => {
        "Dropping the scope drops the body, cancels the children and waits for nobody; errors that come \
         then are reported (B-TG-19)."
    };
    (interrupted) => {
        "Dropping the future loses nothing. With the last one who waits the signals are let go."
    };
    (lock_acquire) => {
        "Dropping the future loses the place in the queue. A turn that came is passed on."
    };
    (on_cancel) => {
        "Dropping the future drops both, and runs no clean-up."
    };
    (propagate) => {
        "It never returns. Dropping the future before it was polled is dropping the request undecided."
    };
    (queue_get) => {
        "Dropping the future loses no item, and the place in the queue of those who wait."
    };
    (queue_join) => {
        "Dropping the future loses nothing."
    };
    (queue_put) => {
        "If the future is dropped first, the item is lost: it is dropped with it and was not put in."
    };
    (raise_cancelled) => {
        "It never returns. Dropping the future before it was polled raises nothing."
    };
    (semaphore_acquire) => {
        "Dropping the future loses the place in the queue. A permit that came is passed on."
    };
    (semaphore_acquire_owned) => {
        "Dropping the future loses the place in the queue. A permit that came is passed on."
    };
    (shield) => {
        "Dropping it loses the task's outcome, and lets the task run on."
    };
    (shutdown_default_executor) => {
        "Dropping the future loses the waiting only: once it was polled, the pool refuses work all the same."
    };
    (sleep) => {
        "Dropping it frees its timer and loses the time that it has waited (B-SLEEP-03)."
    };
    (staggered_race) => {
        "Dropping the future drops every attempt under way; those not started never are."
    };
    (timeout) => {
        "Dropping it drops the future inside without asking it, and frees the timer (B-TMO-14)."
    };
    (wait) => {
        "Neither its end, nor a timeout, nor dropping it asks a task to end; dropped, it loses the tasks \
         that it was given: they run on by themselves (B-WAIT-05)."
    };
    (watch) => {
        "Dropping it loses nothing, and asks for nothing: the end of the watcher is not passed on \
         (contract C10)."
    };
}
