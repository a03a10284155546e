//! Whatever is in the ledger: what goes back is in bounds, fits its schema, has whole names, and comes to an end.

use agora_core::question::Question;
use proptest::prelude::*;
use schemars::JsonSchema;

use super::super::arguments::output_schema;
use super::super::asked::{AskedReply, Way};
use super::super::reply::{
    DescribedReply, QuestionsReply, SubagentEntry, SubagentsReply, ThreadReply, WaitStatus, WaitedReply,
};
use super::*;

const HASH: &str = "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";

/// Goes over the wire as the answer to a request, and fits the schema that its tool declares.
#[track_caller]
fn told<T: JsonSchema + Serialize>(reply: &T) -> Value {
    told_as::<T>(&serde_json::to_value(reply).unwrap())
}

#[track_caller]
fn told_as<T: JsonSchema>(reply: &Value) -> Value {
    let result = done(reply);
    let line = json!({"jsonrpc": "2.0", "id": u64::MAX, "result": result}).to_string();
    assert!(line.len() <= MOST_BYTES, "{} bytes", line.len());
    let content = result.structured_content.unwrap();
    let validator = jsonschema::validator_for(&Value::Object(output_schema::<T>())).unwrap();
    let fault = validator.validate(&content).err().map(|error| error.to_string());
    assert_eq!(fault, None, "{content}");
    content
}

/// Words as an agent may write them: plain, quoted, unprintable, and without end.
fn words() -> impl Strategy<Value = String> {
    let letters = prop_oneof!["[a-z ]{1,40}", "[\"\\\\\n]{1,9}", "\u{1}{1,9}", "[\u{e9}\u{1f600}]{1,9}"];
    (letters, 0..900usize).prop_map(|(letters, times)| letters.repeat(times))
}

fn data() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![any::<u32>().prop_map(|number| json!(number)), words().prop_map(Value::String)];
    let deep = leaf.prop_recursive(3, 40, 8, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..8).prop_map(Value::Array),
            prop::collection::btree_map("[a-z]{1,8}", inner, 0..8).prop_map(|map| json!(map)),
        ]
    });
    let wide = (0..4000usize)
        .prop_map(|keys| (0..keys).map(|key| (format!("key{key}"), json!(key))).collect::<Value>());
    prop_oneof![deep, wide]
}

fn thread() -> impl Strategy<Value = ThreadReply> {
    (words(), prop::option::of(data()), prop::option::of(words())).prop_map(|(text, structured, detail)| {
        ThreadReply {
            thread_id: String::new(),
            dispatch_id: "d_01jex3v5q8w9x0y1z2a3b4c5d6".to_owned(),
            subagent: "s".repeat(128),
            state: "finished".to_owned(),
            text: Some(text),
            structured,
            change: None,
            failure: detail.map(|detail| json!({"code": "oom", "detail": detail})),
            cost_usd: Some(0.25),
            duration_ms: 1200,
            resource: String::new(),
            omitted: None,
        }
    })
}

fn question() -> impl Strategy<Value = Question> {
    let options = prop::collection::vec(words(), 0..5).prop_flat_map(|descriptions| {
        (0..200usize).prop_map(move |count| -> Vec<Value> {
            let described =
                |at: usize| descriptions.get(at % 7).map(|text| &text[..text.floor_char_boundary(150)]);
            (0..count)
                .map(|at| json!({"label": format!("option {at}"), "description": described(at)}))
                .collect()
        })
    });
    (prop::collection::vec((words(), options), 1..5), words()).prop_map(|(items, context)| {
        let items: Vec<Value> = items
            .into_iter()
            .map(|(words, options)| json!({"question": format!("What? {words}"), "options": options}))
            .collect();
        serde_json::from_value(json!({"context": context, "questions": items})).unwrap()
    })
}

