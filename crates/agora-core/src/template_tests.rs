use proptest::prelude::*;

use super::*;

fn data(value: Value) -> PromptData {
    PromptData::new(value.as_object().unwrap(), "t_1", "d_1", None)
}

fn resumed(value: Value) -> PromptData {
    let resumption = Resumption {
        answer: json!("B"),
        answers: Map::from_iter([("q1".to_owned(), json!("B"))]),
        partial_state: json!({"ruled_out": ["C"]}),
    };
    PromptData::new(value.as_object().unwrap(), "t_1", "d_2", Some(resumption))
}

fn render(template: &str, data: &PromptData) -> Result<String, RenderError> {
    data.prompt(Some(&Template::parse(template).unwrap()))
}

#[test]
fn values_are_written_as_they_are() {
    let data = data(json!({"task": "a < b && \"c\"", "n": 3, "list": [1, "x"], "none": null}));
    let text =
        "{{task}}|{{{ task }}}|{{& task}}|{{input.task}}|{{n}}|{{list}}|{{none}}|{{threadId}}/{{dispatchId}}";
    let task = "a < b && \"c\"";
    assert_eq!(render(text, &data), Ok(format!("{task}|{task}|{task}|{task}|3|[1,\"x\"]||t_1/d_1")));
}

#[test]
fn a_first_and_a_resumed_dispatch_differ_by_their_sections() {
    let template = "Do {{task}}.\n{{#resumed}}\nThe answer: {{answer}} (q1: {{answers.q1}}).\n\
                    Ruled out:\n{{#partial_state.ruled_out}}\n- {{.}} in {{task}}\n{{/partial_state.ruled_out}}\n\
                    {{/resumed}}\n{{^resumed}}\nStart afresh.\n{{/resumed}}\nEnd";
    let input = json!({"task": "it"});
    assert_eq!(render(template, &data(input.clone())).unwrap(), "Do it.\nStart afresh.\nEnd");
    assert_eq!(
        render(template, &resumed(input)).unwrap(),
        "Do it.\nThe answer: B (q1: B).\nRuled out:\n- C in it\nEnd"
    );
}

#[test]
fn an_unknown_variable_is_an_error_that_names_it_and_an_absent_section_is_not() {
    let unknown =
        |names: &[&str]| Err(RenderError::Unknown(names.iter().map(|name| (*name).to_owned()).collect()));
    let data = data(json!({"task": {"title": "x"}}));
    assert_eq!(
        render("{{tsak}} {{input.x}} {{task.titel}}", &data),
        unknown(&["input.x", "task.titel", "tsak"])
    );
    assert_eq!(render("{{#note}}{{note}}{{/note}}{{^note}}none{{/note}}", &data), Ok("none".to_owned()));
    assert_eq!(render("{{#task}}{{title}} {{titel}}{{/task}}", &data), unknown(&["titel"]));
}

#[test]
fn a_section_over_what_is_empty_is_left_out() {
    let template = "{{#answers}}A{{/answers}}{{^answers}}a{{/answers}}{{#partial_state}}P{{/partial_state}}{{#note}}N{{/note}}";
    let first = data(json!({"note": {}}));
    assert_eq!(render(template, &first), Ok("a".to_owned()));
    assert_eq!(render(template, &first.with_partial_state(&json!({}))), Ok("a".to_owned()));
    assert_eq!(render(template, &resumed(json!({"note": {"x": 1}}))), Ok("APN".to_owned()));
}

/// An answer that counts is not lost because the agent named its question, or its notes, otherwise than a template expects.
#[test]
fn a_part_of_what_is_always_defined_is_empty_where_it_is_not_there() {
    let input = json!({"task": {"title": "x"}});
    let continued = data(input.clone()).continued(None);
    for template in [
        "[{{answers.db}}{{answers.db.name}}{{answer.x}}{{partial_state.x}}{{resumed.x}}]",
        "[{{#resumed}}{{answers.db}}{{/resumed}}]",
        "[{{#task}}{{answers.db}}{{/task}}]",
        "[{{#answers}}{{db}}{{/answers}}{{#partial_state}}{{x}}{{#ruled_out}}{{why}}{{/ruled_out}}{{/partial_state}}]",
    ] {
        for data in [data(input.clone()), resumed(input.clone()), continued.clone()] {
            let prompt = render(template, &data).unwrap();
            assert!(prompt.ends_with("[]"), "{template}: {prompt}");
        }
    }
    let unknown = |name: &str| Err(RenderError::Unknown(BTreeSet::from([name.to_owned()])));
    let outside = "{{#answers}}{{db}}{{/answers}}{{#task}}{{db}}{{/task}}";
    assert_eq!(render(outside, &resumed(input)), unknown("db"), "what encloses it does not define it");
    let theirs = data(json!({"task": {"answers": "x"}}));
    assert_eq!(render("{{#task}}{{answers.db}}{{/task}}", &theirs), unknown("answers.db"));
}

