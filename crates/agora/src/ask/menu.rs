//! What is on the screen while somebody chooses, and what each key does to it. No terminal in here.

use agora_core::answer::{Given, Reply};
use agora_core::question::{Choosing, Item};

use super::keys::Key;
use crate::plain::{filled, fitting, plain, wrapped};

/// What a key led to.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Step {
    Stay,
    Chosen(Reply),
    /// Whoever is there wants to write instead.
    Write,
    /// To write in an editor.
    Edit,
    /// To see what was changed so far.
    Diff,
    /// To read everything that the agent said beside its question.
    Context,
    /// To pass on to the next question.
    Skip,
    Decline,
    Leave,
    Interrupted,
}

/// What can be done beside answering.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Extras {
    pub(crate) diff: bool,
    /// There is more of the context than is shown.
    pub(crate) context: bool,
    /// There is a next question.
    pub(crate) skip: bool,
}

/// How large the screen is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Screen {
    pub(crate) columns: usize,
    pub(crate) rows: usize,
}

/// What is said under the options until the next key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Said {
    MarkFirst,
    ReallyDecline,
}

/// The options of an item, one of them under the cursor.
#[derive(Clone, Debug)]
pub(crate) struct Menu<'a> {
    item: &'a Item,
    extras: Extras,
    at: usize,
    /// Those that are marked, where several may be chosen.
    marked: Vec<bool>,
    said: Option<Said>,
}

impl<'a> Menu<'a> {
    /// Makes a menu of an item. The cursor stands on its default, if it has one.
    pub(crate) fn new(item: &'a Item, extras: Extras) -> Self {
        let place = |label: &String| item.options().iter().position(|choice| choice.label == *label);
        let (defaults, marks): (Vec<usize>, bool) = match item.default_reply() {
            Some(Reply::One(label)) => (place(label).into_iter().collect(), false),
            Some(Reply::Many(labels)) => (labels.iter().filter_map(place).collect(), true),
            None => (Vec::new(), false),
        };
        let marked = (0..item.options().len()).map(|row| marks && defaults.contains(&row)).collect();
        Self { item, extras, at: defaults.first().copied().unwrap_or(0), marked, said: None }
    }

    fn several(&self) -> bool {
        self.item.choosing() == Choosing::Several
    }

