use agora_core::secret::ShortSecrets;
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use proptest::prelude::*;
use serde_json::json;

use super::*;

fn redactor(secrets: &[&str]) -> Redactor {
    let value = |text: &&str| SecretValue::new((*text).to_owned(), ShortSecrets::Allow).unwrap();
    let values: Vec<SecretValue> = secrets.iter().map(value).collect();
    Redactor::new(&values).unwrap()
}

fn hidden(secrets: &[&str], text: &str) -> String {
    redactor(secrets).text(text).into_owned()
}

#[test]
fn a_secret_is_hidden_and_the_rest_is_not() {
    assert_eq!(hidden(&["hunter2!"], "a hunter2! b hunter2!hunter2!"), format!("a {MARK} b {MARK}"));
    assert_eq!(hidden(&["hunter2!"], "nothing here: hunter2"), "nothing here: hunter2");
    assert_eq!(hidden(&[], "hunter2!"), "hunter2!");
}

#[test]
fn one_that_begins_another_and_ones_that_overlap_leave_nothing_over() {
    let secrets = ["password", "password-and-more", "more-of-it"];
    assert_eq!(hidden(&secrets, "x password-and-more y password z"), format!("x {MARK} y {MARK} z"));
    assert_eq!(hidden(&secrets, "password-and-more-of-it"), MARK);
    assert_eq!(hidden(&["aaaaaaa"], "aaaaaaaaaaa"), MARK);
}

#[test]
fn every_form_that_programs_write_is_found() {
    let secret = "p/ä\"s\\s\n wörd+1?";
    let redactor = redactor(&[secret]);
    let json_text = json!({"key": secret}).to_string();
    let python = "p/\\u00e4\\\"s\\\\s\\n w\\u00f6rd+1?";
    let slashes = json_text.replace('/', "\\/");
    let percent = "p%2F%C3%A4%22s%5Cs%0A%20w%C3%B6rd%2B1%3F";
    let form = percent.replace("%20", "+");
    let quote = percent.replace("%2F", "/");
    let uri = quote.replace("%2B", "+").replace("%3F", "?");
    let lower = [percent, &quote, &uri].map(str::to_lowercase);
    for text in
        [secret, &json_text, python, &slashes, percent, &quote, &uri, &lower[0], &lower[1], &lower[2], &form]
    {
        assert!(redactor.holds(text.as_bytes()), "{text}");
    }
    for before in ["", "a", "ab", "abc", "abcd"] {
        for after in ["", "z", "zy", "zyx"] {
            let text = format!("{before}{secret}{after}");
            for encoded in [STANDARD.encode(&text), URL_SAFE_NO_PAD.encode(&text)] {
                assert!(redactor.holds(encoded.as_bytes()), "{encoded}");
            }
        }
    }
    for text in [&json_text, python, &slashes] {
        let mut within = text.to_owned();
        for depth in 0..3 {
            assert!(redactor.holds(within.as_bytes()), "{depth}: {within}");
            within = json!({"inner": within}).to_string();
        }
    }
    let twice = json!({"inner": json_text}).to_string();
    let mut value: Value = serde_json::from_str(&twice).unwrap();
    redactor.json(&mut value);
    assert!(!redactor.holds(value.to_string().as_bytes()), "{value}");
}

#[test]
fn what_json_keeps_out_of_html_is_found() {
    let redactor = redactor(&["a&b<c>d\"e"]);
    let go = r#"a\u0026b\u003cc\u003ed\"e"#;
    for text in [go.to_owned(), json!({"log": go}).to_string()] {
        assert!(redactor.holds(text.as_bytes()), "{text}");
    }
}

