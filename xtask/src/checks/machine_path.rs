//! Keeps paths of somebody's machine out of the project: they work nowhere else, and tell who worked where.

use std::path::Path;

use crate::{console, failure::Failure, workspace};

/// Put together here, so that this file passes its own check.
const HOMES: &str = concat!("/", "home", "/");
const ROOT_HOME: &str = concat!("/", "root", "/");

/// Names that stand for anybody, in documentation and in tests.
const EXAMPLE_USERS: [&str; 6] = ["agent", "alice", "ann", "bob", "user", "you"];

/// Fails if a file contains a path below somebody's home directory.
pub(crate) fn check(root: &Path) -> Result<(), Failure> {
    let mut count = 0;
    for file in workspace::files(root)? {
        let text = workspace::read(root, &file)?;
        for (number, line) in String::from_utf8_lossy(&text).lines().enumerate() {
            if has_machine_path(line) {
                count += 1;
                console::progress(&format!("{}:{}: {}", file.display(), number + 1, line.trim()));
            }
        }
    }
    match count {
        0 => Ok(()),
        _ => Err(Failure::new(format!("{count} lines contain a path of somebody's machine"))
            .hint("make the path relative, or take it from the environment")),
    }
}

fn has_machine_path(line: &str) -> bool {
    let somebodys = |rest: &str| {
        let user = rest.split_once('/').map_or("", |(user, _)| user);
        let is_name = user.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c));
        !user.is_empty() && is_name && !EXAMPLE_USERS.contains(&user)
    };
    starts_of(line, HOMES).any(somebodys) || starts_of(line, ROOT_HOME).next().is_some()
}

/// Returns what follows each place where an absolute path starts with this.
fn starts_of<'a>(line: &'a str, start: &'a str) -> impl Iterator<Item = &'a str> {
    line.match_indices(start).filter_map(move |(at, _)| {
        // `a/root/b` and `$DIR/root/b` are relative to something.
        let is_inner = line[..at].ends_with(|c: char| c.is_alphanumeric() || "._-})>".contains(c));
        (!is_inner).then(|| &line[at + start.len()..])
    })
}

#[cfg(test)]
mod tests {
    use super::{HOMES, ROOT_HOME, has_machine_path};

    #[test]
    fn finds_the_homes_of_people_only() {
        let cases = [
            (format!("cat {HOMES}ada/notes"), true),
            (format!("see file://{ROOT_HOME}notes"), true),
            (format!("\"{ROOT_HOME}.cargo\""), true),
            (format!("{HOMES}user/work is an example"), false),
            (format!("{HOMES}<name>/work is a pattern"), false),
            (format!("target{ROOT_HOME}file, ${{DIR}}{ROOT_HOME}file"), false),
        ];
        for (line, expected) in cases {
            assert_eq!(has_machine_path(&line), expected, "{line}");
        }
    }
}
