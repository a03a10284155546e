//! Git's configuration, read for the few keys that say what a repository is. Nothing in it is obeyed.

/// A key with its value: `core`, `remote "origin"` as section and subsection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Setting {
    pub(crate) section: String,
    pub(crate) subsection: Option<String>,
    pub(crate) key: String,
    pub(crate) value: String,
}

/// Reads a configuration. Lines that are not understood say nothing.
pub(crate) fn parse(text: &str) -> Vec<Setting> {
    let mut settings = Vec::new();
    let (mut section, mut subsection) = (String::new(), None);
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let mut line = line.trim().to_owned();
        while line.ends_with('\\') {
            line.pop();
            let Some(more) = lines.next() else { break };
            line.push_str(more);
        }
        if let Some(head) = line.strip_prefix('[') {
            let head = head.split(']').next().unwrap_or_default();
            let (name, below) = head.split_once(char::is_whitespace).unwrap_or((head, ""));
            section = name.trim().to_ascii_lowercase();
            let below = below.trim().strip_prefix('"').and_then(|below| below.strip_suffix('"'));
            subsection = below.map(|below| below.replace("\\\"", "\"").replace("\\\\", "\\"));
            continue;
        }
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        // A key alone is a switch that is on.
        let (key, value) = line
            .split_once('=')
            .map_or((line.as_str(), "true".to_owned()), |(key, value)| (key, unquoted(value)));
        let key = key.trim().to_ascii_lowercase();
        settings.push(Setting { section: section.clone(), subsection: subsection.clone(), key, value });
    }
    settings
}

fn unquoted(value: &str) -> String {
    let (mut out, mut quoted) = (String::new(), false);
    let mut characters = value.trim().chars();
    while let Some(character) = characters.next() {
        match character {
            '"' => quoted = !quoted,
            '\\' => match characters.next() {
                Some('n') => out.push('\n'),
                Some('t') => out.push('\t'),
                Some(other) => out.push(other),
                None => {}
            },
            '#' | ';' if !quoted => break,
            other => out.push(other),
        }
    }
    if quoted { out } else { out.trim_end().to_owned() }
}

/// Writes settings as git reads them.
pub(crate) fn write(settings: &[Setting]) -> String {
    let mut text = String::new();
    let mut last = None;
    for setting in settings {
        let head = (&setting.section, &setting.subsection);
        if last != Some(head) {
            let below = setting.subsection.as_deref().map(|below| format!(" {}", quoted(below)));
            text.extend(["[", &setting.section, &below.unwrap_or_default(), "]\n"]);
            last = Some(head);
        }
        text.extend(["\t", &setting.key, " = ", &quoted(&setting.value), "\n"]);
    }
    text
}

fn quoted(value: &str) -> String {
    let escaped = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n").replace('\t', "\\t");
    format!("\"{escaped}\"")
}

/// Takes who one is out of a URL.
pub(crate) fn without_user(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let (authority, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    // With ssh the user is part of where to go, and no secret; a password is.
    let user = authority.rsplit_once('@').map(|(user, _)| user.split(':').next().unwrap_or_default());
    match user.filter(|user| scheme == "ssh" && !user.is_empty()) {
        Some(user) => format!("{scheme}://{user}@{host}{path}"),
        None => format!("{scheme}://{host}{path}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_reads_back() {
        let text = "[core]\n\tbare = false\n# no\n[remote \"a\\\"b\"]\n\turl = \"x # y\" ; z\n\tfetch = +refs/*:\\\nrefs/*\n\tpush\n";
        let settings = parse(text);
        let values: Vec<_> = settings.iter().map(|setting| setting.value.as_str()).collect();
        assert_eq!(values, ["false", "x # y", "+refs/*:refs/*", "true"]);
        assert_eq!(settings[1].subsection.as_deref(), Some("a\"b"));
        assert_eq!(parse(&write(&settings)), settings);
    }

    #[test]
    fn urls_lose_who_one_is() {
        for (url, plain) in [
            ("https://ann:pw@example.org/x.git", "https://example.org/x.git"),
            ("https://token@example.org/x", "https://example.org/x"),
            ("ssh://git:pw@example.org/x", "ssh://git@example.org/x"),
            ("git@example.org:x.git", "git@example.org:x.git"),
            ("/srv/x@y.git", "/srv/x@y.git"),
        ] {
            assert_eq!(without_user(url), plain);
        }
    }
}
