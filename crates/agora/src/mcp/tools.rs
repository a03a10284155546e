//! The nine tools, as models read them. There are exactly these: what defines a worker is for people.

use std::sync::Arc;

use rmcp::model::{JsonObject, Tool, ToolAnnotations};

use super::arguments::{
    AnswerArguments, DispatchArguments, IdArguments, ListArguments, QuestionsArguments, WaitArguments,
    input_schema, output_schema,
};
use super::reply::{
    AnsweredReply, CancelledReply, CatalogueReply, DescribedReply, DispatchedReply, QuestionsReply,
    SubagentsReply, WaitedReply,
};

/// What the server says about itself, once.
pub(crate) const INSTRUCTIONS: &str = "\
agora runs coding agents (subagents) in isolated workers, on copies of the user's files. Dispatch with agora_dispatch; it returns at once. \
Then call agora_wait, again and again, until everything has ended. An agent that does not know asks a question and stops; nothing runs until \
it is answered. Questions are for your user: agora_wait asks them where your client can show a form. Else it returns status \
`needs_input`: show the question and its options to your user, wait for their words, and pass them on with agora_answer. Never make up an \
answer. Finished work on a git repository is the ref that the result names; the user brings it home with `agora apply`.";

/// One of the tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Name {
    Dispatch,
    Wait,
    Answer,
    Describe,
    Cancel,
    Questions,
    Capabilities,
    Subagents,
    Envs,
}

