//! Reading the registry: the price of many names, and of many versions of one name.

use std::{fs, path::Path};

use super::{
    Figure, Subject, rounds,
    startup::{SPAWN, SPAWNS},
};
use crate::{console, failure::Failure};

const NAMES: usize = 1_000;
const FEW_VERSIONS: usize = 10;
const MANY_VERSIONS: usize = 10_000;

/// `capability list` with many names, as text and as JSON.
pub(super) fn list(subject: &Subject) -> Result<Vec<Figure>, Failure> {
    let home = subject.directory("list-home")?;
    let contents = contents(subject)?;
    console::progress(&format!("registering {NAMES} names"));
    for number in 0..NAMES {
        register(subject, &home, &format!("name-{number:04}"), &contents[0])?;
    }
    let mut text = subject.agora(&home).args(["capability", "list"]);
    let mut json = subject.agora(&home).args(["capability", "list", "--json"]);
    let mut nothing = Subject::nothing();
    let [text, json, floor] = rounds::medians([
        &mut || rounds::mean_of(&mut text, SPAWNS),
        &mut || rounds::mean_of(&mut json, SPAWNS),
        &mut || rounds::mean_of(&mut nothing, SPAWNS),
    ])?;
    let what = format!("`agora capability list`, {} names", grouped(NAMES));
    Ok(vec![
        Figure::time(&what, text, SPAWN, floor).wish("≤ 3 ×"),
        Figure::time(format!("{what}, `--json`"), json, SPAWN, floor).wish("≤ 3 ×"),
    ])
}

/// `capability get` of a name with few and with many versions: the second must not cost more.
pub(super) fn get(subject: &Subject) -> Result<Vec<Figure>, Failure> {
    let home = subject.directory("get-home")?;
    let contents = contents(subject)?;
    for (name, versions) in [("few", FEW_VERSIONS), ("many", MANY_VERSIONS)] {
        console::progress(&format!("registering {versions} versions"));
        // In turns: the same content twice in a row would be the same version.
        for content in contents.iter().cycle().take(versions) {
            register(subject, &home, name, content)?;
        }
    }
    let mut few = subject.agora(&home).args(["capability", "get", "few"]);
    let mut many = subject.agora(&home).args(["capability", "get", "many"]);
    let mut nothing = Subject::nothing();
    let [few, many, floor] = rounds::medians([
        &mut || rounds::mean_of(&mut few, SPAWNS),
        &mut || rounds::mean_of(&mut many, SPAWNS),
        &mut || rounds::mean_of(&mut nothing, SPAWNS),
    ])?;
    let what = |versions| format!("`agora capability get NAME`, {} versions", grouped(versions));
    Ok(vec![
        Figure::time(what(FEW_VERSIONS), few, SPAWN, floor),
        Figure::time(what(MANY_VERSIONS), many, SPAWN, floor),
    ])
}

/// Registers a directory under a name.
pub(super) fn register(subject: &Subject, home: &Path, name: &str, content: &Path) -> Result<(), Failure> {
    let register =
        subject.agora(home).args(["capability", "register", "--name", name, "--from"]).arg(content);
    register.run_quietly().map(|_| ())
}

/// Returns two directories with different small contents.
fn contents(subject: &Subject) -> Result<[std::path::PathBuf; 2], Failure> {
    let make = |name: &str| {
        let directory = subject.directory(name)?;
        let file = directory.join("README.md");
        fs::write(&file, name).map_err(|source| Failure::file("write", &file, &source))?;
        Ok(directory)
    };
    Ok([make("content-a")?, make("content-b")?])
}

/// Returns a number with its thousands apart.
fn grouped(number: usize) -> String {
    match (number / 1_000, number % 1_000) {
        (0, rest) => rest.to_string(),
        (thousands, rest) => format!("{thousands},{rest:03}"),
    }
}

#[cfg(test)]
mod tests {
    use super::grouped;

    #[test]
    fn thousands_stand_apart() {
        assert_eq!([10, 1_000, 10_007].map(grouped), ["10", "1,000", "10,007"]);
    }
}
