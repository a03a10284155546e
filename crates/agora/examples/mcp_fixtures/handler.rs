//! The suite's tools: each call is a thread that asks, and what it asks is brought to the suite by the server's own means.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use agora_core::answer::Given;
use agora_engine::{Dispatch, Thread};
use rmcp::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, CancelTaskParams, ClientCapabilities,
    ContentBlock, CreateTaskResult, DetailedTask, ErrorData, GetPromptRequestParams, GetPromptResponse,
    GetPromptResult, GetTaskParams, GetTaskResult, InputRequest, InputRequests, InputRequiredResult,
    InputResponses, ListPromptsResult, ListToolsResult, PaginatedRequestParams, Prompt, PromptMessage, Role,
    ServerConfig, SubscriptionFilter, TaskPayload, Tool, UpdateTaskParams,
};
use rmcp::service::{RequestContext, RoleServer, SubscriptionContext};
use serde_json::{Map, Value, json};

use crate::mcp::asking::OpenNow;
use crate::mcp::client::{Client, Connection};
use crate::mcp::desk::{Desk, Opened};
use crate::mcp::form::Filled;
use crate::mcp::resources::internal;
use crate::mcp::{Server, Trouble};

/// What of a question was answered so far, for who answers item by item. An answer is one submission: it waits for the rest.
pub(crate) type Partial = Arc<Mutex<HashMap<String, Map<String, Value>>>>;

pub(crate) struct Fixtures {
    desk: Arc<Desk>,
    inner: Server,
    partial: Partial,
}

/// How a call ends.
enum End {
    Text(String),
    Ask(InputRequiredResult),
    Task(CreateTaskResult),
}

/// Tools that ask before they answer, each with its subagent.
const ASKING: [(&str, &str); 9] = [
    ("test_input_required_result_elicitation", "name"),
    ("test_input_required_result_sampling", "sampling"),
    ("test_input_required_result_list_roots", "roots"),
    ("test_input_required_result_request_state", "confirm"),
    ("test_input_required_result_tampered_state", "confirm"),
    ("test_input_required_result_multiple_inputs", "many"),
    ("test_input_required_result_multi_round", "rounds"),
    ("test_input_required_result_capabilities", "sampling"),
    ("test_streaming_elicitation", "name"),
];

/// Tools that are tasks, each with its subagent.
const TASKS: [(&str, &str); 5] = [
    ("slow_compute", "slow"),
    ("failing_job", "failing"),
    ("protocol_error_job", "broken"),
    ("confirm_delete", "confirm"),
    ("multi_input", "two"),
];

const PLAIN: [&str; 4] = ["greet", "test_tool_with_task", "test_missing_capability", "test_logging_tool"];
const PROMPT: &str = "test_input_required_result_prompt";

impl Fixtures {
    pub(crate) fn new(desk: Arc<Desk>, partial: Partial) -> Self {
        Self { inner: Server::shared(Arc::clone(&desk)), desk, partial }
    }

    fn client(&self, context: &RequestContext<RoleServer>) -> Client {
        Client::of(context, &Connection::Shared)
    }

    async fn start(
        &self,
        opened: &Opened,
        client: &Client,
        subagent: &str,
        input: Value,
    ) -> Result<Thread, ErrorData> {
        let request = Dispatch::to(subagent).unwatched().label(client.owner.as_str()).input(input);
        let explained = |error| internal(self.desk.explain(error));
        let thread = opened.agora.accept(request).await.map_err(explained)?;
        self.desk.around.carry(std::slice::from_ref(thread.id())).map_err(internal)?;
        Ok(thread)
    }

