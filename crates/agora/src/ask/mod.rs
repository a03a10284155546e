//! Asking whoever sits at the terminal: options by arrow keys or numbers, anything else by typing or in an editor.

mod keys;
mod line;
mod menu;

use std::io::{self, BufRead, IsTerminal, Write};

use agora_core::answer::{Given, Reply};
use agora_core::question::{Choosing, Item, Question};

use crate::asking;
use crate::diff::Diff;
use crate::helpers::{Edited, Helpers};
use crate::plain::{fitting, plain, width, wrapped};
use crate::progress::{columns, rows};
use keys::Keys;
use line::{Line, Typed};
use menu::{Extras, Menu, Screen, Step};

/// What came of asking.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Asked {
    Answer(Given),
    /// Nobody will answer: the thread ends.
    Decline,
    /// Not this one, the next.
    Skip,
    /// Not now.
    Leave,
    /// Ctrl-C: the question stays open, and the command ends as interrupted.
    Interrupted,
}

/// What came of one item.
enum ItemAsked {
    Reply(Reply),
    Instead(Asked),
}

/// What whoever is asked may look at and use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Offer<'a> {
    pub(crate) diff: Option<&'a Diff>,
    pub(crate) helpers: &'a Helpers,
    /// Whether other questions wait behind this one.
    pub(crate) skip: bool,
}

/// Tells whether somebody is there to be asked: both what is asked and what is typed go through a terminal.
pub(crate) fn somebody_is_there() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Asks for a word or two, with the terminal's own editing. Empty at the end of the input.
pub(crate) fn word(question: &str) -> io::Result<String> {
    let mut terminal = io::stderr();
    terminal.write_all(question.as_bytes()).and_then(|()| terminal.flush())?;
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line)?;
    Ok(line)
}

/// Asks every item of a question in turn. An answer counts once: the enter key of somebody who was bored by a long dispatch is none.
pub(crate) fn ask(question: &Question, offer: Offer<'_>) -> io::Result<Asked> {
    keys::forget()?;
    let mut replies = Vec::new();
    let several = question.items().len() > 1;
    for (number, item) in (1..).zip(question.items()) {
        let of = if several { format!("({number} of {}) ", question.items().len()) } else { String::new() };
        let words = format!("{of}{}", plain(item.question().trim()));
        say_question(&words)?;
        match ask_item(question, item, &words, offer)? {
            ItemAsked::Reply(reply) => replies.push((item.id().to_string(), reply)),
            ItemAsked::Instead(asked) => return Ok(asked),
        }
    }
    Ok(Asked::Answer(menu::submission(replies)))
}

fn say_question(words: &str) -> io::Result<()> {
    say(&format!("\n{}\n", wrapped(words, 0, columns()).join("\n")))
}

fn ask_item(question: &Question, item: &Item, words: &str, offer: Offer<'_>) -> io::Result<ItemAsked> {
    let extras = Extras { diff: offer.diff.is_some(), context: asking::is_cut(question), skip: offer.skip };
    let mut menu = Menu::new(item, extras);
    // Whoever can only write may begin at once.
    let mut step = if item.choosing() == Choosing::FreeText { Step::Write } else { choose(&mut menu)? };
    loop {
        let asked = match step {
            Step::Chosen(reply) => return Ok(ItemAsked::Reply(reply)),
            Step::Write => match write()? {
                Typed::Done(text) => return Ok(ItemAsked::Reply(menu.written(text))),
                Typed::Interrupted => Some(Asked::Interrupted),
                Typed::Back | Typed::Stay => None,
            },
            Step::Edit => match offer.helpers.edit(&asking::prepared(question, item))? {
                Edited::Text(text) => {
                    say_reply(&text)?;
                    return Ok(ItemAsked::Reply(menu.written(text)));
                }
                Edited::Nothing(why) => {
                    say(&format!("{why}; it stays open\n"))?;
                    None
                }
            },
            Step::Diff | Step::Context => {
                let text = match (step, offer.diff) {
                    (Step::Diff, Some(diff)) => diff.text(offer.helpers.colours()),
                    _ => plain(question.context().unwrap_or_default().trim()) + "\n",
                };
                offer.helpers.page(&text)?;
                if !offer.helpers.gives_the_screen_back() {
                    say_question(words)?;
                }
                None
            }
            Step::Skip => Some(Asked::Skip),
            Step::Decline => Some(Asked::Decline),
            Step::Leave | Step::Stay => Some(Asked::Leave),
            Step::Interrupted => Some(Asked::Interrupted),
        };
        if let Some(asked) = asked {
            return Ok(ItemAsked::Instead(asked));
        }
        step = choose(&mut menu)?;
    }
}

