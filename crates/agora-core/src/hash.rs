//! Content hashes: the identity of everything that is stored.

use std::fmt;
use std::str::FromStr;

use sha2::{Digest, Sha256};

use crate::text::serde_as_text;

const ALGORITHM: &str = "sha256:";

/// A SHA-256 digest. A value of this type is well formed; nobody checks again.
///
/// ```
/// use agora_core::ContentHash;
///
/// let hash = ContentHash::of(b"hello");
/// assert_eq!(hash.to_string().parse(), Ok(hash));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContentHash([u8; 32]);

/// Says why a text is not a content hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HashParseError {
    #[error("a hash begins with `sha256:`")]
    NoAlgorithm,
    #[error("a hash has 64 digits after `sha256:`, this one has {0}")]
    Length(usize),
    /// Upper-case digits would give one blob two names.
    #[error("a hash has only the digits 0-9 and a-f")]
    NotLowerHex,
}

impl ContentHash {
    /// Hashes bytes that are all at hand.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// Takes a digest that was made piece by piece.
    pub fn from_digest(digest: [u8; 32]) -> Self {
        Self(digest)
    }

    /// Returns the digest itself.
    pub fn digest(&self) -> [u8; 32] {
        self.0
    }

    /// Returns the 64 hex digits without the algorithm, as they are used in file names.
    pub fn digits(&self) -> String {
        self.with_digits(str::to_owned)
    }

    /// Returns as many digits, with the algorithm, as a reference needs and a person can take in.
    pub fn short(&self) -> impl fmt::Display + use<> {
        Short(*self)
    }

    /// Lends the digits out without allocating: lists hold thousands of hashes.
    fn with_digits<T>(&self, use_them: impl FnOnce(&str) -> T) -> T {
        let mut digits = [0; 64];
        for (two, byte) in digits.chunks_exact_mut(2).zip(self.0) {
            two.copy_from_slice(&pair(byte));
        }
        // Only ASCII was written.
        use_them(str::from_utf8(&digits).unwrap_or_default())
    }

    /// Tells whether the hash begins with these hex digits.
    pub fn has_prefix(&self, prefix: &HashPrefix) -> bool {
        self.with_digits(|digits| digits.starts_with(&prefix.0))
    }
}

/// The beginning of a hash, for people.
struct Short(ContentHash);

impl fmt::Display for Short {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut digits = [0; SHORTEST_PREFIX];
        for (two, byte) in digits.chunks_exact_mut(2).zip(self.0.0) {
            two.copy_from_slice(&pair(byte));
        }
        // Only ASCII was written.
        f.write_str(ALGORITHM).and_then(|()| f.write_str(str::from_utf8(&digits).unwrap_or_default()))
    }
}

/// Writes a byte as two hex digits.
pub(crate) fn pair(byte: u8) -> [u8; 2] {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]
}

impl fmt::Display for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.with_digits(|digits| f.write_str(ALGORITHM).and_then(|()| f.write_str(digits)))
    }
}

impl fmt::Debug for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for ContentHash {
    type Err = HashParseError;

    fn from_str(text: &str) -> Result<Self, HashParseError> {
        let digits = text.strip_prefix(ALGORITHM).ok_or(HashParseError::NoAlgorithm)?.as_bytes();
        let mut bytes = [0; 32];
        // Every digit in one pass: lists hold thousands of hashes.
        let mut strange = 0;
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            let (high, low) = (VALUES[usize::from(pair[0])], VALUES[usize::from(pair[1])]);
            strange |= high | low;
            *byte = high << 4 | low & 15;
        }
        if strange > 15 || digits.len() != 64 {
            let lower_hex = digits.iter().all(|digit| VALUES[usize::from(*digit)] <= 15);
            return Err(if lower_hex {
                HashParseError::Length(digits.len())
            } else {
                HashParseError::NotLowerHex
            });
        }
        Ok(Self(bytes))
    }
}