    /// Goes on with a thread by what was brought, until it ends or asks something that was not.
    async fn flow(
        &self,
        subagent: &str,
        client: &Client,
        responses: Option<&InputResponses>,
        state: Option<&str>,
        escalates: bool,
    ) -> Result<End, ErrorData> {
        let opened = self.desk.opened().await.map_err(internal)?;
        let mut thread = match state {
            Some(state) => {
                let taken =
                    opened.states().map_err(internal)?.take(state, client.owner.as_str(), opened.now());
                let asked = taken.map_err(|bad| ErrorData::invalid_params(bad.words(), None))?;
                self.desk.thread(opened, client, asked.question.as_str()).await.map_err(internal)?
            }
            None => self.start(opened, client, subagent, json!({})).await?,
        };
        let mut brought = responses.cloned().unwrap_or_default();
        loop {
            let result = thread.wait().await.map_err(|error| internal(self.desk.explain(error)))?;
            if result.needs_input.is_none() {
                return Ok(End::Text(result.output.text));
            }
            let Some(open) = self.desk.open_now(client, &thread).await.map_err(internal)? else { continue };
            let items = open.question.items();
            let given: Option<Map<String, Value>> = items
                .iter()
                .map(|item| Some((item.id().to_string(), words(brought.get(item.id().as_str())?)?)))
                .collect();
            let Some(given) = given else {
                return self.ask(opened, client, &open).map(End::Ask).map_err(internal);
            };
            let filled = Filled::Answer(Given::ByItem(given));
            self.desk.decided(opened, client, &open.id, filled).await.map_err(internal)?;
            brought.clear();
            thread = thread.latest().await.map_err(|error| internal(self.desk.explain(error)))?;
            if escalates {
                let task = self.desk.task(client, &thread).await.map_err(internal)?;
                return Ok(End::Task(CreateTaskResult::new(task.task)));
            }
        }
    }

    fn ask(&self, opened: &Opened, client: &Client, open: &OpenNow) -> Result<InputRequiredResult, Trouble> {
        let items = open.question.items().iter();
        let requests: InputRequests =
            items.map(|item| (item.id().to_string(), request(item.id().as_str(), item.question()))).collect();
        let nonce = opened.random::<16>();
        let state = opened.states()?.seal(&open.id, open.hash, client.owner.as_str(), nonce, opened.now());
        Ok(InputRequiredResult::new(Some(requests), Some(state)))
    }

    /// Shows a question of several items as a request for each that is not answered yet.
    async fn split(
        &self,
        client: &Client,
        thread: &Thread,
        task: DetailedTask,
    ) -> Result<DetailedTask, ErrorData> {
        let Some(open) = self.desk.open_now(client, thread).await.map_err(internal)? else { return Ok(task) };
        let done = self.partial.lock().unwrap().get(open.id.as_str()).cloned().unwrap_or_default();
        let left = open.question.items().iter().filter(|item| !done.contains_key(item.id().as_str()));
        let input_requests: InputRequests = left
            .map(|item| (key(&open, item.id().as_str()), request(item.id().as_str(), item.question())))
            .collect();
        Ok(DetailedTask::new(task.task, TaskPayload::InputRequired { input_requests }))
    }
}

fn key(open: &OpenNow, item: &str) -> String {
    format!("{}.{item}", open.id)
}

