//! Asking whoever sits at the terminal: options by arrow keys or numbers, anything else by typing or in an editor.

mod keys;
mod line;
mod menu;

use std::fs::File;
use std::io::{self, BufRead, IsTerminal, Write};
use std::os::unix::net::UnixStream;

use agora_core::answer::{Given, Reply};
use agora_core::limits::SECRET_BYTES;
use agora_core::question::{Choosing, Item, Question};
use agora_engine::Refusal;

use crate::asking;
use crate::diff::Diff;
use crate::helpers::{Edited, Helpers};
use crate::plain::{fitting, plain, width, wrapped};
use crate::progress::{columns, rows};
use keys::{Key, Keys};
use line::{Line, Typed};
use menu::{Extras, Menu, Screen, Step};

/// What came of asking.
#[derive(Debug)]
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
    /// Somebody else was faster, or its time was over: there is nothing to answer any more.
    Closed(Box<Refusal>),
}

/// What came of one item.
enum ItemAsked {
    Reply(Reply),
    Instead(Asked),
    /// It is not asked any more.
    Over,
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

/// Asks for a word or two, with the terminal's own editing. `None` at the end of the input: nobody is there any more, which is no answer.
pub(crate) fn word(question: &str) -> io::Result<Option<String>> {
    let mut terminal = io::stderr();
    terminal.write_all(plain(question).as_bytes()).and_then(|()| terminal.flush())?;
    let mut line = String::new();
    Ok((io::stdin().lock().read_line(&mut line)? > 0).then_some(line))
}

/// Asks for what is not to be seen. `None`: whoever was asked stopped it, or is gone.
pub(crate) fn hidden(question: &str) -> io::Result<Option<String>> {
    let (_open, over) = UnixStream::pair()?;
    let Some(mut keys) = Keys::listen(&over)? else { return Ok(None) };
    show(question)?;
    // With room for all of it: what grows leaves copies behind.
    let mut text = String::with_capacity(SECRET_BYTES);
    let said = loop {
        match keys.next()? {
            Some(Key::Character(letter)) => text.push(letter),
            Some(Key::Pasted(pasted)) => text.push_str(pasted.trim_end_matches('\n')),
            Some(Key::Backspace) => drop(text.pop()),
            Some(Key::EraseLine | Key::EraseWord) => text.clear(),
            Some(Key::Enter) => break Some(text),
            Some(Key::Interrupt) | None => break None,
            Some(_) => {}
        }
    };
    show("\n")?;
    Ok(said)
}

/// Shows it at the terminal that is typed at, also where standard error is a file: who is asked does not read that.
fn show(text: &str) -> io::Result<()> {
    if io::stderr().is_terminal() {
        return say(text);
    }
    File::options().write(true).open("/dev/tty")?.write_all(text.as_bytes())
}

/// Asks until somebody here has said something, or the question is closed elsewhere: then it goes from the screen.
pub(crate) async fn ask(
    question: &Question,
    offer: Offer<'_>,
    closed: impl Future<Output = Refusal>,
) -> io::Result<Asked> {
    let (asked_here, over) = UnixStream::pair()?;
    let question = question.clone();
    let (diff, helpers, skip) = (offer.diff.cloned(), offer.helpers.clone(), offer.skip);
    // Beside whatever else this process does: a terminal is waited for by a thread of its own.
    let mut asking = tokio::task::spawn_blocking(move || {
        ask_items(&question, Offer { diff: diff.as_ref(), helpers: &helpers, skip }, &over)
    });
    let (asked, closed) = tokio::select! {
        biased;
        asked = &mut asking => (asked, None),
        closed = closed => {
            drop(asked_here);
            (asking.await, Some(closed))
        }
    };
    let asked = asked.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))?;
    Ok(match (asked, closed) {
        (Some(Asked::Interrupted), _) => Asked::Interrupted,
        (_, Some(closed)) => Asked::Closed(Box::new(closed)),
        (Some(asked), None) => asked,
        // It ends by itself only when it is told to.
        (None, None) => Asked::Leave,
    })
}

