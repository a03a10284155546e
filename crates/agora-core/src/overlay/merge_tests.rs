use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::strict::StrictError;

const KINDS: [MergeKind; 3] = MergeKind::ALL;

fn named(name: &str) -> Owner {
    Owner::Capability(name.parse().unwrap())
}

/// Merges texts of the owners `l0`, `l1`, ….
fn merged(kind: MergeKind, texts: &[&str]) -> Result<Value, Conflict> {
    let owners: Vec<Owner> = (0..texts.len()).map(|index| named(&format!("l{index}"))).collect();
    let parts: Vec<(&Owner, &[u8])> =
        owners.iter().zip(texts).map(|(owner, text)| (owner, text.as_bytes())).collect();
    merge(kind, &parts).map(|bytes| serde_json::from_slice(&bytes).unwrap())
}

fn settings(texts: &[&str]) -> Result<Value, Conflict> {
    merged(MergeKind::ClaudeSettings, texts)
}

#[test]
fn objects_merge_lists_unite_and_plain_values_are_the_later_ones() {
    let first =
        r#"{"permissions":{"allow":["Read","Bash(ls)"],"deny":[]},"model":"a","n":1,"only":{"a":null}}"#;
    let second = r#"{"permissions":{"allow":["Edit","Read"],"ask":[{"x":1}]},"model":"b","n":2.5}"#;
    let third = r#"{"permissions":{"ask":[{"x":1},{"x":2}]},"on":true}"#;
    let expected = json!({
        "permissions": {"allow": ["Read", "Bash(ls)", "Edit"], "deny": [], "ask": [{"x": 1}, {"x": 2}]},
        "model": "b", "n": 2.5, "only": {"a": null}, "on": true,
    });
    assert_eq!(settings(&[first, second, third]), Ok(expected));
}

#[test]
fn whole_files_may_be_lists_except_the_settings() {
    for kind in [MergeKind::Plugins, MergeKind::Notifications] {
        assert_eq!(merged(kind, &[r#"["a","b"]"#, r#"["c","a"]"#]), Ok(json!(["a", "b", "c"])));
        let both = merged(kind, &["[]", "{}"]).unwrap_err();
        assert!(matches!(&both, Conflict::Types { place: Place(keys), .. } if keys.is_empty()), "{both}");
        assert_eq!(
            both.to_string(),
            format!(
                "`{}` cannot be merged: the whole file is a list in `l0`, but an object in `l1`",
                kind.path()
            )
        );
        let plain = merged(kind, &["{}", "1"]).unwrap_err();
        assert!(plain.to_string().ends_with("it is a number, and not an object or a list"), "{plain}");
    }
    let list = settings(&["[]", "{}"]).unwrap_err();
    assert!(list.to_string().ends_with("it is a list, and not an object"), "{list}");
}

#[test]
fn a_clash_names_the_two_who_clash_and_the_place_but_no_value() {
    let texts =
        [r#"{"a":{"b/c":["hush"]}}"#, r#"{"a":{"other":1}}"#, r#"{"z":0}"#, r#"{"a":{"b/c":"hush"}}"#];
    let clash = settings(&texts).unwrap_err();
    assert_eq!(
        clash,
        Conflict::Types {
            path: ".claude/settings.json",
            place: Place(vec!["a".to_owned(), "b/c".to_owned()]),
            earlier: named("l0"),
            earlier_is: JsonType::List,
            later: named("l3"),
            later_is: JsonType::Text,
        }
    );
    assert!(!clash.to_string().contains("hush"));
}

#[test]
fn types_are_six_and_null_is_one_of_them() {
    let values = ["null", "true", "1", "\"x\"", "[]", "{}"];
    for earlier in values {
        for later in values {
            let texts = [format!("{{\"k\":{earlier}}}"), format!("{{\"k\":{later}}}")];
            let merged = settings(&[&texts[0], &texts[1]]);
            assert_eq!(merged.is_ok(), earlier == later, "{earlier} and {later}");
        }
    }
}

#[test]
fn what_is_not_strict_json_is_named_with_its_owner_and_neighbour() {
    let too_large = format!("{{\"k\":\"{}\"}}", "x".repeat(1024 * 1024));
    let deep = format!("{{\"k\":{}{}}}", "[".repeat(200), "]".repeat(200));
    let cases = [
        ("{", MergeFault::Json(StrictError::Syntax { line: 1, column: 1 })),
        ("", MergeFault::Json(StrictError::Syntax { line: 1, column: 0 })),
        (r#"{"a":1,"a":2}"#, MergeFault::Json(StrictError::KeyTwice { line: 1, column: 10 })),
        (deep.as_str(), MergeFault::Json(StrictError::TooDeep(128))),
        (too_large.as_str(), MergeFault::TooLarge(1024 * 1024 + 8)),
    ];
    for (text, fault) in cases {
        let blame = |owner: &str, other: &str| Conflict::Unmergeable {
            path: ".claude/settings.json",
            owner: named(owner),
            other: named(other),
            fault,
        };
        assert_eq!(settings(&[text, "{}"]), Err(blame("l0", "l1")));
        assert_eq!(settings(&["{}", "{}", text]), Err(blame("l2", "l1")));
    }
    let owner = named("l0");
    let bytes = merge(MergeKind::Plugins, &[(&owner, b"{\"\xff\":1}"), (&owner, b"{}")]).unwrap_err();
    assert!(bytes.to_string().ends_with("it is not UTF-8"), "{bytes}");
    assert_eq!(settings(&["\u{feff}{}", "{\"a\":1}"]), Ok(json!({"a": 1})), "a byte order mark is no fault");
}

#[test]
fn a_place_is_fit_for_a_screen() {
    assert_eq!(Place(vec!["a".to_owned(), "b\u{1b}[2J\n".to_owned()]).to_string(), r"`/a/b\u{1b}[2J\n`");
    let long = Place(vec!["k".repeat(1 << 20); 3]).to_string();
    assert_eq!(long, format!("`/{}…`", "k".repeat(200)));
}

#[test]
fn a_megabyte_of_items_unites_in_a_moment() {
    // Compared one by one these would be 10^10 comparisons, and the test would take minutes.
    let items = |first: u32| {
        let items: Vec<String> = (first..first + 130_000).map(|number| number.to_string()).collect();
        format!("[{}]", items.join(","))
    };
    let (one, other) = (items(100_000), items(200_000));
    let united = merged(MergeKind::Plugins, &[&one, &other]).unwrap();
    assert_eq!(united.as_array().map(Vec::len), Some(230_000));
}

/// Small keys and values, so that documents often have the same places with the same and with other types.
fn document() -> impl Strategy<Value = Value> {
    let plain = prop_oneof![
        Just(json!(null)),
        any::<bool>().prop_map(Value::from),
        (0..3).prop_map(Value::from),
        "[xy]".prop_map(Value::from)
    ];
    let value = plain.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from), object_of(inner)]
    });
    object_of(value)
}

fn object_of(value: impl Strategy<Value = Value>) -> impl Strategy<Value = Value> {
    proptest::collection::btree_map("[abc]", value, 0..3)
        .prop_map(|fields| Value::Object(fields.into_iter().collect()))
}

fn united(texts: &[&Value]) -> Option<Value> {
    let texts: Vec<String> = texts.iter().map(|value| value.to_string()).collect();
    settings(&texts.iter().map(String::as_str).collect::<Vec<_>>()).ok()
}

/// Counts the places where both documents have something, and it is of another type.
fn clashes(one: &Value, other: &Value) -> usize {
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            one.iter().filter_map(|(key, value)| Some(clashes(value, other.get(key)?))).sum()
        }
        _ => usize::from(JsonType::of(one) != JsonType::of(other)),
    }
}