/// Makes what the suite wants to see of an item: by its id it is for a person, for the client's model, or for the client itself.
fn request(id: &str, question: &str) -> InputRequest {
    let request = match id {
        "capital_question" => json!({"method": "sampling/createMessage", "params": {
            "messages": [{"role": "user", "content": {"type": "text", "text": question}}], "maxTokens": 100}}),
        "client_roots" => json!({"method": "roots/list"}),
        _ => json!({"method": "elicitation/create", "params": {"mode": "form", "message": question,
            "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}}}),
    };
    serde_json::from_value(request).unwrap()
}

/// Returns the words of whatever a client brought.
fn words(brought: &Value) -> Option<Value> {
    let text = |value: &Value| json!(value.as_str().map_or_else(|| value.to_string(), str::to_owned));
    if let Some(roots) = brought.get("roots") {
        return Some(text(roots));
    }
    if brought.get("role").is_some() {
        return brought["content"].get("text").map(text);
    }
    (brought.get("action")? == "accept").then_some(())?;
    brought.get("content")?.as_object()?.values().next().map(text)
}

impl From<End> for CallToolResponse {
    fn from(end: End) -> Self {
        match end {
            End::Text(text) => said(text),
            End::Ask(required) => required.into(),
            End::Task(task) => task.into(),
        }
    }
}

fn said(text: impl Into<String>) -> CallToolResponse {
    CallToolResult::success(vec![ContentBlock::text(text)]).into()
}

impl ServerHandler for Fixtures {
    fn get_info(&self) -> ServerConfig {
        self.inner.get_info()
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let mut listed = self.inner.list_tools(request, context).await?;
        let own = ASKING.iter().chain(&TASKS).map(|(name, _)| *name).chain(PLAIN);
        let schema = Arc::new(Map::from_iter([("type".to_owned(), json!("object"))]));
        listed
            .tools
            .extend(own.map(|name| Tool::new_with_raw(name, Some("A fixture.".into()), Arc::clone(&schema))));
        Ok(listed)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let client = self.client(&context);
        let name = request.name.to_string();
        let arguments = request.arguments.clone().unwrap_or_default();
        let brought = (request.input_responses.as_ref(), request.request_state.as_deref());
        let of = |list: &[(&str, &'static str)]| {
            list.iter().find(|(tool, _)| *tool == name).map(|(_, subagent)| *subagent)
        };
        if let Some(subagent) = of(&TASKS) {
            if !client.takes_tasks && name != "failing_job" {
                return self
                    .flow(subagent, &client, brought.0, brought.1, false)
                    .await
                    .map(CallToolResponse::from);
            }
            if !client.takes_tasks {
                let tasks = ClientCapabilities::builder().enable_tasks().build();
                return Err(ErrorData::missing_required_client_capability(tasks));
            }
            let opened = self.desk.opened().await.map_err(internal)?;
            let input = json!({"seconds": arguments.get("seconds").cloned().unwrap_or(json!(0))});
            let thread = self.start(opened, &client, subagent, input).await?;
            let task = self.desk.task(&client, &thread).await.map_err(internal)?;
            return Ok(CreateTaskResult::new(task.task).into());
        }
        let escalates = name == "test_tool_with_task";
        if let Some(subagent) = of(&ASKING).or(escalates.then_some("name")) {
            return self
                .flow(subagent, &client, brought.0, brought.1, escalates)
                .await
                .map(CallToolResponse::from);
        }
        match name.as_str() {
            "greet" => Ok(said(format!(
                "Hello, {}!",
                arguments.get("name").and_then(Value::as_str).unwrap_or_default()
            ))),
            "test_logging_tool" => Ok(said("nothing is logged to clients")),
            "test_missing_capability"
                if context.client_capabilities().is_none_or(|able| able.sampling.is_none()) =>
            {
                let sampling = serde_json::from_value(json!({"sampling": {}})).unwrap();
                Err(ErrorData::missing_required_client_capability(sampling))
            }
            "test_missing_capability" => Ok(said("it is there")),
            _ => self.inner.call_tool(request, context).await,
        }
    }

    async fn list_prompts(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        Ok(ListPromptsResult::with_all_items(vec![Prompt::new(PROMPT, Some("A fixture."), None)]))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let brought = (request.input_responses.as_ref(), request.request_state.as_deref());
        Ok(match self.flow("name", &self.client(&context), brought.0, brought.1, false).await? {
            End::Ask(required) => required.into(),
            End::Text(text) => GetPromptResult::new(vec![PromptMessage::new_text(Role::User, text)]).into(),
            End::Task(_) => return Err(ErrorData::internal_error("a prompt is no task", None)),
        })
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        self.inner.accepted_subscription_filter(requested)
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        self.inner.listen(context).await
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        let client = self.client(&context);
        let (_, thread) = self.desk.task_thread(&client, &request.task_id).await?;
        let task = self.desk.task(&client, &thread).await.map_err(internal)?;
        match task.payload {
            TaskPayload::InputRequired { .. } => {
                self.split(&client, &thread, task).await.map(GetTaskResult::new)
            }
            _ => Ok(GetTaskResult::new(task)),
        }
    }

    async fn update_task(
        &self,
        request: UpdateTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let client = self.client(&context);
        let (_, thread) = self.desk.task_thread(&client, &request.task_id).await?;
        let Some(open) = self.desk.open_now(&client, &thread).await.map_err(internal)? else { return Ok(()) };
        let whole = {
            let mut partial = self.partial.lock().unwrap();
            let done = partial.entry(open.id.to_string()).or_default();
            for item in open.question.items() {
                let brought = request.input_responses.get(&key(&open, item.id().as_str()));
                done.extend(brought.and_then(words).map(|words| (item.id().to_string(), words)));
            }
            open.question
                .items()
                .iter()
                .all(|item| done.contains_key(item.id().as_str()))
                .then(|| done.clone())
        };
        let Some(content) = whole else { return Ok(()) };
        let brought = json!({"action": "accept", "content": content});
        self.desk
            .update_task(&client, &request.task_id, &BTreeMap::from([(open.id.to_string(), brought)]))
            .await
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.inner.cancel_task(request, context).await
    }
}
