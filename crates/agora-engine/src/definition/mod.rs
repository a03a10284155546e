//! Files in which people define subagents and deployments.

mod deployment;
mod markdown;

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use agora_core::bundle::RawSubagent;
use agora_core::limits::DEFINITION_BYTES;
use serde_json::{Map, Value};

pub(crate) use deployment::{Deployment, EnvEntry, ValueEntry};

use crate::error::Error;

/// The forms that a definition may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Syntax {
    Yaml,
    Toml,
    /// A Claude agent file: front matter, then the system prompt.
    Markdown,
}

/// Why a text is not a definition.
#[derive(Debug, thiserror::Error)]
pub enum DefinitionError {
    #[error("line {line}, column {column}: {message}")]
    Syntax { line: u64, column: u64, message: String },
    #[error("{0}")]
    Fields(String),
    #[error("its name must end in .yaml, .yml, .toml or .md")]
    UnknownSyntax,
    #[error("a deployment is written in YAML or TOML")]
    NotADeployment,
    #[error("it is not UTF-8 text")]
    NotUtf8,
    #[error("it does not begin with front matter between two lines of `---`")]
    NoFrontMatter,
    #[error("it has `systemPrompt` in its front matter and text after it; the text is the system prompt")]
    TwoPrompts,
}

impl Syntax {
    fn of(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
            "yaml" | "yml" => Some(Self::Yaml),
            "toml" => Some(Self::Toml),
            "md" | "markdown" => Some(Self::Markdown),
            _ => None,
        }
    }
}

/// Reads a subagent from a file, whatever its form.
pub fn read_subagent(path: &Path) -> Result<RawSubagent, Error> {
    let fields = read_subagent_fields(path)?;
    typed(fields).map_err(|source| Error::Definition { file: path.to_owned(), source })
}

/// Reads a subagent's fields, to be laid over others before they are checked.
pub(crate) fn read_subagent_fields(path: &Path) -> Result<Map<String, Value>, Error> {
    let failed = |source| Error::Definition { file: path.to_owned(), source };
    let syntax = Syntax::of(path).ok_or_else(|| failed(DefinitionError::UnknownSyntax))?;
    let text = read_text(path)?;
    let fields = match syntax {
        Syntax::Yaml => parse_yaml(&text),
        Syntax::Toml => parse_toml(&text),
        Syntax::Markdown => markdown::parse(&text),
    };
    fields.map_err(failed)
}

/// Reads a deployment from a file.
pub(crate) fn read_deployment(path: &Path) -> Result<Deployment, Error> {
    let failed = |source| Error::Definition { file: path.to_owned(), source };
    let text = read_text(path)?;
    let fields = match Syntax::of(path) {
        Some(Syntax::Yaml) => parse_yaml(&text),
        Some(Syntax::Toml) => parse_toml(&text),
        Some(Syntax::Markdown) => Err(DefinitionError::NotADeployment),
        None => Err(DefinitionError::UnknownSyntax),
    };
    fields.and_then(typed).map_err(failed)
}

/// Gives fields their type; the error names the field.
pub(crate) fn typed<T: serde::de::DeserializeOwned>(
    fields: Map<String, Value>,
) -> Result<T, DefinitionError> {
    serde_json::from_value(Value::Object(fields)).map_err(|error| DefinitionError::Fields(error.to_string()))
}

fn read_text(path: &Path) -> Result<String, Error> {
    let unreadable = |source| Error::Unreadable { file: path.to_owned(), source };
    let file = File::open(path).map_err(unreadable)?;
    if !file.metadata().map_err(unreadable)?.is_file() {
        return Err(unreadable(io::Error::other("it is not a file")));
    }
    let mut bytes = Vec::new();
    file.take(DEFINITION_BYTES + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > DEFINITION_BYTES {
        let large = format!("it has more than {DEFINITION_BYTES} bytes (4 MiB)");
        return Err(unreadable(io::Error::new(io::ErrorKind::FileTooLarge, large)));
    }
    let not_utf8 = |_| Error::Definition { file: path.to_owned(), source: DefinitionError::NotUtf8 };
    let text = String::from_utf8(bytes).map_err(not_utf8)?;
    Ok(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text))
}

