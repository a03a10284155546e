//! Any tree, changed in any way.

use agora_worker::patch::{Baseline, Known};
use proptest::prelude::*;

use crate::support::{Item, Tree, Work, applies, make, patch, read, spool};

/// Few names and few contents, so that everything collides with everything.
fn path() -> impl Strategy<Value = Vec<u8>> {
    let name = prop::sample::select(vec![
        &b"a"[..],
        b"b",
        b"a b",
        b"q\"\\",
        b"n\nl",
        b"\xff",
        "é".as_bytes(),
        b"x.y",
    ]);
    prop::collection::vec(name, 1..4).prop_map(|names| names.join(&b'/'))
}

fn item() -> impl Strategy<Value = Item> {
    let line =
        prop::sample::select(vec![&b"one\n"[..], b"two\n", b"three\r\n", b"\n", b"--- a/x\n", b"\xff\xfe\n"]);
    let lines =
        (prop::collection::vec(line, 0..30), prop::sample::select(vec![&b""[..], b"end", b"\0bin\0"]))
            .prop_map(|(lines, end)| [&lines.concat()[..], end].concat());
    let fixed = prop::sample::select(vec![b"".to_vec(), b"same\n".to_vec(), b"\0\x01same".to_vec()]);
    let bytes = prop_oneof![lines, fixed, prop::collection::vec(any::<u8>(), 0..200)];
    prop_oneof![
        4 => (bytes, any::<bool>()).prop_map(|(bytes, executable)| Item::File { bytes, executable }),
        1 => prop::sample::select(vec![&b"b"[..], b"../x", b"z\nz", b"/etc"]).prop_map(|to| Item::Link(to.to_vec())),
    ]
}

/// What an agent does to one path.
#[derive(Clone, Debug)]
enum Deed {
    Put(Vec<u8>, Item),
    Remove(prop::sample::Index),
    Move(prop::sample::Index, Vec<u8>),
    /// One line more in the middle, so that hunks have something around them.
    Edit(prop::sample::Index, prop::sample::Index),
    Mode(prop::sample::Index),
}

fn deed() -> impl Strategy<Value = Deed> {
    let any_index = any::<prop::sample::Index>;
    prop_oneof![
        3 => (path(), item()).prop_map(|(path, item)| Deed::Put(path, item)),
        2 => any_index().prop_map(Deed::Remove),
        2 => (any_index(), path()).prop_map(|(which, path)| Deed::Move(which, path)),
        2 => (any_index(), any_index()).prop_map(|(which, line)| Deed::Edit(which, line)),
        1 => any_index().prop_map(Deed::Mode),
    ]
}

fn apply(tree: &mut Tree, deed: &Deed) {
    let pick = |tree: &Tree, which: &prop::sample::Index| -> Option<Vec<u8>> {
        (!tree.is_empty()).then(|| which.get(&tree.keys().collect::<Vec<_>>()).to_vec())
    };
    match deed {
        Deed::Put(path, item) => insert(tree, path, item.clone()),
        Deed::Remove(which) => {
            pick(tree, which).map(|path| tree.remove(&path));
        }
        Deed::Move(which, to) => {
            if let Some(item) = pick(tree, which).and_then(|path| tree.remove(&path)) {
                insert(tree, to, item);
            }
        }
        Deed::Edit(which, line) => {
            let item = pick(tree, which).and_then(|path| tree.get_mut(&path));
            if let Some(Item::File { bytes, .. }) = item {
                let mut lines: Vec<&[u8]> = bytes.split_inclusive(|&byte| byte == b'\n').collect();
                lines.insert(line.index(lines.len() + 1), b"edited\n");
                *bytes = lines.concat();
            }
        }
        Deed::Mode(which) => {
            let item = pick(tree, which).and_then(|path| tree.get_mut(&path));
            if let Some(Item::File { executable, .. }) = item {
                *executable = !*executable;
            }
        }
    }
}

/// Puts an item, and takes away what was in its way.
fn insert(tree: &mut Tree, path: &[u8], item: Item) {
    // A link to itself is a matter of its own.
    let name = path.rsplit(|&byte| byte == b'/').next().unwrap();
    let item = if item == Item::Link(name.to_vec()) { Item::Link(b"z".to_vec()) } else { item };
    let within = |inner: &[u8], outer: &[u8]| inner.starts_with(&[outer, b"/"].concat());
    tree.retain(|other, _| !within(other, path) && !within(path, other));
    tree.insert(path.to_vec(), item);
}

fn grown(mut tree: Tree, deeds: &[Deed]) -> Tree {
    deeds.iter().for_each(|deed| apply(&mut tree, deed));
    tree
}

fn deeds(most: usize) -> impl Strategy<Value = Vec<Deed>> {
    prop::collection::vec(deed(), 0..most)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, max_shrink_iters: 200, ..ProptestConfig::default() })]

    #[test]
    fn the_patch_gives_what_the_agent_left(first in deeds(20), then in deeds(12)) {
        let before = grown(Tree::new(), &first);
        let work = Work::new(&before);
        make(&work.root(), &grown(before, &then));
        let patch = work.judged();
        prop_assert_eq!(patch.summary.left_out, []);
    }

    /// Three dispatches of one thread, each in a workspace that was put back elsewhere.
    #[test]
    fn a_thread_adds_up_across_pauses(
        first in deeds(16), steps in prop::collection::vec(deeds(8), 3),
    ) {
        let begin = grown(Tree::new(), &first);
        let mut now = begin.clone();
        let mut carried: Option<Vec<u8>> = None;
        for step in &steps {
            let work = Work::new(&now);
            let thread = match &carried {
                Some(carried) => work.baseline.resume(&mut &**carried).unwrap(),
                None => Baseline::take(&work.root(), spool(), &Known::default()).unwrap(),
            };
            let after = grown(now, step);
            make(&work.root(), &after);
            work.judged();
            let whole = patch(&thread, &work.root(), &[]);
            prop_assert_eq!(&whole.summary.left_out, &[]);
            applies(&begin, &after, &whole.text);

            let mut out = Vec::new();
            thread.carry(&work.root(), &mut out).unwrap();
            (carried, now) = (Some(out), read(&work.root()));
        }
    }
}
