//! Compares `docs/contract.md` with the tests of the whole workspace.
//!
//! A behaviour is tested if a test bears its id: a function `b_loop_02_..`, or `b_wf_02_and_03_..` for
//! several. It counts as a test with `#[test]` above it, with a code block in its documentation (what does
//! not compile is tested so), or if it is named a second time: by the `main` of a test without a harness, or
//! in the list of the conformance suite. A citation in a comment is no test.
//!
//! In a group that is "built" every behaviour needs one, unless its text begins with `Not applicable:` or
//! `Deferred:` and a reason. A group that is "planned" must have none.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// An id such as `B-LOOP-02` at the start of a text, and what follows it.
fn leading_id(text: &str) -> Option<(String, &str)> {
    let rest = text.strip_prefix("B-")?;
    let letters = rest.find(|c: char| !c.is_ascii_uppercase()).filter(|length| *length > 0)?;
    let number = rest[letters..].strip_prefix('-')?;
    let digits = number.bytes().take_while(u8::is_ascii_digit).count();
    (digits == 2).then(|| (text[..letters + 5].to_owned(), &number[2..]))
}

/// The ids that the name of a function bears.
fn ids_in_name(name: &str) -> Vec<String> {
    let mut words = name.split('_').peekable();
    let (Some("b"), Some(group)) = (words.next(), words.next()) else { return Vec::new() };
    let mut ids = Vec::new();
    while let Some(number) = words.next() {
        if number.len() != 2 || !number.bytes().all(|digit| digit.is_ascii_digit()) {
            break;
        }
        ids.push(format!("B-{}-{number}", group.to_ascii_uppercase()));
        if words.next_if_eq(&"and").is_none() {
            break;
        }
    }
    ids
}

#[derive(Debug, PartialEq)]
enum Status {
    Built,
    PartlyBuilt,
    Planned,
    Unsaid,
}

/// A section of the contract that has behaviours.
struct Group<'a> {
    title: &'a str,
    status: Status,
    /// Each with why it needs no test, if it says so.
    behaviours: Vec<(String, Option<&'a str>)>,
}

fn groups(contract: &str) -> Vec<Group<'_>> {
    let sections = contract.split("\n### ").skip(1);
    sections
        .map(|section| {
            let mut lines = section.lines();
            let title = lines.next().unwrap_or_default();
            let mut group = Group { title, status: Status::Unsaid, behaviours: Vec::new() };
            for line in lines {
                if let Some(status) = line.strip_prefix("Status: ") {
                    group.status = match status {
                        _ if status.starts_with("built") => Status::Built,
                        _ if status.starts_with("partly built") => Status::PartlyBuilt,
                        _ if status.starts_with("planned") => Status::Planned,
                        _ => Status::Unsaid,
                    };
                }
                let Some((id, rest)) = line.strip_prefix("- **").and_then(leading_id) else {
                    continue;
                };
                let text = rest.strip_prefix("** ").unwrap_or_default();
                let excused = ["Not applicable:", "Deferred:"]
                    .iter()
                    .find_map(|word| text.strip_prefix(word))
                    .map(str::trim)
                    .filter(|reason| !reason.is_empty());
                group.behaviours.push((id, excused));
            }
            group
        })
        .filter(|group| !group.behaviours.is_empty())
        .collect()
}

/// What the code says of behaviours.
#[derive(Default)]
struct Code {
    cited: BTreeSet<String>,
    tested: BTreeSet<String>,
    /// Functions that bear ids and look like no test, with how often any file names them.
    unclear: BTreeMap<String, usize>,
}

impl Code {
    fn read(sources: &[String]) -> Code {
        let mut code = Code::default();
        for source in sources {
            for (at, _) in source.match_indices("B-") {
                let behind = source[..at].chars().next_back();
                if behind.is_none_or(|c| !c.is_alphanumeric()) {
                    code.cited.extend(leading_id(&source[at..]).map(|(id, _)| id));
                }
            }
            // Attributes and documentation of the item that comes next.
            let mut above = String::new();
            for line in source.lines().map(str::trim_start) {
                if line.starts_with("#[") || line.starts_with("//") {
                    above.push_str(line);
                    continue;
                }
                let name = line.split_once("fn ").map(|(_, rest)| rest);
                let name = name.and_then(|rest| rest.split(['(', '<']).next()).unwrap_or_default();
                let ids = ids_in_name(name);
                if above.contains("#[test]") || above.contains("```") {
                    code.tested.extend(ids);
                } else if !ids.is_empty() {
                    code.unclear.insert(name.to_owned(), 0);
                }
                above.clear();
            }
        }
        for source in sources {
            for word in source.split(|c: char| !c.is_alphanumeric() && c != '_') {
                if let Some(count) = code.unclear.get_mut(word) {
                    *count += 1;
                }
            }
        }
        let used = code.unclear.iter().filter(|(_, count)| **count > 1);
        code.tested.extend(used.flat_map(|(name, _)| ids_in_name(name)));
        code
    }
}

