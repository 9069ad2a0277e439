//! `LOOP_SELECTOR` chooses the backend. The environment belongs to the process: hence children.

use std::process::Command;

use loop_selector::conformance::usable;
use loop_selector::{Selector, SelectorChoice, available, by_name, default_selector, probe};

#[test]
#[ignore = "run by the tests below"]
fn print_choice() {
    match default_selector() {
        Ok(selector) => println!("chosen: {}\nreport: {}", selector.name(), probe().unwrap()),
        Err(error) => println!("{:?}: {error}", error.kind()),
    }
}

fn choice(variable: Option<&str>) -> String {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "print_choice", "--ignored", "--nocapture"]).env_remove("LOOP_SELECTOR");
    child.envs(variable.map(|value| ("LOOP_SELECTOR", value)));
    String::from_utf8(child.output().unwrap().stdout).unwrap()
}

#[test]
fn b_sel_30_the_best_is_chosen_by_default() {
    let best = format!("chosen: {}", available()[0]);
    assert!(choice(None).contains(&best));
    assert!(choice(Some("")).contains(&best));
}

#[test]
fn every_backend_can_be_named() {
    for name in usable() {
        assert_eq!(by_name(name).unwrap().name(), name);
        let (selector, report) = SelectorChoice::named(name).strict(true).probe();
        assert_eq!((selector.unwrap().name(), report.chosen()), (name, Some(name)));
    }
}

#[test]
fn the_report_says_what_was_chosen() {
    let best = available()[0];
    assert!(choice(None).contains(&format!("report: {best}\n")));
    for name in usable() {
        assert!(choice(Some(name)).contains(&format!("report: {name}\n")));
    }
}

#[test]
fn the_variable_forces_a_backend() {
    for name in usable() {
        assert!(choice(Some(name)).contains(&format!("chosen: {name}")));
    }
}

#[test]
fn a_wrong_variable_is_an_error_that_lists_the_choices() {
    let output = choice(Some("select2"));
    assert!(output.contains("InvalidInput"), "{output}");
    for name in available() {
        assert!(output.contains(name), "{output}");
    }
}
