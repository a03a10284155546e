//! What a benchmark found, and how it is shown.

use std::time::Duration;

use crate::table::Table;

/// One line of the table.
#[derive(Debug)]
pub(super) struct Figure {
    what: String,
    measured: String,
    floor: String,
    ratio: String,
    /// What it should reach; empty where nobody asks for anything.
    wish: &'static str,
}

impl Figure {
    /// Says what the figure should reach.
    pub(super) fn wish(self, wish: &'static str) -> Self {
        Self { wish, ..self }
    }

    /// Returns a time beside what the machine itself needs for the least that has to be done.
    pub(super) fn time(
        what: impl Into<String>,
        measured: Duration,
        floor: &str,
        floor_time: Duration,
    ) -> Self {
        let ratio = measured.as_secs_f64() / floor_time.as_secs_f64();
        Self {
            what: what.into(),
            measured: milliseconds(measured),
            floor: format!("{floor}: {}", milliseconds(floor_time)),
            ratio: format!("{ratio:.1} ×"),
            wish: "",
        }
    }

    /// Returns a size, which has no floor.
    pub(super) fn bytes(what: impl Into<String>, bytes: u64) -> Self {
        let (whole, tenth) = (bytes / 1_000_000, bytes % 1_000_000 / 100_000);
        Self {
            what: what.into(),
            measured: format!("{whole}.{tenth} MB"),
            floor: "-".into(),
            ratio: "-".into(),
            wish: "",
        }
    }

    /// Returns memory, which has no floor.
    pub(super) fn memory(what: impl Into<String>, bytes: u64) -> Self {
        Self { what: what.into(), measured: mebibytes(bytes), floor: "-".into(), ratio: "-".into(), wish: "" }
    }

    /// Returns memory over what is taken anyway.
    pub(super) fn memory_above(what: impl Into<String>, bytes: u64, floor: &str, floor_bytes: u64) -> Self {
        Self {
            what: what.into(),
            measured: mebibytes(bytes.saturating_sub(floor_bytes)),
            floor: format!("{floor}: {}", mebibytes(floor_bytes)),
            ratio: "-".into(),
            wish: "",
        }
    }
}

pub(super) fn render(figures: &[Figure]) -> String {
    let mut table = Table::new(["what", "median of 5", "floor, in the same run", "ratio", "wish"]);
    for Figure { what, measured, floor, ratio, wish } in figures {
        table.add([what.clone(), measured.clone(), floor.clone(), ratio.clone(), (*wish).to_owned()]);
    }
    table.render()
}

fn mebibytes(bytes: u64) -> String {
    let tenths = bytes * 10 / (1024 * 1024);
    format!("{}.{} MiB", tenths / 10, tenths % 10)
}

/// Three digits: more would be noise.
fn milliseconds(duration: Duration) -> String {
    let milliseconds = duration.as_secs_f64() * 1000.0;
    match milliseconds {
        100.0.. => format!("{milliseconds:.0} ms"),
        10.0.. => format!("{milliseconds:.1} ms"),
        _ => format!("{milliseconds:.2} ms"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_stands_beside_its_floor() {
        let figures = [
            Figure::time("help", Duration::from_micros(1230), "spawn", Duration::from_micros(600))
                .wish("≤ 3 ×"),
            Figure::bytes("size", 7_654_321),
        ];
        assert_eq!(
            render(&figures),
            "| what | median of 5 | floor, in the same run | ratio | wish  |\n\
             |------|-------------|------------------------|-------|-------|\n\
             | help | 1.23 ms     | spawn: 0.60 ms         | 2.1 × | ≤ 3 × |\n\
             | size | 7.6 MB      | -                      | -     |       |"
        );
    }

    #[test]
    fn memory_above_a_floor_is_without_it() {
        let above = Figure::memory_above("loud", 30 << 20, "idle", (7 << 20) + (1 << 19));
        assert_eq!((above.measured.as_str(), above.floor.as_str()), ("22.5 MiB", "idle: 7.5 MiB"));
        assert_eq!(Figure::memory("idle", 1 << 20).measured, "1.0 MiB");
    }

    #[test]
    fn times_have_three_digits() {
        assert_eq!(milliseconds(Duration::from_micros(123_456)), "123 ms");
        assert_eq!(milliseconds(Duration::from_micros(12_345)), "12.3 ms");
        assert_eq!(milliseconds(Duration::from_micros(1_234)), "1.23 ms");
    }
}
