//! Chance, from the kernel.

/// Fills bytes with what nobody can guess. A machine without any gives zeros, and with it the next write of a name fails.
pub fn draw(bytes: &mut [u8]) {
    let _ = getrandom::fill(bytes);
}
