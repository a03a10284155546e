//! One line of a `.gitignore`, matched as git matches it.
//!
//! All ways to match are followed at once, byte by byte, so that no pattern takes longer than its length times the
//! path's. A general matcher would turn the same lines into automata of gigabytes, when somebody means it to
//! (measured).

/// What is left of the work that matching may be. One step is one byte against one place in a pattern.
#[derive(Debug)]
pub struct Steps(std::cell::Cell<u64>);

impl Steps {
    pub fn new(steps: u64) -> Self {
        Self(std::cell::Cell::new(steps))
    }

    /// Tells whether there was still that much left.
    fn spend(&self, steps: usize) -> bool {
        let left = self.0.get().checked_sub(steps as u64);
        self.0.set(left.unwrap_or(0));
        left.is_some()
    }
}

#[derive(Debug)]
pub struct Pattern {
    /// Takes back what an earlier line said.
    pub negated: bool,
    only_dirs: bool,
    /// Without a slash, a pattern is about the last part of a path.
    last_part: bool,
    tokens: Vec<Token>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Byte(u8),
    /// `?`: any byte but a slash.
    One,
    /// `[…]`, by bytes; never a slash.
    Of(Bytes),
    /// `*`: any bytes but slashes.
    Star,
    /// `**/`: any directories, or none.
    Dirs,
    /// `/**` at the end: whatever there is.
    All,
}

/// A set of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Bytes([u64; 4]);

impl Bytes {
    fn add(&mut self, byte: u8) {
        self.0[usize::from(byte / 64)] |= 1 << (byte % 64);
    }

    fn has(&self, byte: u8) -> bool {
        self.0[usize::from(byte / 64)] & (1 << (byte % 64)) != 0
    }

    fn others(self) -> Self {
        Self(self.0.map(|bits| !bits))
    }
}

impl Pattern {
    /// Reads a line; `None` if it says nothing, or what can never match.
    pub fn parse(line: &[u8]) -> Option<Self> {
        let line = without_spaces(line);
        if line.starts_with(b"#") {
            return None;
        }
        let (negated, line) = line.strip_prefix(b"!").map_or((false, line), |line| (true, line));
        let (only_dirs, line) = line.strip_suffix(b"/").map_or((false, line), |line| (true, line));
        let last_part = !line.contains(&b'/');
        let line = line.strip_prefix(b"/").unwrap_or(line);
        if line.is_empty() {
            return None;
        }
        Some(Self { negated, only_dirs, last_part, tokens: tokens(line)? })
    }

    /// Tells whether it is about that path, from the directory of its file. When there are no steps left, it is not.
    pub fn matches(&self, path: &[u8], is_dir: bool, steps: &Steps) -> bool {
        if self.only_dirs && !is_dir {
            return false;
        }
        let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or(path);
        let text = if self.last_part { name } else { path };
        steps.spend(1) && self.may_match(text) && Run::new(&self.tokens).matches(text, steps)
    }

    /// Looks at both ends: most paths are not meant, and most of them show it there.
    fn may_match(&self, text: &[u8]) -> bool {
        let fits = |token: &Token, byte: u8| !matches!(token, Token::Byte(wanted) if *wanted != byte);
        let first = self.tokens.first().zip(text.first());
        let last = self.tokens.last().zip(text.last());
        [first, last].into_iter().flatten().all(|(token, &byte)| fits(token, byte))
    }
}

/// Leaves away the spaces at the end, but not one behind a backslash.
fn without_spaces(line: &[u8]) -> &[u8] {
    let (mut at, mut end) = (0, 0);
    while let Some(byte) = line.get(at) {
        at += if *byte == b'\\' { 2 } else { 1 };
        if *byte != b' ' {
            end = at;
        }
    }
    &line[..end.min(line.len())]
}

fn tokens(line: &[u8]) -> Option<Vec<Token>> {
    let (mut tokens, mut at) = (Vec::new(), 0);
    while let Some(&byte) = line.get(at) {
        at += 1;
        match byte {
            b'?' => tokens.push(Token::One),
            b'*' => at = stars(line, at, &mut tokens),
            b'[' => {
                let (of, end) = class(line, at)?;
                tokens.push(Token::Of(of));
                at = end;
            }
            b'\\' => {
                tokens.push(Token::Byte(*line.get(at)?));
                at += 1;
            }
            byte => tokens.push(Token::Byte(byte)),
        }
    }
    Some(tokens)
}

