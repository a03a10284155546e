//! One line that says how far a dispatch is, or many are. Only on a terminal.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use agora_core::DispatchId;
use agora_engine::Agora;
use serde::Deserialize;
use tokio::time::Instant;

use crate::cli::{counted, span};
use crate::plain::{fitting, plain};
use crate::ui::{Form, Ui};

/// How often the line is written again: often enough to see that time passes.
const TICK: Duration = Duration::from_millis(200);
/// What the worker writes fits into this many times over.
const FILE_BYTES: u64 = 64 * 1024;
/// How large a terminal is that does not say.
const COLUMNS: usize = 80;
const ROWS: usize = 24;

/// A line that is written again and again in its own place.
#[derive(Debug)]
pub(crate) struct LiveLine {
    shown: bool,
    quiet: bool,
}

impl LiveLine {
    pub(crate) fn new(ui: Ui) -> Self {
        Self { shown: false, quiet: ui.form() == Form::Json || !std::io::stderr().is_terminal() }
    }

    /// Waits a moment, until the line may be written again. Waits for ever where nobody looks.
    pub(crate) async fn tick(&self) {
        if self.quiet {
            return std::future::pending().await;
        }
        tokio::time::sleep(TICK).await;
    }

    pub(crate) fn write(&mut self, line: &str) {
        self.shown = true;
        // Wide letters count as one here: where they are too many, the terminal cuts the line, and does not wrap it.
        let _ = write!(std::io::stderr(), "\r\x1b[K\x1b[?7l{}\x1b[?7h", fitting(&plain(line), columns()));
    }

    /// Takes the line away.
    pub(crate) fn clear(&mut self) {
        if std::mem::take(&mut self.shown) {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}

/// How far one dispatch is.
#[derive(Debug)]
pub(crate) struct Progress {
    agora: Agora,
    dispatch: DispatchId,
    began: Instant,
    line: LiveLine,
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
        Self { agora, dispatch, began: Instant::now(), line: LiveLine::new(ui) }
    }

    /// Waits a moment, and writes the line again. Waits for ever where nobody looks.
    pub(crate) async fn tick(&mut self) {
        self.line.tick().await;
        let said = self.said().await;
        let elapsed = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        let mut line = format!("{} {}", self.dispatch, span(elapsed));
        match &said {
            Some(said) => {
                line.extend(["  ", &said.step]);
                line.extend(said.turns.filter(|turns| *turns > 0).map(|turns| {
                    format!("  {}", counted(usize::try_from(turns).unwrap_or(usize::MAX), "turn"))
                }));
                line.extend(
                    said.tokens.filter(|tokens| *tokens > 0).map(|tokens| format!("  {tokens} tokens")),
                );
                line.extend(said.cost_usd.map(|usd| format!("  ${usd:.2}")));
                line.extend(said.action.iter().map(|action| format!("  {action}")));
            }
            None => line.extend([match self.agora.place(&self.dispatch).await {
                Ok(Some(0)) => "  waits for room".to_owned(),
                Ok(Some(ahead)) => format!("  waits for room, {ahead} before it"),
                Ok(None) | Err(_) => "  starting".to_owned(),
            }]),
        }
        self.line.write(&line);
    }

    async fn said(&self) -> Option<Said> {
        let bytes = self.agora.read_left(&self.dispatch, "progress.json", 0, FILE_BYTES).await.ok()??;
        serde_json::from_slice(&bytes).ok()
    }

    /// Takes the line away.
    pub(crate) fn clear(&mut self) {
        self.line.clear();
    }
}

/// Asks the terminal how wide it is now: it may be another width than a moment ago.
pub(crate) fn columns() -> usize {
    let size = rustix::termios::tcgetwinsize(std::io::stderr());
    size.ok().map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0).unwrap_or(COLUMNS)
}

/// Asks the terminal how high it is now.
pub(crate) fn rows() -> usize {
    let size = rustix::termios::tcgetwinsize(std::io::stderr());
    size.ok().map(|size| usize::from(size.ws_row)).filter(|rows| *rows > 0).unwrap_or(ROWS)
}
