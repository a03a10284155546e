//! Says what was measured on, without which no figure means anything.

use std::{fs, thread};

/// Returns one line: cores, kernel, processor.
pub(super) fn describe() -> String {
    let cores = thread::available_parallelism().map_or_else(|_| "unknown".into(), |cores| cores.to_string());
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let processors = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = model_in(&processors).unwrap_or("unknown processor");
    format!("Machine: {cores} cores, Linux {}, {model}.", kernel.trim())
}

fn model_in(processors: &str) -> Option<&str> {
    let line = processors.lines().find(|line| line.starts_with("model name"))?;
    line.split_once(':').map(|(_, model)| model.trim())
}

#[cfg(test)]
mod tests {
    use super::model_in;

    #[test]
    fn the_model_is_that_of_the_first_core() {
        assert_eq!(model_in("processor\t: 0\nmodel name\t: AMD EPYC\nmodel name\t: other"), Some("AMD EPYC"));
        assert_eq!(model_in("processor\t: 0"), None);
    }
}
