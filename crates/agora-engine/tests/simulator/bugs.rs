//! Bugs that are put in, and must be found. Each test says in how many stories it was, and that the same stories are good without.

use agora_engine::sabotage::{Bug, with};

use crate::machine::Faults;
use crate::scenario::{play, try_play};
use crate::store::Kind;

/// In so many stories at most.
const STORIES: u64 = 2_000;

/// Plays until a bug is found by one of the things that it does wrong, and says in how many stories that was.
fn found(bug: Bug, faults: Faults, wrong: &[&str]) -> String {
    for seed in 0..STORIES {
        play(seed, faults, Kind::Memory);
        match with(bug, || try_play(seed, faults, Kind::Memory)) {
            Ok(_) => {}
            Err(said) if wrong.iter().any(|wrong| said.contains(wrong)) => {
                return format!("{bug:?}: found in {} stories: {said}", seed + 1);
            }
            Err(said) => panic!("{bug:?} shows in the seed {seed} as something else: {said}"),
        }
    }
    panic!("{bug:?} was not found in {STORIES} stories");
}

#[test]
fn a_lost_lease_check_is_found() {
    println!("{}", found(Bug::NoLeaseCheck, Faults::NONE, &["without its lease", "is left at its end"]));
}

#[test]
fn a_lost_room_check_is_found() {
    println!("{}", found(Bug::NoRoomCheck, Faults::NONE, &["ran at once"]));
}

#[test]
fn a_double_resume_is_found() {
    println!("{}", found(Bug::DoubleResume, Faults { limited: 900, ..Faults::NONE }, &["goes on by itself"]));
}

#[test]
fn an_end_before_the_end_is_found() {
    // What the run needed goes before the end is recorded, so that this shows first.
    println!("{}", found(Bug::EndsTooEarly, Faults::NONE, &["taken from under its worker"]));
}

#[test]
fn a_forgotten_outcome_is_found() {
    println!(
        "{}",
        found(Bug::ForgetsOutcome, Faults { crash: 6, ..Faults::NONE }, &["is not what is stored"])
    );
}

#[test]
fn a_lost_wish_is_found() {
    println!("{}", found(Bug::LosesWish, Faults::NONE, &["although somebody wished to cancel it"]));
}

#[test]
fn a_forgotten_key_is_found() {
    println!("{}", found(Bug::ForgetsKey, Faults::NONE, &["has two dispatches"]));
}

#[test]
fn a_lost_question_is_found() {
    let wrong = ["its question is Asked", "asking and opening are one write"];
    println!("{}", found(Bug::LosesQuestion, Faults::NONE, &wrong));
}

#[test]
fn a_sweep_of_what_is_open_is_found() {
    println!("{}", found(Bug::SweepsOpen, Faults::NONE, &["its thread is open"]));
}

#[test]
fn an_answer_after_the_end_is_found() {
    println!("{}", found(Bug::IgnoresExpiry, Faults::NONE, &["long after its end"]));
}

#[test]
fn an_answer_that_leads_nowhere_is_found() {
    println!("{}", found(Bug::AnswerLeadsNowhere, Faults::NONE, &["an answer led to nothing"]));
}

#[test]
fn an_answer_that_is_forgotten_is_found() {
    println!("{}", found(Bug::ForgetsAnswer, Faults::NONE, &["goes on without the answer"]));
}

#[test]
fn an_answer_that_is_counted_twice_is_found() {
    println!(
        "{}",
        found(Bug::BelievesItWon, Faults::NONE, &["counts, and is not recorded", "two answers to"])
    );
}

#[test]
fn an_answer_by_anybody_is_found() {
    println!("{}", found(Bug::AnybodyAnswers, Faults::NONE, &["may not answer like that, and did"]));
}

#[test]
fn a_reminder_that_answers_is_found() {
    println!(
        "{}",
        found(Bug::ReminderAnswers, Faults::NONE, &["nobody gave the answer", "is no valid answer"])
    );
}