/// Reads what follows a star; returns where it ends. Two are more than one only between slashes, or where they are
/// the first special thing in a line: git leaves away what is plain before it looks.
fn stars(line: &[u8], at: usize, tokens: &mut Vec<Token>) -> usize {
    let more = line[at..].iter().take_while(|&&byte| byte == b'*').count();
    let (start, end) = (at - 1, at + more);
    let plain = !line[..start].iter().any(|byte| b"*?[\\".contains(byte));
    let opens = plain || line[start - 1] == b'/';
    let rest = &line[end..];
    if more == 0 || !opens {
        tokens.push(Token::Star);
        return end;
    }
    match rest {
        [] => tokens.push(Token::All),
        [b'/', ..] => {
            tokens.push(Token::Dirs);
            return end + 1;
        }
        _ => tokens.push(Token::Star),
    }
    end
}

/// Reads a class from behind its bracket; returns where it ends. One that is not closed can never match.
fn class(line: &[u8], start: usize) -> Option<(Bytes, usize)> {
    let negated = matches!(line.get(start), Some(b'!' | b'^'));
    let first = start + usize::from(negated);
    let (mut of, mut at, mut last) = (Bytes::default(), first, None);
    loop {
        let byte = *line.get(at)?;
        if byte == b']' && at > first {
            break;
        }
        at += 1;
        if byte == b'[' && line.get(at) == Some(&b':') {
            let len = line[at + 1..].iter().position(|&byte| byte == b']')?;
            if let Some(name) = line[at + 1..at + 1 + len].strip_suffix(b":") {
                let is_in = named(name)?;
                (0..=u8::MAX).filter(is_in).for_each(|byte| of.add(byte));
                (at, last) = (at + len + 2, None);
                continue;
            }
        }
        let range = byte == b'-' && last.is_some() && line.get(at).is_some_and(|&byte| byte != b']');
        let from = if range { last } else { None };
        let (to, end) = if range { escaped(line, at)? } else { escaped(line, at - 1)? };
        (from.unwrap_or(to)..=to).for_each(|byte| of.add(byte));
        (at, last) = (end, (!range).then_some(to));
    }
    Some((if negated { of.others() } else { of }, at + 1))
}

/// Reads a byte, or the one behind a backslash; returns where it ends.
fn escaped(line: &[u8], at: usize) -> Option<(u8, usize)> {
    match *line.get(at)? {
        b'\\' => Some((*line.get(at + 1)?, at + 2)),
        byte => Some((byte, at + 1)),
    }
}

fn named(name: &[u8]) -> Option<fn(&u8) -> bool> {
    Some(match name {
        b"alnum" => u8::is_ascii_alphanumeric,
        b"alpha" => u8::is_ascii_alphabetic,
        b"blank" => |byte| matches!(byte, b' ' | b'\t'),
        b"cntrl" => u8::is_ascii_control,
        b"digit" => u8::is_ascii_digit,
        b"graph" => u8::is_ascii_graphic,
        b"lower" => u8::is_ascii_lowercase,
        b"print" => |byte| matches!(byte, 0x20..0x7f),
        b"punct" => u8::is_ascii_punctuation,
        b"space" => |byte| matches!(byte, b' ' | 0x09..=0x0d),
        b"upper" => u8::is_ascii_uppercase,
        b"xdigit" => u8::is_ascii_hexdigit,
        _ => return None,
    })
}

/// All places in the tokens that the text could have come to.
struct Run<'a> {
    tokens: &'a [Token],
    now: Vec<Place>,
    next: Vec<Place>,
    /// In which round each place was added last, so that none is there twice.
    added: Vec<u32>,
    round: u32,
}

/// A number of a token, and whether it stands in the middle of a directory's name.
type Place = (usize, bool);

impl<'a> Run<'a> {
    fn new(tokens: &'a [Token]) -> Self {
        let added = vec![0; 2 * (tokens.len() + 1)];
        Self { tokens, now: Vec::new(), next: Vec::new(), added, round: 0 }
    }

    fn matches(mut self, text: &[u8], steps: &Steps) -> bool {
        self.enter((0, false));
        for &byte in text {
            std::mem::swap(&mut self.now, &mut self.next);
            self.next.clear();
            self.round += 1;
            if self.now.is_empty() || !steps.spend(self.now.len()) {
                return false;
            }
            for at in 0..self.now.len() {
                self.step(self.now[at], byte);
            }
        }
        self.next.iter().any(|&(at, inside)| at == self.tokens.len() && !inside)
    }