fn parse_yaml(text: &str) -> Result<Map<String, Value>, DefinitionError> {
    serde_saphyr::from_str::<Map<String, Value>>(text).map_err(|error| {
        let location = error.location();
        DefinitionError::Syntax {
            line: location.map_or(1, |location| location.line()),
            column: location.map_or(1, |location| location.column()),
            message: yaml_message(&error),
        }
    })
}

/// Takes the parser's first sentence, without the place, which is said in front, and without a copy of the source.
fn yaml_message(error: &serde_saphyr::Error) -> String {
    let text = error.without_snippet().to_string();
    let line = text.lines().next().unwrap_or_default();
    let line = line.strip_prefix("error: ").unwrap_or(line);
    let line =
        line.split_once(": ").filter(|(head, _)| head.starts_with("line ")).map_or(line, |(_, rest)| rest);
    line.split_once(" at line ").map_or(line, |(message, _)| message).to_owned()
}

fn parse_toml(text: &str) -> Result<Map<String, Value>, DefinitionError> {
    toml::from_str::<Map<String, Value>>(text).map_err(|error| {
        let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
        let last_line = before.rsplit('\n').next().unwrap_or_default();
        DefinitionError::Syntax {
            line: 1 + before.matches('\n').count() as u64,
            column: 1 + last_line.chars().count() as u64,
            message: error.message().replace('\n', ", "),
        }
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Definitions that people write; mutated, they reach deeper than noise does.
    const SEEDS: [&str; 3] = [
        "---\nname: a\ndescription: Use when: x\ntools: [Read, 'Grep']\nmodel: inherit\n---\nYou plan.\n",
        "systemPrompt: |\n  a\n  b\nverify: {command: x, timeoutSeconds: 3}\ncapabilities: [a, &b b, *b]\n",
        "systemPrompt = 'x'\n[verify]\ncommand = \"\"\"y\"\"\"\ntimeoutSeconds = 0x10\n",
    ];

    proptest! {
        #[test]
        fn no_text_panics(
            seed in 0..3_usize, at in 0..90_usize, cut in 0..20_usize,
            put in "([:{}\\[\\]&*!|>'\"#\n\t -]|---|<<|é|\u{0}|[0-9a-z]){0,6}",
        ) {
            let characters: Vec<char> = SEEDS[seed].chars().collect();
            let (at, end) = (at.min(characters.len()), (at + cut).min(characters.len()));
            let text: String =
                characters[..at].iter().copied().chain(put.chars()).chain(characters[end..].iter().copied()).collect();
            for fields in [parse_yaml(&text), parse_toml(&text), markdown::parse(&text)] {
                if let Ok(raw) = fields.and_then(typed::<RawSubagent>) {
                    let _ = agora_core::bundle::Subagent::new(raw);
                }
            }
        }
    }

    #[test]
    fn broken_yaml_and_toml_are_refused_with_line_and_column() {
        for (text, parse, expected_line) in [
            ("a: 1\nb: [1, 2\n", parse_yaml as fn(&str) -> _, 2),
            ("a: 1\n  b: 2\n", parse_yaml, 2),
            ("a: 1\na: 2\n", parse_yaml, 2),
            ("- 1\n", parse_yaml, 1),
            ("a = 1\nb = = 2\n", parse_toml, 2),
            ("a = 1\na = 2\n", parse_toml, 2),
        ] {
            let error = parse(text).expect_err(text);
            let DefinitionError::Syntax { line, column, message } = &error else { panic!("{error:?}") };
            assert_eq!(*line, expected_line, "{text}: {message}");
            assert!(*column >= 1 && !message.is_empty() && !message.contains('\n'), "{message}");
        }
    }
}
