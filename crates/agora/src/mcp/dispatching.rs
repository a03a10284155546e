//! `agora_dispatch`: what is asked for is checked as a whole, then recorded, and a process of its own carries it.

use agora_core::bundle::Subagent;
use agora_core::wall::Isolation;
use agora_engine::{AcceptError, Allowance, Dispatch, Error, LoginSource, Thread, UsedLogin};
use serde_json::{Map, Value};

use super::Trouble;
use super::arguments::{DispatchArguments, INPUTS};
use super::client::{Client, is_own_label};
use super::desk::{Desk, Opened};
use super::limits;
use super::reply::{DispatchedReply, Started};

impl Desk {
    pub(crate) async fn dispatch(
        &self,
        client: &Client,
        arguments: DispatchArguments,
    ) -> Result<DispatchedReply, Trouble> {
        let opened = self.opened().await?;
        let inputs = inputs(&arguments)?;
        let _turn = self.turns.take(&client.counted_as).await;
        limits::check_depth(opened, client)?;
        if arguments.idempotency_key.is_none() {
            // Before anything is made ready. A call that was made before starts nothing, and is not refused for want of room.
            let allowance = limits::allowance(opened, client, inputs.len());
            let allowed = opened.agora.allows(&allowance).await;
            allowed.map_err(|error| self.not_accepted(error, &allowance))?;
        }
        let request = self.request(opened, client, &arguments).await?;
        let handed_on = self.handed_on(opened, client, &request).await?;
        let key = arguments.idempotency_key.as_deref().map(|key| own_key(client, key));
        let (count, mut requests) = (inputs.len(), Vec::new());
        for (place, input) in (1..).zip(inputs) {
            let request = request.clone().input(Value::Object(input));
            let request = match &key {
                // One name for the call, and one for each that it starts.
                Some(key) => request.idempotency_key(format!("{key}#{place}")).one_of(count),
                None => request,
            };
            requests.push(match &handed_on {
                Some(handed_on) => handed_on.give(opened, request)?,
                None => request,
            });
        }
        // All or none: a batch of which half runs is nobody's wish.
        for request in &requests {
            opened.agora.check(request).await.map_err(|error| self.explain(error))?;
        }
        let mut threads = Vec::new();
        match self.begin(opened, client, requests, &mut threads).await {
            Ok(()) => self.dispatched(opened, &threads).await,
            Err(trouble) => Err(self.taken_back(&threads, trouble).await),
        }
    }

    /// Records the dispatches and has them carried. What was recorded is in `threads`, also when it fails.
    async fn begin(
        &self,
        opened: &Opened,
        client: &Client,
        requests: Vec<Dispatch>,
        threads: &mut Vec<Thread>,
    ) -> Result<(), Trouble> {
        let count = requests.len();
        for (place, request) in requests.into_iter().enumerate() {
            // The first wants room for all of them: when there is not enough, none is recorded.
            let allowance = limits::allowance(opened, client, count - place);
            let accepted = opened.agora.accept(request.allowance(allowance.clone())).await;
            threads.push(accepted.map_err(|error| self.not_accepted(error, &allowance))?);
        }
        let new: Vec<_> = new(threads).map(|thread| thread.id().clone()).collect();
        if new.is_empty() { Ok(()) } else { self.around.carry(&new) }
    }

    fn not_accepted(&self, error: Error, allowance: &Allowance) -> Trouble {
        match error {
            Error::Accept(AcceptError::NotAllowed(beyond)) => limits::too_many(beyond, allowance),
            error => self.explain(error),
        }
    }

    /// Cancels what was begun before something failed, and says what could not be.
    async fn taken_back(&self, threads: &[Thread], mut trouble: Trouble) -> Trouble {
        for thread in new(threads) {
            if let Err(error) = thread.cancel().await {
                let why = self.explain(error).message;
                trouble =
                    trouble.hint(format!("`{}` was begun and could not be cancelled: {why}", thread.id()));
            }
        }
        trouble
    }

