//! Content that is no text, as git writes it: deflated, in letters, 52 bytes to a line.

use miniz_oxide::deflate::core::{
    CompressorOxide, TDEFLFlush, TDEFLStatus, compress_to_output, create_comp_flags_from_zip_params,
};

use super::left_out::Why;
use super::section::Section;

/// Git's own alphabet for base 85.
const ALPHABET: &[u8; 85] =
    b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~";

/// Bytes to a line: the most that one letter can count.
const LINE: usize = 52;

/// Of ten. What zlib takes by default.
const LEVEL: i32 = 6;

/// Writes a whole content.
pub(super) fn literal(section: &mut Section, bytes: &[u8]) -> Result<(), Why> {
    section.line(&format!("literal {}", bytes.len()))?;
    // A positive window asks for the header and the checksum of zlib.
    let flags = create_comp_flags_from_zip_params(LEVEL, 15, 0);
    let mut compressor = CompressorOxide::new(flags);
    let (mut held, mut written) = (Vec::with_capacity(2 * LINE), Ok(()));
    let (status, _) = compress_to_output(&mut compressor, bytes, TDEFLFlush::Finish, |piece| {
        held.extend_from_slice(piece);
        written = full_lines(section, &mut held);
        written.is_ok()
    });
    written?;
    if status != TDEFLStatus::Done {
        // It cannot happen with room to write; whatever it is, there is no such content to show.
        return Err(Why::Unreadable);
    }
    if !held.is_empty() {
        line(section, &held)?;
    }
    section.push(b"\n")
}

fn full_lines(section: &mut Section, held: &mut Vec<u8>) -> Result<(), Why> {
    let full = held.len() - held.len() % LINE;
    held[..full].chunks(LINE).try_for_each(|chunk| line(section, chunk))?;
    held.drain(..full);
    Ok(())
}

/// Writes a letter for how many bytes follow, then five letters for every four of them.
fn line(section: &mut Section, chunk: &[u8]) -> Result<(), Why> {
    let mut out = Vec::with_capacity(2 + LINE / 4 * 5);
    let count = chunk.len() as u8;
    out.push(if count <= 26 { b'A' + count - 1 } else { b'a' + count - 27 });
    for four in chunk.chunks(4) {
        let mut bytes = [0; 4];
        bytes[..four.len()].copy_from_slice(four);
        let mut number = u32::from_be_bytes(bytes);
        let mut letters = [0; 5];
        for letter in letters.iter_mut().rev() {
            *letter = ALPHABET[(number % 85) as usize];
            number /= 85;
        }
        out.extend_from_slice(&letters);
    }
    out.push(b'\n');
    section.push(&out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_not_written() {
        let noise: Vec<u8> =
            (0..100_000_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        assert_eq!(literal(&mut Section::new(100, 0), &noise), Err(Why::PatchFull));
    }
}