    fn step(&mut self, (at, _): Place, byte: u8) {
        let Some(token) = self.tokens.get(at) else { return };
        let slash = byte == b'/';
        match token {
            Token::Byte(wanted) if *wanted == byte => self.enter((at + 1, false)),
            Token::One if !slash => self.enter((at + 1, false)),
            Token::Of(of) if !slash && of.has(byte) => self.enter((at + 1, false)),
            Token::Star if !slash => self.enter((at, false)),
            Token::All => self.enter((at, false)),
            Token::Dirs => self.enter((at, !slash)),
            Token::Byte(_) | Token::One | Token::Of(_) | Token::Star => {}
        }
    }

    /// Adds a place, and those that need no byte to be reached from there.
    fn enter(&mut self, place: Place) {
        let (mut at, inside) = place;
        loop {
            let mark = &mut self.added[2 * at + usize::from(inside)];
            if *mark == self.round + 1 {
                return;
            }
            *mark = self.round + 1;
            self.next.push((at, inside));
            match self.tokens.get(at) {
                Some(Token::Star | Token::All) => at += 1,
                Some(Token::Dirs) if !inside => at += 1,
                _ => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, path: &str) -> bool {
        let pattern = Pattern::parse(pattern.as_bytes());
        pattern.is_some_and(|pattern| pattern.matches(path.as_bytes(), false, &Steps::new(u64::MAX)))
    }

    #[test]
    fn a_line_means_what_it_means_to_git() {
        for (pattern, yes, no) in [
            ("a", &["a", "x/a"][..], &["ab", "a/x"][..]),
            ("/a", &["a"], &["x/a"]),
            ("a/b", &["a/b"], &["x/a/b", "a/c/b"]),
            ("*.o", &["x.o", "d/.o"], &["x.oo"]),
            ("a/*", &["a/b"], &["a/b/c", "a"]),
            ("a/**", &["a/b", "a/b/c"], &["a"]),
            ("**/a", &["a", "x/a", "x/y/a"], &["xa", "x/ya"]),
            ("a/**/b", &["a/b", "a/x/b", "a/x/y/b"], &["ab", "a/xb", "a/b/c"]),
            ("a/b**c", &["a/bc", "a/bxxc"], &["a/bx/c"]),
            ("a/b**/c", &["a/bc", "a/bx/c"], &["a/b", "a/bxc"]),
            ("?/b**/c", &["a/bx/c"], &["a/bc", "a/bx/y/c"]),
            ("{a,b}", &["{a,b}"], &["a", "b"]),
            ("[a-c]x", &["ax", "cx"], &["dx", "-x"]),
            ("[!a-c]x", &["dx"], &["ax"]),
            ("[]-]", &["]", "-"], &["a"]),
            ("[[:digit:]]", &["1"], &["a", ":"]),
            ("a?b", &["axb"], &["ab"]),
            ("x/a?b", &["x/a.b"], &["x/a/b"]),
            ("\\#a", &["#a"], &["a"]),
            ("\\*", &["*"], &["a"]),
            ("a\\ ", &["a "], &["a"]),
            ("a  ", &["a"], &["a "]),
        ] {
            for path in yes {
                assert!(matches(pattern, path), "{pattern} {path}");
            }
            for path in no {
                assert!(!matches(pattern, path), "{pattern} {path}");
            }
        }
    }

    #[test]
    fn what_says_nothing_is_nothing() {
        for line in ["", "#a", "  ", "/", "!", "[a", "a\\", "[[:nothing:]]"] {
            assert!(Pattern::parse(line.as_bytes()).is_none(), "{line}");
        }
    }

    #[test]
    fn no_pattern_takes_longer_than_its_length_allows() {
        let pattern = Pattern::parse("*a".repeat(1000).as_bytes()).unwrap();
        let path = "a".repeat(4000) + "/";
        let steps = Steps::new(9_000_000);
        assert!(!pattern.matches((path.clone() + "b").as_bytes(), false, &steps));
        let pattern = Pattern::parse(("*a".repeat(1000) + "?").as_bytes()).unwrap();
        assert!(pattern.matches(&path.as_bytes()[..4000], false, &steps));
        assert!(!pattern.matches(&path.as_bytes()[..4000], false, &Steps::new(1000)));
    }
}