fn asked(at: usize, question: &Question) -> AskedReply {
    let id = format!("q_01jex3v5q8w9x0y1z2a3b4c5{at:03}").parse().unwrap();
    let thread = format!("t_01jex3v5q8w9x0y1z2a3b4c5{at:03}").parse().unwrap();
    AskedReply::new(&id, &thread, "planner", question, Way::Relayed)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 8, max_shrink_iters: 0, ..ProptestConfig::default() })]

    #[test]
    fn every_thread_is_told_with_its_whole_ids(threads in prop::collection::vec(thread(), 1..30)) {
        let mut rest: Vec<ThreadReply> = (0..).zip(threads).map(|(at, thread): (usize, _)| ThreadReply {
            thread_id: format!("t_01jex3v5q8w9x0y1z2a3b4c{at:03}"),
            resource: format!("agora://threads/t_01jex3v5q8w9x0y1z2a3b4c{at:03}"),
            ..thread
        }).collect();
        while !rest.is_empty() {
            let (threads, left) = page(&rest);
            let omitted_threads = Some(left).filter(|left| *left > 0);
            let next = "Call agora_wait again. ".repeat(20);
            let reply = WaitedReply { status: WaitStatus::Ended, question: None, threads, omitted_threads, next };
            let content = told(&reply);
            let told = content["threads"].as_array().unwrap();
            prop_assert_eq!(told.len() + left, rest.len());
            for (told, thread) in told.iter().zip(&rest) {
                prop_assert_eq!(&told["threadId"], &thread.thread_id);
                prop_assert_eq!(&told["dispatchId"], &thread.dispatch_id);
                prop_assert_eq!(&told["resource"], &thread.resource);
                prop_assert_eq!(&told["subagent"], &thread.subagent);
            }
            rest.drain(..told.len());
        }
    }

    #[test]
    fn every_question_is_told_with_its_whole_id(questions in prop::collection::vec(question(), 1..4)) {
        let mut rest: Vec<AskedReply> = (0..).zip(&questions).map(|(at, question)| asked(at, question)).collect();
        while !rest.is_empty() {
            let (questions, left) = page(&rest);
            let more_after = (left > 0).then(|| rest[questions.len() - 1].question_id.clone());
            let content = told(&QuestionsReply { questions, more_after });
            let told = content["questions"].as_array().unwrap();
            for (told, asked) in told.iter().zip(&rest) {
                prop_assert_eq!(&told["questionId"], &asked.question_id);
                prop_assert_eq!(&told["forYourUser"], &asked.for_your_user);
                prop_assert!(told["howToAnswer"].as_str().unwrap().contains(&asked.question_id));
                let missing = told["omitted"]["options"].as_u64().unwrap_or_default();
                prop_assert_eq!(told["options"].as_array().unwrap().len() as u64 + missing, asked.options.len() as u64);
            }
            rest.drain(..told.len());
        }
    }

    #[test]
    fn whatever_a_dispatch_left_is_described(text in words(), state in data(), structured in data(), more in data()) {
        let content = told_as::<DescribedReply>(&json!({
            "dispatchId": "d_01jex3v5q8w9x0y1z2a3b4c5d6", "threadId": "t_01jex3v5q8w9x0y1z2a3b4c5d6",
            "state": "needs_input", "threadState": "needs_input", "subagent": "planner", "durationMs": 12,
            "output": {"text": text, "structured": structured}, "resolved": {"subagent": {"contentHash": HASH}},
            "needsInput": {"questionId": "q_1", "partialState": state}, "outputs": [more.clone(), more],
            "resource": "agora://threads/t_01jex3v5q8w9x0y1z2a3b4c5d6",
        }));
        prop_assert_eq!(&content["dispatchId"], "d_01jex3v5q8w9x0y1z2a3b4c5d6");
        prop_assert_eq!(&content["resource"], "agora://threads/t_01jex3v5q8w9x0y1z2a3b4c5d6");
        prop_assert_eq!(&content["resolved"]["subagent"]["contentHash"], HASH);
        prop_assert_eq!(&content["needsInput"]["questionId"], "q_1");
    }
}

