//! One line that says how far a dispatch is. Only on a terminal.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use agora_core::DispatchId;
use agora_engine::Agora;
use serde::Deserialize;
use tokio::time::Instant;

use crate::cli::span;
use crate::ui::{Form, Ui};

/// How often the line is written again: often enough to see that time passes.
const TICK: Duration = Duration::from_millis(200);
/// What the worker writes fits into this many times over.
const FILE_BYTES: u64 = 64 * 1024;
/// A line that is longer than the terminal would be two.
const LONGEST: usize = 79;

/// The line.
#[derive(Debug)]
pub(crate) struct Progress {
    agora: Agora,
    dispatch: DispatchId,
    began: Instant,
    shown: bool,
    quiet: bool,
}

/// What the worker says of the agent while it runs.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Said {
    step: String,
    action: Option<String>,
    turns: Option<u64>,
    tokens: Option<u64>,
    cost_usd: Option<f64>,
}

impl Progress {
    pub(crate) fn new(ui: Ui, agora: Agora, dispatch: DispatchId) -> Self {
        let quiet = ui.form() == Form::Json || !std::io::stderr().is_terminal();
        Self { agora, dispatch, began: Instant::now(), shown: false, quiet }
    }

    /// Waits a moment, and writes the line again. Waits for ever where nobody looks.
    pub(crate) async fn tick(&mut self) {
        if self.quiet {
            return std::future::pending().await;
        }
        tokio::time::sleep(TICK).await;
        let said = self.said().await;
        let elapsed = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        let mut line = format!("{} {}", self.dispatch, span(elapsed));
        match &said {
            Some(said) => {
                line.extend(["  ", &said.step]);
                line.extend(said.turns.filter(|turns| *turns > 0).map(|turns| format!("  {turns} turns")));
                line.extend(
                    said.tokens.filter(|tokens| *tokens > 0).map(|tokens| format!("  {tokens} tokens")),
                );
                line.extend(said.cost_usd.map(|usd| format!("  ${usd:.2}")));
                line.extend(said.action.iter().map(|action| format!("  {action}")));
            }
            None => line.push_str(match self.agora.place(&self.dispatch).await {
                Ok(Some(_)) => "  waits for room",
                Ok(None) | Err(_) => "  starting",
            }),
        }
        let line: String =
            line.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).take(LONGEST).collect();
        self.shown = true;
        let _ = write!(std::io::stderr(), "\r\x1b[K{line}");
    }

    async fn said(&self) -> Option<Said> {
        let bytes = self.agora.read_left(&self.dispatch, "progress.json", 0, FILE_BYTES).await.ok()??;
        serde_json::from_slice(&bytes).ok()
    }

    /// Takes the line away.
    pub(crate) fn clear(&mut self) {
        if std::mem::take(&mut self.shown) {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}