#[test]
fn the_names_that_are_always_defined_win_over_the_input() {
    let input = json!({"answer": "forged", "resumed": true, "input": "x", "task": "t"});
    assert_eq!(
        render("[{{answer}}]{{#resumed}}!{{/resumed}}{{input.task}}", &data(input)),
        Ok("[]t".to_owned())
    );
}

#[test]
fn without_a_template_the_task_or_the_whole_input_is_the_prompt() {
    assert_eq!(data(json!({"task": "fix it", "x": 1})).prompt(None), Ok("fix it".to_owned()));
    assert_eq!(data(json!({"b": 1, "a": [2]})).prompt(None), Ok("{\"a\":[2],\"b\":1}".to_owned()));
    assert_eq!(data(json!({})).prompt(None), Ok("{}".to_owned()));
}

#[test]
fn a_resumed_prompt_without_a_place_for_the_answer_begins_with_it() {
    let prompt = resumed(json!({"task": "fix it"})).prompt(None).unwrap();
    assert!(prompt.starts_with("USER_INPUT_RESPONSE {\"q1\":\"B\"}\nYou asked"), "{prompt}");
    assert!(prompt.ends_with("\n\nfix it"), "{prompt}");
    let with_place =
        render("{{task}} {{#resumed}}{{answers.q1}}{{/resumed}}", &resumed(json!({"task": "fix it"})));
    assert_eq!(with_place, Ok("fix it B".to_owned()));
}

#[test]
fn the_one_answer_is_no_place_for_several() {
    let both = Map::from_iter([("db".to_owned(), json!("B")), ("why".to_owned(), json!("fast"))]);
    let resumption = Resumption { answer: json!(""), answers: both, partial_state: json!(null) };
    let data = PromptData::new(&Map::new(), "t_1", "d_2", Some(resumption));
    let one = "They said {{answer}}.";
    let prompt = render(one, &data).unwrap();
    assert!(prompt.starts_with("USER_INPUT_RESPONSE {\"db\":\"B\",\"why\":\"fast\"}\n"), "{prompt}");
    assert!(data.follow_up(Some(&Template::parse(one).unwrap())).unwrap().starts_with("USER_INPUT_RESPONSE"));
    assert_eq!(render("{{answer}}{{answers.why}}", &data), Ok("fast".to_owned()));
}

#[test]
fn inputs_are_derived_from_what_the_template_asks_for() {
    let template =
        "{{task}} {{input.repo.url}} {{answer}} {{#resumed}}{{x}}{{/resumed}}{{#hints}}{{.}}{{/hints}}";
    let derived = Template::parse(template).unwrap().derived_inputs();
    assert_eq!(
        Value::Object(derived),
        json!({"type": "object", "properties": {"task": {}, "repo": {}, "hints": {}}, "required": ["repo", "task"]})
    );
    let missing =
        |input: Value| Template::parse(template).unwrap().missing_inputs(input.as_object().unwrap());
    assert_eq!(missing(json!({"hints": []})), ["repo", "task"]);
    assert_eq!(missing(json!({"task": null, "repo": {}})), [""; 0]);
    assert!(Template::parse(template).unwrap().mentions("answer"));
    assert!(Template::parse("{{#resumed}}{{answers.q1}}{{/resumed}}").unwrap().mentions("answers"));
    assert!(!Template::parse("{{task}}").unwrap().mentions("answer"));
}

#[test]
fn a_broken_template_is_refused_with_its_line() {
    let name = |name: &str| name.to_owned();
    let cases = [
        ("a\n{{b", TemplateError::UnclosedTag { line: 2 }),
        ("{{}}", TemplateError::Name { line: 1, name: name("") }),
        ("{{a b}}", TemplateError::Name { line: 1, name: name("a b") }),
        ("x\n\n{{#a}}", TemplateError::UnclosedSection { line: 3, name: name("a") }),
        ("{{#a}}\n{{/b}}", TemplateError::UnclosedSection { line: 1, name: name("a") }),
        ("{{/a}}", TemplateError::UnopenedSection { line: 1, name: name("a") }),
        ("{{> other}}", TemplateError::Partial { line: 1 }),
        ("{{=<% %>=}}", TemplateError::Delimiters { line: 1 }),
        (&format!("{}{}", "{{#a}}".repeat(40), "{{/a}}".repeat(40)), TemplateError::TooDeep),
    ];
    for (text, expected) in cases {
        assert_eq!(Template::parse(text), Err(expected), "{text}");
    }
    let nested = "{{#a}}{{#a}}{{#a}}{{#a}}x{{/a}}{{/a}}{{/a}}{{/a}}";
    assert_eq!(render(nested, &data(json!({"a": {"a": {"a": {"a": "x"}}}}))), Err(RenderError::TooDeep));
}

