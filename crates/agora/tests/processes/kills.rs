//! SIGKILL to an engine at each of its steps, under load: nothing is lost, nothing runs twice, nothing is left.

use std::collections::BTreeMap;
use std::process::Child;
use std::thread;
use std::time::Duration;

use agora_core::entry::Happening;
use agora_core::state::{DispatchState, QuestionState};
use agora_testkit::cli::{Ran, files_below};
use agora_testkit::part;
use rustix::process::Signal;

use crate::support::{Chance, Place, holds_within, id_of, run, signal, until, wait};

/// Kills in each of the four tests: 40 altogether, 300 with `--full`.
fn kills() -> u64 {
    if part::full() { 75 } else { 10 }
}

/// When the engine is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moment {
    /// After a part in a thousand of the [`Reach`], whatever it is doing then.
    After(u64),
    SecretStaged,
    Accepted,
    Claimed,
    WorkerKnown,
    OutcomeStored,
}

/// How long an engine lives, as far as the rounds before have shown: machines are too different for a constant.
struct Reach(Duration);

impl Reach {
    const LEAST: Duration = Duration::from_millis(16);
    const MOST: Duration = Duration::from_millis(1200);

    /// A victim that was gone already halves it, one that still lived lengthens it by a half.
    fn learn(&mut self, killed: bool) {
        let next = if killed { self.0.mul_f64(1.5) } else { self.0 / 2 };
        self.0 = next.clamp(Self::LEAST, Self::MOST);
    }
}

/// Which of the engines is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Victim {
    /// A command of the load, by its number.
    Command(usize),
    /// One that carries what nobody waits for.
    Carrier,
}

/// Agents that end in every way that a command can.
fn agents(place: &Place) {
    place.agent("quick", "echo done");
    place.agent("nap", "sleep 0.2; echo rested");
    place.agent("fails", "echo no >&2; exit 3");
    place.agent("asks", "echo '{\"question\": \"which one?\"}' > .agora/needs_input.json");
    let child = "trap \"\" TERM HUP INT; exec 9>held; sleep 1000";
    place
        .agent("forks", &format!("(setsid sh -c '{child}' &) ; sleep 0.05; test -n \"$KEY\" && echo forked"));
}

/// A round: what was started, and what was said of it.
struct Round {
    number: u64,
    /// The ids of what the commands dispatch, where they say.
    ids: Vec<Option<String>>,
    commands: Vec<Child>,
}

impl Round {
    /// Starts everything at once: three that are waited for, two that are not, one that goes on, one that cancels.
    fn start(place: &Place, number: u64, chance: &mut Chance, before: Option<&str>) -> Self {
        let mut round = Self { number, ids: Vec::new(), commands: Vec::new() };
        let load = ["quick", "nap", "fails", "asks", "forks", "nap"];
        let first = usize::try_from(chance.below(6)).unwrap();
        for turn in 0..5 {
            let (agent, id) = (load[(first + turn) % 6], round.id(turn));
            let mut more = vec!["--label", "load"];
            more.extend((turn % 2 == 1).then_some("--detach"));
            more.extend((agent == "forks").then_some(["--secret", "KEY=env:A_SECRET"]).into_iter().flatten());
            round.commands.push(place.start(&run(agent, &id, &more)));
            round.ids.push(Some(id));
        }
        if let Some(before) = before {
            round.commands.push(place.start(&["continue", before, "--detach", "--json"]));
            round.ids.push(None);
        }
        let cancelled = round.id(usize::try_from(chance.below(5)).unwrap());
        round.commands.push(place.start(&["cancel", &cancelled]));
        round.ids.push(None);
        round
    }

    fn id(&self, turn: usize) -> String {
        format!("d_r{}-{turn}", self.number)
    }

    /// Waits for the moment, as long as it can still come, and kills. Returns whether there was somebody to kill.
    fn kill(&mut self, place: &Place, moment: Moment, victim: Victim, reach: &Reach) -> bool {
        let turn = if let Victim::Command(turn) = victim { turn } else { 1 };
        let id = self.id(turn);
        let recorded = |is: fn(&agora_core::provider::ledger::DispatchView) -> bool| {
            place.recorded(&id).is_some_and(|view| is(&view) || !view.state.is_live())
        };
        let there = |path: &str| place.dispatch_dir(&id).join(path).exists();
        holds_within(Duration::from_secs(5), || match moment {
            Moment::After(part) => {
                if victim == Victim::Carrier {
                    holds_within(Duration::from_secs(5), || !place.carriers().is_empty());
                }
                thread::sleep(reach.0 * u32::try_from(part).unwrap() / 1000);
                true
            }
            Moment::SecretStaged => {
                !files_below(&place.cli.agora_home().join("secrets/+thread")).is_empty() || recorded(|_| true)
            }
            Moment::Accepted => recorded(|_| true),
            Moment::Claimed => recorded(|view| view.claim.is_some()),
            Moment::WorkerKnown => there("in/worker.json") || recorded(|_| false),
            Moment::OutcomeStored => there("out/outcome.json") || recorded(|_| false),
        });
        match victim {
            Victim::Command(turn) => {
                let lives = self.commands[turn].try_wait().unwrap().is_none();
                signal(id_of(&self.commands[turn]), Signal::KILL);
                lives
            }
            Victim::Carrier => {
                let carriers = place.carriers();
                carriers.iter().for_each(|carrier| signal(carrier.id, Signal::KILL));
                !carriers.is_empty()
            }
        }
    }