    async fn dispatched(&self, opened: &Opened, threads: &[Thread]) -> Result<DispatchedReply, Trouble> {
        let (mut dispatches, mut warnings) = (Vec::new(), Vec::new());
        for thread in threads {
            let result = thread.describe().await.map_err(|error| self.explain(error))?;
            dispatches.push(Started {
                thread_id: thread.id().to_string(),
                dispatch_id: thread.dispatch_id().to_string(),
                state: result.state.to_owned(),
            });
            let target = opened.agora.target(&result.target);
            let open = target.is_some_and(|target| target.wall.isolation == Isolation::None);
            warnings
                .extend(open.then(|| "there is no wall: the agent may do whatever your user may".to_owned()));
            if let Some(UsedLogin { source: LoginSource::Around, login }) = thread.login() {
                warnings.push(format!(
                    "it logs in with `{}` of this environment",
                    login.variables.join("` and `")
                ));
            }
        }
        warnings.dedup();
        let next =
            "Keep the thread ids. Call agora_wait until everything has ended, or an agent asks your user something.".to_owned();
        Ok(DispatchedReply { dispatches, next, warnings })
    }

    /// Makes the request that all inputs share.
    async fn request(
        &self,
        opened: &Opened,
        client: &Client,
        arguments: &DispatchArguments,
    ) -> Result<Dispatch, Trouble> {
        let DispatchArguments { subagent, workspace, base, env, labels, .. } = arguments;
        if let Some(label) = labels.iter().find(|label| is_own_label(label)) {
            return Err(Trouble::new(
                "bad-arguments",
                format!("the label `{label}` is one that agora gives"),
            ));
        }
        let mut request = Dispatch::to(subagent.as_str()).unwatched().owner(self.around.person());
        request = client.labels().into_iter().fold(request, Dispatch::mark);
        request = env.iter().fold(request, |request, env| request.env(env.as_str()));
        request = labels.iter().fold(request, |request, label| request.label(label.as_str()));
        request = match (&arguments.capabilities, &arguments.add_capabilities) {
            (Some(_), Some(_)) => {
                return Err(Trouble::new(
                    "bad-arguments",
                    "give `capabilities` or `addCapabilities`, not both",
                ));
            }
            (Some(instead), None) => request.capabilities(instead.iter().map(String::as_str)),
            (None, Some(more)) => request.add_capabilities(more.iter().map(String::as_str)),
            (None, None) => request,
        };
        match (workspace, base) {
            (Some(path), base) => {
                request = request.workspace(opened.workspaces.find(path)?);
                request = base.iter().fold(request, |request, base| request.base(base.as_str()));
            }
            (None, Some(_)) => return Err(Trouble::new("bad-arguments", "`base` wants a `workspace`")),
            (None, None) => {}
        }
        request = arguments.target.iter().fold(request, |request, target| request.target(target.as_str()));
        request = arguments.model.iter().fold(request, |request, size| request.model(size.as_str()));
        request =
            arguments.timeout_seconds.iter().fold(request, |request, time| request.timeout_seconds(*time));
        let own = self.subagent(opened, subagent).await?.budget;
        let asked = arguments.budget.clone().map(TryInto::try_into).transpose()?;
        let budget = limits::budget(asked, own, opened.settings.max_usd);
        Ok(budget.into_iter().fold(request, Dispatch::budget))
    }

    async fn subagent(&self, opened: &Opened, name: &str) -> Result<Subagent, Trouble> {
        let reference = name.parse().map_err(|error: agora_core::reference::RefParseError| {
            Trouble::new("bad-arguments", format!("`{name}` is not a subagent's name: {error}"))
        })?;
        let found = opened
            .agora
            .subagent(&reference)
            .await
            .map_err(|error| self.explain(error).hint("agora_subagents_list shows what there is"))?;
        Ok(found.body)
    }
}

/// Returns the inputs, one for each dispatch.
fn inputs(arguments: &DispatchArguments) -> Result<Vec<Map<String, Value>>, Trouble> {
    match (&arguments.input, &arguments.inputs) {
        (Some(_), Some(_)) => Err(Trouble::new("bad-arguments", "give `input` or `inputs`, not both")),
        (one, None) => Ok(vec![one.clone().unwrap_or_default()]),
        (None, Some(many)) if (1..=INPUTS).contains(&many.len()) => Ok(many.clone()),
        (None, Some(many)) => {
            let words = format!("there are {} `inputs`, and one call starts from 1 to {INPUTS}", many.len());
            Err(Trouble::new("bad-arguments", words))
        }
    }
}

fn new(threads: &[Thread]) -> impl Iterator<Item = &Thread> {
    threads.iter().filter(|thread| thread.is_new())
}

/// A person's programs share their keys, so that one that starts anew finds its dispatches again. An agent's are its own: by another's it
/// would find what another dispatched.
fn own_key(client: &Client, key: &str) -> String {
    if client.is_agent() { format!("{}/{key}", client.owner) } else { key.to_owned() }
}
