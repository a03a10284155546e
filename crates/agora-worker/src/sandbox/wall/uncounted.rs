//! What only a control group counts.

use agora_core::wall::{Built, Level};

/// What a guard cannot count, or only when it looks.
const UNCOUNTED: &str = "having more memory than its limit for a moment, in segments of System V, in files of memory that it hides, or \
     in the buffers of its sockets and pipes: no control group counts it";

/// Adds to what a wall leaves open that memory is not counted to the byte: where there is a limit, and neither a control group nor a
/// container's daemon keeps it. Whether groups can be made is looked for only then.
pub(crate) fn say_uncounted(
    built: &mut Built,
    memory_bytes: Option<u64>,
    kernel_keeps_limits: impl FnOnce() -> bool,
) {
    let counts = memory_bytes.is_some() && !built.container && built.level != Level::None;
    if counts && !kernel_keeps_limits() {
        built.leaves_open.push(UNCOUNTED.to_owned());
    }
}
