//! A question as a person reads it: what is asked, what may be chosen and what that implies, and why.

use agora_core::QuestionId;
use agora_core::answer::{Replies, Reply};
use agora_core::question::{Choosing, Item, ItemId, Question};
use agora_core::route::Terms;
use agora_engine::Difference;

use crate::answer_line;
use crate::helpers::COMMENT;
use crate::person;
use crate::plain::{plain, wrapped};

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

/// Says how an open question is answered and what follows; and by whom, where whoever reads it may not.
pub(crate) fn how(id: &QuestionId, question: &Question, terms: &Terms, then: &str) -> String {
    let line = answer_line::line(id, question.items());
    match only_others(terms) {
        None => format!("`{line}` answers it{then}"),
        Some(only) => format!("{only}, by `{line}`; `agora route test {id}` shows its way"),
    }
}

/// Says who may answer, where whoever sits here may not.
pub(crate) fn only_others(terms: &Terms) -> Option<String> {
    let reader_may = || person::at_the_terminal().principal.parse().is_ok_and(|who| terms.names(&who));
    if terms.may_answer.is_empty() || reader_may() {
        return None;
    }
    let who: Vec<String> = terms.may_answer.iter().map(|party| format!("`{party}`")).collect();
    Some(format!("only {} may answer it", who.join(", ")))
}

/// Says what an item asks, after the few words that it goes by, if it has some.
pub(crate) fn asks(item: &Item) -> String {
    let header = item.header().map(|header| plain(header.trim()).replace('\n', " "));
    let header = header.filter(|header| !header.is_empty()).map(|header| format!("{header}: "));
    header.unwrap_or_default() + &plain(item.question().trim())
}

fn item_lines(item: &Item, several: bool) -> Vec<String> {
    let words = asks(item);
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
    let text = whole_context(question)?;
    let all = text.lines().count();
    let mut lines: Vec<String> = text.lines().take(CONTEXT_LINES).map(|line| format!("  {line}")).collect();
    if all > CONTEXT_LINES {
        lines.push(format!("  … and {} more lines: `agora show`", all - CONTEXT_LINES));
    }
    Some(lines.join("\n"))
}

/// Returns the context in lines that fit, as far as it is shown before somebody asks for the rest.
pub(crate) fn context_lines(question: &Question, columns: usize) -> Vec<String> {
    let text = whole_context(question).unwrap_or_default();
    let mut lines: Vec<String> =
        text.lines().take(CONTEXT_LINES).flat_map(|line| wrapped(line, 2, columns)).collect();
    let more = text.lines().count().saturating_sub(CONTEXT_LINES);
    lines.extend((more > 0).then(|| format!("  … and {more} more lines: c shows them")));
    lines
}

/// Tells whether there is more of the context than is shown.
pub(crate) fn is_cut(question: &Question) -> bool {
    question.context().is_some_and(|context| context.trim().lines().count() > CONTEXT_LINES)
}

fn whole_context(question: &Question) -> Option<String> {
    let text = plain(question.context().unwrap_or_default().trim());
    (!text.is_empty()).then_some(text)
}

/// Returns the first line of the context.
pub(crate) fn context_headline(question: &Question) -> Option<String> {
    let text = whole_context(question)?;
    let first = text.lines().next()?.to_owned();
    Some(if text.lines().count() > 1 { format!("{first} …") } else { first })
}

/// Returns the items of a question in lines: what is asked, and what may be chosen.
pub(crate) fn items(question: &Question) -> Vec<String> {
    let several = question.items().len() > 1;
    let lines = question.items().iter().flat_map(|item| item_lines(item, several));
    lines.flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>()).collect()
}

/// Returns everything of a question in lines.
pub(crate) fn whole(question: &Question) -> Vec<String> {
    let mut lines = items(question);
    if let Some(context) = whole_context(question) {
        lines.push(String::new());
        lines.extend(context.lines().map(|line| format!("  {line}")));
    }
    lines
}

