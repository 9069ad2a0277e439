//! SIGINT, scenario by scenario. Each has a process of its own, whose main thread runs the loop: this program
//! starts itself anew for each, which is why it has no test harness.

mod common;

use std::cell::Cell;
use std::future::pending;
use std::process::{Command, ExitCode};
use std::rc::Rc;
use std::time::Duration;

use common::{OnDrop, Sleeper, watchdog};
use loop_core::{
    LoopError, LoopRef, Runner, Signal, catch_cancelled, current_task, interrupted, run, sleep,
    spawn, yield_now,
};
use loop_selector::{SignalWatcher, Waker, raise};

const MS: Duration = Duration::from_millis(1);
const SCENARIO: &str = "B_RUN_SCENARIO";

type Scenario = (&'static str, fn());

const SCENARIOS: &[Scenario] = &[
    ("the first interrupt", b_run_09_the_first_interrupt_cancels_the_future),
    ("a blocked loop", b_run_09_it_wakes_a_loop_that_waits),
    ("swallowed", b_run_10_a_body_that_swallows_returns_its_value),
    ("twice", b_run_11_the_second_interrupt_ends_the_run_where_it_is),
    ("cancelled too", b_run_12_an_interrupt_hides_no_other_cancel),
    ("a handler before", b_run_13_a_handler_of_the_users_stays),
    ("a handler meanwhile", b_run_13_one_installed_meanwhile_stays),
    ("another thread", b_run_09_only_the_main_thread_unless_asked),
    ("waited for", an_interrupt_that_is_waited_for_is_no_cancel),
    ("afterwards", b_run_13_the_disposition_comes_back),
];

fn main() -> ExitCode {
    let _watchdog = watchdog();
    if let Ok(wanted) = std::env::var(SCENARIO) {
        let (_, scenario) = SCENARIOS.iter().find(|(name, _)| *name == wanted).unwrap();
        scenario();
        return ExitCode::SUCCESS;
    }
    if !Signal::INT.is_default() {
        println!(
            "skipped: whoever started this ignores SIGINT, as shells do for jobs in the background"
        );
        return ExitCode::SUCCESS;
    }
    let mut failed = false;
    for (name, _) in SCENARIOS {
        let itself = std::env::current_exe().unwrap();
        let status = Command::new(itself).env(SCENARIO, name).status().unwrap();
        if !status.success() {
            eprintln!("{name}: {status}");
            failed = true;
        }
    }
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn interrupt() {
    raise(Signal::INT).unwrap();
}

fn b_run_09_the_first_interrupt_cancels_the_future() {
    let cleaned = Rc::new(Cell::new(false));
    let flag = cleaned.clone();
    let error = run(async move {
        spawn(async { interrupt() }).detach();
        let cancelled = catch_cancelled(pending::<()>()).await.unwrap_err();
        assert_eq!(cancelled.reason(), Some("interrupted"));
        sleep(2 * MS).await;
        flag.set(true);
        cancelled.propagate().await
    })
    .unwrap_err();
    assert!(matches!(error, LoopError::Interrupted), "{error}");
    assert!(cleaned.get(), "its clean-up ran, with further awaits");
}

fn b_run_09_it_wakes_a_loop_that_waits() {
    let (id, waits) = (std::process::id().to_string(), Sleeper::this_thread());
    let killer = std::thread::spawn(move || {
        waits.wait();
        assert!(Command::new("kill").args(["-INT", &id]).status().unwrap().success());
    });
    let error = run(pending::<()>()).unwrap_err();
    assert!(matches!(error, LoopError::Interrupted), "{error}");
    killer.join().unwrap();
}

fn b_run_10_a_body_that_swallows_returns_its_value() {
    let value = run(async {
        spawn(async { interrupt() }).detach();
        catch_cancelled(pending::<()>()).await.unwrap_err().swallow();
        sleep(MS).await;
        7
    });
    assert_eq!(value.unwrap(), 7);
}

fn b_run_11_the_second_interrupt_ends_the_run_where_it_is() {
    let dropped = Rc::new(Cell::new(false));
    let flag = dropped.clone();
    let mut runner = Runner::new();
    let error = runner
        .run(async move {
            spawn(async { interrupt() }).detach();
            let _guard = OnDrop(move || flag.set(true));
            let _cancelled = catch_cancelled(pending::<()>()).await.unwrap_err();
            spawn(async { interrupt() }).detach();
            let _again = catch_cancelled(pending::<()>()).await;
            unreachable!("it is not asked a second time");
        })
        .unwrap_err();
    assert!(matches!(error, LoopError::Interrupted), "{error}");
    assert!(dropped.get());
    assert_eq!(runner.run(async { 1 }).unwrap(), 1, "the loop goes on");
}

fn b_run_12_an_interrupt_hides_no_other_cancel() {
    for interrupted_first in [true, false] {
        let error = run(async move {
            let itself = current_task().unwrap();
            spawn(async move {
                if interrupted_first {
                    interrupt();
                    // Its handler runs in the next iteration, before the future ends in the one after.
                    yield_now().await;
                }
                itself.cancel_with("by another");
                if !interrupted_first {
                    interrupt();
                }
            })
            .detach();
            let cancelled = catch_cancelled(pending::<()>()).await.unwrap_err();
            sleep(5 * MS).await;
            cancelled.propagate().await
        })
        .unwrap_err();
        assert!(matches!(error, LoopError::Cancelled { .. }), "{interrupted_first} {error}");
    }
}

fn b_run_13_a_handler_of_the_users_stays() {
    // On the loop itself.
    let mut runner = Runner::new();
    let seen = Rc::new(Cell::new(0));
    let count = seen.clone();
    let lp = runner.loop_ref().unwrap();
    lp.add_signal_handler(Signal::INT, move || count.set(count.get() + 1)).unwrap();
    let body = || async {
        interrupt();
        sleep(2 * MS).await;
        5
    };
    assert_eq!(runner.run(body()).unwrap(), 5);
    assert_eq!(seen.get(), 1);
    assert_eq!(runner.run(body()).unwrap(), 5, "a run does not remove it");
    assert_eq!(seen.get(), 2);
    drop(runner);
}

fn b_run_13_one_installed_meanwhile_stays() {
    let mut runner = Runner::new();
    let seen = Rc::new(Cell::new(false));
    let flag = seen.clone();
    runner
        .run(async {
            let handler = move || flag.set(true);
            LoopRef::current().add_signal_handler(Signal::INT, handler).unwrap();
        })
        .unwrap();
    runner
        .run(async {
            interrupt();
            sleep(2 * MS).await;
        })
        .unwrap();
    assert!(seen.get());
}

fn b_run_09_only_the_main_thread_unless_asked() {
    // So that the signal does not end the process.
    let mut watcher = SignalWatcher::new(Waker::new().unwrap()).unwrap();
    watcher.watch(Signal::INT).unwrap();
    let body = || async {
        interrupt();
        sleep(2 * MS).await;
    };
    std::thread::spawn(move || {
        run(body()).unwrap();
        let asked = Runner::builder().interrupts(true).build().run(body());
        assert!(matches!(asked, Err(LoopError::Interrupted)));
    })
    .join()
    .unwrap();
    let refused = Runner::builder().interrupts(false).build().run(body());
    refused.unwrap();
}

fn an_interrupt_that_is_waited_for_is_no_cancel() {
    let signal = run(async {
        spawn(async { interrupt() }).detach();
        interrupted().await
    });
    assert_eq!(signal.unwrap().unwrap(), Signal::INT);
    assert!(Signal::INT.is_default());
}

fn b_run_13_the_disposition_comes_back() {
    assert!(Signal::INT.is_default());
    let mut runner = Runner::new();
    runner.run(async {}).unwrap();
    assert!(Signal::INT.is_default());
    // Between runs nobody handles it: it ends a process as it always does.
    let status = Command::new("sh").args(["-c", "kill -INT $$"]).status().unwrap();
    assert!(!status.success());
}
