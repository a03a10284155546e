//! One table more in a person's TOML file, and every other byte of it as they wrote it.

use toml::{Table, Value};

use super::entered::Entered;

/// Enters a table below a key, at the end: a table may stand anywhere. What comes of it is read again before anybody writes it.
pub(super) fn enter(text: &str, [outer, inner]: [&str; 2], entry: &str) -> Entered {
    let (Ok(before), Ok(entry_table)) = (text.parse::<Table>(), entry.parse::<Table>()) else {
        return Entered::Unfit;
    };
    let mut wanted = before;
    let servers = wanted.entry(outer).or_insert_with(|| Value::Table(Table::new()));
    let Value::Table(servers) = servers else { return Entered::Unfit };
    match servers.get(inner) {
        Some(Value::Table(there)) if holds(there, &entry_table) => return Entered::Already,
        Some(_) => return Entered::Another,
        None => drop(servers.insert(inner.to_owned(), Value::Table(entry_table))),
    }
    let apart = match text {
        "" => "",
        text if text.ends_with("\n\n") => "",
        text if text.ends_with('\n') => "\n",
        _ => "\n\n",
    };
    let grown = format!("{text}{apart}[{outer}.{inner}]\n{entry}");
    // Where servers stand in one line, a table of its own would declare them twice.
    if grown.parse::<Table>().is_ok_and(|after| after == wanted) {
        Entered::Text(grown)
    } else {
        Entered::Unfit
    }
}

/// Tells whether all of an entry is there. What a person added to it is theirs.
fn holds(there: &Table, entry: &Table) -> bool {
    entry.iter().all(|(key, value)| there.get(key) == Some(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entered(text: &str) -> Entered {
        enter(text, ["mcp_servers", "agora"], "command = \"agora\"\n")
    }

    #[test]
    fn what_a_person_wrote_stays_as_it_is() {
        for text in [
            "",
            "model = \"x\" # mine",
            "[mcp_servers.other]\ncommand = \"y\"\n",
            "[[profiles]]\nname = 'z'\n\n",
        ] {
            let Entered::Text(grown) = entered(text) else { panic!("{text}") };
            assert!(
                grown.starts_with(text) && grown.ends_with("[mcp_servers.agora]\ncommand = \"agora\"\n"),
                "{grown}"
            );
            assert_eq!(entered(&grown), Entered::Already, "{grown}");
        }
    }

    #[test]
    fn an_entry_is_known_however_it_is_written() {
        for text in [
            "[mcp_servers]\nagora = {command = \"agora\"}\n",
            "[mcp_servers.\"agora\"]\ncommand = \"agora\"\n",
            "mcp_servers.agora.command = 'agora'\n",
            "[mcp_servers.agora]\ncommand = \"agora\"\nstartup_timeout_sec = 30\n",
        ] {
            assert_eq!(entered(text), Entered::Already, "{text}");
        }
        assert_eq!(entered("[mcp_servers.agora]\ncommand = \"other\"\n"), Entered::Another);
        assert_eq!(entered("[mcp_servers]\nagora = 1\n"), Entered::Another);
    }

    #[test]
    fn what_cannot_be_added_to_is_left_alone() {
        for text in [
            "x = \"\"\"\nopen",
            "mcp_servers = {other = {command = \"y\"}}\n",
            "mcp_servers = 1\n",
            "[a]\n[a]\n",
        ] {
            assert_eq!(entered(text), Entered::Unfit, "{text}");
        }
    }
}
