use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::question::Choosing;

fn parse_json(value: Value) -> Result<Question, Malformed> {
    parse(value.to_string().as_bytes())
}

#[test]
fn every_field_of_one_question_arrives() {
    let question = parse_json(json!({
        "question": "Should I rewrite function A or function B?", "header": "Function",
        "options": ["A", {"label": "B", "description": "has more callers"}], "multiSelect": true, "allowOther": true,
        "default": ["A"], "human": true, "context": "Both have the same signature.",
        "partial_state": {"ruled_out": ["C"], "at": 1_763_233_200_000_000_001_u64}, "somethingElse": 1
    }))
    .unwrap();
    let item = &question.items()[0];
    assert_eq!(question.context(), Some("Both have the same signature."));
    assert_eq!(question.partial_state(), &json!({"ruled_out": ["C"], "at": 1_763_233_200_000_000_001_u64}));
    assert_eq!(
        (item.id().as_str(), item.header(), item.choosing()),
        ("q1", Some("Function"), Choosing::Several)
    );
    let described: Vec<_> = item.options().iter().map(|choice| choice.description.as_deref()).collect();
    assert_eq!(described, [None, Some("has more callers")]);
    assert!(item.is_for_humans() && item.accepts(&Reply::One("C".to_owned())));
    assert_eq!(item.default_reply(), Some(&Reply::Many(vec!["A".to_owned()])));
}

#[test]
fn several_questions_keep_their_ids_and_order() {
    let question = parse_json(json!({
        "questions": [{"id": "db", "question": "Which?"}, {"question": "Why?", "id": null}], "context": null
    }))
    .unwrap();
    let ids: Vec<&str> = question.items().iter().map(|item| item.id().as_str()).collect();
    assert_eq!(ids, ["db", "q2"]);
    assert_eq!(question.partial_state(), &Value::Null);
}