    /// Waits for the commands with nothing but `agora ls`, and returns what was acknowledged.
    fn rest(self, place: &Place) -> Vec<String> {
        let mut commands = self.commands;
        until("every command has ended", || {
            let _ = place.live();
            commands.iter_mut().all(|command| command.try_wait().unwrap().is_some())
        });
        place.come_to_rest();
        let ran: Vec<Ran> = commands.into_iter().map(wait).collect();
        let told = |ran: &Ran| matches!(ran.code, Some(0 | 1 | 4)) && ran.stdout.contains("dispatchId");
        let bug = ran.iter().find(|ran| matches!(ran.code, Some(3 | 70)));
        assert!(bug.is_none(), "{bug:?}");
        ran.iter().zip(self.ids).filter(|(ran, _)| told(ran)).filter_map(|(_, id)| id).collect()
    }
}

/// Looks at everything that is recorded, and at everything that is there.
fn check(place: &Place, acknowledged: &[String]) {
    let all: BTreeMap<_, _> = place.all().into_iter().collect();
    for id in acknowledged {
        assert!(all.contains_key(id), "`{id}` was acknowledged, and is lost");
    }
    let runs = place.runs();
    for (id, thread) in &all {
        let story = place.story(thread);
        let ends = |what: &&Happening| matches!(what, Happening::Event(event) if event.is_terminal() && event.dispatch_id().as_str() == id);
        assert_eq!(story.iter().filter(ends).count(), 1, "{id}: {story:?}");
        let (state, ran) = (place.recorded(id).unwrap().state, runs.get(id).copied().unwrap_or(0));
        assert!(ran <= 1, "the agent of `{id}` ran {ran} times");
        if matches!(state, DispatchState::Finished | DispatchState::NeedsInput) {
            assert_eq!(ran, 1, "`{id}` {state:?}");
        }
        if let DispatchState::Failed(failure) = &state {
            assert_eq!(failure.code.as_str(), "agent-exit", "`{id}`: {failure:?}");
        }
        let view = place.thread(thread);
        let withdrawn = story.iter().any(|what| what.kind() == "question.cancelled");
        for asked in view.thread.questions() {
            let expected = if withdrawn { QuestionState::Cancelled } else { QuestionState::Open };
            assert_eq!(asked.state, expected, "{id}: {story:?}");
        }
    }
    assert_eq!(place.leftovers(), Vec::<String>::new());
}

/// Returns the dispatch of a thread that `continue` can go on with. What was given for a thread alone is gone with its end.
fn finished(place: &Place) -> Option<String> {
    let ended = |id: &String| {
        let view = place.recorded(id)?;
        let last = place.thread(&view.job.thread_id).thread.dispatches().last()?.0.to_string();
        let whole = view.job.secrets.is_empty() && last == *id;
        (view.state == DispatchState::Finished && whole).then(|| id.clone())
    };
    place.all().iter().find_map(|(id, _)| ended(id))
}

fn torment(seeds: u64, moments: impl Fn(&mut Chance) -> (Moment, Victim)) {
    let place = Place::new();
    agents(&place);
    let (mut killed, mut reach) = (0, Reach(Reach::MOST));
    // A moment may come too late for its victim: such a round is checked like every other, and does not count.
    for number in seeds..seeds + 6 * kills() {
        if killed == kills() {
            return;
        }
        let mut chance = Chance::new(number);
        let (moment, victim) = moments(&mut chance);
        eprintln!("seed {number}: {victim:?} is killed at {moment:?} of {:?}", reach.0);
        let before = finished(&place);
        let mut round = Round::start(&place, number, &mut chance, before.as_deref());
        let lived = round.kill(&place, moment, victim, &reach);
        killed += u64::from(lived);
        reach.learn(lived);
        let acknowledged = round.rest(&place);
        check(&place, &acknowledged);
    }
    assert_eq!(killed, kills(), "the moments come too late");
}

#[test]
fn a_command_is_killed_at_any_moment() {
    torment(1000, |chance| {
        let victim = Victim::Command(usize::try_from(chance.below(6)).unwrap());
        (Moment::After(chance.below(1000)), victim)
    });
}

#[test]
fn a_carrier_is_killed_at_any_moment() {
    torment(2000, |chance| (Moment::After(chance.below(1000)), Victim::Carrier));
}

#[test]
fn a_command_is_killed_at_each_step() {
    use Moment::{Accepted, Claimed, OutcomeStored, SecretStaged, WorkerKnown};
    torment(3000, |chance| {
        let moment = *chance.pick(&[SecretStaged, Accepted, Claimed, WorkerKnown, OutcomeStored]);
        (moment, Victim::Command(*chance.pick(&[0, 2, 4])))
    });
}

#[test]
fn a_carrier_is_killed_at_each_step() {
    use Moment::{Accepted, Claimed, OutcomeStored, WorkerKnown};
    torment(4000, |chance| (*chance.pick(&[Accepted, Claimed, WorkerKnown, OutcomeStored]), Victim::Carrier));
}
