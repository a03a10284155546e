//! `agora env`: variables, and references to secrets.

use std::collections::BTreeMap;
use std::time::Duration;

use agora_core::bundle::{EnvBundle, VariableName};
use agora_core::provider::secret::SecretChange;
use agora_core::secret::ShortSecrets;
use agora_engine::{BundleKind, EnvOptions, Error, Name, SecretSource};
use clap::{Args, Subcommand};
use serde_json::json;

use super::bundle::{self, Get, Versions};
use super::{Allowed, Context, parse};
use crate::failure::Failure;
use crate::outside::Terminal;

const KIND: BundleKind = BundleKind::Env;

/// Register variables, and references to secrets
#[derive(Debug, Subcommand)]
pub(super) enum Env {
    /// Register an env bundle; another value for a secret rotates it
    #[command(
        long_about = "Register an env bundle; another value for a secret rotates it.\n\n\
            A value is visible to everybody. A secret's value goes to the encrypted store, and the bundle only refers to it:\n  \
            KEY=env:NAME      the value of a variable, now\n  \
            KEY=file:PATH     what a file holds, now\n  \
            KEY=stdin         what standard input holds, now\n  \
            KEY               asked for, without showing it\n  \
            KEY=cmd:COMMAND   what a command prints, at each dispatch\n  \
            KEY=aws-sm:ARN    a secret of AWS Secrets Manager, at each dispatch\n  \
            KEY=local:NAME    a secret that is in the store already",
        after_help = "Example:\n  agora env register --name default --value LOG_LEVEL=info \\\n    --secret ANTHROPIC_API_KEY=env:ANTHROPIC_API_KEY"
    )]
    Register(Register),
    /// List the env bundles with their latest version
    #[command(after_help = "Example:\n  agora env list --json")]
    List,
    /// Show an env bundle: values, and where its secrets are, never what they are
    #[command(after_help = "Example:\n  agora env get default")]
    Get(Get),
    /// List the versions of an env bundle, newest first
    #[command(after_help = "Example:\n  agora env versions default")]
    Versions(Versions),
}

#[derive(Debug, Args)]
pub(super) struct Register {
    /// The name to register it under; `default` is used when a dispatch names none
    #[arg(long, value_parser = parse::<Name>)]
    name: Name,
    /// A visible variable; may be given again
    #[arg(long = "value", value_name = "KEY=VALUE")]
    values: Vec<String>,
    /// A secret variable; may be given again
    #[arg(long = "secret", value_name = "KEY[=SOURCE]")]
    secrets: Vec<String>,
    /// How long the secrets' values may be used, such as 12h or 30d
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    secret_ttl: Option<Duration>,
    /// Take a secret of fewer than six characters, which cannot be redacted well
    #[arg(long)]
    allow_short_secret: bool,
    #[command(flatten)]
    allowed: Allowed,
}

impl Env {
    pub(super) async fn run(self, context: &Context) -> Result<(), Failure> {
        match self {
            Self::Register(register) => register.run(context).await,
            Self::List => bundle::list(context, KIND).await,
            Self::Versions(versions) => bundle::versions(context, KIND, &versions).await,
            Self::Get(get) => {
                let found = bundle::get::<EnvBundle>(context, &get).await?;
                let (values, secrets) = (found.body.values(), found.body.secrets());
                let more = || json!({"values": values, "secrets": secrets});
                context.ui.result(
                    || bundle::json_of(&found.name, &found.version, more()),
                    || {
                        let values =
                            values.iter().map(|(name, value)| format!("value:       {name}={value}\n"));
                        let secrets =
                            secrets.iter().map(|(name, source)| format!("secret:      {name}={source}\n"));
                        bundle::heading(&found) + &values.chain(secrets).collect::<String>()
                    },
                )
            }
        }
    }
}

pub(super) fn warn_of_inline(context: &Context, variable: &VariableName) {
    context.ui.warn(format!(
        "the value of `{variable}` is now in your shell's history, and was in the process list; use `{variable}=env:NAME`, `=file:PATH` or `=stdin`"
    ));
}

