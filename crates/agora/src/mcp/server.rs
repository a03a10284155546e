//! The protocol's requests, and what follows from each. As thin as it can be: the desk does the work.

use std::sync::Arc;

use agora_engine::BundleKind;
use rmcp::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CancelTaskParams, CustomRequest, CustomResult, ErrorCode,
    ErrorData, GetTaskParams, GetTaskResult, Implementation, ListResourceTemplatesResult,
    ListResourcesResult, ListToolsResult, PaginatedRequestParams, ReadResourceRequestParams,
    ReadResourceResponse, ResourceUpdatedNotificationParam, ServerCapabilities, ServerConfig,
    SubscribeRequestParams, SubscriptionFilter, Tool, UnsubscribeRequestParams, UpdateTaskParams,
};
use rmcp::service::{RequestContext, RoleServer, SubscriptionContext};
use serde::Serialize;

use super::Trouble;
use super::arguments::read;
use super::bounds::{done, named, refused};
use super::client::{Client, Connection};
use super::desk::Desk;
use super::listening::{self, Full, Listening};
use super::listing::no_such_cursor;
use super::resources::{Address, internal, templates};
use super::tools::{INSTRUCTIONS, Name};
use super::waiting::{Call, CallError, Waited};

/// What this server answers, where the `params` are what the protocol says. rmcp reads what they do not fit as a method of somebody's own.
const METHODS: [&str; 12] = [
    "completion/complete",
    "prompts/get",
    "prompts/list",
    "resources/list",
    "resources/read",
    "resources/templates/list",
    "server/discover",
    "tasks/cancel",
    "tasks/get",
    "tasks/update",
    "tools/call",
    "tools/list",
];
/// What there is besides where a session begins with `initialize`, and where none does.
const IN_SESSIONS: [&str; 4] = ["initialize", "ping", "resources/subscribe", "resources/unsubscribe"];
const WITHOUT: [&str; 1] = ["subscriptions/listen"];

/// A server for the clients of one connection.
#[derive(Debug)]
pub(crate) struct Server {
    desk: Arc<Desk>,
    connection: Connection,
    listening: Listening,
}

impl Server {
    /// Serves one client, alone: the word tells it from every other.
    pub(crate) fn alone(desk: Arc<Desk>, word: &str) -> Self {
        Self::new(desk, Connection::Alone(word.to_owned()))
    }

    /// Serves whoever has a token.
    pub(crate) fn shared(desk: Arc<Desk>) -> Self {
        Self::new(desk, Connection::Shared)
    }

    fn new(desk: Arc<Desk>, connection: Connection) -> Self {
        Self { desk, connection, listening: Listening::default() }
    }

    fn client(&self, context: &RequestContext<RoleServer>) -> Client {
        Client::of(context, &self.connection)
    }

    async fn call(
        &self,
        name: Name,
        request: CallToolRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, CallError> {
        let (desk, client) = (&self.desk, self.client(context));
        let given = request.arguments;
        match name {
            Name::Dispatch => reply(desk.dispatch(&client, read(given)?).await),
            Name::Answer => reply(desk.answer(&client, read(given)?).await),
            Name::Describe => reply(desk.describe(&client, read(given)?).await),
            Name::Cancel => reply(desk.cancel(&client, read(given)?).await),
            Name::Questions => reply(desk.questions(&client, read(given)?).await),
            Name::Capabilities => reply(desk.catalogue(BundleKind::Capability, read(given)?).await),
            Name::Envs => reply(desk.catalogue(BundleKind::Env, read(given)?).await),
            Name::Subagents => reply(desk.subagents(read(given)?).await),
            Name::Wait => {
                let (responses, state) = (request.input_responses.as_ref(), request.request_state.as_deref());
                let call = Call { context, responses, state };
                Ok(match desk.wait(&client, call, read(given)?).await? {
                    Waited::Reply(reply) => done(&*reply).into(),
                    Waited::Ask(required) => (*required).into(),
                    Waited::Task(task) => (*task).into(),
                })
            }
        }
    }
}

fn reply(done_or_not: Result<impl Serialize, Trouble>) -> Result<CallToolResponse, CallError> {
    Ok(done(&done_or_not?).into())
}

/// Refuses every cursor, where the first page has everything.
fn one_page(request: Option<PaginatedRequestParams>) -> Result<(), ErrorData> {
    request.and_then(|request| request.cursor).map_or(Ok(()), |cursor| Err(no_such_cursor(&cursor)))
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            // There are none. Who asks gets an empty list, and clients ask without being told to.
            .enable_prompts()
            .enable_resources()
            .enable_resources_subscribe()
            .enable_tasks()
            .build();
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new("agora", env!("CARGO_PKG_VERSION")))
            .with_instructions(INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        one_page(request)?;
        Ok(ListToolsResult::with_all_items(Name::ALL.into_iter().map(Name::tool).collect()))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        Name::parse(name).map(Name::tool)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(name) = Name::parse(&request.name) else {
            return Err(ErrorData::invalid_params(
                format!("there is no tool `{}`", named(&request.name)),
                None,
            ));
        };
        match self.call(name, request, &context).await {
            Ok(response) => Ok(response),
            Err(CallError::Trouble(trouble)) => Ok(refused(&trouble).into()),
            Err(CallError::Protocol(error)) => Err(error),
        }
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let cursor = request.as_ref().and_then(|request| request.cursor.as_deref());
        self.desk.resources(&self.client(&context), cursor).await
    }

