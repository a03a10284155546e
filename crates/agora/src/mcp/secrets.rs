//! Questions that want a secret, and answers that are one. Forms are kept, shown, and sent to models, and an answer stands in the ledger:
//! a secret reaches an agent by an env bundle, and no other way.

use agora_core::answer::Given;
use agora_core::credential::{self, Pattern};
use agora_core::question::{Choosing, Question};
use serde_json::Value;

/// What a person types to store a secret, where no shell keeps it.
pub(crate) const LINE: &str = "agora env register --name NAME --secret KEY=prompt";

/// What is a secret wherever it is asked about, alone or as one of several.
const SECRETS: [&str; 31] = [
    "password",
    "passwort",
    "kennwort",
    "passphrase",
    "passcode",
    "credential",
    "api key",
    "apikey",
    "access key",
    "secret key",
    "private key",
    "ssh key",
    "deploy key",
    "license key",
    "signing key",
    "access token",
    "api token",
    "auth token",
    "bearer token",
    "refresh token",
    "client secret",
    "seed phrase",
    "recovery code",
    "verification code",
    "one time code",
    "2fa code",
    "mfa code",
    "otp",
    "pin code",
    "your pin",
    "enter the pin",
];

/// What is one only where somebody wants to be given it: there are token buckets, and secrets of success.
const PERHAPS: [&str; 2] = ["token", "secret"];

/// How somebody wants to be given something.
const GIVING: [&str; 16] = [
    "paste", "enter", "type", "provide", "give", "send", "share", "supply", "tell", "insert", "need",
    "needs", "require", "your", "what is", "what s",
];

/// What follows where a word is about secrets and asks for none: how passwords are hashed is no secret.
const ABOUT: [&str; 24] = [
    "bucket", "limit", "limits", "budget", "count", "size", "window", "type", "format", "name", "names",
    "field", "fields", "form", "policy", "hashing", "hash", "reset", "manager", "store", "storage", "length",
    "rotation", "strength",
];

/// Tells whether a question wants a secret, as far as its words say: those of what is to be written freely, and those around it.
pub(crate) fn wants_a_secret(question: &Question) -> bool {
    let items = question.items().iter();
    let mut free =
        items.filter(|item| item.choosing() == Choosing::FreeText || item.allows_other()).peekable();
    if free.peek().is_none() {
        // To choose where a secret is kept is not to give it.
        return false;
    }
    let asked = |text: &str| {
        let words = words(text);
        names(&words, &SECRETS) || (names(&words, &PERHAPS) && holds(&words, &GIVING))
    };
    // What is said around it may be about anything: there it counts only where a sentence wants it.
    let wanted = |text: &str| {
        let words = words(text);
        (names(&words, &SECRETS) || names(&words, &PERHAPS)) && holds(&words, &GIVING)
    };
    free.any(|item| asked(&format!("{} {}", item.header().unwrap_or_default(), item.question())))
        || question.context().is_some_and(|context| context.split(['.', '?', '!', ';', '\n']).any(wanted))
}

/// Returns which kind of credential an answer has in it, by its shape.
pub(crate) fn credential_in(given: &Given) -> Option<Pattern> {
    let text = match given {
        Given::Text(text) => text.clone(),
        Given::ByItem(values) => Value::Object(values.clone()).to_string(),
    };
    credential::find(text.as_bytes(), &[]).map(|hit| hit.pattern)
}

/// Returns the words of a text in small letters, each between spaces: `API_KEY` is two of them.
fn words(text: &str) -> String {
    let text = text.to_lowercase();
    let words = text.split(|character: char| !character.is_alphanumeric()).filter(|word| !word.is_empty());
    words.fold(String::from(" "), |words, word| words + word + " ")
}

/// Tells whether one of the names stands in the words, alone or as one of several, and not to say what something is about.
fn names(words: &str, names: &[&str]) -> bool {
    let follows = |rest: &str| rest.split(' ').next().is_some_and(|next| ABOUT.contains(&next));
    let several = |name: &&str| [format!(" {name} "), format!(" {name}s ")];
    let several = names.iter().filter(|name| !PERHAPS.contains(name)).flat_map(several);
    let alone = names.iter().map(|name| format!(" {name} "));
    several
        .chain(alone)
        .any(|name| words.match_indices(&name).any(|(place, found)| !follows(&words[place + found.len()..])))
}

fn holds(words: &str, names: &[&str]) -> bool {
    names.iter().any(|name| words.contains(&format!(" {name} ")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn wants(value: Value) -> bool {
        wants_a_secret(&serde_json::from_value(value).unwrap())
    }

    #[test]
    fn a_question_that_asks_for_a_secret_is_known() {
        for text in [
            "What is the API key of the staging account?",
            "Please enter your Password",
            "Paste your GitHub token",
            "I need the GITHUB_TOKEN, please provide it",
            "What's the secret?",
            "Which SSH key may I use? Paste it here.",
            "Enter the one-time code from your phone",
            "What is your PIN?",
            "Give me the AWS credentials",
            "Bitte das Passwort eingeben",
            "OTP?",
        ] {
            assert!(wants(json!({"questions": [{"question": text}]})), "{text}");
        }
    }

    #[test]
    fn a_question_about_secrets_is_not_one_for_them() {
        for text in [
            "Which token bucket size?",
            "What is the token limit?",
            "How many tokens may I use?",
            "Which password hashing library?",
            "What is the name of the secret store?",
            "Which keyboard layout?",
            "Is the secret of its success the cache?",
            "Which GPIO pin is the LED on?",
            "Should the desktop be optional?",
        ] {
            assert!(!wants(json!({"questions": [{"question": text}]})), "{text}");
        }
        // To choose where a secret is kept is not to give it.
        let choice = json!({"questions": [{"question": "Where is the API key kept?", "options": [{"label": "vault"}]}]});
        assert!(!wants(choice));
    }

    #[test]
    fn what_is_said_around_a_question_counts_where_it_wants_something() {
        let said =
            |context: &str| wants(json!({"context": context, "questions": [{"question": "What is it?"}]}));
        assert!(said("I looked around. I need the database password of production to go on."));
        assert!(said("Send me a token for the registry"));
        assert!(!said("The login page has a password field. Its colours are odd."));
        assert!(!said("I need a name for it. Passwords are hashed with argon2."));
    }

    #[test]
    fn an_answer_that_is_a_credential_is_known_by_its_shape() {
        let text = |text: &str| credential_in(&Given::Text(text.to_owned())).map(Pattern::name);
        assert_eq!(text(&format!("ghp_{}", "a1".repeat(18))), Some("github-token"));
        assert_eq!(text("it is -----BEGIN RSA PRIVATE KEY-----\nMII…"), Some("pem-private-key"));
        assert_eq!(text("sqlite"), None);
        let mut values = serde_json::Map::new();
        values.insert("db".to_owned(), json!("sqlite"));
        values.insert("why".to_owned(), json!(format!("glpat-{}", "a1".repeat(12))));
        assert_eq!(credential_in(&Given::ByItem(values)).map(Pattern::name), Some("gitlab-token"));
    }
}