#[test]
fn pages_of_subagents_follow_each_other_and_no_schema_is_cut() {
    let properties: Map<String, Value> = (0..8)
        .map(|field| {
            (
                format!("field_{field}"),
                json!({"enum": vec!["a long value of ours"; 10], "description": "what it is"}),
            )
        })
        .collect();
    let input_schema = Map::from_iter([("properties".to_owned(), Value::Object(properties))]);
    let mut rest: Vec<SubagentEntry> = (0..45)
        .map(|at| SubagentEntry {
            name: format!("agent-{at:02}"),
            content_hash: HASH.to_owned(),
            description: Some("Does things. ".repeat(at * 20)),
            runtime: "command".to_owned(),
            input_schema: input_schema.clone(),
        })
        .collect();
    let mut pages = 0;
    while !rest.is_empty() {
        let (subagents, left) = page(&rest);
        let more_after = (left > 0).then(|| rest[subagents.len() - 1].name.clone());
        let content = told(&SubagentsReply { subagents, more_after });
        let told = content["subagents"].as_array().unwrap();
        for (told, entry) in told.iter().zip(&rest) {
            assert_eq!((&told["name"], &told["contentHash"]), (&json!(entry.name), &json!(HASH)));
            assert_eq!(told["inputSchema"], json!(entry.input_schema));
        }
        rest.drain(..told.len());
        pages += 1;
    }
    assert!((2..45).contains(&pages), "{pages}");
}

#[test]
fn the_longest_schema_that_is_shown_is_shown_whole() {
    let with = |fields: usize| -> Map<String, Value> {
        (0..fields).map(|field| (format!("field \"{field}\""), json!({"enum": ["a", "b"]}))).collect()
    };
    let most = (1..).find(|fields| !goes_in_whole(&with(fields + 1))).unwrap();
    let entry = SubagentEntry {
        name: "n".repeat(128),
        content_hash: HASH.to_owned(),
        description: Some("\u{1}".repeat(90_000)),
        runtime: "claude-code".to_owned(),
        input_schema: with(most),
    };
    let (subagents, left) = page(&[entry.clone(), entry]);
    assert_eq!(left, 1);
    let content = told(&SubagentsReply { subagents, more_after: Some("n".repeat(128)) });
    assert_eq!(content["subagents"][0]["inputSchema"], json!(with(most)));
}

#[test]
fn what_is_small_stays_whole() {
    let value = json!({"text": "x".repeat(9000)});
    assert_eq!(done(&value).structured_content, Some(value));
}

#[test]
fn what_is_cut_says_how_much_is_missing_and_where_it_is() {
    let options: Vec<String> = (0..5000).map(|at| format!("option {at}")).collect();
    let uri = "agora://threads/t_1";
    let long = json!({
        "threadId": "t_1", "resource": uri, "options": options, "text": "word ".repeat(9000), "structured": vec![1; 90_000],
    });
    let cut = done(&long).structured_content.unwrap();
    let kept = cut["options"].as_array().unwrap().len();
    assert_eq!(cut["omitted"], json!({"options": 5000 - kept}));
    assert!(cut["text"].as_str().unwrap().ends_with("more bytes: read agora://threads/t_1]"), "{cut}");
    assert_eq!(cut["structured"], "[180001 bytes: read agora://threads/t_1]");
    // Where nothing has the rest, nothing is promised.
    assert_eq!(clipped("abcdef", 3, None), "abc… [3 more bytes]");
}

#[test]
fn a_refusal_is_in_bounds_too() {
    let trouble = Trouble::new("bad-arguments", "no \"such\" thing\n".repeat(9000)).hint("look".repeat(9000));
    assert!(serde_json::to_string(&refused(&trouble)).unwrap().len() <= MOST_BYTES);
}

#[test]
fn a_name_is_shown_by_its_beginning() {
    assert_eq!(named("agora_wait"), "agora_wait");
    assert_eq!(named(&"é".repeat(NAMED)), "é".repeat(NAMED));
    assert_eq!(named(&"é".repeat(1 << 20)), format!("{}…", "é".repeat(NAMED)));
}
