//! What is on the screen: steps with a number, lines that fit, and what programs printed.

use std::io::IsTerminal;
use std::time::Duration;

use anstyle::{AnsiColor, Style};

use crate::failure::Failure;
use crate::plain::{fitting, plain};
use crate::progress::columns;
use crate::ui::{self, Form, Ui};

const HEAD: Style = Style::new().bold();
const RED: Style = AnsiColor::Red.on_default().bold();
const GREEN: Style = AnsiColor::Green.on_default().bold();
const FAINT: Style = Style::new().dimmed();

/// How long a reader gets before the next step: a blink.
const BLINK: Duration = Duration::from_millis(250);
/// What is comfortable to read, and fits everywhere.
const WIDEST: usize = 80;

/// Where the demo is told. With `--json` nobody reads along.
#[derive(Debug)]
pub(super) struct Screen {
    ui: Ui,
    step: u32,
}

impl Screen {
    pub(super) fn new(ui: Ui) -> Self {
        Self { ui, step: 0 }
    }

    /// Begins the next step.
    pub(super) async fn step(&mut self, title: &str) -> Result<(), Failure> {
        self.step += 1;
        if self.step > 1 && self.ui.form() == Form::Text && std::io::stdout().is_terminal() {
            tokio::time::sleep(BLINK).await;
        }
        self.print(&format!("\n{HEAD}{}  {title}{HEAD:#}\n", self.step))
    }

    pub(super) fn title(&self, text: &str) -> Result<(), Failure> {
        self.print(&format!("{HEAD}{text}{HEAD:#}\n"))
    }

    /// Says something, in lines that fit.
    pub(super) fn say(&self, text: &str) -> Result<(), Failure> {
        self.wrapped("   ", text)
    }

    /// Says something at the left edge.
    pub(super) fn edge(&self, text: &str) -> Result<(), Failure> {
        self.wrapped("", text)
    }

    /// Says something at a column, in lines that fit.
    pub(super) fn indented(&self, columns: usize, text: &str) -> Result<(), Failure> {
        self.wrapped(&" ".repeat(columns), text)
    }

    pub(super) fn blank(&self) -> Result<(), Failure> {
        self.print("\n")
    }

    /// Shows a command and what it printed.
    pub(super) fn command(&self, command: &str, output: &str) -> Result<(), Failure> {
        self.cut(&format!("   $ {command}"), FAINT)?;
        output.lines().try_for_each(|line| {
            let style = match line.split_whitespace().next() {
                Some("RED") => RED,
                Some("GREEN") => GREEN,
                _ => Style::new(),
            };
            self.cut(&format!("   {}", plain(line)), style)
        })
    }

    /// Shows lines as they are.
    pub(super) fn lines(&self, indent: &str, text: &str) -> Result<(), Failure> {
        text.lines().try_for_each(|line| self.cut(&format!("{indent}{line}"), Style::new()))
    }

    fn cut(&self, line: &str, style: Style) -> Result<(), Failure> {
        self.print(&format!("{style}{}{style:#}\n", fitting(line, width())))
    }

    fn wrapped(&self, indent: &str, text: &str) -> Result<(), Failure> {
        let room = width().saturating_sub(indent.len() + 1).max(20);
        let mut line = String::new();
        for word in text.split(' ') {
            if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > room {
                self.print(&format!("{indent}{line}\n"))?;
                line.clear();
            }
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
        self.print(&format!("{indent}{line}\n"))
    }

    fn print(&self, text: &str) -> Result<(), Failure> {
        match self.ui.form() {
            Form::Text => ui::print_styled(text),
            Form::Json => Ok(()),
        }
    }
}

fn width() -> usize {
    columns().min(WIDEST)
}
