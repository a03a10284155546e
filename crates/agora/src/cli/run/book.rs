//! What became of each line: little enough to keep for ten thousand of them. The rest is in the ledger.

use std::collections::BTreeMap;

use agora_core::DispatchId;
use agora_engine::{Agora, DispatchResult};
use serde_json::{Value, json};

use crate::dispatch_story;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::table::Table;
use crate::ui::{Form, Ui, print};

/// How much of an agent's words is shown beside its line.
const SHOWN: usize = 60;

/// What became of the lines, in their order.
#[derive(Debug, Default)]
pub(super) struct Book(BTreeMap<usize, Came>);

#[derive(Debug)]
enum Came {
    Ran { dispatch: DispatchId, state: &'static str, words: String },
    Refused { code: &'static str, message: String, hints: Vec<String> },
}

/// How many lines came to which end.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) finished: usize,
    pub(super) failed: usize,
    pub(super) cancelled: usize,
    pub(super) paused: usize,
}

impl Counts {
    pub(super) fn text(self) -> String {
        let all = [
            (self.finished, "finished"),
            (self.failed, "failed"),
            (self.cancelled, "cancelled"),
            (self.paused, "paused with a question"),
        ];
        let some = all.into_iter().filter(|(count, word)| *count > 0 || *word == "finished");
        some.map(|(count, word)| format!("{count} {word}")).collect::<Vec<_>>().join(", ")
    }
}

impl Book {
    pub(super) fn ended(&mut self, line: usize, result: &DispatchResult) {
        let told = match &result.failure {
            Some(failure) => failure.detail.clone(),
            None => match &result.needs_input {
                Some(asked) => asked.question.clone(),
                None => dispatch_story::words(result),
            },
        };
        let first = told.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
        let words = first.chars().filter(|letter| !letter.is_control()).take(SHOWN).collect();
        self.0.insert(line, Came::Ran { dispatch: result.dispatch_id.clone(), state: result.state, words });
    }

    pub(super) fn refused(&mut self, line: usize, failure: Failure) {
        let message = failure.in_a_line();
        self.0.insert(line, Came::Refused { code: failure.code, message, hints: failure.hints });
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for came in self.0.values() {
            *match came {
                Came::Ran { state: "finished", .. } => &mut counts.finished,
                Came::Ran { state: "cancelled", .. } => &mut counts.cancelled,
                Came::Ran { state: "needs_input", .. } => &mut counts.paused,
                Came::Ran { .. } | Came::Refused { .. } => &mut counts.failed,
            } += 1;
        }
        counts
    }

    pub(super) fn exit(&self, pause_ok: bool) -> Exit {
        match self.counts() {
            Counts { failed, cancelled, .. } if failed + cancelled > 0 => Exit::Failed,
            Counts { paused, .. } if paused > 0 && !pause_ok => Exit::Paused,
            _ => Exit::Done,
        }
    }

    /// Gives the results, in the order of the lines: one document, or a table.
    pub(super) async fn tell(&self, ui: Ui, agora: &Agora) -> Result<(), Failure> {
        if ui.form() == Form::Json {
            return self.document(agora).await;
        }
        let mut table = Table::new(["LINE", "DISPATCH", "STATE", "SAYS"]);
        for (line, came) in &self.0 {
            table.row(match came {
                Came::Ran { dispatch, state, words } => {
                    [line.to_string(), dispatch.to_string(), (*state).to_owned(), words.clone()]
                }
                Came::Refused { message, .. } => {
                    [line.to_string(), String::new(), "not accepted".to_owned(), message.clone()]
                }
            });
        }
        print(&table.text())?;
        ui.note(self.counts().text());
        let first = self.0.values().find_map(|came| match came {
            Came::Ran { dispatch, state: "failed", .. } => Some(dispatch),
            _ => None,
        });
        if let Some(first) = first {
            ui.hint(format_args!("`agora show {first}` tells why the first of them failed"));
        }
        Ok(())
    }

    /// Writes an array, one result after the other: ten thousand of them at once would be more than a machine has.
    async fn document(&self, agora: &Agora) -> Result<(), Failure> {
        let mut before = "[";
        for came in self.0.values() {
            let result = match came {
                Came::Ran { dispatch, .. } => whole(agora, dispatch).await,
                Came::Refused { code, message, hints } => error(code, message, hints),
            };
            print(&format!("{before}{result}"))?;
            before = ",\n";
        }
        print(if self.0.is_empty() { "[]\n" } else { "]\n" })
    }
}

async fn whole(agora: &Agora, dispatch: &DispatchId) -> Value {
    let result = async { agora.find(dispatch.as_str()).await?.describe().await };
    match result.await {
        Ok(result) => serde_json::to_value(&result).unwrap_or_default(),
        Err(failed) => {
            let failure = Failure::from(failed);
            error(failure.code, &failure.message, &failure.hints)
        }
    }
}

fn error(code: &str, message: &str, hints: &[String]) -> Value {
    json!({"error": {"code": code, "message": message, "hints": hints}})
}
