//! Bytes as lowercase hex digits, for keys and signatures.

use std::fmt::Write;

pub(super) fn encode(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Reads exactly as many bytes as are wanted.
pub(super) fn decode<const COUNT: usize>(text: &str) -> Option<[u8; COUNT]> {
    let digits = text.as_bytes();
    if digits.len() != COUNT * 2 {
        return None;
    }
    let mut bytes = [0; COUNT];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        let digit = |digit: u8| char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok());
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back_and_nothing_else() {
        assert_eq!(encode(&[0, 15, 255]), "000fff");
        assert_eq!(decode("000fff"), Some([0, 15, 255]));
        for wrong in ["", "000ff", "000fff0", "000ffg", "00+fff", "é0ff"] {
            assert_eq!(decode::<3>(wrong), None, "{wrong}");
        }
    }
}
