//! Whether an agent has something to log in with. Only names are known here, never values.

use agora_core::login::{CLAUDE, Vendor};

use super::{Finding, Installed, Status, Surroundings};

const TOPIC: &str = "credential";

pub(super) fn examine(vendor: &Vendor, surroundings: &Surroundings, installed: Installed) -> Vec<Finding> {
    let is_set = |name: &str| surroundings.credential_variables.contains(&name);
    let name = vendor.name;
    // The stored one comes first, as it does when a dispatch looks for one.
    let mut findings =
        if surroundings.stored_credentials.iter().any(|stored| stored.starts_with(&vendor.folder())) {
            vec![Finding::ok(TOPIC, format!("{name}: stored as `local:auth/{name}`"))]
        } else if let Some(login) = vendor.login(is_set) {
            vec![Finding::ok(TOPIC, format!("{name}: {} in the environment", quoted(login.variables)))]
        } else {
            vec![missing(vendor, surroundings, installed)]
        };
    if *vendor == CLAUDE && ["ANTHROPIC_API_KEY", "CLAUDE_CODE_OAUTH_TOKEN"].into_iter().all(is_set) {
        let detail = "claude: both `CLAUDE_CODE_OAUTH_TOKEN` and `ANTHROPIC_API_KEY` are set; agora uses the first, claude \
            by itself the second";
        findings.push(Finding::bad(TOPIC, Status::Note, detail, "unset the one that is not meant"));
    }
    findings
}

fn missing(vendor: &Vendor, surroundings: &Surroundings, installed: Installed) -> Finding {
    let name = vendor.name;
    let half = vendor.logins.iter().find_map(|login| {
        let (there, absent): (Vec<&str>, Vec<&str>) =
            login.variables.iter().partition(|name| surroundings.credential_variables.contains(name));
        (there.iter().any(|name| !name.ends_with("_BASE_URL"))).then(|| (quoted(&there), quoted(&absent)))
    });
    match (half, installed) {
        (Some((there, absent)), _) => {
            let detail = format!("{name}: {there} is of no use without {absent}");
            Finding::bad(TOPIC, Status::Broken, detail, format!("set {absent} too"))
        }
        (None, Installed::Yes) => {
            let fix = format!("agora auth {name}");
            Finding::bad(TOPIC, Status::Missing, format!("{name}: none found"), fix)
        }
        (None, Installed::No) => {
            let detail = format!("{name}: none found, and none needed until {name} is installed");
            Finding { topic: TOPIC, status: Status::Note, detail, fix: None }
        }
    }
}

fn quoted(names: &[&str]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(" and ")
}

#[cfg(test)]
mod tests {
    use agora_core::login::CODEX;

    use super::super::tests::surroundings;
    use super::*;

    fn with(vendor: &Vendor, variables: &[&'static str], stored: &[&str]) -> Vec<Finding> {
        let here = surroundings(|here| {
            here.credential_variables = variables.to_vec();
            here.stored_credentials = stored.iter().map(|name| (*name).to_owned()).collect();
        });
        examine(vendor, &here, Installed::Yes)
    }

    #[test]
    fn every_set_is_enough() {
        for vendor in Vendor::ALL {
            for login in vendor.logins {
                let found = with(vendor, login.variables, &[]);
                assert_eq!((found.len(), found[0].status), (1, Status::Ok), "{login:?}");
            }
        }
    }

    #[test]
    fn a_stored_one_comes_first() {
        let expected = [Finding::ok("credential", "codex: stored as `local:auth/codex`")];
        assert_eq!(with(&CODEX, &["OPENAI_API_KEY"], &["auth/codex/CODEX_API_KEY"]), expected);
        assert_eq!(with(&CODEX, &[], &["auth/claude/ANTHROPIC_API_KEY"])[0].status, Status::Missing);
    }

    #[test]
    fn none_names_what_to_do() {
        let expected = Finding::bad("credential", Status::Missing, "claude: none found", "agora auth claude");
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
