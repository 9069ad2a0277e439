//! [`bench_selector`]: a selector of your own among those that are compared.

use std::io;
use std::rc::Rc;

use loop_selector::Selector;

use crate::rng::Rng;
use crate::sample::{Contest, Outcome, Plan};
use crate::workload::{Guest, selector_contests};

/// Puts a selector of your own into every contest of the workload `selectors`, beside this project's and their
/// rivals. `make` is called once a round; an error of it is a wrong answer.
///
/// Build with `--release`: otherwise what is compared is how much each crate suffers without optimisation.
///
/// ```
/// use loop_bench::{Plan, Rng, bench_selector, contest_lines};
/// use loop_selector::PollSelector as MySelector;
///
/// let plan = Plan::quick(1);
/// let bench = bench_selector("mine", || MySelector::new());
/// // `bench.run(&plan)` runs all there is; here, a change of interest among ten sockets.
/// for contest in bench.contests(&plan) {
///     if contest.workload() == "selectors/modify" && contest.params() == [("n", 10)] {
///         let outcome = contest.run(&plan, &mut Rng::new(plan.seed));
///         assert!(outcome.wrong.is_empty());
///         assert!(outcome.rows.iter().any(|row| row.subject == "mine"));
///         print!("{}", contest_lines(&outcome.rows));
///     }
/// }
/// ```
pub fn bench_selector<S: Selector + 'static>(
    name: impl Into<String>,
    make: impl Fn() -> io::Result<S> + 'static,
) -> SelectorBench {
    let make = move || Ok(Box::new(make()?) as Box<dyn Selector>);
    SelectorBench { guest: Guest { name: name.into(), make: Rc::new(make) } }
}

/// See [`bench_selector`].
#[derive(Debug)]
#[must_use = "nothing has been run"]
pub struct SelectorBench {
    guest: Guest,
}

impl SelectorBench {
    /// Every contest of the workload `selectors`, with the guest as its last subject.
    pub fn contests(&self, plan: &Plan) -> Vec<Contest> {
        selector_contests(plan, Some(&self.guest))
    }

    /// Runs all of them, one after the other: a minute or so if the plan is quick, more than ten if not.
    pub fn run(&self, plan: &Plan) -> Vec<Outcome> {
        let mut rng = Rng::new(plan.seed);
        self.contests(plan).into_iter().map(|contest| contest.run(plan, &mut rng)).collect()
    }
}
