//! Chance, from the kernel.

use std::io;

/// Fills bytes with what nobody can guess.
pub fn draw(bytes: &mut [u8]) -> io::Result<()> {
    getrandom::fill(bytes).map_err(|error| io::Error::other(error.to_string()))
}
