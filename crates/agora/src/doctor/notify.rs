//! Whether a person can be told what `notify` says they want to be told.

use agora_engine::{NotifyWay, Trouble};

use super::{Finding, Status, printable};

/// What the desktop has for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Desktop {
    pub(crate) notify_send: bool,
    /// A session that shows what it is told.
    pub(crate) session: bool,
}

/// Looks at each way. Nothing here is broken: a question waits whether or not somebody was told of it.
pub(crate) fn examine(
    ways: &[NotifyWay],
    desktop: Desktop,
    finds: impl Fn(&str) -> bool,
    trouble: Option<&Trouble>,
) -> Vec<Finding> {
    let note = |detail: String, fix: &str| Finding::bad("notify", Status::Note, detail, fix);
    let look = |way: &NotifyWay| match way {
        NotifyWay::Desktop if !desktop.notify_send => note(
            "`desktop` is wanted, and there is no `notify-send`".to_owned(),
            "install it (`libnotify-bin` on Debian and Ubuntu), or use `command:…`; in WSL2 there is usually none",
        ),
        NotifyWay::Desktop if !desktop.session => note(
            "`desktop` is wanted, and there is no desktop session here that would show it".to_owned(),
            "it works where you are logged in; elsewhere use `command:…`",
        ),
        NotifyWay::Command(words) => {
            let program = words.first().map(String::as_str).unwrap_or_default();
            let found =
                if program.contains('/') { std::path::Path::new(program).is_file() } else { finds(program) };
            if found {
                Finding::ok("notify", format!("`{way}` is there"))
            } else {
                note(
                    format!("`{way}` is wanted, and there is no such program"),
                    "install it, or mend `notify`",
                )
            }
        }
        NotifyWay::Desktop => Finding::ok("notify", "the desktop can be told"),
    };
    let last = trouble.filter(|trouble| ways.iter().any(|way| way.name() == trouble.way)).map(|trouble| {
        let detail = format!("nobody was told by `{}` at {}: {}", trouble.way, trouble.at, trouble.why);
        note(printable(&detail), "mend what it says; this goes when it works again")
    });
    ways.iter().map(look).chain(last).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_is_looked_at_and_the_last_trouble_is_told_while_its_way_is_wanted() {
        let ways = [NotifyWay::Desktop, "command:post --token abc".parse().unwrap()];
        let trouble = Trouble {
            at: "2026-11-15T19:00:00Z".parse().unwrap(),
            way: "command:post".into(),
            why: "`post` ended with exit status: 3".into(),
        };
        let seen = |desktop: Desktop, found: bool, ways: &[NotifyWay]| {
            let findings = examine(ways, desktop, |_| found, Some(&trouble));
            findings.iter().map(|finding| finding.detail.clone()).collect::<Vec<_>>().join("\n")
        };
        let all = Desktop { notify_send: true, session: true };
        insta::assert_snapshot!(seen(all, true, &ways), @r"
        the desktop can be told
        `command:post` is there
        nobody was told by `command:post` at 2026-11-15T19:00:00.000Z: `post` ended with exit status: 3
        ");
        let none = Desktop { notify_send: false, session: false };
        insta::assert_snapshot!(seen(none, false, &ways[..1]), @"`desktop` is wanted, and there is no `notify-send`");
        assert!(seen(Desktop { session: false, ..all }, true, &ways[..1]).contains("no desktop session"));
        assert_eq!(seen(all, true, &[]), "");
    }
}
