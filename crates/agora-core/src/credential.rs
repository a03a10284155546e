//! Finds credentials in what somebody is about to register.
//!
//! A bundle is immutable and travels: a key in it could never be taken back. So the well-known shapes are refused,
//! by name and place; the value itself is never shown.

use std::fmt;
use std::str::FromStr;
use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, MatchKind};

/// A shape of credential that is known by how it begins.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Pattern(usize);

/// What must follow the beginning for it to be a credential and not a word about one.
enum Rest {
    /// So many characters of a set, at least one of them a digit.
    Token { least: usize, set: fn(u8) -> bool },
    /// Two more parts after dots, as in a JSON Web Token.
    Jwt,
    /// The rest of a PEM header that names a private key.
    Pem,
    /// A separator, then so many characters of Base64: a key known only by the name before it.
    Assigned { least: usize },
}

impl Rest {
    /// Tells whether a start after this byte is the middle of a word: `risk-…` is no key.
    fn is_glued_to(&self, before: u8) -> bool {
        match self {
            // Nor is it looked for again within its own run, which may be as long as the file.
            Self::Jwt => is_url_safe(before),
            Self::Token { .. } | Self::Pem | Self::Assigned { .. } => before.is_ascii_alphanumeric(),
        }
    }
}

struct Shape {
    name: &'static str,
    starts: &'static [&'static str],
    rest: Rest,
}

const SHAPES: &[Shape] = &[
    Shape { name: "anthropic-key", starts: &["sk-ant-"], rest: Rest::Token { least: 20, set: is_url_safe } },
    Shape {
        name: "aws-access-key-id",
        starts: &["AKIA", "ASIA", "ABIA", "ACCA"],
        rest: Rest::Token { least: 16, set: is_upper_alphanumeric },
    },
    Shape {
        name: "aws-secret-access-key",
        starts: &["aws_secret_access_key", "AWS_SECRET_ACCESS_KEY", "aws_session_token", "AWS_SESSION_TOKEN"],
        rest: Rest::Assigned { least: 40 },
    },
    Shape { name: "azure-storage-key", starts: &["AccountKey"], rest: Rest::Assigned { least: 80 } },
    Shape {
        name: "bearer-token",
        starts: &["Bearer ", "bearer ", "BEARER "],
        rest: Rest::Token { least: 20, set: is_bearer },
    },
    Shape {
        name: "github-token",
        starts: &["ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"],
        rest: Rest::Token { least: 22, set: is_url_safe },
    },
    Shape { name: "gitlab-token", starts: &["glpat-"], rest: Rest::Token { least: 20, set: is_url_safe } },
    Shape { name: "google-api-key", starts: &["AIza"], rest: Rest::Token { least: 35, set: is_url_safe } },
    Shape {
        name: "google-oauth-token",
        starts: &["ya29.", "GOCSPX-"],
        rest: Rest::Token { least: 20, set: is_url_safe },
    },
    Shape { name: "jwt", starts: &["eyJ"], rest: Rest::Jwt },
    Shape { name: "npm-token", starts: &["npm_"], rest: Rest::Token { least: 36, set: is_alphanumeric } },
    Shape {
        name: "openai-key",
        starts: &["sk-", "sk-proj-", "sk-svcacct-", "sk-admin-"],
        rest: Rest::Token { least: 20, set: is_url_safe },
    },
    Shape { name: "pem-private-key", starts: &["-----BEGIN "], rest: Rest::Pem },
    Shape {
        name: "slack-token",
        starts: &["xoxa-", "xoxb-", "xoxe-", "xoxp-", "xoxr-", "xoxs-", "xapp-"],
        rest: Rest::Token { least: 10, set: is_url_safe },
    },
    Shape {
        name: "slack-webhook",
        starts: &["hooks.slack.com/services/T"],
        rest: Rest::Token { least: 20, set: is_base64 },
    },
    Shape {
        name: "stripe-key",
        starts: &["sk_live_", "rk_live_", "sk_test_", "rk_test_", "whsec_"],
        rest: Rest::Token { least: 16, set: is_base64 },
    },
];

/// Where a credential stands. Never what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hit {
    pub pattern: Pattern,
    /// Counted from 1.
    pub line: usize,
}

