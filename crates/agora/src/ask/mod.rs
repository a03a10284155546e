//! Asking whoever sits at the terminal: options by arrow keys or numbers, anything else by typing.

mod keys;
mod menu;

use std::io::{self, IsTerminal, Write};

use agora_core::answer::Reply;
use agora_core::question::{Choosing, Item, Question};
use agora_engine::Reaction;

use crate::plain::plain;
use crate::progress::columns;
use keys::Keys;
pub(crate) use keys::line;
use menu::{Menu, Step};

/// What came of asking.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Asked {
    Reaction(Reaction),
    /// Ctrl-C: the question stays open, and the command ends as interrupted.
    Interrupted,
}

/// What came of one item.
enum ItemAsked {
    Reply(Reply),
    Leave,
    Interrupted,
}

/// Tells whether somebody is there to be asked: both what is asked and what is typed go through a terminal.
pub(crate) fn somebody_is_there() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Asks every item of a question in turn.
pub(crate) fn ask(question: &Question) -> io::Result<Asked> {
    let mut replies = Vec::new();
    let several = question.items().len() > 1;
    for (number, item) in (1..).zip(question.items()) {
        let of = if several { format!("({number} of {}) ", question.items().len()) } else { String::new() };
        say(&format!("\n{of}{}\n", plain(item.question().trim())))?;
        match ask_item(item)? {
            ItemAsked::Reply(reply) => replies.push((item.id().to_string(), reply)),
            ItemAsked::Leave => return Ok(Asked::Reaction(Reaction::Leave)),
            ItemAsked::Interrupted => return Ok(Asked::Interrupted),
        }
    }
    Ok(Asked::Reaction(menu::submission(replies).into()))
}

fn ask_item(item: &Item) -> io::Result<ItemAsked> {
    if item.choosing() == Choosing::FreeText {
        return write();
    }
    match choose(item)? {
        Step::Chosen(reply) => Ok(ItemAsked::Reply(reply)),
        Step::Write => write(),
        Step::Leave | Step::Stay => Ok(ItemAsked::Leave),
        Step::Interrupted => Ok(ItemAsked::Interrupted),
    }
}

/// Shows the menu until something is chosen, drawn over itself with every key.
fn choose(item: &Item) -> io::Result<Step> {
    let Some(mut keys) = Keys::listen()? else { return Ok(Step::Leave) };
    let mut menu = Menu::new(item);
    let mut drawn = 0;
    loop {
        let lines = menu.lines(columns());
        say(&format!(
            "{}{}",
            back(drawn),
            lines.iter().map(|line| format!("{line}\x1b[K\n")).collect::<String>()
        ))?;
        drawn = lines.len();
        let step = menu.press(keys.next()?);
        if step != Step::Stay {
            say(&format!("{}\x1b[J", back(drawn)))?;
            if let Step::Chosen(reply) = &step {
                say(&format!("› {}\n", plain(&words(reply))))?;
            }
            return Ok(step);
        }
    }
}

/// Takes a line. A blank one leaves the question open.
fn write() -> io::Result<ItemAsked> {
    say("(enter answers, an empty line leaves it open)\n> ")?;
    Ok(match keys::line()? {
        Some(text) if !text.trim().is_empty() => ItemAsked::Reply(Reply::One(text)),
        Some(_) | None => ItemAsked::Leave,
    })
}

fn words(reply: &Reply) -> String {
    match reply {
        Reply::One(text) => text.clone(),
        Reply::Many(texts) => texts.join(", "),
    }
}

/// Moves the cursor to the first of the lines that were drawn.
fn back(lines: usize) -> String {
    if lines == 0 { String::new() } else { format!("\x1b[{lines}A\r") }
}

fn say(text: &str) -> io::Result<()> {
    let mut stderr = io::stderr().lock();
    stderr.write_all(text.as_bytes())?;
    stderr.flush()
}
