//! Whatever is asked comes back from every form, but for what the form says that it lost.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::checkpoint::About;
use super::metadata::Pause;
use super::*;
use crate::answer::Reply;
use crate::question::Choice;
use crate::time::Timestamp;

const AT: i64 = 1_770_201_000_000;

fn text() -> impl Strategy<Value = String> {
    "([a-zé(){}\"\\\\#*:-]{1,6}|## Next Step|\\*\\*Task:\\*\\*|A\\)| |\n){1,8}"
        .prop_filter("not blank", |text| !text.trim().is_empty())
}

fn state() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        text().prop_map(Value::from)
    ];
    let keys = prop_oneof![text(), "(progress|files|stateFile|partial_state|context|question)"];
    leaf.prop_recursive(3, 12, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map(keys.clone(), inner, 0..3)
                .prop_map(|map| Value::Object(map.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

prop_compose! {
    fn item()(
        words in text(),
        header in prop::option::of(text()),
        labels in prop::collection::btree_set(text(), 0..4),
        described in prop::collection::vec(prop::option::of(text()), 4),
        several in any::<bool>(),
        allow_other in any::<bool>(),
        human in any::<bool>(),
        with_default in any::<bool>(),
        id in prop::option::of("[a-z]{1,5}"),
    ) -> RawItem {
        let options: Vec<_> = labels.into_iter().zip(described)
            .map(|(label, description)| Choice { label, description }).collect();
        RawItem {
            id: id.map(|id| id.parse().unwrap()),
            question: words,
            header,
            multi_select: several && !options.is_empty(),
            allow_other,
            default: options.first().filter(|_| with_default).map(|choice| Reply::One(choice.label.clone())),
            human,
            options,
        }
    }
}

fn question(items: std::ops::Range<usize>) -> impl Strategy<Value = Question> {
    let items = prop::collection::vec(item(), items);
    (items, prop::option::of(text()), state()).prop_filter_map("ids differ", |(questions, context, state)| {
        Question::new(RawQuestion { questions, context, partial_state: state, ..RawQuestion::default() }).ok()
    })
}

fn at() -> Timestamp {
    Timestamp::from_millis(AT)
}

fn only(question: &Question) -> RawItem {
    RawQuestion::from(question.clone()).questions.remove(0)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn an_output_holds_every_question(question in question(1..4), file in prop::option::of("[a-z/ .]{1,9}")) {
        let awaiting = Awaiting::new(question.clone(), file);
        let text = awaiting.produce().unwrap();
        prop_assert_eq!(Awaiting::parse(text.strip_prefix(awaiting::MARK).unwrap()), Ok(awaiting.clone()));
        prop_assert_eq!(find(&format!("words\n{text}words")), Some(Marker::Asked(awaiting.into_question())));
        let alone = Awaiting::new(question.clone(), None).produce().unwrap();
        prop_assert_eq!(find(&alone), Some(Marker::Asked(Ok(question))));
    }

    #[test]
    fn a_state_file_holds_every_question_of_one_item(question in question(1..2), path in "[a-z./]{1,6}( [a-z]{1,3})?") {
        let Written { form, lost } = StateFile::of(&question, "agent", at()).unwrap();
        prop_assert_eq!(lost, []);
        prop_assert_eq!(StateFile::parse(form.produce().as_bytes()), Ok(form.clone()));
        prop_assert_eq!(form.question(), Ok(Some(question.clone())));
        prop_assert_eq!((form.agent(), form.timestamp()), (Some("agent"), Some(at())));
        let Some(Marker::StateFile(paused)) = find(&form.marker(&path).unwrap()) else { panic!("no marker") };
        prop_assert_eq!(&paused.file, &path);
        let heard = paused.question(form.produce().as_bytes()).unwrap();
        // What the output says of an option that the file is silent about is only ever added.
        prop_assert_eq!(heard.context(), question.context());
        prop_assert_eq!(heard.partial_state(), question.partial_state());
        prop_assert_eq!(heard.items()[0].question(), question.items()[0].question());
    }

    #[test]
    fn task_metadata_hold_words_options_context_and_state(question in question(1..2), answer in text()) {
        let others = TaskMetadata::parse(br#"{"agent_id": "a1", "priority": 3}"#).unwrap();
        let Written { form, lost } = others.asking(&question).unwrap();
        prop_assert_eq!(TaskMetadata::from_fields(form.produce()), Ok(form.clone()));
        prop_assert_eq!(&form.produce()["priority"], &json!(3));
        let (asked, held) = (only(&question), only(form.waiting().unwrap()));
        prop_assert_eq!(&held.question, &asked.question);
        prop_assert_eq!(&held.options, &asked.options);
        let back = TaskMetadata::from_fields(form.produce()).unwrap();
        prop_assert_eq!(back.waiting().unwrap().context(), question.context());
        prop_assert_eq!(back.waiting().unwrap().partial_state(), question.partial_state());
        prop_assert_eq!(lost.contains(&Lost::HumanOnly), asked.human);
        prop_assert_eq!(lost.contains(&Lost::Several), asked.multi_select);
        prop_assert_eq!(lost.is_empty(), held == asked, "{:?}", lost);
        let answered = form.answered(Reply::One(answer.clone()), at());
        prop_assert_eq!(&answered.produce()["needs_input"], &json!(false));
        prop_assert_eq!(&answered.produce()["user_answer"], &json!(answer));
        prop_assert_eq!(TaskMetadata::from_fields(answered.produce()), Ok(answered));
    }

    #[test]
    fn a_checkpoint_reads_back_and_says_what_it_could_not_hold(question in question(1..2), task in text()) {
        let about = About { agent: "a b", task: &task, at: at() };
        let Written { form, lost } = Checkpoint::of(&question, about).unwrap();
        prop_assert_eq!(Checkpoint::parse(&form.produce()), Ok(form.clone()), "{}", form.produce());
        let back = form.question().unwrap();
        prop_assert_eq!(back.items()[0].question(), question.items()[0].question().trim());
        prop_assert_eq!(lost.contains(&Lost::Options), !question.items()[0].options().is_empty());
        let again = Checkpoint::of(&back, about).unwrap();
        prop_assert_eq!(again, Written { form, lost: Vec::new() }, "what it held, it holds");
    }

    #[test]
    fn several_items_are_refused_by_a_form_of_one(question in question(2..4)) {
        let refused = CannotHold::SeveralItems(question.items().len());
        prop_assert_eq!(StateFile::of(&question, "a", at()), Err(refused));
        prop_assert_eq!(TaskMetadata::default().asking(&question), Err(refused));
        prop_assert_eq!(Checkpoint::of(&question, About { agent: "a", task: "t", at: at() }), Err(refused));
    }

    #[test]
    fn an_answer_reads_back(answers in prop::collection::btree_map("[a-z]{1,5}", state(), 0..3), state in state()) {
        let response = Response::new(answers.into_iter().collect(), &state);
        prop_assert_eq!(Response::parse(&format!("{}\n\nthe task", response.produce())), Some(Ok(response)));
    }
}

#[test]
fn metadata_of_somebody_elses_tell_why_and_are_handed_back() {
    let metadata = TaskMetadata::parse(include_bytes!("../../tests/corpus/protocol/metadata.json")).unwrap();
    let Pause::Waiting(question) = &metadata.pause else { panic!("{metadata:?}") };
    let context = question.context().unwrap();
    assert!(context.contains("pattern_a: half up (invoice.rs)\n"), "{context}");
    assert_eq!(question.partial_state()["files_analyzed"], json!(["src/invoice.rs", "src/tax.rs"]));
    assert_eq!(metadata.agent_id.as_deref(), Some("a-7"));
    assert_eq!(metadata.produce()["priority"], json!(3));
}

#[test]
fn metadata_that_are_not_what_they_say_are_refused() {
    for (wrong, field) in [
        (json!({"needs_input": "yes", "question": "?"}), "needs_input"),
        (json!({"needs_input": true}), "question"),
        (json!({"needs_input": true, "question": " "}), "blank"),
        (json!({"needs_input": true, "question": "?", "question_options": "A"}), "question_options"),
        (json!({"needs_input": false, "question": "?", "user_answer": 1}), "user_answer"),
        (json!({"needs_input": false, "question": "?", "user_answer": "A"}), "answered_at"),
    ] {
        let error = TaskMetadata::parse(wrong.to_string().as_bytes()).unwrap_err().to_string();
        assert!(error.contains(field), "{wrong}: {error}");
    }
    let nothing = TaskMetadata::parse(br#"{"needs_input": false, "note": 1}"#).unwrap();
    assert_eq!(nothing.pause, Pause::None);
    assert_eq!(nothing.clone().answered(Reply::One("A".into()), at()), nothing);
}

#[test]
fn what_is_too_large_or_too_deep_is_not_written() {
    let asking = |state: Value| -> Question {
        serde_json::from_value(json!({"questions": [{"question": "?"}], "partialState": state})).unwrap()
    };
    let large = asking(json!("x".repeat(1 << 20)));
    assert!(matches!(Awaiting::new(large.clone(), None).produce(), Err(CannotHold::TooLarge(_))));
    assert!(matches!(StateFile::of(&large, "a", at()), Err(CannotHold::TooLarge(_))));
    let deep = (0..strict::DEEPEST).fold(json!(1), |inner, _| json!([inner]));
    assert_eq!(Awaiting::new(asking(deep), None).produce(), Err(CannotHold::TooDeep));
}

#[test]
fn a_prompt_that_begins_otherwise_is_no_answer() {
    assert_eq!(Response::parse("Fix it.\nUSER_INPUT_RESPONSE {}"), None);
    assert_eq!(Response::parse("USER_INPUT_RESPONSES {}"), None);
    for broken in ["USER_INPUT_RESPONSE", "USER_INPUT_RESPONSE A", "USER_INPUT_RESPONSE {\"q1\":"] {
        assert!(matches!(Response::parse(broken), Some(Err(_)) | None), "{broken}");
    }
    let two = Response::parse("USER_INPUT_RESPONSE {\"q1\": \"A\", \"q1\": \"B\"}");
    assert!(matches!(two, Some(Err(_))), "which one was meant?");
}
