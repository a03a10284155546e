//! Env bundles: visible variables, and references to secrets.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::limits::{ENV_BYTES, VARIABLE_BYTES};
use crate::secret::SecretRef;
use crate::text::checked_text;

/// The variables with agora's prefix that a bundle may set. The worker consumes them and never passes them on.
pub const SWITCHES: [&str; 3] =
    ["AGORA_CLAUDE_PERMISSION_MODE", "AGORA_DISABLE_NEEDS_INPUT_HELPER", "AGORA_SETUP_TIMEOUT_SECONDS"];

checked_text!(
    /// The name of an environment variable.
    VariableName, VariableNameError, check_variable_name
);

/// Says why a text is not the name of a variable.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a variable's name: letters, digits and `_`, and no digit first")]
pub struct VariableNameError {
    text: String,
}

fn check_variable_name(text: &str) -> Result<(), VariableNameError> {
    let first = text.chars().next();
    let begins_well = first.is_some_and(|first| first.is_ascii_alphabetic() || first == '_');
    let allowed = |character: char| character.is_ascii_alphanumeric() || character == '_';
    if begins_well && text.len() <= 200 && text.chars().all(allowed) {
        Ok(())
    } else {
        Err(VariableNameError { text: text.chars().take(64).collect() })
    }
}

/// Variables that everybody may read, and where the secret ones are to be found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "RawEnv", into = "RawEnv")]
pub struct EnvBundle {
    values: BTreeMap<VariableName, String>,
    secrets: BTreeMap<VariableName, SecretRef>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawEnv {
    values: BTreeMap<VariableName, String>,
    secrets: BTreeMap<VariableName, SecretRef>,
}

/// Says why variables do not make an env bundle.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EnvError {
    #[error("`{0}` is given as a value and as a secret")]
    ValueAndSecret(VariableName),
    #[error("`{0}` is not a switch; of the variables that begin with `AGORA_` a bundle may set only {list}", list = SWITCHES.join(", "))]
    NotASwitch(VariableName),
    #[error("`{0}` is a switch, not a secret")]
    SecretSwitch(VariableName),
    #[error("the value of `{0}` holds a NUL byte, which no environment variable can carry")]
    Nul(VariableName),
    #[error("`{name}` has {size} bytes with its value, the most is {VARIABLE_BYTES}")]
    TooLong { name: VariableName, size: usize },
    #[error("the variables have {0} bytes together, the most is {ENV_BYTES}")]
    TooLarge(usize),
}

impl EnvBundle {
    pub fn new(
        values: BTreeMap<VariableName, String>,
        secrets: BTreeMap<VariableName, SecretRef>,
    ) -> Result<Self, EnvError> {
        let is_ours = |name: &VariableName| name.as_str().to_ascii_uppercase().starts_with("AGORA_");
        let mut total = 0;
        for (name, value) in &values {
            if is_ours(name) && !SWITCHES.contains(&name.as_str()) {
                return Err(EnvError::NotASwitch(name.clone()));
            }
            if secrets.contains_key(name) {
                return Err(EnvError::ValueAndSecret(name.clone()));
            }
            if value.contains('\0') {
                return Err(EnvError::Nul(name.clone()));
            }
            let size = name.as_str().len() + 1 + value.len();
            if size > VARIABLE_BYTES {
                return Err(EnvError::TooLong { name: name.clone(), size });
            }
            total += size;
        }
        if let Some(name) = secrets.keys().find(|name| is_ours(name)) {
            let switch = SWITCHES.contains(&name.as_str());
            return Err(if switch {
                EnvError::SecretSwitch(name.clone())
            } else {
                EnvError::NotASwitch(name.clone())
            });
        }
        if total > ENV_BYTES {
            return Err(EnvError::TooLarge(total));
        }
        Ok(Self { values, secrets })
    }

    pub fn values(&self) -> &BTreeMap<VariableName, String> {
        &self.values
    }

    pub fn secrets(&self) -> &BTreeMap<VariableName, SecretRef> {
        &self.secrets
    }
}

impl From<EnvBundle> for RawEnv {
    fn from(env: EnvBundle) -> Self {
        Self { values: env.values, secrets: env.secrets }
    }
}

impl TryFrom<RawEnv> for EnvBundle {
    type Error = EnvError;

    fn try_from(raw: RawEnv) -> Result<Self, EnvError> {
        Self::new(raw.values, raw.secrets)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(pairs: &[(&str, &str)]) -> BTreeMap<VariableName, String> {
        pairs.iter().map(|(name, value)| (name.parse().unwrap(), (*value).to_owned())).collect()
    }

    fn secrets(pairs: &[(&str, &str)]) -> BTreeMap<VariableName, SecretRef> {
        pairs.iter().map(|(name, text)| (name.parse().unwrap(), text.parse().unwrap())).collect()
    }

    #[test]
    fn only_the_switches_may_carry_our_prefix() {
        for switch in SWITCHES {
            assert!(EnvBundle::new(values(&[(switch, "x")]), secrets(&[])).is_ok(), "{switch}");
        }
        for other in ["AGORA_HOME", "AGORA_ADAPTER", "agora_x"] {
            let refused = Err(EnvError::NotASwitch(other.parse().unwrap()));
            assert_eq!(EnvBundle::new(values(&[(other, "x")]), secrets(&[])), refused);
            assert_eq!(EnvBundle::new(values(&[]), secrets(&[(other, "cmd:x")])), refused);
        }
    }

    #[test]
    fn a_variable_has_one_source_and_a_bounded_size() {
        let twice = EnvBundle::new(values(&[("K", "v")]), secrets(&[("K", "cmd:x")]));
        assert_eq!(twice, Err(EnvError::ValueAndSecret("K".parse().unwrap())));
        let long = "x".repeat(VARIABLE_BYTES - 2);
        assert!(EnvBundle::new(values(&[("K", &long)]), secrets(&[])).is_ok());
        assert!(EnvBundle::new(values(&[("KK", &long)]), secrets(&[])).is_err());
        assert!(EnvBundle::new(values(&[("K", "a\0b")]), secrets(&[])).is_err());
    }

    #[test]
    fn a_variables_name_is_one_that_a_shell_takes() {
        for text in ["A", "_x9", "PATH"] {
            assert!(text.parse::<VariableName>().is_ok(), "{text}");
        }
        for text in ["", "9a", "a-b", "a=b", "a b", "ä"] {
            assert!(text.parse::<VariableName>().is_err(), "{text}");
        }
    }
}