impl Pattern {
    /// Returns every pattern, in the order of their names.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..SHAPES.len()).map(Self)
    }

    /// Returns the name that reports and `--allow-credential-pattern` use.
    pub fn name(self) -> &'static str {
        SHAPES[self.0].name
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Says that no pattern has that name, and which there are.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no credential pattern is named `{text}`; there are {names}", names = Pattern::all().map(Pattern::name).collect::<Vec<_>>().join(", "))]
pub struct UnknownPattern {
    text: String,
}

impl FromStr for Pattern {
    type Err = UnknownPattern;

    fn from_str(text: &str) -> Result<Self, UnknownPattern> {
        let unknown = || UnknownPattern { text: text.chars().take(64).collect() };
        Self::all().find(|pattern| pattern.name() == text).ok_or_else(unknown)
    }
}

/// Returns the first credential in the bytes, text or not, that is not of an allowed pattern.
pub fn find(bytes: &[u8], allowed: &[Pattern]) -> Option<Hit> {
    let hit = SCANNER.starts.find_iter(bytes).find_map(|start| {
        let pattern = Pattern(SCANNER.shape_of_start[start.pattern().as_usize()]);
        if allowed.contains(&pattern) {
            return None;
        }
        let rest = &SHAPES[pattern.0].rest;
        let glued = start.start() > 0 && rest.is_glued_to(bytes[start.start() - 1]);
        (!glued && follows(rest, &bytes[start.end()..])).then_some((pattern, start.start()))
    });
    hit.map(|(pattern, place)| Hit {
        pattern,
        line: 1 + bytes[..place].iter().filter(|byte| **byte == b'\n').count(),
    })
}

struct Scanner {
    starts: AhoCorasick,
    shape_of_start: Vec<usize>,
}

static SCANNER: LazyLock<Scanner> = LazyLock::new(|| {
    let (shape_of_start, starts): (Vec<usize>, Vec<&str>) = SHAPES
        .iter()
        .enumerate()
        .flat_map(|(shape, entry)| entry.starts.iter().map(move |start| (shape, *start)))
        .unzip();
    // The longest start wins: `sk-ant-` is not an OpenAI key.
    #[expect(
        clippy::expect_used,
        reason = "a few dozen constant literals cannot exceed the automaton's limits"
    )]
    let starts = AhoCorasick::builder()
        .match_kind(MatchKind::LeftmostLongest)
        .build(starts)
        .expect("a small constant set");
    Scanner { starts, shape_of_start }
});

/// How far a token is looked at. None is this long; without an end, a hostile file would be read again and again.
const FAR_ENOUGH: usize = 256;

fn follows(rest: &Rest, bytes: &[u8]) -> bool {
    let run = |bytes: &[u8], set: fn(u8) -> bool| bytes.iter().take_while(|byte| set(**byte)).count();
    match rest {
        Rest::Token { least, set } => {
            let length = run(&bytes[..bytes.len().min(FAR_ENOUGH)], *set);
            length >= *least && bytes[..length].iter().any(u8::is_ascii_digit)
        }
        Rest::Jwt => {
            let mut rest = bytes;
            for part in 0..3 {
                let length = run(rest, is_url_safe);
                let dot = rest.get(length) == Some(&b'.');
                if length < 10 || (part < 2 && !dot) {
                    return false;
                }
                rest = rest.get(length + 1..).unwrap_or_default();
            }
            true
        }
        Rest::Pem => {
            let line = &bytes[..bytes.len().min(40)];
            let line = line.split(|byte| *byte == b'\n').next().unwrap_or_default();
            line.windows(11).any(|window| window == b"PRIVATE KEY")
        }
        Rest::Assigned { least } => {
            let bytes = &bytes[..bytes.len().min(FAR_ENOUGH)];
            let gap = run(bytes, |byte| matches!(byte, b' ' | b'\t' | b'"' | b'\'' | b':' | b'='));
            (1..=8).contains(&gap) && run(&bytes[gap..], is_base64) >= *least
        }
    }
}

fn is_alphanumeric(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
}

fn is_upper_alphanumeric(byte: u8) -> bool {
    byte.is_ascii_uppercase() || byte.is_ascii_digit()
}

fn is_url_safe(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_')
}

fn is_base64(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=')
}

fn is_bearer(byte: u8) -> bool {
    is_url_safe(byte) || is_base64(byte) || matches!(byte, b'.' | b'~')
}

#[cfg(test)]
#[path = "credential_tests.rs"]
mod tests;