    /// The row after the options, where anything else may be said.
    fn write_row(&self) -> Option<&'static str> {
        match (self.item.choosing(), self.item.allows_other()) {
            (Choosing::FreeText, _) => Some("write …"),
            (Choosing::One | Choosing::Several, true) => Some("something else …"),
            (Choosing::One | Choosing::Several, false) => None,
        }
    }

    fn rows(&self) -> usize {
        self.item.options().len() + usize::from(self.write_row().is_some())
    }

    pub(crate) fn press(&mut self, key: &Key) -> Step {
        let before = self.said.take();
        let rows = self.rows();
        match key {
            Key::Up | Key::Character('k') => self.at = (self.at + rows - 1) % rows,
            Key::Down | Key::Character('j') => self.at = (self.at + 1) % rows,
            Key::Character(' ') if self.several() => self.mark(self.at),
            Key::Character(digit @ '1'..='9') => {
                let row = digit.to_digit(10).map_or(0, |digit| digit as usize - 1);
                if row < rows {
                    self.at = row;
                    if self.several() {
                        self.mark(row);
                    }
                }
            }
            Key::Enter => return self.choose(),
            Key::Character('e') => return Step::Edit,
            Key::Character('d') if self.extras.diff => return Step::Diff,
            Key::Character('c') if self.extras.context => return Step::Context,
            Key::Character('s') if self.extras.skip => return Step::Skip,
            // It ends the thread, so one key by mistake is not enough.
            Key::Character('x') if before == Some(Said::ReallyDecline) => return Step::Decline,
            Key::Character('x') => self.said = Some(Said::ReallyDecline),
            Key::Escape if before == Some(Said::ReallyDecline) => {}
            Key::Escape | Key::Character('q') => return Step::Leave,
            Key::Interrupt => return Step::Interrupted,
            _ => {}
        }
        Step::Stay
    }

    fn mark(&mut self, row: usize) {
        if let Some(marked) = self.marked.get_mut(row) {
            *marked = !*marked;
        }
    }

    fn marked_labels(&self) -> Vec<String> {
        let labels = self.item.options().iter().zip(&self.marked).filter(|(_, marked)| **marked);
        labels.map(|(choice, _)| choice.label.clone()).collect()
    }

    fn choose(&mut self) -> Step {
        let Some(choice) = self.item.options().get(self.at) else { return Step::Write };
        if !self.several() {
            return Step::Chosen(Reply::One(choice.label.clone()));
        }
        let chosen = self.marked_labels();
        if chosen.is_empty() {
            self.said = Some(Said::MarkFirst);
            return Step::Stay;
        }
        Step::Chosen(Reply::Many(chosen))
    }

    /// Returns the reply that a text of somebody's own is: beside what they marked, where several may be chosen.
    pub(crate) fn written(&self, text: String) -> Reply {
        let mut chosen = self.marked_labels();
        if chosen.is_empty() {
            return Reply::One(text);
        }
        chosen.push(text);
        Reply::Many(chosen)
    }

    /// Returns what to show: each line fits, and all of them do. What does not is around what the cursor stands on.
    pub(crate) fn lines(&self, screen: Screen) -> Vec<String> {
        let mut body = Vec::new();
        let mut focus = (0, 0);
        for row in 0..self.rows() {
            let from = body.len();
            body.extend(self.row(row, screen.columns));
            if row == self.at {
                focus = (from, body.len());
            }
        }
        let foot = filled(self.foot(), 0, screen.columns);
        // One row stays free for where the cursor waits.
        let room = screen.rows.saturating_sub(foot.len() + 1).max(1);
        window(body, focus, room, screen.columns).into_iter().chain(foot).collect()
    }

    fn row(&self, row: usize, columns: usize) -> Vec<String> {
        let cursor = if row == self.at { "›" } else { " " };
        let Some(choice) = self.item.options().get(row) else {
            return vec![format!("{cursor} {}", self.write_row().unwrap_or_default())];
        };
        let mark = match (self.several(), self.marked[row]) {
            (false, _) => "",
            (true, true) => "[x] ",
            (true, false) => "[ ] ",
        };
        let label = plain(choice.label.trim()).replace('\n', " ");
        let mut lines = wrapped(&format!("{mark}{}. {label}", row + 1), 2, columns);
        if let Some(first) = lines.first_mut() {
            *first = format!("{cursor} {}", first.trim_start());
        }
        let implied = choice.description.as_deref().unwrap_or_default();
        lines.extend(wrapped(&plain(implied.trim()), 5, columns));
        lines
    }

    /// Says what the keys do, in pieces that stay whole.
    fn foot(&self) -> Vec<String> {
        let mut keys: Vec<&str> = Vec::new();
        match self.said {
            Some(Said::MarkFirst) => return vec!["mark one or more with the space bar first".to_owned()],
            Some(Said::ReallyDecline) => {
                keys.extend([
                    "declining ends the thread for good:",
                    "x again declines,",
                    "any other key goes back",
                ]);
                return keys.into_iter().map(|key| format!("{key} ")).collect();
            }
            None => {}
        }
        if !self.item.options().is_empty() {
            keys.push("↑↓ or a number");
        }
        if self.several() {
            keys.push("space marks");
        }
        keys.extend([
            if self.item.options().is_empty() { "enter writes" } else { "enter answers" },
            "e editor",
        ]);
        keys.extend(self.extras.diff.then_some("d diff"));
        keys.extend(self.extras.context.then_some("c context"));
        keys.extend(self.extras.skip.then_some("s skips"));
        keys.extend(["x declines", if self.extras.skip { "q leaves" } else { "esc leaves it open" }]);
        let last = keys.len() - 1;
        let end = |place| if place == last { "" } else { ", " };
        keys.iter().enumerate().map(|(place, key)| format!("{key}{}", end(place))).collect()
    }
}