#[test]
fn what_a_language_shows_in_quotes_is_found() {
    let key = "{\"type\": \"it's\",\n \"key\": \"a\\nb\"}";
    for (secret, shown) in [
        (key.replace('\'', ""), r#"'{"type": "its",\n "key": "a\\nb"}'"#),
        (key.to_owned(), r#"'{"type": "it\'s",\n "key": "a\\nb"}'"#),
    ] {
        let redactor = redactor(&[&secret]);
        let environment = format!("environ({{'KEY': {shown}, 'PATH': '/bin'}})");
        let expected = format!("environ({{'KEY': '{MARK}', 'PATH': '/bin'}})");
        assert_eq!(redactor.text(&environment), expected);
        let log = json!({"stdout": environment}).to_string();
        assert_eq!(redactor.text(&log), json!({"stdout": expected}).to_string());
    }
}

/// Breaks a text into lines.
fn broken(text: &str, width: usize, with: &str) -> String {
    text.as_bytes().chunks(width).map(|line| str::from_utf8(line).unwrap()).collect::<Vec<_>>().join(with)
}

/// What `base64` writes, and PEM: as it is, and in the JSON, and in the JSON within JSON, of whoever ran it.
#[test]
fn a_secret_that_was_broken_into_lines_is_hidden_wherever_it_begins() {
    let secret: String = ('!'..='~').collect();
    let redactor = redactor(&[&secret]);
    for (width, before) in [76, 64].into_iter().flat_map(|width| (0..58).map(move |before| (width, before))) {
        let text = format!("{}{secret}{}", "x".repeat(before), "y".repeat(99));
        for encoded in [STANDARD.encode(&text), URL_SAFE_NO_PAD.encode(&text)] {
            for with in ["\n", "\r\n", "\n    ", "\\n", "\\\\n", "\\r\\n"] {
                let hidden = redactor.text(&broken(&encoded, width, with)).replace(with, "");
                let (first, last) = (before * 4 / 3 + 2, text.len() * 4 / 3 - 99 * 4 / 3 - 2);
                let (left, right) = hidden.split_once(MARK).unwrap();
                assert!(encoded[..first].starts_with(left) && encoded[last..].ends_with(right), "{hidden}");
            }
        }
    }
}

#[test]
fn what_is_no_broken_secret_stays() {
    let redactor = redactor(&["hunter2!hunter2"]);
    let form = STANDARD.encode("hunter2!hunter2");
    let (one, two) = form.split_at(10);
    for with in ["\n\n", "\n#", " ", "\\t", "\\", "=\n", "\nx"] {
        let text = format!("{one}{with}{two}\nand so on\n");
        assert_eq!(redactor.text(&text), text);
    }
    assert_eq!(redactor.text(&format!("a\\nb\n{one}\n{two}\nc")), format!("a\\nb\n{MARK}\nc"));
}

/// Whoever writes a file of nothing but lines has not the worker's memory for it.
#[test]
fn lines_without_end_are_joined_in_parts() {
    let secret = "correct-horse-battery-staple";
    let redactor = redactor(&[secret]);
    let encoded = STANDARD.encode(secret);
    for (width, before) in
        [1, 7].into_iter().flat_map(|width| (65_400..65_600).step_by(9).map(move |at| (width, at)))
    {
        let text = broken(&format!("{}{encoded}{}", "x".repeat(before), "y".repeat(70_000)), width, "\n");
        let hidden = redactor.text(&text).replace('\n', "");
        let (left, right) = hidden.split_once(MARK).unwrap();
        assert!(
            left.len() <= before + 2 && right.trim_start_matches(|one| one != 'y').len() >= 69_999,
            "{before}"
        );
        assert!(left.len() + right.len() <= before + 70_000 + 4, "{before}");
        let _ = broken::each(text.as_bytes(), (redactor.shortest, redactor.longest), |joined| {
            assert!(joined.text().len() <= 3 * 65_536);
            ControlFlow::Continue(())
        });
    }
    let line = "x".repeat(300_000);
    for text in [format!("{line}{encoded}"), format!("a\n{line}{encoded}\n{line}")] {
        let (one, two) = text.split_at(text.find(&encoded).unwrap() + 9);
        let hidden = redactor.text(&format!("{one}\n{two}")).into_owned();
        assert!(hidden.len() < text.len() - 10 && hidden.contains(MARK) && !hidden.contains(&encoded[2..9]));
    }
}

#[test]
fn json_stays_json_and_keys_are_hidden_too() {
    let redactor = redactor(&["\"quoted\"", "271828"]);
    let mut value = json!({"a": ["x \"quoted\" y", 1, null, 271_828], "\"quoted\"": {"b": "\"quoted\""}});
    redactor.json(&mut value);
    let mark = MARK;
    assert_eq!(value, json!({"a": [format!("x {mark} y"), 1, null, mark], mark: {"b": mark}}));
}

#[test]
fn bytes_that_are_no_text_are_looked_through_as_well() {
    let found = redactor(&["hunter2!"]).bytes(b"\xff\0hunter2!\xfe").into_owned();
    assert_eq!(found, [b"\xff\0", MARK.as_bytes(), b"\xfe"].concat());
}

#[test]
fn a_stream_that_is_nothing_but_secrets_is_not_held_back() {
    for (secret, piece) in [("aaaaaaa", "a"), ("abcabcabc", "abc"), ("hunter2!", "hunter2!")] {
        let redactor = redactor(&[secret]);
        let (mut stream, mut out) = (redactor.stream(), Vec::new());
        for _ in 0..10_000 {
            stream.push(piece.repeat(10).as_bytes(), &mut out);
            assert!(stream.held_back() <= redactor.longest(), "{secret}");
        }
        stream.finish(&mut out);
        assert_eq!(String::from_utf8(out).unwrap(), MARK, "{secret}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Wherever the output is cut into pieces, what comes out is what the whole would have given.
    #[test]
    fn a_stream_hides_what_the_whole_would_have_hidden(
        text in "(abcdef|abcdefgh|efghij|fgh|[a-j]|YWJjZGVm|YWJj|ZGVm|é|\n|\\\\n|\r\n  ){0,40}",
        cuts in proptest::collection::vec(0_usize..200, 0..12),
    ) {
        let redactor = redactor(&["abcdef", "abcdefgh", "efghij"]);
        let bytes = text.as_bytes();
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).chain([0, bytes.len()]).collect();
        cuts.sort_unstable();
        let (mut stream, mut out) = (redactor.stream(), Vec::new());
        for pair in cuts.windows(2) {
            stream.push(&bytes[pair[0]..pair[1]], &mut out);
        }
        stream.finish(&mut out);
        prop_assert_eq!(String::from_utf8(out).unwrap(), redactor.text(&text).into_owned());
    }

    /// What is passed over without a look holds nothing: the same places as by comparing every form with every place.
    #[test]
    fn nothing_is_missed(
        forms in proptest::collection::vec("[ab]{1,3}|[ab]{4,9}|[a-c]{6,20}", 1..6)
            .prop_union(proptest::collection::vec("[ab]{4,9}|[a-c]{6,20}", 1..6)),
        // With what no form has in between, so that a walk ends and another begins.
        text in "([a-c]{1,12}|[d-f]{1,12}){0,20}",
    ) {
        let forms: Vec<Vec<u8>> = forms.into_iter().map(String::into_bytes).collect();
        let (bytes, mut found) = (text.as_bytes(), Vec::new());
        let _ = Search::new(&forms).unwrap().each(bytes, |place| { found.push(place); ControlFlow::Continue(()) });
        let expected: Vec<Range<usize>> = (1..=bytes.len())
            .filter_map(|end| {
                let lengths = forms.iter().filter(|form| bytes[..end].ends_with(form)).map(Vec::len);
                lengths.max().map(|length| end - length..end)
            })
            .collect();
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn nothing_of_a_secret_is_left_and_a_text_stays_a_text(
        secret in "[ -~éß\"\\\\\n]{6,20}", before in "[a-c ]{0,5}", after in "[a-c ]{0,5}",
    ) {
        let redactor = redactor(&[&secret]);
        for text in [format!("{before}{secret}{after}"), STANDARD.encode(format!("{before}{secret}{after}"))] {
            let hidden = redactor.text(&text);
            prop_assert!(!redactor.holds(hidden.replace(MARK, "\u{1}").as_bytes()), "{}", hidden);
            prop_assert!(hidden.contains(MARK), "{}", text);
        }
    }
}