/// What the contract and the code say of each other: a line a group, and what is wrong.
fn compare(contract: &str, sources: &[String]) -> (Vec<String>, Vec<String>) {
    let code = Code::read(sources);
    let (mut lines, mut faults) = (Vec::new(), Vec::new());
    let mut known = BTreeSet::new();
    for group in groups(contract) {
        let title = group.title;
        let is_tested = |id: &String| code.tested.contains(id);
        for (id, _) in &group.behaviours {
            if !known.insert(id.clone()) {
                faults.push(format!("{title}: {id} is there twice"));
            }
        }
        let missing: Vec<&str> = group
            .behaviours
            .iter()
            .filter(|(id, excused)| excused.is_none() && !is_tested(id))
            .map(|(id, _)| id.as_str())
            .collect();
        match group.status {
            Status::Unsaid => faults.push(format!("{title}: no status line")),
            Status::Planned => {
                let tested = group.behaviours.iter().filter(|(id, _)| is_tested(id));
                faults.extend(tested.map(|(id, _)| format!("{title}: planned, {id} has a test")));
            }
            Status::Built if !missing.is_empty() => {
                faults.push(format!("{title}: built, no test for {}", missing.join(", ")));
            }
            Status::Built | Status::PartlyBuilt => {}
        }
        let (all, excused) =
            (group.behaviours.len(), group.behaviours.iter().filter(|(_, why)| why.is_some()));
        lines.push(format!(
            "{title}: {:?}, {all} behaviours, {} excused, missing: {}",
            group.status,
            excused.count(),
            if missing.is_empty() { "none".to_owned() } else { missing.join(", ") },
        ));
    }
    let named = code.tested.union(&code.cited);
    let unknown = named.filter(|id| !known.contains(*id));
    faults.extend(unknown.map(|id| format!("{id} is named in the code, not in the contract")));
    (lines, faults)
}

/// All Rust files below a folder.
fn read_sources(folder: &Path, sources: &mut Vec<String>) {
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let path = entry.path();
        if entry.file_type().unwrap().is_dir() {
            if entry.file_name() != "target" {
                read_sources(&path, sources);
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            sources.push(fs::read_to_string(&path).unwrap());
        }
    }
}

#[test]
fn contract_coverage() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let Ok(contract) = fs::read_to_string(root.join("docs/contract.md")) else {
        println!("skipped: the contract is not here, so this is not the workspace");
        return;
    };
    let mut sources = Vec::new();
    for entry in fs::read_dir(&root).unwrap().map(Result::unwrap) {
        if entry.file_name().to_string_lossy().starts_with("loop-") {
            read_sources(&entry.path(), &mut sources);
        }
    }
    // This file names behaviours that there are not.
    sources.retain(|source| !source.contains("fn what_is_wrong_is_found"));
    let (lines, faults) = compare(&contract, &sources);
    println!("{}", lines.join("\n"));
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

#[test]
fn what_is_wrong_is_found() {
    let contract = "# Contract
\n### 1 built
Status: built
- **B-AB-01** One. [src]
- **B-AB-02** Two.
- **B-AB-03** Not applicable: the types forbid it.
- **B-AB-04** Deferred:
- **B-AB-05** Five.
- **B-AB-06** Six.
\n### 2 partly
Status: partly built (one of two)
- **B-CD-01** One.
- **B-CD-02** Two.
\n### 3 planned
Status: planned
- **B-EF-01** One.
\n### 4 silent
- **B-GH-01** One.
- **B-GH-01** Again.
";
    let sources = [
        "#[test]\nfn b_ab_01_and_05_words_and_06() {}\n// B-AB-02 is cited only\n",
        "fn b_ab_06_defined() {}\nfn main() { b_ab_06_defined() }\nfn b_ab_02_never_called() {}\n",
        "/// ```compile_fail\n/// let x: u8 = \"\";\n/// ```\npub fn b_cd_01_documented() {}\n",
        "#[test]\n#[should_panic]\nfn b_ef_01_early() {}\n// B-IJ-07, and no id: B-IJ-7, AB-C-01\n",
    ];
    let (lines, faults) = compare(contract, &sources.map(str::to_owned));
    assert_eq!(
        lines,
        [
            "1 built: Built, 6 behaviours, 1 excused, missing: B-AB-02, B-AB-04",
            "2 partly: PartlyBuilt, 2 behaviours, 0 excused, missing: B-CD-02",
            "3 planned: Planned, 1 behaviours, 0 excused, missing: none",
            "4 silent: Unsaid, 2 behaviours, 0 excused, missing: B-GH-01, B-GH-01",
        ]
    );
    assert_eq!(
        faults,
        [
            "1 built: built, no test for B-AB-02, B-AB-04",
            "3 planned: planned, B-EF-01 has a test",
            "4 silent: B-GH-01 is there twice",
            "4 silent: no status line",
            "B-IJ-07 is named in the code, not in the contract",
        ]
    );
}