proptest! {
    #[test]
    fn merging_with_itself_or_with_nothing_changes_nothing(one in document()) {
        prop_assert_eq!(united(&[&one, &one]), Some(one.clone()));
        prop_assert_eq!(united(&[&one, &json!({})]), Some(one.clone()));
        prop_assert_eq!(united(&[&json!({}), &one]), Some(one));
    }

    #[test]
    fn brackets_do_not_matter(a in document(), b in document(), c in document()) {
        let together = united(&[&a, &b, &c]);
        let left = united(&[&a, &b]).and_then(|ab| united(&[&ab, &c]));
        let right = united(&[&b, &c]).and_then(|bc| united(&[&a, &bc]));
        prop_assert_eq!(&together, &left);
        prop_assert_eq!(&together, &right);
    }

    #[test]
    fn it_fails_exactly_where_types_differ_and_from_both_sides(a in document(), b in document()) {
        prop_assert_eq!(united(&[&a, &b]).is_none(), clashes(&a, &b) > 0);
        prop_assert_eq!(united(&[&b, &a]).is_none(), clashes(&a, &b) > 0);
    }

    #[test]
    fn a_list_keeps_its_order_and_gets_each_new_item_once(
        a in proptest::collection::vec(0_u8..6, 0..8),
        b in proptest::collection::vec(0_u8..6, 0..8),
    ) {
        let mut expected = a.clone();
        for item in &b {
            if !expected.contains(item) {
                expected.push(*item);
            }
        }
        let united = merged(MergeKind::Plugins, &[&json!(a).to_string(), &json!(b).to_string()]);
        prop_assert_eq!(united, Ok(json!(expected)));
    }

    #[test]
    fn no_bytes_panic(a in proptest::collection::vec(any::<u8>(), 0..60), b in "[\\[\\]{}:,\"a0 ]{0,30}") {
        let owner = Owner::Helper;
        for kind in KINDS {
            let _ = merge(kind, &[(&owner, &a), (&owner, b.as_bytes())]);
            let _ = merge(kind, &[(&owner, b.as_bytes()), (&owner, &a)]);
        }
    }
}