    async fn list_resource_templates(
        &self,
        request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        one_page(request)?;
        Ok(ListResourceTemplatesResult::with_all_items(templates()))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        self.desk.read(&self.client(&context), &request.uri).await.map(ReadResourceResponse::from)
    }

    /// In the older protocol versions a client listens resource by resource.
    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let full = |Full| {
            let words = format!(
                "you listen to {} resources, and more are not told: unsubscribe from some",
                listening::MOST
            );
            ErrorData::invalid_request(words, None)
        };
        self.listening.room_for(&request.uri).map_err(full)?;
        let mut changes = self.desk.changes(&self.client(&context), &request.uri).await?;
        let (peer, uri) = (context.peer.clone(), request.uri.clone());
        let told = tokio::spawn(async move {
            while changes.next().await {
                let update = ResourceUpdatedNotificationParam::new(uri.clone());
                if peer.is_transport_closed() || peer.notify_resource_updated(update).await.is_err() {
                    return;
                }
            }
        });
        self.listening.add(&request.uri, told.abort_handle()).map_err(full)
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.listening.remove(&request.uri);
        Ok(())
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        let uris = requested.resource_subscriptions.iter().flatten();
        let ours: Vec<String> =
            uris.filter(|uri| Address::parse(uri).is_some()).take(listening::MOST).cloned().collect();
        let mut accepted = SubscriptionFilter::new();
        accepted.resource_subscriptions = Some(ours).filter(|ours| !ours.is_empty());
        Some(accepted)
    }

    /// In the newest protocol version a client listens to all it wants with one request.
    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let uris = context.accepted().resource_subscriptions.clone().unwrap_or_default();
        let client = self.client(context.request_context());
        let mut told = tokio::task::JoinSet::new();
        for uri in uris {
            let mut changes = match self.desk.changes(&client, &uri).await {
                Ok(changes) => changes,
                // What is not there does not change, and is no reason to hear nothing of the others.
                Err(error) if error.code == ErrorCode::RESOURCE_NOT_FOUND => continue,
                Err(error) => return Err(error),
            };
            let sink = context.sink().clone();
            told.spawn(async move {
                while changes.next().await {
                    if sink.notify_resource_updated(uri.clone()).await.is_err() {
                        return;
                    }
                }
            });
        }
        context.cancelled().await;
        Ok(())
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let method = named(&request.method);
        let has_sessions = context.protocol_version().is_none_or(|version| version.has_initialize());
        let more: &[&str] = if has_sessions { &IN_SESSIONS } else { &WITHOUT };
        Err(if METHODS.iter().chain(more).any(|known| *known == method) {
            ErrorData::invalid_params(
                format!("the `params` of `{method}` are not what the protocol says"),
                None,
            )
        } else {
            ErrorData::new(ErrorCode::METHOD_NOT_FOUND, format!("there is no method `{method}`"), None)
        })
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        let client = self.client(&context);
        let (_, thread) = self.desk.task_thread(&client, &request.task_id).await?;
        let task = self.desk.task(&client, &thread).await.map_err(internal)?;
        Ok(GetTaskResult::new(task))
    }

    async fn update_task(
        &self,
        request: UpdateTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.desk.update_task(&self.client(&context), &request.task_id, &request.input_responses).await
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.desk.cancel_task(&self.client(&context), &request.task_id).await
    }
}