/// Cuts lines down to so many, with those in the focus among them.
fn window(lines: Vec<String>, focus: (usize, usize), room: usize, columns: usize) -> Vec<String> {
    if lines.len() <= room {
        return lines;
    }
    let from = focus.1.saturating_sub(room).min(focus.0);
    let to = (from + room).min(lines.len());
    let from = to.saturating_sub(room);
    let all = lines.len();
    let mut seen: Vec<String> = lines.into_iter().take(to).skip(from).collect();
    if from > 0 && focus.0 > from {
        seen[0] = fitting(&format!("  … {} more above", from + 1), columns);
    }
    if to < all && focus.1 < to {
        let last = seen.len() - 1;
        seen[last] = fitting(&format!("  … {} more below", all - to + 1), columns);
    }
    seen
}

/// Puts replies together as one submission.
pub(crate) fn submission(replies: impl IntoIterator<Item = (String, Reply)>) -> Given {
    let value = |reply| match reply {
        Reply::One(text) => serde_json::Value::String(text),
        Reply::Many(texts) => texts.into(),
    };
    Given::ByItem(replies.into_iter().map(|(id, reply)| (id, value(reply))).collect())
}

#[cfg(test)]
mod tests {
    use agora_core::question::Question;
    use serde_json::{Value, json};

    use super::*;

    const WIDE: Screen = Screen { columns: 80, rows: 24 };

    fn question(item: Value) -> Question {
        serde_json::from_value(json!({"questions": [item]})).unwrap()
    }

