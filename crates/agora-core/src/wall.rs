//! The wall between an agent and everything else.

/// Who runs behind the wall when the worker is root: a user and a group that own nothing.
pub const AGENT_ID: u32 = 61_000;

/// Tells whether there is such a user where a map of user ids holds (`/proc/self/uid_map`): root of a user namespace knows few.
pub fn has_agent(uid_map: &str) -> bool {
    uid_map.lines().any(|line| {
        let mut numbers = line.split_ascii_whitespace().map(|number| number.parse::<u64>().unwrap_or(0));
        let (first, _, count) = (numbers.next(), numbers.next(), numbers.next());
        first
            .zip(count)
            .is_some_and(|(first, count)| (first..first.saturating_add(count)).contains(&AGENT_ID.into()))
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn root_of_a_namespace_knows_only_whom_it_maps() {
        assert!(super::has_agent("         0          0 4294967295\n"));
        assert!(super::has_agent("0 1000 1\n1 100000 65536\n"));
        assert!(!super::has_agent("0 1000 1\n") && !super::has_agent(""));
    }
}
