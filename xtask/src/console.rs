//! The only place that prints. Results go to stdout; progress and errors go to stderr.

use std::{process::ExitCode, time::Duration};

use crate::failure::Failure;

/// Prints a result.
#[expect(clippy::print_stdout, reason = "this module is the one mouth of xtask")]
pub(crate) fn result(text: &str) {
    println!("{text}");
}

/// Prints a line of progress.
#[expect(clippy::print_stderr, reason = "this module is the one mouth of xtask")]
pub(crate) fn progress(text: &str) {
    eprintln!("{text}");
}

/// Prints a line that stands out between the outputs of two tools.
pub(crate) fn heading(title: &str) {
    progress(&format!("\n=== {title}"));
}

/// Prints how long the step under the last heading took.
pub(crate) fn finished(title: &str, took: Duration) {
    progress(&format!("=== {title}: ok, {}", seconds(took)));
}

/// Prints the failure that ends the run.
pub(crate) fn report(failure: &Failure) -> ExitCode {
    progress(&format!("\n{failure}"));
    ExitCode::FAILURE
}

/// Returns a duration as a person reads it.
pub(crate) fn seconds(duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    if seconds < 60.0 {
        format!("{seconds:.1} s")
    } else {
        format!("{} min {:02} s", duration.as_secs() / 60, duration.as_secs() % 60)
    }
}

#[cfg(test)]
mod tests {
    use super::{Duration, seconds};

    #[test]
    fn durations_read_well() {
        assert_eq!(seconds(Duration::from_millis(340)), "0.3 s");
        assert_eq!(seconds(Duration::from_secs(125)), "2 min 05 s");
    }
}
