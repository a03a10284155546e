//! Hiding secrets: the price of every byte that an agent prints.

use std::time::Duration;

use agora_core::secret::{SecretValue, ShortSecrets};
use agora_worker::redact::Redactor;
use sha2::{Digest as _, Sha256};

use super::{Figure, Subject, rounds};
use crate::{failure::Failure, stopwatch::Stopwatch};

const TEXT_BYTES: usize = 4 * 1024 * 1024;

/// Four mebibytes with 50 and with 200 secrets, in all their forms, beside hashing the same bytes.
pub(super) fn four_mebibytes(_: &Subject) -> Result<Vec<Figure>, Failure> {
    let text = text();
    let (few, many) = (redactor(50)?, redactor(200)?);
    let [fifty, two_hundred, building, floor] = rounds::medians([
        &mut || Ok(timed(|| few.bytes(&text).len())),
        &mut || Ok(timed(|| many.bytes(&text).len())),
        &mut || Ok(timed(|| redactor(50).is_ok())),
        &mut || Ok(timed(|| Sha256::digest(&text))),
    ])?;
    let hash = "SHA-256 of the same bytes";
    Ok(vec![
        Figure::time("hide 50 secrets in 4 MiB, all forms", fifty, hash, floor).wish("≤ 4 ×"),
        Figure::time("hide 200 secrets in 4 MiB, all forms", two_hundred, "the same with 50 secrets", fifty)
            .wish("≤ 1.3 ×"),
        Figure::time("get ready to hide 50 secrets, once a dispatch", building, hash, floor),
    ])
}

fn timed<T>(work: impl FnOnce() -> T) -> Duration {
    let stopwatch = Stopwatch::start();
    std::hint::black_box(work());
    stopwatch.elapsed()
}

/// A secret as services give them out: a prefix that many share, and 32 characters.
fn secret(number: usize) -> String {
    let digest = Sha256::digest(number.to_le_bytes());
    let tail: String = digest.iter().map(|byte| char::from(b'a' + byte % 26)).collect();
    format!("{}{tail}/{number}", ["key-", "tok_", "", "user:"][number % 4])
}

fn redactor(count: usize) -> Result<Redactor, Failure> {
    let value = |number| SecretValue::new(secret(number), ShortSecrets::Refuse);
    let values: Vec<SecretValue> = (0..count)
        .map(value)
        .collect::<Result<_, _>>()
        .map_err(|error| Failure::new("a secret was refused").because(error.to_string()))?;
    Redactor::new(&values).map_err(|error| Failure::new("no redactor was made").because(error.to_string()))
}

/// Output like an agent's: JSON lines of prose and code, with a secret in each hundredth.
fn text() -> Vec<u8> {
    let mut text = Vec::with_capacity(TEXT_BYTES + 256);
    for line in 0.. {
        let known = if line % 100 == 0 { secret(line / 100 % 50) } else { "key-rotation/7".to_owned() };
        text.extend_from_slice(
            format!("{{\"type\":\"assistant\",\"line\":{line},\"text\":\"let token = read({known}); // user:name\\n\"}}\n")
                .as_bytes(),
        );
        if text.len() >= TEXT_BYTES {
            break;
        }
    }
    text.truncate(TEXT_BYTES);
    text
}
