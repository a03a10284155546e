//! A question as a person reads it: what is asked, what may be chosen and what that implies, and why.

use agora_core::question::{Choosing, Item, Question};
use agora_engine::Difference;

use crate::plain::plain;

/// How much of a context is shown before the rest is left to `agora show`.
const CONTEXT_LINES: usize = 20;

/// Returns a question in lines, without a line break at the end.
pub(crate) fn text(question: &Question) -> String {
    let several = question.items().len() > 1;
    let mut lines = Vec::new();
    for item in question.items() {
        lines.extend(item_lines(item, several));
    }
    if let Some(context) = context(question) {
        lines.extend([String::new(), context]);
    }
    lines.join("\n")
}

/// Returns the question's first line, for a list.
pub(crate) fn headline(question: &Question) -> String {
    let first = question.items().first().map(Item::question).unwrap_or_default();
    let line = plain(first.trim()).lines().next().unwrap_or_default().to_owned();
    match question.items().len() {
        0 | 1 => line,
        more => format!("{line} (and {} more)", more - 1),
    }
}

/// Returns what has changed since the question was asked, a line each.
pub(crate) fn changes(stale: &[Difference]) -> Vec<String> {
    stale.iter().map(|difference| format!("since then: {}", plain(&difference.text()))).collect()
}

fn item_lines(item: &Item, several: bool) -> Vec<String> {
    let words = plain(item.question().trim());
    let mut lines = vec![if several { format!("{}: {words}", plain(item.id().as_str())) } else { words }];
    for (number, choice) in (1..).zip(item.options()) {
        lines.push(format!("  {number}. {}", plain(choice.label.trim())));
        let implied = choice
            .description
            .iter()
            .flat_map(|text| plain(text.trim()).lines().map(str::to_owned).collect::<Vec<_>>());
        lines.extend(implied.map(|line| format!("     {line}")));
    }
    lines.extend(match (item.choosing(), item.allows_other()) {
        (Choosing::FreeText, _) => None,
        (Choosing::One, false) => None,
        (Choosing::One, true) => Some("  or anything else".to_owned()),
        (Choosing::Several, false) => Some("  one or more of them".to_owned()),
        (Choosing::Several, true) => Some("  one or more of them, or anything else".to_owned()),
    });
    lines
}

/// Returns what an agent said beside its question, if it did.
pub(crate) fn context(question: &Question) -> Option<String> {
    let text = plain(question.context().unwrap_or_default().trim());
    if text.is_empty() {
        return None;
    }
    let all = text.lines().count();
    let mut lines: Vec<String> = text.lines().take(CONTEXT_LINES).map(|line| format!("  {line}")).collect();
    if all > CONTEXT_LINES {
        lines.push(format!("  … and {} more lines: `agora show`", all - CONTEXT_LINES));
    }
    Some(lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_question_is_shown_with_what_each_choice_implies() {
        let question: Question = serde_json::from_value(json!({
            "questions": [{"question": "Which parser?\u{1b}[2J", "options": [
                {"label": "A", "description": "Keeps the callers.\nOld dates stay."}, {"label": "B"}
            ], "allowOther": true}],
            "context": "Both are used."
        }))
        .unwrap();
        insta::assert_snapshot!(text(&question), @r"
        Which parser?�[2J
          1. A
             Keeps the callers.
             Old dates stay.
          2. B
          or anything else

          Both are used.
        ");
        assert_eq!(headline(&question), "Which parser?\u{fffd}[2J");
    }
}
