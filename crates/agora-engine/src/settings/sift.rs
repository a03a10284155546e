//! What of a project's `agora.toml` counts when nobody said that it may be trusted: what makes things stricter, and nothing else.
//!
//! The table names what counts. A key that is not in it wants trust, so that a new one is safe before anybody thinks of it.

use agora_core::Name;
use toml::{Table, Value};

use super::file::bytes;
use super::{Settings, TargetSettings};

/// When a key of a target counts in a file that is not trusted.
enum Counts {
    /// With these values.
    As(&'static [&'static str]),
    /// With a number or a size that is not above what holds already.
    UpTo(fn(&TargetSettings) -> Option<u64>),
}

const OF_A_TARGET: [(&str, Counts); 5] = [
    ("isolation", Counts::As(&["strict"])),
    ("network", Counts::As(&["none"])),
    ("max_concurrent", Counts::UpTo(|target| Some(u64::from(target.max_concurrent)))),
    ("memory", Counts::UpTo(|target| target.memory_bytes)),
    ("pids", Counts::UpTo(|target| target.processes.map(u64::from))),
];

/// Parts what counts from what does not, which is named key by key.
pub(super) fn sift(file: Table, settings: &Settings) -> (Table, Vec<String>) {
    let (mut kept, mut ignored) = (Table::new(), Vec::new());
    for (key, value) in file {
        match (key.as_str(), value) {
            ("target", Value::Table(targets)) => {
                let counting = sift_targets(targets, settings, &mut ignored);
                kept.insert(key, Value::Table(counting));
            }
            (_, value) => name(&key, &value, &mut ignored),
        }
    }
    (kept, ignored)
}

fn sift_targets(targets: Table, settings: &Settings, ignored: &mut Vec<String>) -> Table {
    let mut kept = Table::new();
    for (name_of, keys) in targets {
        let place = format!("target.{name_of}");
        let known = name_of.parse::<Name>().ok().and_then(|name| settings.targets.get(&name));
        let (Some(known), Value::Table(keys)) = (known, keys.clone()) else {
            // A place that does not exist yet would be one that the project makes.
            name(&place, &keys, ignored);
            continue;
        };
        let (counting, others): (Table, Table) =
            keys.into_iter().partition(|(key, value)| counts(key, value, known));
        others.iter().for_each(|(key, value)| name(&format!("{place}.{key}"), value, ignored));
        kept.insert(name_of, Value::Table(counting));
    }
    kept
}

fn counts(key: &str, value: &Value, known: &TargetSettings) -> bool {
    let rule = OF_A_TARGET.iter().find(|(name, _)| *name == key);
    match rule {
        Some((_, Counts::As(values))) => value.as_str().is_some_and(|text| values.contains(&text)),
        Some((_, Counts::UpTo(limit))) => {
            let number = match value {
                Value::Integer(number) => u64::try_from(*number).ok(),
                Value::String(text) => bytes(text),
                _ => None,
            };
            number.is_some_and(|number| number > 0 && limit(known).is_none_or(|limit| number <= limit))
        }
        None => false,
    }
}

/// Names a key, or each of those below it.
fn name(key: &str, value: &Value, ignored: &mut Vec<String>) {
    match value {
        Value::Table(below) if !below.is_empty() => {
            below.iter().for_each(|(more, value)| name(&format!("{key}.{more}"), value, ignored));
        }
        _ => ignored.push(key.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sifted(text: &str) -> (Table, Vec<String>) {
        let mut settings = Settings::with_worker("/bin/agora");
        let limits = TargetSettings { memory_bytes: Some(4 << 30), ..TargetSettings::default() };
        settings.targets.insert("big".parse().unwrap(), limits);
        sift(text.parse().unwrap(), &settings)
    }

    #[test]
    fn what_makes_things_stricter_counts() {
        let text =
            "[target.local]\nisolation = \"strict\"\nmax_concurrent = 1\nmemory = \"1GiB\"\npids = 100\n";
        let (kept, ignored) = sifted(text);
        assert_eq!(kept, text.parse::<Table>().unwrap());
        assert_eq!(ignored, Vec::<String>::new());
    }

    #[test]
    fn what_loosens_starts_names_or_grants_does_not() {
        let (kept, mut ignored) = sifted(
            "[target.local]\nisolation = \"none\"\nmax_concurrent = 3\nimage = \"evil\"\ngrant = [\"~/.ssh\"]\ntools = [\"/\"]\nnetwork = \"open\"\n\
             socket = \"/run/x\"\n[target.big]\nmemory = \"8GiB\"\n[target.new]\ncompute = \"process\"\n[store]\nmax = \"1B\"\n\
             [[route]]\nsteps = []\n[answers]\nagents = \"allow\"\n[group]\nleads = [\"user:eve\"]\n[target.\"a b\"]\n",
        );
        ignored.sort();
        let expected = [
            "answers.agents",
            "group.leads",
            "route",
            "store.max",
            "target.a b",
            "target.big.memory",
            "target.local.grant",
            "target.local.image",
            "target.local.isolation",
            "target.local.max_concurrent",
            "target.local.network",
            "target.local.socket",
            "target.local.tools",
            "target.new.compute",
        ];
        assert_eq!(ignored, expected);
        assert!(
            kept["target"].as_table().unwrap().values().all(|target| target.as_table().unwrap().is_empty())
        );
    }
}
