//! The table of invariants in `docs/reliability.md` names tests. A test that is renamed or gone is noticed here.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Collects what the functions below a directory are called.
fn functions(dir: &Path, into: &mut BTreeSet<String>) {
    for entry in fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.is_dir() {
            functions(&entry, into);
        } else if entry.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&entry).unwrap();
            let names = text.split("fn ").skip(1).filter_map(|rest| rest.split(['(', '<']).next());
            into.extend(names.map(str::to_owned));
        }
    }
}

#[test]
fn every_test_that_stands_for_an_invariant_is_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = fs::read_to_string(root.join("docs/reliability.md")).unwrap();
    let table = page.split("## The ten invariants").nth(1).expect("the page has them");
    let table = table.split("\n## ").next().unwrap();
    let rows: Vec<&str> = table.lines().filter(|line| line.starts_with("| ")).collect();
    for number in 1..=10 {
        let row = rows.iter().find(|row| row.starts_with(&format!("| {number} |")));
        assert!(row.is_some_and(|row| row.contains('`')), "invariant {number} has no test");
    }
    let mut known = BTreeSet::new();
    functions(&root.join("crates"), &mut known);
    // A name of several words is a test's; the rest are functions of the simulator, error codes and notes.
    let named = rows.iter().flat_map(|row| row.split('`').skip(1).step_by(2));
    let gone: Vec<&str> = named
        .filter(|name| name.matches('_').count() > 2 && !name.contains(' ') && !known.contains(*name))
        .collect();
    assert!(gone.is_empty(), "`docs/reliability.md` names tests that are not there: {gone:?}");
}
