//! Tells the program the versions of its rivals, from the lock file that it is built with.

use std::path::Path;
use std::{env, fs};

/// The rivals, by the names of their crates.
const RIVALS: &[&str] = &[
    "async-executor",
    "async-task",
    "calloop",
    "hierarchical_hash_wheel_timer",
    "keyed_priority_queue",
    "mio",
    "nexus-timer",
    "polling",
    "priority-queue",
    "rustix",
    "tokio",
    "tokio-util",
];

/// Those that a feature builds in, by its variable. Whether or not, they are in the lock file.
const OPTIONAL: &[(&str, &str)] = &[
    ("async-io", "CARGO_FEATURE_SMOL"),
    ("compio", "CARGO_FEATURE_COMPIO"),
    ("monoio", "CARGO_FEATURE_MONOIO"),
];

fn is_built_in(rival: &str) -> bool {
    let asked_for =
        |&(name, feature): &(&str, &str)| name == rival && env::var_os(feature).is_some();
    RIVALS.contains(&rival) || OPTIONAL.iter().any(asked_for)
}

fn main() {
    let here = env::var("CARGO_MANIFEST_DIR").expect("cargo sets it");
    let lock = [Path::new(&here).join("../Cargo.lock"), Path::new(&here).join("Cargo.lock")]
        .into_iter()
        .find(|path| path.exists());
    let mut versions = Vec::new();
    if let Some(path) = lock {
        println!("cargo::rerun-if-changed={}", path.display());
        let text = fs::read_to_string(path).unwrap_or_default();
        let value = |line: Option<&str>, key: &str| {
            Some(line?.strip_prefix(key)?.trim_matches(['"', ' ', '=']).to_owned())
        };
        for package in text.split("[[package]]").skip(1) {
            let mut lines = package.trim().lines();
            let name = value(lines.next(), "name");
            let version = value(lines.next(), "version");
            if let (Some(name), Some(version)) = (name, version)
                && is_built_in(&name)
            {
                versions.push(format!("{name} {version}"));
            }
        }
    }
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-env=LOOP_BENCH_VERSIONS={}", versions.join(","));
}
