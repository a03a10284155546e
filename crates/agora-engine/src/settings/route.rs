//! `[[route]]`, `[group]` and `[answers]`: who gets a question, who may answer it, and what silence means.

use std::collections::BTreeMap;
use std::path::Path;

use agora_core::Name;
use agora_core::route::{
    AgentsMay, AtEnd, CommandStep, IfStale, Match, Party, PartyKind, Route, Step, Steps,
};
use serde::{Deserialize, Deserializer};

use super::Settings;

/// A command that says nothing about its time gets so much.
const COMMAND_MS: u64 = 30_000;
/// Whoever needs longer is asked by an inbox.
const LONGEST_COMMAND_MS: u64 = 86_400_000;
/// A hundred years, so that every moment has a text.
const LONGEST_MS: u64 = 100 * 366 * 86_400_000;

/// A time such as `30s`, `1h` or `3d`, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Span(u64);

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        millis(&text).map(Self).ok_or_else(|| {
            serde::de::Error::custom(format!("`{text}` is not a time such as `30s`, `45m`, `1h` or `3d`"))
        })
    }
}

/// Reads a time: a whole number with `ms`, `s`, `m`, `h`, `d` or `w`.
fn millis(text: &str) -> Option<u64> {
    let digits = text.find(|letter: char| !letter.is_ascii_digit())?;
    let (number, unit) = text.split_at(digits);
    let unit = match unit {
        "ms" => 1,
        "s" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        "w" => 7 * 86_400_000,
        _ => return None,
    };
    let millis = number.parse::<u64>().ok()?.checked_mul(unit)?;
    (1..=LONGEST_MS).contains(&millis).then_some(millis)
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct WrittenRoute {
    #[serde(rename = "match")]
    matches: WrittenMatch,
    steps: Vec<WrittenStep>,
    may_answer: Vec<Party>,
    remind_after: Option<Span>,
    escalate_after: Option<Span>,
    expire_after: Option<Span>,
    at_expiry: Option<WrittenEnd>,
    if_stale: IfStale,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct WrittenMatch {
    subagent: Option<Name>,
    label: Option<Name>,
    header: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct WrittenStep {
    command: Option<Vec<String>>,
    timeout: Option<Span>,
    inbox: Option<Party>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum WrittenEnd {
    Wait,
    Fail,
    UseDefault,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct WrittenAnswers {
    agents: Option<AgentsMay>,
}

/// What a file says about questions.
#[derive(Debug)]
pub(super) struct Written {
    pub(super) routes: Vec<WrittenRoute>,
    pub(super) groups: BTreeMap<String, Vec<Party>>,
    pub(super) answers: WrittenAnswers,
}

/// Lays it over what is known: the routes of the file that is laid last are tried first, and a group that it names is the one that
/// counts.
pub(super) fn lay(written: Written, dir: &Path, settings: &mut Settings) -> Result<(), String> {
    for (name, members) in written.groups {
        let group: Party =
            format!("group:{name}").parse().map_err(|error| format!("`group.{name}`: {error}"))?;
        if let Some(other) = members.iter().find(|member| member.kind() == PartyKind::Group) {
            return Err(format!(
                "`group.{name}` has `{other}`: a group is made of people, such as `user:ann`"
            ));
        }
        settings.routes.groups.insert(group, members);
    }
    let mut routes = Vec::new();
    for (number, written) in (1_usize..).zip(written.routes) {
        let wrong = |why: String| format!("`route` {number}: {why}");
        if written.expire_after.is_some() && written.at_expiry.is_none() {
            settings.warnings.push(wrong(
                "`expire_after` does nothing by itself: say with `at_expiry` what happens then, `\"fail\"` or `\"use-default\"`; \
                 `\"wait\"` says that it only waits"
                    .to_owned(),
            ));
        }
        let route = route(written, dir).map_err(wrong)?;
        let named =
            route.may_answer.iter().chain(route.steps.as_slice().iter().filter_map(|step| match step {
                Step::Inbox(party) => Some(party),
                Step::Command(_) => None,
            }));
        let unknown =
            |party: &&Party| party.kind() == PartyKind::Group && !settings.routes.groups.contains_key(*party);
        if let Some(group) = named.clone().find(unknown) {
            let name = group.name();
            return Err(wrong(format!(
                "there is no `{group}`; `[group]` with `{name} = [\"user:ann\"]` makes one"
            )));
        }
        routes.push(route);
    }
    routes.append(&mut settings.routes.routes);
    settings.routes.routes = routes;
    settings.agents = written.answers.agents.unwrap_or(settings.agents);
    Ok(())
}

fn route(written: WrittenRoute, dir: &Path) -> Result<Route, String> {
    let WrittenMatch { subagent, label, header } = written.matches;
    let steps: Result<Vec<Step>, String> = (1_usize..)
        .zip(written.steps)
        .map(|(number, written)| step(written, dir).map_err(|why| format!("step {number}: {why}")))
        .collect();
    let steps = Steps::new(steps?, written.escalate_after.is_some()).map_err(|error| error.to_string())?;
    let expires = match (written.expire_after, written.at_expiry) {
        (Some(Span(after)), Some(WrittenEnd::Fail)) => Some((after, AtEnd::Fail)),
        (Some(Span(after)), Some(WrittenEnd::UseDefault)) => Some((after, AtEnd::UseDefault)),
        (None, Some(WrittenEnd::Fail | WrittenEnd::UseDefault)) => {
            return Err("`at_expiry` says what happens then, and `expire_after` does not say when".to_owned());
        }
        (_, Some(WrittenEnd::Wait) | None) => None,
    };
    Ok(Route {
        matches: Match { subagent, label, header },
        steps,
        may_answer: written.may_answer,
        remind_after_ms: written.remind_after.map(|Span(millis)| millis),
        escalate_after_ms: written.escalate_after.map(|Span(millis)| millis),
        expires,
        if_stale: written.if_stale,
    })
}

fn step(written: WrittenStep, dir: &Path) -> Result<Step, String> {
    match (written.command, written.inbox) {
        (Some(mut argv), None) => {
            let timeout_ms = written.timeout.map_or(COMMAND_MS, |Span(millis)| millis);
            if timeout_ms > LONGEST_COMMAND_MS {
                return Err("a command is heard out for at most `1d`".to_owned());
            }
            // As it stands in the file, wherever it is run from.
            if let Some(program) = argv.first_mut().filter(|program| program.contains('/')) {
                *program = dir.join(&*program).to_string_lossy().into_owned();
            }
            let dir = (!dir.as_os_str().is_empty()).then(|| dir.to_string_lossy().into_owned());
            Ok(Step::Command(CommandStep { argv, dir, timeout_ms }))
        }
        (None, Some(_)) if written.timeout.is_some() => {
            Err("`timeout` is for commands; people have `escalate_after`".to_owned())
        }
        (None, Some(party)) => Ok(Step::Inbox(party)),
        (Some(_), Some(_)) => Err("it has both `command` and `inbox`: make two steps of it".to_owned()),
        (None, None) => Err("it has neither `command` nor `inbox`".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::file::lay_text;
    use super::*;

    fn read(text: &str) -> Result<Settings, String> {
        let mut settings = Settings::with_worker("/bin/agora");
        let laid = lay_text(text, Path::new("/home/ann/project"), &mut settings);
        laid.map(|()| settings).map_err(|error| error.to_string())
    }

    #[test]
    fn a_route_says_who_what_and_when() {
        let settings = read(
            "[[route]]\nmatch = { subagent = \"planner\", label = \"nightly\", header = \"Database\" }\n\
             steps = [{ command = [\"./lookup\", \"-q\"], timeout = \"2m\" }, { command = [\"ask\"] }, { inbox = \"user:ann\" }, { inbox = \"group:leads\" }]\n\
             may_answer = [\"group:leads\", \"user:ann\"]\nremind_after = \"1h\"\nescalate_after = \"4h\"\nexpire_after = \"3d\"\n\
             at_expiry = \"use-default\"\nif_stale = \"ask-again\"\n[group]\nleads = [\"user:bob\", \"agent:helper\"]\n[answers]\nagents = \"allow\"\n",
        )
        .unwrap();
        let route = &settings.routes.routes[0];
        let command = |argv: &[&str], timeout_ms| {
            let argv = argv.iter().map(ToString::to_string).collect();
            Step::Command(CommandStep { argv, dir: Some("/home/ann/project".to_owned()), timeout_ms })
        };
        assert_eq!(route.steps.as_slice()[0], command(&["/home/ann/project/./lookup", "-q"], 120_000));
        assert_eq!(route.steps.as_slice()[1], command(&["ask"], 30_000), "found by the search path");
        assert_eq!(route.expires, Some((3 * 86_400_000, AtEnd::UseDefault)));
        assert_eq!((route.remind_after_ms, route.escalate_after_ms), (Some(3_600_000), Some(14_400_000)));
        assert_eq!((route.if_stale, settings.agents), (IfStale::AskAgain, AgentsMay::Allow));
        assert_eq!(settings.routes.groups[&"group:leads".parse().unwrap()].len(), 2);
    }

    #[test]
    fn the_routes_of_the_file_that_is_laid_last_are_tried_first() {
        let mut settings = read("[[route]]\nmay_answer = [\"user:first\"]\n").unwrap();
        lay_text("[[route]]\nmay_answer = [\"user:second\"]\n", Path::new(""), &mut settings).unwrap();
        let order: Vec<_> = settings.routes.routes.iter().map(|route| route.may_answer[0].name()).collect();
        assert_eq!(order, ["second", "first"]);
    }

    #[test]
    fn what_leads_nowhere_is_refused_and_says_where() {
        for (wrong, says) in [
            ("[[route]]\nsteps = [{ inbox = \"user:ann\" }, { inbox = \"user:bob\" }]", "`escalate_after`"),
            ("[[route]]\nsteps = [{ command = [] }]", "empty command"),
            ("[[route]]\nsteps = [{}]", "neither `command` nor `inbox`"),
            ("[[route]]\nsteps = [{ command = [\"x\"], inbox = \"user:ann\" }]", "make two steps"),
            ("[[route]]\nsteps = [{ inbox = \"user:ann\", timeout = \"1s\" }]", "`escalate_after`"),
            ("[[route]]\nsteps = [{ command = [\"x\"], timeout = \"2d\" }]", "at most `1d`"),
            ("[[route]]\nmay_answer = [\"ann\"]", "line 2: `ann` is not somebody"),
            ("[[route]]\n\nmay_answer = [\"group:leads\"]", "route` 1: there is no `group:leads`"),
            ("[[route]]\nremind_after = \"soon\"", "line 2: `soon` is not a time"),
            ("[[route]]\nremind_after = \"0s\"", "`0s` is not a time"),
            ("[[route]]\nexpire_after = \"99999999999d\"", "is not a time"),
            ("[[route]]\nat_expiry = \"fail\"", "`expire_after` does not say when"),
            ("[[route]]\nat_expiry = \"consent\"", "line 2"),
            ("[[route]]\nmatch = { agent = \"x\" }", "agent"),
            ("[[route]]\nremind = \"1h\"", "remind"),
            ("[answers]\nagents = \"yes\"", "line 2"),
            ("[group]\nleads = [\"group:others\"]", "made of people"),
            ("[group]\n\"a b\" = []", "group.a b"),
        ] {
            let error = read(wrong).unwrap_err();
            assert!(error.contains(says), "{wrong}\n{error}");
        }
    }

    #[test]
    fn an_end_without_a_consequence_is_none_and_is_pointed_out_unless_it_is_meant() {
        let waits = read("[[route]]\nexpire_after = \"3d\"\nat_expiry = \"wait\"").unwrap();
        assert_eq!((waits.routes.routes[0].expires, waits.warnings.len()), (None, 0));
        let silent = read("[[route]]\n[[route]]\nexpire_after = \"3d\"").unwrap();
        assert_eq!(silent.routes.routes[1].expires, None);
        assert!(
            silent.warnings[0].starts_with("`route` 2: `expire_after` does nothing by itself"),
            "{:?}",
            silent.warnings
        );
    }
}