impl Name {
    pub(crate) const ALL: [Self; 9] = [
        Self::Dispatch,
        Self::Wait,
        Self::Answer,
        Self::Describe,
        Self::Cancel,
        Self::Questions,
        Self::Capabilities,
        Self::Subagents,
        Self::Envs,
    ];

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Dispatch => "agora_dispatch",
            Self::Wait => "agora_wait",
            Self::Answer => "agora_answer",
            Self::Describe => "agora_dispatch_describe",
            Self::Cancel => "agora_dispatch_cancel",
            Self::Questions => "agora_questions_list",
            Self::Capabilities => "agora_capabilities_list",
            Self::Subagents => "agora_subagents_list",
            Self::Envs => "agora_envs_list",
        }
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|name| name.as_str() == text)
    }

    fn title(self) -> &'static str {
        match self {
            Self::Dispatch => "Run a subagent",
            Self::Wait => "Wait for threads",
            Self::Answer => "Pass on your user's answer",
            Self::Describe => "Show a dispatch",
            Self::Cancel => "Cancel a thread",
            Self::Questions => "List open questions",
            Self::Capabilities => "List capabilities",
            Self::Subagents => "List subagents",
            Self::Envs => "List env bundles",
        }
    }

    fn description(self) -> &'static str {
        match self {
            Self::Dispatch => {
                "Starts a subagent on a task, in an isolated worker, and returns at once with the ids of its thread and dispatch. With \
                 `inputs` it starts several that run in parallel. Give `workspace: \".\"` when the agent is to work on your user's repository: \
                 without a workspace it begins in an empty directory. It sees nothing of your conversation, so its input has to say everything. \
                 Call agora_wait next. Look at agora_subagents_list first to learn which subagents there are and what input each one takes."
            }
            Self::Wait => {
                "Waits up to 50 seconds until one of your threads (or all, with `until: \"all\"`) has ended, and returns what became of \
                 them. If an agent has a question, this call becomes that question: your user is asked, or you get status `needs_input` with the \
                 question, which you show to your user and answer with agora_answer. With status `running` call it again."
            }
            Self::Answer => {
                "Passes on your user's answer to a question, and the agent goes on where it stopped. Only with words that your user \
                 said: you do not answer for them. It is recorded as relayed by you. Some questions only a person may answer; then the \
                 refusal has a line (`forYourUser`) that your user can run."
            }
            Self::Describe => {
                "Shows what became of a dispatch, or where it stands: state, the agent's final words, the change and its git ref, \
                 cost, failure, and the exact content hashes of what ran."
            }
            Self::Cancel => {
                "Cancels a thread: what runs is ended, a question that is open is closed, and nothing of it is left running. What was \
                 done until then is kept."
            }
            Self::Questions => {
                "Lists the questions that are open and wait for a person, those that wait longest first, each with how it is answered."
            }
            Self::Capabilities => {
                "Lists the capabilities that are registered: files that can be laid over an agent's workspace. Their names go into \
                 `addCapabilities` of agora_dispatch."
            }
            Self::Subagents => {
                "Lists the subagents that can be dispatched, each with its description and the JSON schema of its input."
            }
            Self::Envs => {
                "Lists the env bundles that are registered: what an agent finds in its environment. Their names go into `env` of \
                 agora_dispatch; their values are never shown."
            }
        }
    }

    fn annotations(self) -> ToolAnnotations {
        let hints = |read_only: bool, destructive: bool, idempotent: bool, open_world: bool| {
            ToolAnnotations::with_title(self.title())
                .read_only(read_only)
                .destructive(destructive)
                .idempotent(idempotent)
                .open_world(open_world)
        };
        match self {
            // To wait may record what a person decides in a form.
            Self::Dispatch | Self::Wait => hints(false, false, false, true),
            Self::Describe | Self::Questions | Self::Capabilities | Self::Subagents | Self::Envs => {
                hints(true, false, true, false)
            }
            Self::Answer => hints(false, false, false, true),
            Self::Cancel => hints(false, true, true, false),
        }
    }

    fn input(self) -> JsonObject {
        match self {
            Self::Dispatch => input_schema::<DispatchArguments>(),
            Self::Wait => input_schema::<WaitArguments>(),
            Self::Answer => input_schema::<AnswerArguments>(),
            Self::Describe | Self::Cancel => input_schema::<IdArguments>(),
            Self::Questions => input_schema::<QuestionsArguments>(),
            Self::Capabilities | Self::Subagents | Self::Envs => input_schema::<ListArguments>(),
        }
    }

    fn output(self) -> JsonObject {
        match self {
            Self::Dispatch => output_schema::<DispatchedReply>(),
            Self::Wait => output_schema::<WaitedReply>(),
            Self::Answer => output_schema::<AnsweredReply>(),
            Self::Describe => output_schema::<DescribedReply>(),
            Self::Cancel => output_schema::<CancelledReply>(),
            Self::Questions => output_schema::<QuestionsReply>(),
            Self::Capabilities | Self::Envs => output_schema::<CatalogueReply>(),
            Self::Subagents => output_schema::<SubagentsReply>(),
        }
    }

    pub(crate) fn tool(self) -> Tool {
        Tool::new_with_raw(self.as_str(), Some(self.description().into()), Arc::new(self.input()))
            .with_title(self.title())
            .with_raw_output_schema(Arc::new(self.output()))
            .with_annotations(self.annotations())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_exactly_these_tools() {
        let names: Vec<String> = Name::ALL.into_iter().map(|name| name.tool().name.into_owned()).collect();
        assert_eq!(
            names,
            [
                "agora_dispatch",
                "agora_wait",
                "agora_answer",
                "agora_dispatch_describe",
                "agora_dispatch_cancel",
                "agora_questions_list",
                "agora_capabilities_list",
                "agora_subagents_list",
                "agora_envs_list",
            ]
        );
    }

    #[test]
    fn each_tool_says_what_it_takes_gives_and_does() {
        for name in Name::ALL {
            let tool = name.tool();
            assert!(tool.description.as_ref().is_some_and(|text| text.len() > 40), "{name:?}");
            assert_eq!(tool.input_schema["type"], "object", "{name:?}");
            assert_eq!(tool.input_schema["additionalProperties"], false, "{name:?}");
            assert_eq!(tool.output_schema.as_ref().unwrap()["type"], "object", "{name:?}");
            let hints = tool.annotations.unwrap();
            let looks = [Name::Describe, Name::Questions, Name::Capabilities, Name::Subagents, Name::Envs];
            assert_eq!(hints.read_only_hint, Some(looks.contains(&name)), "{name:?}");
            assert_eq!(hints.destructive_hint, Some(name == Name::Cancel), "{name:?}");
            let repeats = looks.contains(&name) || name == Name::Cancel;
            assert_eq!(hints.idempotent_hint, Some(repeats), "{name:?}");
        }
    }
}
