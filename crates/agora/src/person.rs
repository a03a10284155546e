//! Who sits at this terminal, as answers name them.

use std::fs;

use agora_core::answer::Answerer;
use agora_core::route::Party;

/// More than the lines of any usual machine; in a directory service the rest is not in the file anyway.
const PASSWD_BYTES: usize = 4 << 20;

/// Returns whoever runs this command: the operating system's user, by name where it has one.
pub(crate) fn at_the_terminal() -> Answerer {
    let user = rustix::process::getuid().as_raw();
    let passwd = fs::read("/etc/passwd").unwrap_or_default();
    let text = String::from_utf8_lossy(&passwd[..passwd.len().min(PASSWD_BYTES)]).into_owned();
    let named = name_of(user, &text).map(|name| format!("user:{name}"));
    // A name that nobody could write into a route is as good as none.
    let named = named.filter(|principal| principal.parse::<Party>().is_ok());
    Answerer::new(named.unwrap_or_else(|| format!("user:uid-{user}")), "cli")
}

fn name_of(user: u32, passwd: &str) -> Option<&str> {
    passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next().filter(|name| !name.is_empty())?;
        (fields.nth(1)? == user.to_string()).then_some(name)
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_user_is_named_as_the_machine_does() {
        let passwd = "root:x:0:0:root:/root:/bin/sh\n# note\nann:x:1000:1000::/home/ann:/bin/sh\n";
        assert_eq!(super::name_of(1000, passwd), Some("ann"));
        assert_eq!(super::name_of(1, passwd), None);
    }
}