/// Asks every item of a question in turn. An answer counts once: the enter key of somebody who was bored by a long dispatch is none.
/// `None`: it is over.
fn ask_items(question: &Question, offer: Offer<'_>, over: &UnixStream) -> io::Result<Option<Asked>> {
    keys::forget()?;
    let mut replies = Vec::new();
    let several = question.items().len() > 1;
    for (number, item) in (1..).zip(question.items()) {
        let of = if several { format!("({number} of {}) ", question.items().len()) } else { String::new() };
        let words = format!("{of}{}", asking::asks(item));
        say_question(&words)?;
        match ask_item(question, item, &words, offer, over)? {
            ItemAsked::Reply(reply) => replies.push((item.id().to_string(), reply)),
            ItemAsked::Instead(asked) => return Ok(Some(asked)),
            ItemAsked::Over => return Ok(None),
        }
    }
    Ok(Some(Asked::Answer(menu::submission(replies))))
}

fn say_question(words: &str) -> io::Result<()> {
    say(&format!("\n{}\n", wrapped(words, 0, columns()).join("\n")))
}

fn ask_item(
    question: &Question,
    item: &Item,
    words: &str,
    offer: Offer<'_>,
    over: &UnixStream,
) -> io::Result<ItemAsked> {
    let extras = Extras { diff: offer.diff.is_some(), context: asking::is_cut(question), skip: offer.skip };
    let mut menu = Menu::new(item, extras);
    // Whoever can only write may begin at once.
    let at_once = (item.choosing() == Choosing::FreeText).then_some(Step::Write);
    let mut next = if at_once.is_some() { at_once } else { choose(&mut menu, over)? };
    loop {
        let Some(step) = next else { return Ok(ItemAsked::Over) };
        let asked = match step {
            Step::Chosen(reply) => return Ok(ItemAsked::Reply(reply)),
            Step::Write => match write(over)? {
                None => return Ok(ItemAsked::Over),
                Some(Typed::Done(text)) => return Ok(ItemAsked::Reply(menu.written(text))),
                Some(Typed::Interrupted) => Some(Asked::Interrupted),
                Some(Typed::Back | Typed::Stay) => None,
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
        next = choose(&mut menu, over)?;
    }
}

/// Shows the menu until something is chosen, drawn over itself with every key. `None`: it is over.
fn choose(menu: &mut Menu<'_>, over: &UnixStream) -> io::Result<Option<Step>> {
    let Some(mut keys) = Keys::listen(over)? else { return Ok(Some(Step::Leave)) };
    let mut drawn = Vec::new();
    loop {
        let lines = menu.lines(Screen { columns: columns(), rows: rows() });
        say(&format!(
            "{}\x1b[J{}",
            back(&drawn, columns()),
            lines.iter().map(|line| format!("{line}\x1b[K\n")).collect::<String>()
        ))?;
        drawn = lines;
        let step = keys.next()?.map(|key| menu.press(&key));
        if step != Some(Step::Stay) {
            say(&format!("{}\x1b[J", back(&drawn, columns())))?;
            if let Some(Step::Chosen(reply)) = &step {
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

/// Takes a line. A blank one, and escape, go back to the keys. `None`: it is over.
fn write(over: &UnixStream) -> io::Result<Option<Typed>> {
    let Some(mut keys) = Keys::listen(over)? else { return Ok(Some(Typed::Interrupted)) };
    say("(enter answers, esc shows other keys)\n")?;
    let mut line = Line::default();
    loop {
        let (shown, cursor) = line.shown(columns().saturating_sub(2));
        say(&format!("\r\x1b[K> {shown}\r\x1b[{}C", cursor + 2))?;
        match keys.next()?.map(|key| line.press(key)) {
            Some(Typed::Stay) => {}
            gone @ (Some(Typed::Back) | None) => {
                say("\r\x1b[K\x1b[1A\r\x1b[J")?;
                return Ok(gone);
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