    fn menu(question: &Question) -> Menu<'_> {
        Menu::new(&question.items()[0], Extras::default())
    }

    fn press(menu: &mut Menu<'_>, keys: &[Key]) -> Step {
        keys.iter().map(|key| menu.press(key)).last().unwrap()
    }

    #[test]
    fn one_is_chosen_with_arrows_or_by_its_number() {
        let question = question(json!({"question": "Which?", "options": [
            {"label": "sqlite", "description": "one file"}, {"label": "postgres"}
        ], "default": "postgres"}));
        let chosen = |keys: &[Key]| press(&mut menu(&question), keys);
        let one = |label: &str| Step::Chosen(Reply::One(label.to_owned()));
        assert_eq!(chosen(&[Key::Enter]), one("postgres"), "the default is where one begins");
        assert_eq!(chosen(&[Key::Up, Key::Enter]), one("sqlite"));
        assert_eq!(chosen(&[Key::Down, Key::Enter]), one("sqlite"), "round and round");
        assert_eq!(chosen(&[Key::Character('1'), Key::Enter]), one("sqlite"));
        assert_eq!(chosen(&[Key::Character('9'), Key::Enter]), one("postgres"));
        assert_eq!(chosen(&[Key::Escape]), Step::Leave);
        assert_eq!(chosen(&[Key::Interrupt]), Step::Interrupted);
        insta::assert_snapshot!(menu(&question).lines(Screen { columns: 30, rows: 24 }).join("\n"), @r"
          1. sqlite
             one file
        › 2. postgres
        ↑↓ or a number,
        enter answers, e editor,
        x declines,
        esc leaves it open
        ");
    }

    #[test]
    fn several_are_marked_and_none_is_no_answer() {
        let question =
            question(json!({"question": "Which?", "multiSelect": true, "allowOther": true, "options": [
                {"label": "a"}, {"label": "b"}, {"label": "c"}
            ]}));
        let mut menu = menu(&question);
        assert_eq!(menu.press(&Key::Enter), Step::Stay);
        assert!(menu.lines(WIDE).join(" ").contains("mark one or more"));
        let keys = [Key::Character(' '), Key::Character('3'), Key::Enter];
        assert_eq!(press(&mut menu, &keys), Step::Chosen(Reply::Many(vec!["a".into(), "c".into()])));
        assert_eq!(
            press(&mut menu, &[Key::Down, Key::Enter]),
            Step::Write,
            "the last row is for other words"
        );
        let both = Reply::Many(vec!["a".into(), "c".into(), "d".into()]);
        assert_eq!(menu.written("d".into()), both, "which go beside what is marked");
    }

    #[test]
    fn what_is_the_default_of_several_is_marked() {
        let question = question(json!({"question": "Which?", "multiSelect": true, "options": [
            {"label": "a"}, {"label": "b"}
        ], "default": ["b"]}));
        assert_eq!(menu(&question).press(&Key::Enter), Step::Chosen(Reply::Many(vec!["b".into()])));
    }

    #[test]
    fn to_decline_takes_the_key_twice_and_nothing_between() {
        let question = question(json!({"question": "Why?"}));
        let mut menu = menu(&question);
        let x = Key::Character('x');
        assert_eq!(menu.press(&x), Step::Stay);
        assert!(menu.lines(WIDE).join(" ").contains("x again declines"));
        assert_eq!(menu.press(&Key::Escape), Step::Stay, "escape goes back, and does not leave");
        assert_eq!(menu.press(&x), Step::Stay);
        assert_eq!(menu.press(&Key::Down), Step::Stay);
        assert_eq!(press(&mut menu, &[x.clone(), x]), Step::Decline);
    }

    #[test]
    fn only_what_there_is_can_be_asked_for() {
        let question = question(json!({"question": "Why?"}));
        let keys = [('d', Step::Diff), ('c', Step::Context), ('s', Step::Skip)];
        let all = Extras { diff: true, context: true, skip: true };
        for (key, step) in keys {
            assert_eq!(menu(&question).press(&Key::Character(key)), Step::Stay);
            let mut menu = Menu::new(&question.items()[0], all);
            assert_eq!(menu.press(&Key::Character(key)), step);
        }
        insta::assert_snapshot!(Menu::new(&question.items()[0], all).lines(WIDE).join("\n"), @r"
        › write …
        enter writes, e editor, d diff, c context, s skips, x declines, q leaves
        ");
    }

    #[test]
    fn what_is_implied_is_broken_into_lines_and_what_is_too_high_is_cut() {
        let options: Vec<Value> = (1..=9)
            .map(|n| json!({"label": format!("option {n}"), "description": "Keeps the callers. Old dates stay."}))
            .collect();
        let question = question(json!({"question": "Which?", "options": options}));
        let mut menu = menu(&question);
        let small = Screen { columns: 26, rows: 12 };
        insta::assert_snapshot!(menu.lines(small).join("\n"), @r"
        › 1. option 1
             Keeps the callers.
             Old dates stay.
          2. option 2
             Keeps the callers.
             Old dates stay.
          … 21 more below
        ↑↓ or a number,
        enter answers, e editor,
        x declines,
        esc leaves it open
        ");
        menu.press(&Key::Character('5'));
        insta::assert_snapshot!(menu.lines(small).join("\n"), @r"
          … 9 more above
          4. option 4
             Keeps the callers.
             Old dates stay.
        › 5. option 5
             Keeps the callers.
             Old dates stay.
        ↑↓ or a number,
        enter answers, e editor,
        x declines,
        esc leaves it open
        ");
        for rows in 0..40 {
            for columns in 0..40 {
                let lines = menu.lines(Screen { columns, rows });
                let wide = |line: &String| line.chars().count();
                assert!(lines.iter().all(|line| columns < 4 || wide(line) < columns), "{columns} {lines:?}");
                assert!(lines.iter().any(|line| line.starts_with('›')), "{columns} {rows} {lines:?}");
            }
        }
    }
}
