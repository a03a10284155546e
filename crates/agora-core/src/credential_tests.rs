use super::*;

/// A believable credential of every pattern. Assembled here, so that no scanner of others trips over this file.
fn examples() -> Vec<(&'static str, String)> {
    let body = "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8s9T0";
    let upper = "IOSFODNN7EXAMPLE";
    let base64 = format!("{body}{body}{body}");
    vec![
        ("anthropic-key", format!("sk-ant-api03-{body}")),
        ("anthropic-key", format!("sk-ant-oat01-{body}")),
        ("aws-access-key-id", format!("AKIA{upper}")),
        ("aws-access-key-id", format!("ASIA{upper}")),
        ("aws-secret-access-key", format!("aws_secret_access_key = {body}")),
        ("aws-secret-access-key", format!("AWS_SECRET_ACCESS_KEY=\"{body}\"")),
        ("azure-storage-key", format!("AccountKey={base64}")),
        ("bearer-token", format!("Authorization: Bearer {body}")),
        ("github-token", format!("ghp_{body}")),
        ("github-token", format!("github_pat_{body}")),
        ("gitlab-token", format!("glpat-{body}")),
        ("google-api-key", format!("AIza{body}")),
        ("google-oauth-token", format!("ya29.{body}")),
        ("jwt", format!("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.{body}")),
        ("npm-token", format!("npm_{body}")),
        ("openai-key", format!("sk-{body}")),
        ("openai-key", format!("sk-proj-{body}")),
        ("pem-private-key", format!("-----BEGIN {}PRIVATE KEY-----", "RSA ")),
        ("pem-private-key", format!("-----BEGIN {}KEY-----", "PRIVATE ")),
        ("slack-token", format!("xoxb-{body}")),
        ("slack-webhook", format!("https://hooks.slack.com/services/T{}", "00000000/B00000000/XXXXXXXX1")),
        ("stripe-key", format!("sk_live_{body}")),
    ]
}

#[test]
fn every_pattern_is_found_with_its_line_in_text_and_in_bytes() {
    for (name, credential) in examples() {
        let pattern: Pattern = name.parse().unwrap();
        let text = format!("first\nsecond \"{credential}\"\nthird");
        assert_eq!(find(text.as_bytes(), &[]), Some(Hit { pattern, line: 2 }), "{name}");
        assert_eq!(find(text.as_bytes(), &[pattern]), None, "{name} is allowed");
        let binary = [&[0xff, 0, 0x80, b'\n', 0][..], credential.as_bytes(), &[0, 0xfe]].concat();
        assert_eq!(find(&binary, &[]), Some(Hit { pattern, line: 2 }), "{name} in bytes");
        let at_end = find(credential.as_bytes(), &[]).map(|hit| hit.pattern);
        assert_eq!(at_end, Some(pattern), "{name} at the very end");
    }
    let named: Vec<_> = examples().into_iter().map(|(name, _)| name).collect();
    assert!(Pattern::all().all(|pattern| named.contains(&pattern.name())), "every pattern has an example");
}

#[test]
fn words_about_credentials_are_not_credentials() {
    for text in [
        "Set ANTHROPIC_API_KEY to your sk-ant-… key",
        "a risk-averse-strategy-for-everyone-2024-edition",
        "Authorization: Bearer $TOKEN",
        "Authorization: Bearer <your-token-here>",
        "bearer authentication-is-required-here",
        "-----BEGIN PUBLIC KEY-----",
        "-----BEGIN CERTIFICATE-----\nPRIVATE KEY",
        "eyJ is how a JWT begins. It has three parts.",
        "aws_secret_access_key = ${SECRET}",
        "AKIA1234",
        "sk-learn-is-a-library-for-machine-learning",
        "ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
    ] {
        assert_eq!(find(text.as_bytes(), &[]), None, "{text}");
    }
}

#[test]
fn a_second_credential_counts_when_the_first_is_allowed() {
    let text = format!("AKIA{}\nghp_{}", "IOSFODNN7EXAMPLE", "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8");
    let allowed: Pattern = "aws-access-key-id".parse().unwrap();
    assert_eq!(
        find(text.as_bytes(), &[allowed]).map(|hit| (hit.pattern.name(), hit.line)),
        Some(("github-token", 2))
    );
}

#[test]
fn a_file_made_of_beginnings_is_read_once() {
    for start in [
        "-eyJ",
        ".eyJ",
        " eyJaaaaaaaaaa.",
        "sk-",
        "-sk-ant-",
        "Bearer ",
        "AccountKey=-",
        "-----BEGIN ",
        "_ghp_",
    ] {
        let text = start.repeat(1024 * 1024 / start.len());
        assert_eq!(find(text.as_bytes(), &[]), None, "{start}");
    }
}