serde_as_text!(ContentHash);

/// The first digits of a hash, as a person types them: 12 or more.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HashPrefix(String);

/// Fewer digits than this would often be ambiguous, and are easily a slip.
const SHORTEST_PREFIX: usize = 12;

/// Says why a text is not the beginning of a hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PrefixParseError {
    #[error("a hash in a reference has 12 to 64 digits, this one has {0}")]
    Length(usize),
    #[error("a hash has only the digits 0-9 and a-f")]
    NotLowerHex,
}

impl HashPrefix {
    /// Parses the digits after `sha256:`.
    pub fn from_digits(digits: &str) -> Result<Self, PrefixParseError> {
        if digits.bytes().any(|digit| VALUES[usize::from(digit)] > 15) {
            return Err(PrefixParseError::NotLowerHex);
        }
        if (SHORTEST_PREFIX..=64).contains(&digits.len()) {
            Ok(Self(digits.to_owned()))
        } else {
            Err(PrefixParseError::Length(digits.len()))
        }
    }
}

impl From<ContentHash> for HashPrefix {
    fn from(hash: ContentHash) -> Self {
        Self(hash.digits())
    }
}

impl fmt::Display for HashPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{ALGORITHM}{}", self.0)
    }
}

/// The value of each byte as a hex digit; more than 15 for what is none.
const VALUES: [u8; 256] = {
    let mut values = [0xff; 256];
    let mut digit = 0;
    while digit < 10 {
        values[b'0' as usize + digit] = digit as u8;
        digit += 1;
    }
    while digit < 16 {
        values[b'a' as usize + digit - 10] = digit as u8;
        digit += 1;
    }
    values
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_of_nothing_is_the_well_known_one() {
        let empty = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(ContentHash::of(b"").to_string(), empty);
        assert_eq!(empty.parse(), Ok(ContentHash::of(b"")));
    }

    proptest::proptest! {
        #[test]
        fn parse_and_display_are_inverse(bytes: [u8; 32]) {
            let hash = ContentHash(bytes);
            proptest::prop_assert_eq!(hash.to_string().parse(), Ok(hash));
            proptest::prop_assert!(hash.has_prefix(&HashPrefix::from(hash)));
            proptest::prop_assert_eq!(hash.short().to_string(), hash.to_string()[..19].to_owned());
        }

        #[test]
        fn what_parses_is_printed_to_the_letter(text in "(sha256:)?[0-9a-fA-Fg]{60,66}") {
            if let Ok(hash) = text.parse::<ContentHash>() {
                proptest::prop_assert_eq!(hash.to_string(), text);
            }
        }
    }

    #[test]
    fn what_is_not_a_hash_is_refused() {
        let digits = ContentHash::of(b"").digits();
        let cases = [
            (digits.clone(), HashParseError::NoAlgorithm),
            (format!("sha1:{digits}"), HashParseError::NoAlgorithm),
            (format!("sha256:{}", digits.to_uppercase()), HashParseError::NotLowerHex),
            (format!("sha256:{}", &digits[..63]), HashParseError::Length(63)),
            (format!("sha256:{digits}0"), HashParseError::Length(65)),
            ("sha256:é".to_owned(), HashParseError::NotLowerHex),
        ];
        for (text, expected) in cases {
            assert_eq!(text.parse::<ContentHash>(), Err(expected), "{text}");
        }
    }

    #[test]
    fn a_prefix_has_twelve_digits_or_more() {
        let hash = ContentHash::of(b"x");
        let digits = hash.digits();
        assert_eq!(HashPrefix::from_digits(&digits[..11]), Err(PrefixParseError::Length(11)));
        assert!(hash.has_prefix(&HashPrefix::from_digits(&digits[..12]).unwrap()));
        assert!(!ContentHash::of(b"y").has_prefix(&HashPrefix::from_digits(&digits).unwrap()));
    }
}
