//! Whether an agent has something to log in with. Only names are known here, never values.

use super::{Finding, Installed, Status, Surroundings};

const TOPIC: &str = "credential";

/// What one runtime can log in with.
#[derive(Debug)]
pub(super) struct Runtime {
    name: &'static str,
    /// Each set is enough by itself, if all its variables are there.
    sets: &'static [&'static [&'static str]],
    /// The one to propose.
    usual: &'static str,
}

pub(super) const CLAUDE: Runtime = Runtime {
    name: "claude",
    sets: &[
        &["ANTHROPIC_API_KEY"],
        &["CLAUDE_CODE_OAUTH_TOKEN"],
        &["ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL"],
        &["CLAUDE_CODE_USE_BEDROCK"],
        &["CLAUDE_CODE_USE_VERTEX"],
    ],
    usual: "ANTHROPIC_API_KEY",
};
pub(super) const CODEX: Runtime =
    Runtime { name: "codex", sets: &[&["CODEX_API_KEY"], &["OPENAI_API_KEY"]], usual: "OPENAI_API_KEY" };

pub(super) fn examine(runtime: &Runtime, surroundings: &Surroundings, installed: Installed) -> Vec<Finding> {
    let is_set = |name: &&str| surroundings.credential_variables.contains(name);
    let name = runtime.name;
    let found: Vec<String> =
        runtime.sets.iter().filter(|set| set.iter().all(is_set)).map(|set| quoted(set)).collect();

    // The stored one comes first, as it does when a dispatch looks for one.
    let mut findings = if surroundings.stored_credentials.iter().any(|stored| short(stored) == name) {
        vec![Finding::ok(TOPIC, format!("{name}: stored as `local:auth/{name}`"))]
    } else if !found.is_empty() {
        vec![Finding::ok(TOPIC, format!("{name}: {} in the environment", found.join(" and ")))]
    } else {
        vec![missing(runtime, surroundings, installed)]
    };
    if ["ANTHROPIC_API_KEY", "CLAUDE_CODE_OAUTH_TOKEN"].iter().all(is_set) && name == CLAUDE.name {
        let detail =
            "claude: with both `ANTHROPIC_API_KEY` and `CLAUDE_CODE_OAUTH_TOKEN` set, the key wins silently";
        findings.push(Finding::bad(TOPIC, Status::Note, detail, "unset the one that is not meant"));
    }
    findings
}

fn missing(runtime: &Runtime, surroundings: &Surroundings, installed: Installed) -> Finding {
    let Runtime { name, usual, .. } = runtime;
    let fix = format!("set `{usual}`, or: agora env register --name default --secret {usual}=env:{usual}");
    let half = runtime.sets.iter().find_map(|set| {
        let (there, absent): (Vec<&str>, Vec<&str>) =
            set.iter().partition(|name| surroundings.credential_variables.contains(name));
        (there.iter().any(|name| !name.ends_with("_BASE_URL"))).then(|| (quoted(&there), quoted(&absent)))
    });
    match (half, installed) {
        (Some((there, absent)), _) => {
            let detail = format!("{name}: {there} is of no use without {absent}");
            Finding::bad(TOPIC, Status::Broken, detail, format!("set {absent} too"))
        }
        (None, Installed::Yes) => Finding::bad(TOPIC, Status::Missing, format!("{name}: none found"), fix),
        (None, Installed::No) => {
            let detail = format!("{name}: none found, and none needed until {name} is installed");
            Finding { topic: TOPIC, status: Status::Note, detail, fix: None }
        }
    }
}

fn quoted(names: &[&str]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(" and ")
}

fn short(stored: &str) -> &str {
    let stored = stored.strip_prefix("local:").unwrap_or(stored);
    stored.strip_prefix("auth/").unwrap_or(stored)
}

#[cfg(test)]
mod tests {
    use super::super::CREDENTIAL_VARIABLES;
    use super::super::tests::surroundings;
    use super::*;

    fn with(runtime: &Runtime, variables: &[&'static str], stored: &[&str]) -> Vec<Finding> {
        let here = surroundings(|here| {
            here.credential_variables = variables.to_vec();
            here.stored_credentials = stored.iter().map(|name| (*name).to_owned()).collect();
        });
        examine(runtime, &here, Installed::Yes)
    }

    #[test]
    fn every_set_is_enough() {
        for runtime in [&CLAUDE, &CODEX] {
            for set in runtime.sets {
                let found = with(runtime, set, &[]);
                assert_eq!((found.len(), found[0].status), (1, Status::Ok), "{set:?}");
                assert!(set.iter().all(|name| CREDENTIAL_VARIABLES.contains(name)), "{set:?}");
            }
        }
    }

    #[test]
    fn a_stored_one_comes_first() {
        let expected = [Finding::ok("credential", "codex: stored as `local:auth/codex`")];
        for stored in ["local:auth/codex", "auth/codex", "codex"] {
            assert_eq!(with(&CODEX, &["OPENAI_API_KEY"], &[stored]), expected);
        }
        assert_eq!(with(&CODEX, &[], &["local:auth/claude"])[0].status, Status::Missing);
    }

    #[test]
    fn none_names_what_to_do() {
        let fix = "set `ANTHROPIC_API_KEY`, or: \
                   agora env register --name default --secret ANTHROPIC_API_KEY=env:ANTHROPIC_API_KEY";
        let expected = Finding::bad("credential", Status::Missing, "claude: none found", fix);
        assert_eq!(with(&CLAUDE, &["OPENAI_API_KEY"], &[]), std::slice::from_ref(&expected));
        // An address alone is no half of a credential: it may serve a proxy.
        assert_eq!(with(&CLAUDE, &["ANTHROPIC_BASE_URL"], &[]), [expected]);
        let absent = examine(&CODEX, &surroundings(|_| {}), Installed::No);
        assert_eq!((absent[0].status, &absent[0].fix), (Status::Note, &None));
    }

    #[test]
    fn half_a_gateway_is_broken() {
        let found = with(&CLAUDE, &["ANTHROPIC_AUTH_TOKEN"], &[]);
        let detail = "claude: `ANTHROPIC_AUTH_TOKEN` is of no use without `ANTHROPIC_BASE_URL`";
        assert_eq!(
            found,
            [Finding::bad("credential", Status::Broken, detail, "set `ANTHROPIC_BASE_URL` too")]
        );
    }

    #[test]
    fn a_key_beside_a_token_is_noted() {
        let found = with(&CLAUDE, &["CLAUDE_CODE_OAUTH_TOKEN", "ANTHROPIC_API_KEY"], &[]);
        assert_eq!(
            found.iter().map(|finding| finding.status).collect::<Vec<_>>(),
            [Status::Ok, Status::Note]
        );
    }
}