#[test]
fn the_table_of_what_is_malformed() {
    let field = |place, field, expected| Malformed::Field { place, field, expected };
    let (top, text) = (Place::TopLevel, "a text");
    let options = "a list of texts, or of objects with `label` and `description`";
    let cases = [
        (json!({}), Malformed::NoQuestion),
        (json!({"question": ""}), Malformed::Question(QuestionError::Blank(1))),
        (json!({"question": "  "}), Malformed::Question(QuestionError::Blank(1))),
        (json!({"question": 5}), field(top, "question", text)),
        (json!({"question": null}), field(top, "question", text)),
        (json!({"question": "a", "questions": []}), Malformed::Both),
        (json!({"questions": []}), Malformed::Question(QuestionError::Empty)),
        (json!({"questions": {}}), field(top, "questions", "a list")),
        (json!({"questions": ["a"]}), field(top, "questions", "a list of objects")),
        (json!({"questions": [{"id": "a"}]}), field(Place::Item(1), "question", "there")),
        (json!({"questions": [{"question": "a"}, {"question": 1}]}), field(Place::Item(2), "question", text)),
        (json!({"question": "a", "options": [1, 2]}), field(top, "options", options)),
        (json!({"question": "a", "options": "A"}), field(top, "options", options)),
        (json!({"question": "a", "options": [{"label": 1}]}), field(top, "options", options)),
        (json!({"question": "a", "options": [{"name": "x"}]}), field(top, "options", options)),
        (json!({"question": "a", "context": 1}), field(top, "context", text)),
        (json!({"question": "a", "multiSelect": "yes"}), field(top, "multiSelect", "true or false")),
        (json!({"question": "a", "default": 1}), field(top, "default", "a text or a list of texts")),
        (
            json!({"questions": [{"id": "x", "question": "a"}, {"id": "x", "question": "b"}]}),
            Malformed::Question(QuestionError::IdTwice(2)),
        ),
        (
            json!({"question": "a", "options": ["x"], "default": "y"}),
            Malformed::Question(QuestionError::Default(1)),
        ),
        (json!([]), Malformed::NotAnObject),
        (json!("question"), Malformed::NotAnObject),
    ];
    for (value, expected) in cases {
        assert_eq!(parse_json(value.clone()), Err(expected), "{value}");
    }
    assert!(matches!(parse(b""), Err(Malformed::Json(StrictError::Syntax { .. }))));
    assert!(matches!(parse(br#"{"question":"a"} x"#), Err(Malformed::Json(StrictError::Syntax { .. }))));
    assert!(matches!(
        parse(br#"{"question":"a","question":"b"}"#),
        Err(Malformed::Json(StrictError::KeyTwice { .. }))
    ));
    assert_eq!(parse(b"{\"question\":\"\xff\"}"), Err(Malformed::NotUtf8));
    assert_eq!(parse(&[b'['; 100_000]), Err(Malformed::Json(StrictError::TooDeep(128))));
}

#[test]
fn the_size_counts_to_the_byte_and_a_mark_of_the_byte_order_is_passed_over() {
    let padded = |size: usize| {
        let frame = r#"{"question":"a","context":""}"#.len();
        format!(r#"{{"question":"a","context":"{}"}}"#, "x".repeat(size - frame)).into_bytes()
    };
    assert!(parse(&padded(1_048_576)).is_ok());
    assert_eq!(parse(&padded(1_048_577)), Err(Malformed::TooLarge(1_048_577)));
    assert!(parse("\u{feff}{\"question\":\"a\"}".as_bytes()).is_ok());
}

#[test]
fn nothing_of_the_file_is_quoted() {
    for text in [
        r#"{"question": {"hunter2": "hunter2"}}"#,
        r#"{"question": "a", "hunter2": 1, "hunter2": 2}"#,
        r#"{"question": "a", "options": [{"hunter2": 1}]}"#,
        r#"hunter2"#,
        r#"{"questions": [{"id": "hunter2", "question": "a"}, {"id": "hunter2", "question": "b"}]}"#,
        r#"{"question": "a", "options": ["hunter2", "hunter2"]}"#,
    ] {
        let error = parse(text.as_bytes()).unwrap_err();
        assert!(!error.to_string().contains("hunter2"), "{error}");
    }
}

proptest! {
    #[test]
    fn no_bytes_panic_and_what_parses_comes_back(at in 0_usize..120, put in proptest::collection::vec(any::<u8>(), 0..8)) {
        let seed = br#"{"questions":[{"id":"a","question":"b","options":["c",{"label":"d"}],"default":"c"}],"partial_state":[1]}"#;
        let at = at.min(seed.len());
        let end = (at + put.len()).min(seed.len());
        let bytes = [&seed[..at], &put, &seed[end..]].concat();
        if let Ok(question) = parse(&bytes) {
            let stored = serde_json::to_value(&question).unwrap();
            prop_assert_eq!(serde_json::from_value::<Question>(stored).unwrap(), question);
        }
    }
}

/// As many as a whole file holds are looked through once: not each one for each other.
#[test]
fn there_is_an_end_to_items_and_options() {
    let texts = |count: usize| (0..count).map(|number| format!("{number:x}")).collect::<Vec<_>>();
    let with = |count: usize| json!({"question": "?", "options": texts(count)}).to_string();
    assert_eq!(parse(with(1000).as_bytes()).unwrap().items()[0].options().len(), 1000);
    let refused = parse(with(110_000).as_bytes()).unwrap_err();
    assert_eq!(refused.to_string(), "the object has 110000 options, the most is 1000");
    let items = |count: usize| {
        let items: Vec<_> = texts(count).iter().map(|text| json!({"id": text, "question": "?"})).collect();
        json!({"questions": items}).to_string()
    };
    assert_eq!(parse(items(100).as_bytes()).unwrap().items().len(), 100);
    assert_eq!(parse(items(101).as_bytes()), Err(Malformed::TooManyItems(101)));
}

/// What was recorded before there was a limit stays readable, and takes a moment.
#[test]
fn a_recorded_question_of_any_size_is_checked_in_one_pass() {
    let options: Vec<_> = (0..110_000).map(|number| json!({"label": format!("{number:x}")})).collect();
    let labels: Vec<_> = options.iter().map(|option| option["label"].clone()).collect();
    let recorded =
        json!({"questions": [{"question": "?", "options": options, "multiSelect": true, "default": labels}]});
    let question: Question = serde_json::from_value(recorded).unwrap();
    assert!(question.items()[0].accepts(question.items()[0].default_reply().unwrap()));
}