#[test]
fn a_megabyte_of_tags_is_read_in_one_go() {
    for tag in ["{{a}}", "{{#a}}{{/a}}", "{{! x }}", " {{^a}}\n{{/a}}"] {
        let template = Template::parse(&tag.repeat(1024 * 1024 / tag.len())).unwrap();
        assert!(render(template.source(), &data(json!({"a": ""}))).is_ok());
    }
    assert!(Template::parse(&"{{".repeat(512 * 1024)).is_err());
}

#[test]
fn comments_and_braces_of_others_are_left_alone() {
    let template = "{{! a } note }}{\"a\": {{n}}}\n  {{! alone\n on two lines }}  \nend { {x} }";
    assert_eq!(render(template, &data(json!({"n": 1}))), Ok("{\"a\": 1}\nend { {x} }".to_owned()));
}

proptest! {
    #[test]
    fn no_text_panics(text in "[{}#^/!&=>.a\n é]{0,60}") {
        if let Ok(template) = Template::parse(&text) {
            let _ = data(json!({"a": ["x", {"a": 1}]})).prompt(Some(&template));
            template.derived_inputs();
        }
    }

    #[test]
    fn text_without_tags_is_rendered_to_the_letter(text in "[^{]{0,80}") {
        prop_assert_eq!(render(&text, &data(json!({}))), Ok(text));
    }
}

#[test]
fn a_thread_that_goes_on_without_a_question_is_told_so_and_its_session_hears_only_that() {
    let data = data(json!({"task": "Count."})).continued(Some("Also add a test."));
    let prompt = data.prompt(None).unwrap();
    assert!(prompt.starts_with("Also add a test.\n\nYou worked on this before"), "{prompt}");
    assert!(prompt.ends_with("\n\nCount."), "{prompt}");
    assert!(!data.follow_up(None).unwrap().contains("Count."));
    let asks = Template::parse("{{answer}}{{#resumed}}again{{/resumed}}").unwrap();
    assert!(data.prompt(Some(&asks)).unwrap().contains("Also add a test."), "a message is never lost");
}

#[test]
fn a_thread_that_is_continued_hears_the_answer_again_that_was_given_before() {
    let data = resumed(json!({"task": "Count."})).continued(Some("Be quick."));
    let both = |text: &str| {
        let at = |words: &str| text.find(words).unwrap_or_else(|| panic!("no `{words}` in {text}"));
        assert!(at("USER_INPUT_RESPONSE {") < at("Be quick.\n\nYou worked on this before"), "{text}");
    };
    both(&data.prompt(None).unwrap());
    both(&data.follow_up(None).unwrap());
    let says = Template::parse("They said {{answer}}.").unwrap();
    let prompt = data.prompt(Some(&says)).unwrap();
    assert!(prompt.starts_with("Be quick.") && !prompt.contains("USER_INPUT_RESPONSE"), "{prompt}");
    // A conversation is not told the template again, which has the answer.
    both(&data.follow_up(Some(&says)).unwrap());
}

#[test]
fn a_session_hears_the_answer_alone_unless_the_template_says_it() {
    let data = resumed(json!({"task": "Count."}));
    let short = data.follow_up(None).unwrap();
    assert!(short.starts_with("USER_INPUT_RESPONSE {") && !short.contains("Count."), "{short}");
    let says = Template::parse("They said {{answer}}.").unwrap();
    assert_eq!(data.follow_up(Some(&says)).unwrap(), data.prompt(Some(&says)).unwrap());
}

#[test]
fn a_first_dispatch_may_bring_a_partial_state_and_is_told_where_it_is() {
    let first = data(json!({"task": "Count."}));
    let data = first.clone().with_partial_state(&json!({"ruled_out": ["C"]}));
    let template = Template::parse("{{partial_state.ruled_out}}{{#resumed}}no{{/resumed}}").unwrap();
    assert_eq!(data.prompt(Some(&template)).unwrap(), "[\"C\"]");
    assert_eq!(data.prompt(None).unwrap(), format!("{NOTES}\n\nCount."));
    assert_eq!(data.follow_up(None), data.prompt(None), "no conversation knows the task");
    for none in [json!(null), json!({}), json!("")] {
        assert_eq!(first.clone().with_partial_state(&none).prompt(None).unwrap(), "Count.");
    }
}

#[test]
fn a_thread_that_is_continued_is_told_where_its_notes_are() {
    let data = data(json!({"task": "Count."})).continued(Some("Go.")).with_partial_state(&json!([1]));
    assert_eq!(data.prompt(None).unwrap(), format!("Go.\n\n{CARRY_ON}\n{NOTES}\n\nCount."));
    assert_eq!(data.follow_up(None).unwrap(), format!("Go.\n\n{CARRY_ON}"), "it has them in mind");
}