/// Prepares a file to write the answer to an item into, with the question in comments.
pub(crate) fn prepared(question: &Question, item: &Item) -> String {
    let mut lines: Vec<String> = item_lines(item, false).join("\n").lines().map(str::to_owned).collect();
    if let Some(context) = whole_context(question) {
        lines.push(String::new());
        lines.extend(context.lines().map(|line| format!("  {line}")));
    }
    let what = match (item.choosing(), item.allows_other()) {
        (Choosing::FreeText, _) => "Write the answer above.",
        (Choosing::One, false) => "Write an option above, by its label or its number.",
        (Choosing::One, true) => "Write an option above, by its label or its number, or anything else.",
        (Choosing::Several, _) => "Write options above, by label or number, with commas between them.",
    };
    lines.extend([String::new(), what.to_owned()]);
    lines.push(format!("Lines that begin with `{COMMENT}` are left out. A file with nothing else leaves"));
    lines.push("the question open.".to_owned());
    let comment = |line: String| format!("{COMMENT} {line}").trim_end().to_owned() + "\n";
    std::iter::once("\n".to_owned()).chain(lines.into_iter().map(comment)).collect()
}

/// Says a reply: several with commas between them.
pub(crate) fn words(reply: &Reply) -> String {
    match reply {
        Reply::One(text) => text.clone(),
        Reply::Many(texts) => texts.join(", "),
    }
}

/// Says the replies to a question, a line each or more: the only one by itself, several each with its item's id.
pub(crate) fn reply_lines(replies: &Replies) -> Vec<String> {
    let said = |(id, reply): (&ItemId, &Reply)| match replies.len() {
        1 => plain(&words(reply)),
        _ => format!("{}: {}", plain(id.as_str()), plain(&words(reply))),
    };
    replies.iter().map(said).collect()
}

/// Says the replies to a question in one line.
pub(crate) fn replies(replies: &Replies) -> String {
    reply_lines(replies).join("; ").replace('\n', " ")
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
        insta::assert_snapshot!(prepared(&question, &question.items()[0]), @r"

        #: Which parser?�[2J
        #:   1. A
        #:      Keeps the callers.
        #:      Old dates stay.
        #:   2. B
        #:   or anything else
        #:
        #:   Both are used.
        #:
        #: Write an option above, by its label or its number, or anything else.
        #: Lines that begin with `#:` are left out. A file with nothing else leaves
        #: the question open.
        ");
    }

    #[test]
    fn a_long_context_is_cut_until_somebody_asks_for_it() {
        let context: Vec<String> = (1..=25).map(|line| format!("line {line}")).collect();
        let question: Question = serde_json::from_value(json!({
            "questions": [{"question": "Why?"}], "context": context.join("\n")
        }))
        .unwrap();
        assert!(is_cut(&question));
        let lines = context_lines(&question, 80);
        assert_eq!((lines.len(), lines[20].as_str()), (21, "  … and 5 more lines: c shows them"));
        assert_eq!(whole(&question).len(), 27);
    }

    #[test]
    fn whoever_may_not_answer_is_told_who_may() {
        let id: QuestionId = "q_7f3k".parse().unwrap();
        let one: Question = serde_json::from_value(json!({"questions": [{"question": "Which?"}]})).unwrap();
        let said = |may_answer: Vec<&str>| {
            let may_answer = may_answer.iter().map(|party| party.parse().unwrap()).collect();
            how(&id, &one, &Terms { may_answer, ..Terms::default() }, ", and it goes on")
        };
        assert_eq!(said(vec![]), "`agora answer q_7f3k VALUE` answers it, and it goes on");
        assert_eq!(said(vec!["user:somebody-else", &person::at_the_terminal().principal]), said(vec![]));
        assert_eq!(
            said(vec!["user:somebody-else"]),
            "only `user:somebody-else` may answer it, by `agora answer q_7f3k VALUE`; `agora route test q_7f3k` shows its way"
        );
    }
}
