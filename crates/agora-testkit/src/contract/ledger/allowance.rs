//! No more with a label than may be, whoever accepts.

use agora_core::ContentHash;
use agora_core::provider::ledger::{Allowance, Append, Beyond, LedgerError, Paper};

use super::{Scene, with};
use crate::ledger::sample::{accept, cancelled, finished, job, started, tuned};

fn allowance(more: u32, most_live: u32, most: u32) -> Allowance {
    Allowance { label: "mine".parse().unwrap(), more, most_live, most }
}

/// Makes an append that accepts a dispatch with a label, as far as that is allowed.
fn labelled(number: u32, label: &str, allowance: Allowance) -> Append {
    let labels = vec![label.parse().unwrap()];
    let job = tuned(job(&format!("t_{number}"), &format!("d_{number}")), |job| job.labels = labels);
    with(accept(0, job), Paper::Allowance(allowance))
}

fn beyond(refused: Result<impl Sized, LedgerError>) -> Option<Beyond> {
    match refused {
        Ok(_) => None,
        Err(LedgerError::NotAllowed(beyond)) => Some(beyond),
        Err(other) => panic!("{other:?}"),
    }
}

pub(super) async fn kept_to(scene: &Scene) {
    let Scene { ledger, .. } = scene;
    let accept = async |number: u32, allowance: Allowance| {
        beyond(ledger.append(labelled(number, "mine", allowance)).await)
    };
    assert_eq!(accept(1, allowance(3, 2, 9)).await, Some(Beyond::Live(0)), "all that belong together");
    assert_eq!(accept(1, allowance(2, 2, 9)).await, None);
    assert_eq!(accept(2, allowance(1, 2, 9)).await, None);
    assert_eq!(accept(3, allowance(1, 2, 9)).await, Some(Beyond::Live(2)));
    assert_eq!(beyond(ledger.allows(&allowance(1, 2, 9)).await), Some(Beyond::Live(2)));
    assert_eq!(ledger.thread(&"t_3".parse().unwrap()).await.unwrap(), None, "nothing was recorded");
    // What runs is live, and what waits for an answer or has ended is not.
    scene.happen("t_1", vec![started("d_1")]).await;
    assert_eq!(accept(3, allowance(1, 2, 9)).await, Some(Beyond::Live(2)));
    scene.happen("t_1", vec![finished("d_1")]).await;
    assert_eq!(accept(3, allowance(1, 2, 9)).await, None);
    // Another's do not count, and this one's all do.
    ledger.append(labelled(4, "other", allowance(1, 3, 4))).await.unwrap();
    scene.happen("t_2", vec![cancelled("d_2")]).await;
    assert_eq!(accept(5, allowance(1, 9, 3)).await, Some(Beyond::All(3)));
    assert_eq!(beyond(ledger.allows(&allowance(1, 9, 4)).await), None);
    // What is known by its key is not accepted again, and so it is not refused either.
    let key = Paper::Key {
        key: "k".to_owned(),
        request: ContentHash::of(b"one"),
        dispatch_id: "d_5".parse().unwrap(),
    };
    ledger.append(with(labelled(5, "mine", allowance(1, 9, 4)), key.clone())).await.unwrap();
    let again = ledger.append(with(labelled(6, "mine", allowance(1, 9, 4)), key)).await;
    assert!(matches!(&again, Err(LedgerError::KeyTaken { .. })), "{again:?}");
}

pub(super) async fn at_once(scene: &Scene) {
    let accept = |number| scene.ledger.append(labelled(number, "mine", allowance(1, 2, 9)));
    let (one, two, three, four) = tokio::join!(accept(1), accept(2), accept(3), accept(4));
    let refused: Vec<_> = [one, two, three, four].into_iter().filter_map(beyond).collect();
    assert_eq!(refused, [Beyond::Live(2), Beyond::Live(2)]);
}
