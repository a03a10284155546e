use serde_json::json;

use super::*;
use crate::entry::Happening;
use crate::event::{Event, Resolved, ResolvedBundle};
use crate::hash::ContentHash;
use crate::time::Timestamp;

struct Scene {
    id: ThreadId,
    thread: Thread,
    terms: Terms,
    human: bool,
}

fn scene(may_answer: &[&str]) -> Scene {
    let subagent = ResolvedBundle {
        name: "planner".parse().unwrap(),
        content_hash: ContentHash::of(b"planner"),
        registered_at: Timestamp::from_millis(0),
    };
    let resolved = Resolved { subagent, capabilities: vec![], env: vec![] };
    let accepted = Event::Accepted { dispatch_id: "d_1".parse().unwrap(), resolved };
    let leads: Party = "group:leads".parse().unwrap();
    let terms = Terms {
        may_answer: may_answer.iter().map(|party| party.parse().unwrap()).collect(),
        members: [(leads, vec!["user:ann".parse().unwrap()])].into(),
        owner: Some("user:olga".parse().unwrap()),
        ..Terms::default()
    };
    let thread = Thread::begin(&Happening::from(accepted)).unwrap();
    Scene { id: "t_1".parse().unwrap(), thread, terms, human: false }
}

impl Scene {
    fn asks(&self, by: &Answerer, agents: AgentsMay) -> Result<(), NotEntitled> {
        let question =
            json!({"questions": [{"question": "Which?", "human": self.human}, {"question": "Why?"}]});
        let question: Question = serde_json::from_value(question).unwrap();
        entitled((&self.id, &self.thread), (&question, &self.terms), by, agents)
    }
}

fn by(principal: &str) -> Answerer {
    Answerer::new(principal, "test")
}

fn relayed(principal: &str) -> Answerer {
    by(principal).relayed_by("agent:claude-code")
}

#[test]
fn those_who_are_named_may_answer_by_name_or_in_a_group() {
    let scene = scene(&["group:leads", "user:bob"]);
    for (who, expected) in [
        ("user:ann", Ok(())),
        ("user:bob", Ok(())),
        ("user:eve", Err(NotEntitled::NotNamed)),
        ("group:leads", Err(NotEntitled::Nobody)),
        ("command:lookup", Err(NotEntitled::Nobody)),
        ("default", Err(NotEntitled::Nobody)),
        ("ann", Err(NotEntitled::Nobody)),
        ("", Err(NotEntitled::Nobody)),
    ] {
        assert_eq!(scene.asks(&by(who), AgentsMay::Allow), expected, "{who}");
    }
    assert_eq!(
        self::scene(&[]).asks(&by("user:eve"), AgentsMay::Refuse),
        Ok(()),
        "nobody said who dispatched it"
    );
}

#[test]
fn the_asker_never_answers_whatever_is_allowed_and_whoever_it_claims_to_speak_for() {
    let scene = Scene { terms: Terms::default(), ..scene(&[]) };
    for agents in [AgentsMay::Refuse, AgentsMay::Relay, AgentsMay::Allow] {
        for who in ["agent:d_1", "agent:t_1", "thread:t_1", "d_1", "t_1"] {
            assert_eq!(scene.asks(&by(who), agents), Err(NotEntitled::Asker), "{who}");
            let claims = by("user:ann").relayed_by(who);
            assert_eq!(scene.asks(&claims, agents), Err(NotEntitled::Asker), "relayed by {who}");
        }
    }
}

#[test]
fn agents_do_what_the_user_lets_them() {
    let named = scene(&["user:olga", "user:ann"]);
    let (own, passed_on) = (by("agent:claude-code"), relayed("user:ann"));
    assert_eq!(named.asks(&passed_on, AgentsMay::Refuse), Err(NotEntitled::AgentsRefused));
    assert_eq!(named.asks(&passed_on, AgentsMay::Relay), Ok(()));
    assert_eq!(named.asks(&passed_on, AgentsMay::Allow), Ok(()));
    assert_eq!(named.asks(&relayed("user:eve"), AgentsMay::Allow), Err(NotEntitled::NotNamed));
    assert_eq!(named.asks(&own, AgentsMay::Refuse), Err(NotEntitled::AgentsRefused));
    assert_eq!(named.asks(&own, AgentsMay::Relay), Err(NotEntitled::RelayOnly));
    assert_eq!(named.asks(&own, AgentsMay::Allow), Ok(()), "it answers for whoever dispatched");
    let others = scene(&["group:leads"]);
    assert_eq!(others.asks(&own, AgentsMay::Allow), Err(NotEntitled::NotNamed));
    assert_eq!(scene(&["agent:claude-code"]).asks(&own, AgentsMay::Allow), Ok(()), "or where it is named");
}

#[test]
fn what_is_for_people_is_never_answered_by_way_of_an_agent() {
    let scene = Scene { human: true, ..scene(&["user:ann", "agent:claude-code"]) };
    for agents in [AgentsMay::Refuse, AgentsMay::Relay, AgentsMay::Allow] {
        assert_eq!(scene.asks(&by("agent:claude-code"), agents), Err(NotEntitled::HumansOnly));
        assert_eq!(scene.asks(&relayed("user:ann"), agents), Err(NotEntitled::HumansOnly));
        assert_eq!(scene.asks(&by("user:ann"), agents), Ok(()));
    }
}
