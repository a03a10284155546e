//! Our canonical JSON is what an implementation that nobody here wrote makes of the same values.
#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test fails loudly, and starts what it looks at"
)]

use std::fmt::Write as _;
use std::process::Command;

use agora_core::canonical;
use agora_testkit::cli::run;
use agora_testkit::part;
use serde_json::{Map, Value, json};

const SCRIPT: &str = "\
import json, sys, rfc8785
for line in open(sys.argv[1], encoding='utf-8'):
    print(rfc8785.dumps(json.loads(line)).hex())
";

/// A small generator, so that every run compares the same values.
struct Values(u64);

impl Values {
    fn next(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below
    }

    fn text(&mut self) -> String {
        const LETTERS: [char; 12] =
            ['a', 'Z', '"', '\\', '\n', '\u{1}', '\u{7f}', 'é', 'ﬀ', '😀', '\u{2028}', '/'];
        (0..self.next(6)).map(|_| LETTERS[usize::try_from(self.next(12)).unwrap()]).collect()
    }

    fn number(&mut self) -> Value {
        match self.next(4) {
            0 => json!(self.next(1 << 31)),
            1 => json!(-9_007_199_254_740_991_i64),
            2 => json!(f64::from_bits(self.next(1 << 31) << 32 | self.next(1 << 31))),
            _ => json!(self.next(1000) as f64 / 8.0),
        }
    }

    fn value(&mut self, depth: u64) -> Value {
        match self.next(if depth == 0 { 5 } else { 7 }) {
            0 => Value::Null,
            1 => json!(self.next(2) == 0),
            2 | 3 => self.number(),
            4 => Value::String(self.text()),
            5 => (0..self.next(5)).map(|_| self.value(depth - 1)).collect(),
            _ => Value::Object(
                (0..self.next(6)).map(|_| (self.text(), self.value(depth - 1))).collect::<Map<_, _>>(),
            ),
        }
    }
}

#[test]
fn the_python_implementation_agrees() {
    let Some(python) = part::find("AGORA_TEST_PYTHON") else { return };
    let mut values = Values(8785);
    let corpus: Vec<Value> =
        (0..if part::full() { 100_000 } else { 2000 }).map(|_| values.value(4)).collect();
    let dir = tempfile::tempdir().unwrap();
    let lines = corpus.iter().map(|value| format!("{value}\n")).collect::<String>();
    std::fs::write(dir.path().join("values.jsonl"), lines).unwrap();
    let mut command = Command::new(python);
    let theirs = run(command.arg("-c").arg(SCRIPT).arg(dir.path().join("values.jsonl"))).success();
    let theirs: Vec<&str> = theirs.lines().collect();
    assert_eq!(theirs.len(), corpus.len());
    for (value, theirs) in corpus.iter().zip(theirs) {
        let mut ours = String::new();
        canonical::to_bytes(value).unwrap().iter().for_each(|byte| write!(ours, "{byte:02x}").unwrap());
        assert_eq!(ours, theirs, "{value}");
    }
}
