//! The switches that an env bundle may set. The worker consumes them; no program behind the wall sees them.

use agora_core::bundle::EnvBundle;
use agora_core::limits::{LONGEST_DISPATCH_SECONDS, SETUP_SECONDS};

/// What an agent may do without being asked (Claude Code).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Permission {
    /// Everything: the wall is the sandbox.
    #[default]
    Bypass,
    /// Only what needs no permission, and asking.
    Strict,
    /// What the workspace's settings allow; the first call that they deny becomes a question.
    Scoped,
}

/// What env bundles said to the worker.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Switches {
    pub(crate) permission: Permission,
    pub(crate) no_helper: bool,
    pub(crate) setup_seconds: u32,
    /// What was said and not understood. A slip must not leave a dispatch paralysed, nor go unnoticed.
    pub(crate) warnings: Vec<String>,
}

impl Switches {
    /// Reads the switches. Of several bundles the later wins.
    pub(crate) fn of(env: &[EnvBundle]) -> Self {
        let find = |name: &str| {
            env.iter().rev().find_map(|bundle| {
                bundle.values().iter().find(|(key, _)| key.as_str() == name).map(|(_, value)| value.trim())
            })
        };
        let mut switches = Self { setup_seconds: SETUP_SECONDS, ..Self::default() };
        match find("AGORA_CLAUDE_PERMISSION_MODE") {
            None | Some("" | "bypass") => {}
            Some("strict") => switches.permission = Permission::Strict,
            Some("scoped") => switches.permission = Permission::Scoped,
            Some(other) => switches.warn("AGORA_CLAUDE_PERMISSION_MODE", other, "`bypass` is used"),
        }
        match find("AGORA_DISABLE_NEEDS_INPUT_HELPER") {
            None | Some("" | "false" | "0") => {}
            Some("true" | "1") => switches.no_helper = true,
            Some(other) => {
                switches.warn("AGORA_DISABLE_NEEDS_INPUT_HELPER", other, "the helper is installed");
            }
        }
        match find("AGORA_SETUP_TIMEOUT_SECONDS").map(|text| (text, text.parse())) {
            None => {}
            Some((_, Ok(seconds))) if (1..=LONGEST_DISPATCH_SECONDS).contains(&seconds) => {
                switches.setup_seconds = seconds;
            }
            Some((text, _)) => switches.warn("AGORA_SETUP_TIMEOUT_SECONDS", text, "the default is used"),
        }
        switches
    }

    fn warn(&mut self, name: &str, value: &str, instead: &str) {
        let value: String = value.chars().take(40).collect();
        self.warnings.push(format!("`{name}` does not know `{value}`; {instead}"));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn env(pairs: &[(&str, &str)]) -> EnvBundle {
        let values = pairs.iter().map(|(name, value)| (name.parse().unwrap(), (*value).to_owned())).collect();
        EnvBundle::new(values, BTreeMap::new()).unwrap()
    }

    #[test]
    fn the_later_bundle_wins_and_a_slip_is_said() {
        let mode = |value| env(&[("AGORA_CLAUDE_PERMISSION_MODE", value)]);
        assert_eq!(Switches::of(&[]).permission, Permission::Bypass);
        assert_eq!(Switches::of(&[mode("strict"), mode("scoped")]).permission, Permission::Scoped);
        let slip = Switches::of(&[mode("strct")]);
        assert_eq!((slip.permission, slip.warnings.len()), (Permission::Bypass, 1));
        let seconds = |value| Switches::of(&[env(&[("AGORA_SETUP_TIMEOUT_SECONDS", value)])]);
        assert_eq!(seconds("7").setup_seconds, 7);
        for wrong in ["0", "-1", "1e3", "999999999"] {
            assert_eq!(
                (seconds(wrong).setup_seconds, seconds(wrong).warnings.len()),
                (SETUP_SECONDS, 1),
                "{wrong}"
            );
        }
        assert!(Switches::of(&[env(&[("AGORA_DISABLE_NEEDS_INPUT_HELPER", "true")])]).no_helper);
    }
}
