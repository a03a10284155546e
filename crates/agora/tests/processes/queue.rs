//! Many at once from several processes, and never more than there is room for.

use std::fs;
use std::thread;

use agora_core::state::DispatchState;

use crate::support::{Place, run, signal, until, wait};
use rustix::process::Signal;

/// Two engines on one home, twenty dispatches at once, room for two.
#[test]
fn of_twenty_at_once_two_run_and_all_finish() {
    let place = Place::new();
    fs::create_dir(place.mark("running")).unwrap();
    let (running, most) = (place.mark("running"), place.mark("most"));
    place.agent(
        "counts",
        &format!(
            "touch {running}/$$; ls {running} | wc -l >> {most}; sleep 0.1; rm {running}/$$",
            running = running.display(),
            most = most.display()
        ),
    );
    let ids: Vec<String> = (0..20).map(|number| format!("d_many-{number}")).collect();
    thread::scope(|scope| {
        for half in ids.chunks(10) {
            scope.spawn(|| {
                let all: Vec<_> =
                    half.iter().map(|id| place.start(&run("counts", id, &["--detach"]))).collect();
                for command in all {
                    assert_eq!(wait(command).code, Some(0));
                }
            });
        }
    });
    // Without any further command: the carriers do it.
    until("all have finished", || {
        ids.iter().all(|id| place.recorded(id).unwrap().state == DispatchState::Finished)
    });
    until("the carriers have ended", || place.alive().is_empty());
    let counts = fs::read_to_string(&most).unwrap();
    assert_eq!(counts.lines().count(), 20);
    assert!(counts.lines().all(|count| matches!(count.trim(), "1" | "2")), "{counts}");
    assert!(place.runs().values().all(|count| *count == 1));
    assert_eq!(place.leftovers(), Vec::<String>::new());
}

#[test]
fn who_waits_goes_by_priority_and_continued_threads_go_first() {
    let place = Place::new();
    place.configure("[target.local]\nmax_concurrent = 1\n");
    let (gate, order) = (place.mark("gate"), place.mark("order"));
    place.agent("first", &format!("while [ ! -e {} ]; do sleep 0.02; done", gate.display()));
    place.agent("next", &format!("d=${{PWD%/work}}; echo ${{d##*/}} >> {}", order.display()));
    place.dispatch("next", "d_ended", &[]).success();
    place.dispatch("first", "d_first", &["--detach"]).success();
    until("the first has the place", || place.recorded("d_first").unwrap().claim.is_some());
    for (id, priority) in [("d_low", "-1"), ("d_one", "0"), ("d_two", "0"), ("d_high", "5")] {
        place.dispatch("next", id, &["--detach", "--priority", priority]).success();
    }
    let continued = place.cli.run(&["continue", "d_ended", "--detach", "--json"]).json();
    let places: Vec<_> =
        ["d_high", "d_one", "d_two", "d_low"].map(|id| place.show(id)["place"].clone()).to_vec();
    assert_eq!(places, [1, 2, 3, 4], "the continued one is before them");
    fs::write(&gate, "").unwrap();
    place.come_to_rest();
    let order = fs::read_to_string(order).unwrap();
    let continued = continued["dispatchId"].as_str().unwrap();
    assert_eq!(
        order.lines().collect::<Vec<_>>(),
        ["d_ended", continued, "d_high", "d_one", "d_two", "d_low"]
    );
}

/// Whoever waits is not held up by the death of whoever was before: the next in line is carried by those who wait.
#[test]
fn one_whose_carrier_died_in_the_queue_does_not_hold_up_the_rest() {
    let place = Place::new();
    place.configure("[target.local]\nmax_concurrent = 1\n");
    let gate = place.mark("gate");
    place.agent("first", &format!("while [ ! -e {} ]; do sleep 0.02; done", gate.display()));
    place.agent("next", "echo done");
    let first = place.start(&run("first", "d_first", &[]));
    until("the first has the place", || place.recorded("d_first").is_some_and(|view| view.claim.is_some()));
    let mut second = place.start(&run("next", "d_second", &[]));
    until("the second waits", || place.recorded("d_second").is_some());
    let third = place.start(&run("next", "d_third", &[]));
    until("the third waits", || place.recorded("d_third").is_some());
    signal(crate::support::id_of(&second), Signal::KILL);
    second.wait().unwrap();
    fs::write(&gate, "").unwrap();
    assert_eq!(wait(first).code, Some(0));
    assert_eq!(wait(third).code, Some(0), "without any further command");
    assert_eq!(place.recorded("d_second").unwrap().state, DispatchState::Finished);
    place.come_to_rest();
    assert_eq!(place.leftovers(), Vec::<String>::new());
}

/// Nor by the death of whoever has the place: those who wait take in what its worker leaves, and the place is free.
#[test]
fn one_whose_carrier_died_with_the_place_does_not_hold_up_the_rest() {
    let place = Place::new();
    place.configure("[target.local]\nmax_concurrent = 1\n");
    let gate = place.mark("gate");
    place.agent("first", &format!("while [ ! -e {} ]; do sleep 0.02; done", gate.display()));
    place.agent("next", "echo done");
    let mut first = place.start(&run("first", "d_first", &[]));
    until("the first runs", || place.recorded("d_first").is_some_and(|view| view.started_at.is_some()));
    let second = place.start(&run("next", "d_second", &[]));
    until("the second waits", || place.recorded("d_second").is_some());
    signal(crate::support::id_of(&first), Signal::KILL);
    first.wait().unwrap();
    fs::write(&gate, "").unwrap();
    assert_eq!(wait(second).code, Some(0), "without any further command");
    assert_eq!(place.recorded("d_first").unwrap().state, DispatchState::Finished);
    place.come_to_rest();
    assert_eq!(place.leftovers(), Vec::<String>::new());
}

/// As long as nobody knows which wall a dispatch has, nobody says that it has none.
#[test]
fn the_wall_of_a_dispatch_is_told_when_its_worker_has() {
    let place = Place::new();
    let gate = place.mark("gate");
    place.agent("slow", &format!("while [ ! -e {} ]; do sleep 0.02; done", gate.display()));
    let running = place.start(&run("slow", "d_one", &[]));
    until("the agent runs", || place.kinds_if("d_one").contains(&"dispatch.started"));
    let shown = place.cli.run(&["show", "d_one", "--json"]).json();
    assert_eq!((&shown["state"], &shown["isolation"]), (&"running".into(), &serde_json::Value::Null));
    assert!(place.cli.run(&["show", "d_one"]).success().contains("target:      local\n"));
    std::fs::write(&gate, "").unwrap();
    let ended = wait(running).json();
    assert!(ended["isolation"]["level"].is_string(), "{ended}");
}

/// Somebody clears everything away while one dispatch runs and another waits for its place: nobody stays behind and waits for ever.
#[test]
fn whoever_waits_in_a_home_that_is_removed_ends() {
    let place = Place::new();
    place.configure("[target.local]\nmax_concurrent = 1\n");
    let gate = place.mark("gate");
    place.agent("first", &format!("while [ ! -e {} ]; do sleep 0.02; done", gate.display()));
    place.agent("next", "true");
    place.dispatch("first", "d_first", &["--detach"]).success();
    until("the first has the place", || place.recorded("d_first").unwrap().claim.is_some());
    place.dispatch("next", "d_next", &["--detach"]).success();
    assert_eq!(place.carriers().len(), 2);
    until("the home is gone", || fs::remove_dir_all(place.cli.agora_home()).is_ok());
    fs::write(&gate, "").unwrap();
    until("nobody is left", || place.alive().is_empty());
}
