//! Every code that a command can end with is on its page, and no other.
#![expect(clippy::unwrap_used, reason = "a test fails loudly")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn read(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

fn sources(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { sources(&path) } else { vec![path] }).collect()
}

/// Returns what follows each place where a text stands in another, without the white space between them.
fn after<'a>(text: &'a str, wanted: &'a str) -> impl Iterator<Item = &'a str> {
    text.match_indices(wanted).map(move |(at, _)| text[at + wanted.len()..].trim_start())
}

/// The codes that the commands give themselves. One that is not written out could not be found here, and is refused.
fn of_the_commands() -> BTreeSet<String> {
    let mut codes = BTreeSet::new();
    for path in sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src")) {
        let text = fs::read_to_string(&path).unwrap();
        let given = after(&text, "Failure::wrong(").chain(after(&text, "Failure::outside("));
        // `Failure` itself says it this way, once with a code that it was given.
        let own = after(&text, "..Self::wrong(").filter(|rest| !rest.starts_with("code,"));
        for rest in given.chain(own) {
            let code = rest.strip_prefix('"').and_then(|rest| rest.split('"').next());
            codes.insert(code.unwrap_or_else(|| panic!("no code is written out in {path:?}")).to_owned());
        }
    }
    codes
}

/// The codes of the engine's errors: the words of its one table, and of the functions that it is made of.
fn of_the_engine() -> BTreeSet<String> {
    let text = read("../agora-engine/src/error.rs");
    let table = &text[text.find("fn classify").unwrap()..];
    let words = table.split('"').skip(1).step_by(2);
    let is_code = |word: &&str| {
        word.contains('-') && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-')
    };
    words.filter(is_code).map(str::to_owned).collect()
}

#[test]
fn every_code_is_on_its_page() {
    let page = read("../../docs/cli.md");
    let table = page.split("\n## ").find(|part| part.starts_with("Errors\n")).unwrap();
    let rows = table.lines().filter_map(|line| line.strip_prefix("| `")?.split(" |").next());
    let written = rows.flat_map(|row| row.split(", ")).map(|code| code.trim_matches('`').to_owned());
    let mut known = of_the_commands();
    known.extend(of_the_engine());
    assert_eq!(written.collect::<BTreeSet<_>>(), known);
}