/// Shows the menu until something is chosen, drawn over itself with every key.
fn choose(menu: &mut Menu<'_>) -> io::Result<Step> {
    let Some(mut keys) = Keys::listen()? else { return Ok(Step::Leave) };
    let mut drawn = Vec::new();
    loop {
        let lines = menu.lines(Screen { columns: columns(), rows: rows() });
        say(&format!(
            "{}\x1b[J{}",
            back(&drawn, columns()),
            lines.iter().map(|line| format!("{line}\x1b[K\n")).collect::<String>()
        ))?;
        drawn = lines;
        let step = menu.press(&keys.next()?);
        if step != Step::Stay {
            say(&format!("{}\x1b[J", back(&drawn, columns())))?;
            if let Step::Chosen(reply) = &step {
                say_reply(&asking::words(reply))?;
            }
            return Ok(step);
        }
    }
}

/// Says what was answered, in a line.
fn say_reply(text: &str) -> io::Result<()> {
    say(&format!("{}\n", fitting(&format!("› {}", plain(text).replace('\n', " ⏎ ")), columns())))
}

/// Takes a line. A blank one, and escape, go back to the keys.
fn write() -> io::Result<Typed> {
    let Some(mut keys) = Keys::listen()? else { return Ok(Typed::Interrupted) };
    say("(enter answers, esc shows other keys)\n")?;
    let mut line = Line::default();
    loop {
        let (shown, cursor) = line.shown(columns().saturating_sub(2));
        say(&format!("\r\x1b[K> {shown}\r\x1b[{}C", cursor + 2))?;
        match line.press(keys.next()?) {
            Typed::Stay => {}
            Typed::Back => {
                say("\r\x1b[K\x1b[1A\r\x1b[J")?;
                return Ok(Typed::Back);
            }
            done => {
                say("\n")?;
                return Ok(done);
            }
        }
    }
}

/// Moves the cursor to the first of the lines that were drawn. A terminal that was made narrower since has broken them.
fn back(drawn: &[String], columns: usize) -> String {
    let high = |line: &String| line.chars().map(width).sum::<usize>().div_ceil(columns.max(1)).max(1);
    let rows: usize = drawn.iter().map(high).sum();
    if rows == 0 { String::new() } else { format!("\x1b[{rows}A\r") }
}

fn say(text: &str) -> io::Result<()> {
    let mut stderr = io::stderr().lock();
    stderr.write_all(text.as_bytes())?;
    stderr.flush()
}

#[cfg(test)]
mod tests {
    use super::back;

    #[test]
    fn what_was_drawn_is_drawn_over_also_when_the_terminal_was_made_narrower() {
        let drawn = ["› 1. yes", "", "enter answers, esc leaves it open"].map(str::to_owned);
        assert_eq!(back(&drawn, 80), "\x1b[3A\r");
        assert_eq!(back(&drawn, 33), "\x1b[3A\r", "a line that fits exactly is one");
        assert_eq!(back(&drawn, 20), "\x1b[4A\r");
        assert_eq!(back(&[], 80), "");
    }
}
