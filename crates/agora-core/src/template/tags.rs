//! Reads the tags of a template once, before the engine does.

use super::TemplateError;

/// One tag: its sigil (`#`, `^`, `/`, `!`, `&`, or none) and its name.
struct Tag<'a> {
    sigil: Option<char>,
    name: &'a str,
    /// The byte after the tag.
    end: usize,
}

/// Checks every tag, and returns the template as the engine should get it: names without white space around them,
/// no comments, and no line left over where only a section tag stood.
pub(super) fn tidy(source: &str) -> Result<String, TemplateError> {
    let mut tidy = String::with_capacity(source.len());
    let mut open: Vec<(usize, &str)> = Vec::new();
    let mut rest = 0;
    let mut counted = (0, 1);
    while let Some(start) = source[rest..].find("{{").map(|place| rest + place) {
        // Counted on from the last tag: a template may be a megabyte of them.
        counted = (start, counted.1 + source[counted.0..start].matches('\n').count());
        let line = counted.1;
        let tag = read(source, start, line)?;
        let standalone =
            matches!(tag.sigil, Some('#' | '^' | '/' | '!')).then(|| standalone(source, start, tag.end));
        let (before, after) = standalone.flatten().unwrap_or((start, tag.end));
        tidy.push_str(source.get(rest..before).unwrap_or_default());
        match tag.sigil {
            Some('!') => {}
            Some('#' | '^') => open.push((line, tag.name)),
            Some('/') => match open.pop() {
                Some((_, name)) if name == tag.name => {}
                Some((line, name)) => {
                    return Err(TemplateError::UnclosedSection { line, name: name.to_owned() });
                }
                None => return Err(TemplateError::UnopenedSection { line, name: tag.name.to_owned() }),
            },
            _ => {}
        }
        match tag.sigil {
            Some('!') => {}
            Some(sigil) => tidy.extend(["{{", sigil.encode_utf8(&mut [0; 4]), tag.name, "}}"]),
            None => tidy.extend(["{{", tag.name, "}}"]),
        }
        rest = after;
    }
    tidy.push_str(&source[rest..]);
    // The engine trims what follows the last tag; behind a tag of our own nothing follows.
    tidy.push_str("{{!end}}");
    match open.pop() {
        Some((line, name)) => Err(TemplateError::UnclosedSection { line, name: name.to_owned() }),
        None => Ok(tidy),
    }
}

fn read(source: &str, start: usize, line: usize) -> Result<Tag<'_>, TemplateError> {
    let inside = start + 2;
    let (sigil, name_start, close) = match source[inside..].chars().next() {
        Some('{') => (Some('&'), inside + 1, "}}}"),
        Some(sigil @ ('#' | '^' | '/' | '!' | '&')) => (Some(sigil), inside + 1, "}}"),
        Some('>') => return Err(TemplateError::Partial { line }),
        Some('=') => return Err(TemplateError::Delimiters { line }),
        _ => (None, inside, "}}"),
    };
    let length = source[name_start..].find(close).ok_or(TemplateError::UnclosedTag { line })?;
    let name = source[name_start..name_start + length].trim();
    let usable = !name.is_empty()
        && !name.contains(|character: char| character.is_whitespace() || "{}".contains(character));
    if sigil != Some('!') && !usable {
        return Err(TemplateError::Name { line, name: name.chars().take(40).collect() });
    }
    Ok(Tag { sigil, name, end: name_start + length + close.len() })
}

/// Returns the whole line of a tag that stands alone on it: from its first blank to after its line break.
fn standalone(source: &str, start: usize, end: usize) -> Option<(usize, usize)> {
    let before = source[..start].trim_end_matches([' ', '\t', '\r']);
    let after = source[end..].trim_start_matches([' ', '\t', '\r']);
    let begins = before.is_empty() || before.ends_with('\n');
    let after = if after.is_empty() { Some(after) } else { after.strip_prefix('\n') };
    begins.then(|| after.map(|after| (before.len(), source.len() - after.len()))).flatten()
}
