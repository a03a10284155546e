//! No question looks at everything: each statement's plan is asked for, and none scans a table that grows.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use agora_core::provider::ledger::{Filter, Ledger, StateWord};
use agora_core::time::Clock;
use agora_testkit::clock::SetClock;
use agora_testkit::contract;
use agora_testkit::ledger::sample::{accept, job};
use rusqlite::Connection;

use super::SqliteLedger;
use super::row::seen;
use crate::home::Home;

/// Those few that sort what they found, and do not read it off an index: what is due, what is over, a rare beginning.
const SORTING: [&str; 3] = ["FROM outbox", "WHERE expires_at <= ?1", "UNION SELECT place FROM dispatches"];

/// Lists by every combination of filters, common and rare beginnings among them.
async fn list_in_every_way(ledger: &dyn Ledger) {
    for number in 0..10 {
        ledger.append(accept(0, job(&format!("t_{number}"), &format!("d_{number}")))).await.unwrap();
    }
    for ways in 0..256 {
        let when = |bit: u32| ways >> bit & 1 == 1;
        let prefix = match (when(4), when(5)) {
            (false, _) => None,
            (true, false) => Some("d_".to_owned()),
            (true, true) => Some("d_1".to_owned()),
        };
        let filter = Filter {
            namespace: when(0).then(agora_core::Namespace::default),
            thread: when(1).then(|| "t_1".parse().unwrap()),
            label: when(2).then(|| "x".parse().unwrap()),
            states: when(3).then(|| vec![StateWord::Accepted, StateWord::Failed]),
            prefix,
            last: when(7),
            before: when(6).then(|| "d_5".parse().unwrap()),
            most: 3,
        };
        let listed = ledger.list(&filter).await.unwrap();
        assert!(listed.is_empty() || !when(2), "none has a label");
    }
}

fn plan(connection: &Connection, sql: &str) -> Vec<String> {
    let mut statement = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
    let count = statement.parameter_count();
    let nulls = vec![rusqlite::types::Null; count];
    let plan = statement.query_map(rusqlite::params_from_iter(nulls), |row| row.get(3)).unwrap();
    plan.collect::<Result<_, _>>().unwrap()
}

#[tokio::test]
async fn no_statement_scans_a_table_that_grows() {
    let dir = tempfile::tempdir().unwrap();
    let count = AtomicU32::new(0);
    let make = |clock: Arc<dyn Clock>| {
        let number = count.fetch_add(1, Ordering::Relaxed);
        SqliteLedger::open(Home::new(dir.path().join(number.to_string())), clock).unwrap()
    };
    contract::ledger(&|clock| Box::new(make(clock))).await;
    let ledger = make(Arc::new(SetClock::at("2026-11-15T12:00:00Z")));
    list_in_every_way(&ledger).await;
    ledger.check_thread(&"t_1".parse().unwrap()).await.unwrap();

    let last = count.into_inner() - 1;
    let connection = Connection::open(dir.path().join(format!("{last}/ledger.sqlite"))).unwrap();
    let partial: BTreeSet<String> = connection
        .prepare("SELECT name FROM sqlite_schema WHERE type = 'index' AND sql LIKE '% WHERE %'")
        .unwrap()
        .query_map([], |row| row.get(0))
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap();
    assert_eq!(partial.len(), 7);
    let control = ["BEGIN", "COMMIT", "SAVEPOINT", "RELEASE", "ROLLBACK"];
    let statements = seen::all();
    let statements = statements.iter().filter(|sql| !control.iter().any(|word| sql.starts_with(word)));
    let mut looked_at = 0;
    for sql in statements {
        looked_at += 1;
        let plan = plan(&connection, sql);
        for step in &plan {
            // An index over the few rows that somebody has to do something about may be read from end to end, and so may
            // what a part of the statement found.
            let few = partial.iter().any(|index| step.ends_with(&format!("INDEX {index}")))
                || step.starts_with("SCAN (subquery");
            assert!(!step.starts_with("SCAN") || few, "{sql}\n{plan:#?}");
            let sorts = step.contains("TEMP B-TREE") && step.contains("ORDER BY");
            assert!(!sorts || SORTING.iter().any(|known| sql.contains(known)), "{sql}\n{plan:#?}");
        }
    }
    assert!(looked_at > 60, "{looked_at} statements were seen");
}
