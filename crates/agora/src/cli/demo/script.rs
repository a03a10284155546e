//! The play: a repository with two date parsers and a red test, an agent that is a shell script, and what it asks.
//!
//! The agent is the only thing in the demo that is not real, and says so.

use agora_core::bundle::RawSubagent;
use agora_core::question::Question;
use agora_core::sentinel;
use serde_json::json;

use crate::failure::Failure;

/// What the scripted agent is called.
pub(super) const NAME: &str = "date-fixer";

/// What it is to do.
pub(super) const TASK: &str = "Make ./test green.";

/// What a real agent is told beside it: nobody can know which parser is meant.
pub(super) const REAL_TASK: &str = "Make ./test green by letting invoices and payments read dates with one parser, and delete the \
    other. Which of the two is canonical is a business decision that nothing in this repository tells: fix what is clear, then ask \
    that, with what each choice implies, and stop. When you have the answer, do it and commit.";

/// The answer that the demo gives where nobody is there.
pub(super) const DEFAULT: &str = "day-first";

/// The files of the repository.
pub(super) const FILES: [(&str, &str); 5] = [
    (
        "dates/day_first.sh",
        "# 3/4/2026 is the third of April.\n\
         IFS=/ read -r day month year <<END\n$1\nEND\n\
         echo \"$year-$month-$day\"\n",
    ),
    (
        "dates/month_first.sh",
        "# 3/4/2026 is the fourth of March.\n\
         IFS=/ read -r month day year <<END\n$1\nEND\n\
         echo \"$year-$month-$day\"\n",
    ),
    ("invoice.sh", "sh dates/day_first.sh \"$1\"\n"),
    ("payment.sh", "sh dates/month_first.sh \"$1\"\n"),
    (
        "test",
        "#!/bin/sh\n\
         # Invoices and payments read a date alike, and write it as 2026-04-03.\n\
         a=$(sh invoice.sh 3/4/2026) b=$(sh payment.sh 3/4/2026)\n\
         case $a in ????-??-??) [ \"$a\" = \"$b\" ] && echo \"GREEN  3/4/2026 is $a everywhere\" && exit 0 ;; esac\n\
         echo \"RED    3/4/2026 is $a in invoices, $b in payments\"\n\
         exit 1\n",
    ),
];

/// What it asks.
pub(super) const SENTINEL: &str = r#"{
  "question": "Which reading of 3/4/2026 is the canonical one?",
  "header": "Dates",
  "options": [
    {"label": "day-first", "description": "3 April. Payments change their meaning; month_first.sh goes."},
    {"label": "month-first", "description": "4 March. Invoices change their meaning; day_first.sh goes."}
  ],
  "context": "invoice.sh reads the day first, payment.sh the month. Each has one caller, and no file says which one is meant.",
  "partial_state": {
    "considered": ["day-first", "month-first", "keep both: the test forbids it"],
    "done": ["both parsers pad with zeros"],
    "remaining": ["one parser for both callers", "delete the other", "run ./test"]
  }
}"#;

/// What it does. The first time it mends what is clear, asks, and stops; then it does what it was told, in the same tree.
const SCRIPT: &str = r#"set -eu
answer=$(sed -n 's/^answer: //p')
sleep 0.2 # It reads the files: as long as a blink.
if [ -z "$answer" ]; then
  for parser in dates/*_first.sh; do
    sed -i 's/^echo .*/printf "%s-%02d-%02d\\n" "$year" "$month" "$day"/' "$parser"
  done
  cat > .agora/needs_input.json <<'SENTINEL'
@SENTINEL@
SENTINEL
  echo "Both parsers pad with zeros now. They still disagree, and which one is right is not mine to say."
  exit
fi
case $answer in
  day-first) keep=day_first gone=month_first ;;
  *) keep=month_first gone=day_first ;;
esac
sed -i "s/$gone/$keep/" invoice.sh payment.sh
rm "dates/$gone.sh"
sh ./test
git add -A && git commit -qm "Read every date $answer" || true # agora commits what is left.
"#;

/// Returns the question, for whoever answers before it is asked.
pub(super) fn question() -> Result<Question, Failure> {
    sentinel::parse(SENTINEL.as_bytes()).map_err(|error| Failure::bug(error.to_string()))
}

/// Returns the agent as it is registered.
pub(super) fn subagent() -> Result<RawSubagent, Failure> {
    let script = SCRIPT.replace("@SENTINEL@", SENTINEL);
    serde_json::from_value(json!({
        "description": "The demo's agent: a shell script.",
        "runtime": "command",
        "command": ["/bin/sh", "-c", script],
        "promptTemplate": "{{task}}{{#resumed}}\nanswer: {{answer}}{{/resumed}}\n",
        "verify": {"command": "sh ./test"},
    }))
    .map_err(|error| Failure::bug(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_answers_what_is_asked_and_every_option_says_what_it_implies() {
        let question = question().unwrap();
        let [item] = question.items() else { panic!("one thing is asked") };
        assert!(item.accepts(&agora_core::answer::Reply::One(DEFAULT.to_owned())));
        assert!(item.options().iter().all(|choice| choice.description.is_some()));
        assert!(subagent().is_ok());
        let lines = FILES.iter().flat_map(|(_, text)| text.lines()).chain(SENTINEL.lines());
        assert!(lines.clone().all(|line| line.len() < 140), "it is shown on a screen");
    }
}
