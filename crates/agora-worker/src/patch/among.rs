//! The paths that can have changed, so that a walk need not look at all the others.

use super::entry::Name;

/// Paths from the root, in order, none twice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Among(Vec<Name>);

impl Among {
    pub fn new(paths: impl IntoIterator<Item = Vec<u8>>) -> Self {
        let mut paths: Vec<Name> = paths.into_iter().map(Name::from).collect();
        // By parts, so that what lies in a directory follows it before anything else does.
        paths.sort_unstable_by(|one, other| parts(one).cmp(parts(other)));
        paths.dedup();
        Self(paths)
    }

    pub fn paths(&self) -> impl Iterator<Item = &[u8]> {
        self.0.iter().map(|path| &**path)
    }

    /// Returns those of the paths that are wanted.
    pub(crate) fn only(&self, wanted: impl Fn(&[u8]) -> bool) -> Self {
        Self(self.0.iter().filter(|path| wanted(path)).cloned().collect())
    }

    /// Returns the names in a directory that are on the way to one of the paths.
    pub(super) fn children<'a>(&'a self, dir: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
        let start = self.0.partition_point(|path| parts(path).lt(parts(dir)));
        let skip = if dir.is_empty() { 0 } else { dir.len() + 1 };
        let inside = move |path: &&Name| {
            dir.is_empty() || (path.starts_with(dir) && path.get(dir.len()).is_none_or(|&byte| byte == b'/'))
        };
        let mut last: &[u8] = b"";
        self.0[start..].iter().take_while(inside).filter_map(move |path| {
            let name = path.get(skip..)?.split(|&byte| byte == b'/').next().unwrap_or_default();
            let new = !name.is_empty() && name != last;
            last = name;
            new.then_some(name)
        })
    }
}

fn parts(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.split(|&byte| byte == b'/').filter(|part| !part.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_on_the_way_is_found_once() {
        let paths = ["a/b/c", "a.b", "a/b!", "a/b/d", "z", "a", "a/b/c"];
        let among = Among::new(paths.map(|path| path.as_bytes().to_vec()));
        let children = |dir: &str| {
            let names = among.children(dir.as_bytes()).map(|name| String::from_utf8_lossy(name).into_owned());
            names.collect::<Vec<_>>()
        };
        assert_eq!(children(""), ["a", "a.b", "z"]);
        assert_eq!(children("a"), ["b", "b!"]);
        assert_eq!(children("a/b"), ["c", "d"]);
        assert_eq!(children("z"), [""; 0]);
        assert_eq!(children("none"), [""; 0]);
    }
}