impl Register {
    async fn run(self, context: &Context) -> Result<(), Failure> {
        let values = parse_values(&self.values)?;
        let secrets = parse_secrets(&self.secrets)?;
        for (variable, _) in secrets.iter().filter(|(_, source)| source.is_inline()) {
            warn_of_inline(context, variable);
        }
        let options = EnvOptions {
            outside: &Terminal,
            short: if self.allow_short_secret { ShortSecrets::Allow } else { ShortSecrets::Refuse },
            time_to_live: self.secret_ttl,
            allowed: &self.allowed.patterns,
        };
        let registered = context.config.agora().register_env(&self.name, values, secrets, options).await?;
        for (variable, change) in registered.secrets {
            match change {
                SecretChange::New => context.ui.note(format!("stored the secret `{variable}`")),
                SecretChange::Rotated => context.ui.note(format!("rotated the secret `{variable}`")),
                SecretChange::Unchanged => {
                    context.ui.note(format!("the secret `{variable}` has this value already"));
                }
            }
        }
        bundle::registered(context, KIND, &self.name, registered.registration)
    }
}

fn parse_values(arguments: &[String]) -> Result<BTreeMap<VariableName, String>, Failure> {
    let mut values = BTreeMap::new();
    for argument in arguments {
        // What has no `=` may be a secret in the wrong place: it is not repeated.
        let (name, value) = argument.split_once('=').ok_or_else(|| {
            Failure::wrong("usage", "a `--value` has no `=`").hint("write it as `--value KEY=VALUE`")
        })?;
        insert(&mut values, parse_variable(name)?, value.to_owned())?;
    }
    Ok(values)
}

/// Reads the `--secret` options. Not by the argument parser, whose errors repeat what they were given.
fn parse_secrets(arguments: &[String]) -> Result<BTreeMap<VariableName, SecretSource>, Failure> {
    let mut secrets = BTreeMap::new();
    let mut from_input = 0;
    for argument in arguments {
        let (name, source) = match argument.split_once('=') {
            None => (argument.as_str(), None),
            Some((name, source)) => (name, Some(source)),
        };
        let name = parse_variable(name)?;
        let failed = |source| Error::SecretSource { variable: name.to_string(), source };
        let source = source.map_or(Ok(SecretSource::Prompt), SecretSource::parse).map_err(failed)?;
        from_input += usize::from(matches!(source, SecretSource::StandardInput));
        insert(&mut secrets, name, source)?;
    }
    if from_input > 1 {
        return Err(Failure::wrong("usage", "two secrets want standard input, which can be read once"));
    }
    Ok(secrets)
}

/// Reads what stands before the `=`. It is not repeated: it may be a secret in the wrong place.
fn parse_variable(name: &str) -> Result<VariableName, Failure> {
    name.parse().map_err(|_| {
        Failure::wrong("bad-variable", "what stands before the `=` is not a variable's name")
            .hint("a name has letters, digits and `_`, and no digit first")
    })
}

fn insert<T>(map: &mut BTreeMap<VariableName, T>, name: VariableName, value: T) -> Result<(), Failure> {
    match map.insert(name.clone(), value) {
        None => Ok(()),
        Some(_) => Err(Failure::wrong("usage", format!("`{name}` is given twice"))),
    }
}

/// Reads a time such as `90s`, `15m`, `12h`, `30d`.
fn parse_time(text: &str) -> Result<Duration, String> {
    let wrong = || "a time is a number with s, m, h or d after it, such as 12h or 30d".to_owned();
    let unit = text.chars().last().ok_or_else(wrong)?;
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3600,
        'd' => 86_400,
        _ => return Err(wrong()),
    };
    let number: u64 = text[..text.len() - 1].parse().map_err(|_| wrong())?;
    number.checked_mul(seconds).filter(|seconds| *seconds > 0).map(Duration::from_secs).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_numbers_with_a_unit() {
        assert_eq!(parse_time("90s"), Ok(Duration::from_secs(90)));
        assert_eq!(parse_time("30d"), Ok(Duration::from_secs(30 * 86_400)));
        for wrong in
            ["", "d", "0s", "1", "1w", "-1s", "1.5h", "99999999999999999999d", "9999999999999999999d", "é"]
        {
            assert!(parse_time(wrong).is_err(), "{wrong}");
        }
    }
}
