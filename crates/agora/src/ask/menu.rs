//! What is on the screen while somebody chooses, and what each key does to it. No terminal in here.

use agora_core::answer::{Given, Reply};
use agora_core::question::{Choosing, Item};

use crate::plain::{fitting, plain};

/// A key that means something to a menu.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Key {
    Up,
    Down,
    Enter,
    Escape,
    Interrupt,
    Character(char),
}

/// What a key led to.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Step {
    Stay,
    Chosen(Reply),
    /// Whoever is there wants to write instead.
    Write,
    Leave,
    Interrupted,
}

/// The options of an item, one of them under the cursor.
#[derive(Clone, Debug)]
pub(crate) struct Menu<'a> {
    item: &'a Item,
    at: usize,
    /// Those that are marked, where several may be chosen.
    marked: Vec<bool>,
    /// Said under the options until the next key.
    complaint: Option<&'static str>,
}

impl<'a> Menu<'a> {
    /// Makes a menu of an item that has options. The cursor stands on its default, if it has one.
    pub(crate) fn new(item: &'a Item) -> Self {
        let default = match item.default_reply() {
            Some(Reply::One(label)) => item.options().iter().position(|choice| choice.label == *label),
            Some(Reply::Many(_)) | None => None,
        };
        Self { item, at: default.unwrap_or(0), marked: vec![false; item.options().len()], complaint: None }
    }

    fn several(&self) -> bool {
        self.item.choosing() == Choosing::Several
    }

    /// The lines below the options that can be stood on: one more where anything else may be said.
    fn rows(&self) -> usize {
        self.item.options().len() + usize::from(self.item.allows_other())
    }

    pub(crate) fn press(&mut self, key: Key) -> Step {
        self.complaint = None;
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
            Key::Escape => return Step::Leave,
            Key::Interrupt => return Step::Interrupted,
            Key::Character(_) => {}
        }
        Step::Stay
    }

    fn mark(&mut self, row: usize) {
        if let Some(marked) = self.marked.get_mut(row) {
            *marked = !*marked;
        }
    }

    fn choose(&mut self) -> Step {
        if self.at >= self.item.options().len() {
            return Step::Write;
        }
        let label = |row: usize| self.item.options().get(row).map(|choice| choice.label.clone());
        if !self.several() {
            return label(self.at).map_or(Step::Stay, |label| Step::Chosen(Reply::One(label)));
        }
        let chosen: Vec<String> =
            (0..self.marked.len()).filter(|row| self.marked[*row]).filter_map(label).collect();
        if chosen.is_empty() {
            self.complaint = Some("mark one or more with the space bar first");
            return Step::Stay;
        }
        Step::Chosen(Reply::Many(chosen))
    }

    /// Returns what to show: each line fits into so many columns.
    pub(crate) fn lines(&self, columns: usize) -> Vec<String> {
        let mut lines = Vec::new();
        for (row, choice) in self.item.options().iter().enumerate() {
            let box_ = match (self.several(), self.marked[row]) {
                (false, _) => "",
                (true, true) => "[x] ",
                (true, false) => "[ ] ",
            };
            let label = plain(choice.label.trim());
            lines.push(self.row(row, &format!("{box_}{}. {label}", row + 1), columns));
            let implied = choice.description.as_deref().map(|text| plain(text.trim())).unwrap_or_default();
            for line in implied.lines() {
                lines.push(fitting(&format!("     {line}"), columns));
            }
        }
        if self.item.allows_other() {
            lines.push(self.row(self.item.options().len(), "something else …", columns));
        }
        let keys = if self.several() { "space marks, enter answers" } else { "enter answers" };
        let foot = self
            .complaint
            .map_or_else(|| format!("↑↓ or a number, {keys}, esc leaves it open"), str::to_owned);
        lines.push(fitting(&foot, columns));
        lines
    }

    fn row(&self, row: usize, text: &str, columns: usize) -> String {
        let cursor = if row == self.at { "›" } else { " " };
        fitting(&format!("{cursor} {text}"), columns)
    }
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

    fn question(item: Value) -> Question {
        serde_json::from_value(json!({"questions": [item]})).unwrap()
    }

    fn press(menu: &mut Menu<'_>, keys: &[Key]) -> Step {
        keys.iter().map(|key| menu.press(*key)).last().unwrap()
    }

    #[test]
    fn one_is_chosen_with_arrows_or_by_its_number() {
        let question = question(json!({"question": "Which?", "options": [
            {"label": "sqlite", "description": "one file"}, {"label": "postgres"}
        ], "default": "postgres"}));
        let item = &question.items()[0];
        let one = |label: &str| Step::Chosen(Reply::One(label.to_owned()));
        assert_eq!(
            press(&mut Menu::new(item), &[Key::Enter]),
            one("postgres"),
            "the default is where one begins"
        );
        assert_eq!(press(&mut Menu::new(item), &[Key::Up, Key::Enter]), one("sqlite"));
        assert_eq!(press(&mut Menu::new(item), &[Key::Down, Key::Enter]), one("sqlite"), "round and round");
        assert_eq!(press(&mut Menu::new(item), &[Key::Character('1'), Key::Enter]), one("sqlite"));
        assert_eq!(press(&mut Menu::new(item), &[Key::Character('9'), Key::Enter]), one("postgres"));
        assert_eq!(press(&mut Menu::new(item), &[Key::Escape]), Step::Leave);
        assert_eq!(press(&mut Menu::new(item), &[Key::Interrupt]), Step::Interrupted);
        insta::assert_snapshot!(Menu::new(item).lines(30).join("\n"), @r"
          1. sqlite
             one file
        › 2. postgres
        ↑↓ or a number, enter answer…
        ");
    }

    #[test]
    fn several_are_marked_and_none_is_no_answer() {
        let question =
            question(json!({"question": "Which?", "multiSelect": true, "allowOther": true, "options": [
                {"label": "a"}, {"label": "b"}, {"label": "c"}
            ]}));
        let mut menu = Menu::new(&question.items()[0]);
        assert_eq!(menu.press(Key::Enter), Step::Stay);
        assert!(menu.lines(80).last().unwrap().contains("mark one or more"));
        let keys = [Key::Character(' '), Key::Character('3'), Key::Enter];
        assert_eq!(press(&mut menu, &keys), Step::Chosen(Reply::Many(vec!["a".into(), "c".into()])));
        assert_eq!(
            press(&mut menu, &[Key::Down, Key::Enter]),
            Step::Write,
            "the last row is for other words"
        );
    }
}
