//! What a vendor's program logs in with: sets of variables, by their names. Values never come here.

use serde::{Deserialize, Serialize};

/// Where a login came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LoginSource {
    /// Given with the dispatch.
    Dispatch,
    /// In an env bundle.
    Env,
    /// Stored with `agora auth`.
    Stored,
    /// In the environment of whoever dispatched.
    #[serde(rename = "environment")]
    Around,
}

impl LoginSource {
    /// Says where, after the login's name.
    pub fn place(self) -> &'static str {
        match self {
            Self::Dispatch => "given with the dispatch",
            Self::Env => "of its env bundle",
            Self::Stored => "that is stored",
            Self::Around => "of the environment",
        }
    }
}

/// A vendor whose program agora runs.
#[derive(Debug, PartialEq, Eq)]
pub struct Vendor {
    /// As in `agora auth NAME`, and in `local:auth/NAME`.
    pub name: &'static str,
    /// The runtime's word.
    pub runtime: &'static str,
    /// The one that wins comes first.
    pub logins: &'static [Login],
}

/// Variables that are a credential together.
#[derive(Debug, PartialEq, Eq)]
pub struct Login {
    /// How a result names it.
    pub name: &'static str,
    /// All of these.
    pub variables: &'static [&'static str],
    /// These too, where they are set beside it.
    pub beside: &'static [&'static str],
    /// Whether it is secrets and nothing else, so that it can be stored, or taken from an environment, as it is.
    pub stands_alone: bool,
}

impl Login {
    const fn of(name: &'static str, variables: &'static [&'static str]) -> Self {
        Self { name, variables, beside: &[], stands_alone: true }
    }

    /// One that wants more than its variables: regions, projects, another vendor's credentials.
    const fn with_more(name: &'static str, variables: &'static [&'static str]) -> Self {
        Self { name, variables, beside: &[], stands_alone: false }
    }

    const fn beside(self, beside: &'static [&'static str]) -> Self {
        Self { beside, ..self }
    }
}

pub static CLAUDE: Vendor = Vendor {
    name: "claude",
    runtime: "claude-code",
    logins: &[
        Login::of("subscription", &["CLAUDE_CODE_OAUTH_TOKEN"]),
        Login::of("api-key", &["ANTHROPIC_API_KEY"]).beside(&["ANTHROPIC_BASE_URL"]),
        Login::of("gateway", &["ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL"]),
        Login::with_more("bedrock", &["CLAUDE_CODE_USE_BEDROCK"]),
        Login::with_more("vertex", &["CLAUDE_CODE_USE_VERTEX"]),
    ],
};

/// What a ChatGPT login of codex is, part by part.
pub const CHATGPT_ACCESS: &str = "CODEX_CHATGPT_ACCESS_TOKEN";
pub const CHATGPT_ID: &str = "CODEX_CHATGPT_ID_TOKEN";
pub const CHATGPT_ACCOUNT: &str = "CODEX_CHATGPT_ACCOUNT_ID";

pub static CODEX: Vendor = Vendor {
    name: "codex",
    runtime: "codex",
    logins: &[
        Login::of("api-key", &["CODEX_API_KEY"]).beside(&["OPENAI_BASE_URL"]),
        Login::of("api-key", &["OPENAI_API_KEY"]).beside(&["OPENAI_BASE_URL"]),
        // Names of ours, for what `codex login` gave: the parts that log in once, and never the one that renews.
        Login::with_more("chatgpt", &[CHATGPT_ACCESS, CHATGPT_ID]).beside(&[CHATGPT_ACCOUNT]),
    ],
};

impl Vendor {
    /// Says that a login was refused: which it was, where it is from, and what gives the agent another.
    pub fn refused(&self, login: &Login, source: LoginSource, env: &[&str]) -> String {
        let (what, vendor) = (login.name, self.name);
        let variable = login.variables.first().copied().unwrap_or_default();
        match source {
            LoginSource::Dispatch => format!(
                "the {what} given with the dispatch is refused; dispatch again with another (`--secret {variable}=…`), or let \
                 `agora auth {vendor}` store one, with which `agora continue` goes on"
            ),
            LoginSource::Env => format!(
                "the {what} is refused (env: `{}`); `agora env register` with another value rotates it",
                env.join("`, `")
            ),
            LoginSource::Stored => format!(
                "the {what} that is stored is refused; `agora auth {vendor}` stores another, `agora auth status` shows which there is"
            ),
            LoginSource::Around => format!(
                "the {what} of the environment is refused; set `{variable}` to another there, or let `agora auth {vendor}` store one, \
                 which comes first"
            ),
        }
    }

    pub const ALL: [&'static Self; 2] = [&CLAUDE, &CODEX];

    /// Returns the vendor of a runtime. `None`: it logs in with whatever it likes, or nothing.
    pub fn of_runtime(word: &str) -> Option<&'static Self> {
        Self::ALL.into_iter().find(|vendor| vendor.runtime == word)
    }

    /// Returns the first login of which all is there.
    pub fn login(&self, has: impl Fn(&str) -> bool) -> Option<&'static Login> {
        self.logins.iter().find(|login| login.variables.iter().all(|name| has(name)))
    }

    /// Returns every variable that means something here, each once.
    pub fn variables(&self) -> Vec<&'static str> {
        let mut names: Vec<_> = self
            .logins
            .iter()
            .flat_map(|login| login.variables.iter().chain(login.beside))
            .copied()
            .collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Returns what the names of its stored secrets begin with.
    pub fn folder(&self) -> String {
        format!("auth/{}/", self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bundle::VariableName;

    #[test]
    fn the_first_that_is_whole_wins() {
        let login = |set: &[&str]| CLAUDE.login(|name| set.contains(&name)).map(|login| login.name);
        assert_eq!(login(&["ANTHROPIC_API_KEY", "CLAUDE_CODE_OAUTH_TOKEN"]), Some("subscription"));
        assert_eq!(login(&["ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY"]), Some("api-key"));
        assert_eq!(login(&["ANTHROPIC_AUTH_TOKEN"]), None, "half a gateway is none");
        assert_eq!(login(&["ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL"]), Some("gateway"));
        assert_eq!(login(&[]), None);
    }

    #[test]
    fn every_runtime_has_one_vendor_and_every_name_is_one() {
        assert_eq!(Vendor::of_runtime("claude-code"), Some(&CLAUDE));
        assert_eq!(Vendor::of_runtime("codex"), Some(&CODEX));
        assert_eq!(Vendor::of_runtime("command"), None);
        for vendor in Vendor::ALL {
            assert!(vendor.variables().iter().all(|name| name.parse::<VariableName>().is_ok()));
            let stored = format!("{}{}", vendor.folder(), vendor.variables()[0]);
            assert!(stored.parse::<crate::secret::SecretName>().is_ok(), "{stored}");
        }
    }
}
