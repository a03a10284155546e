//! A token that an env bundle holds, handed on one deeper. As it is, whatever an agent dispatches would have that agent's own depth, and
//! nothing would ever be too deep.

use agora_core::DispatchId;
use agora_core::bundle::VariableName;
use agora_core::secret::{SecretValue, ShortSecrets};
use agora_core::wire::bootstrap::Supplied;
use agora_engine::Dispatch;

use super::Trouble;
use super::client::Client;
use super::desk::{Desk, Opened};
use super::token::{Claims, Tokens};

/// What the dispatches of one call get instead of the tokens of their env bundles.
#[derive(Debug)]
pub(crate) struct HandedOn {
    tokens: Tokens,
    /// What the agent that dispatches came with.
    claims: Claims,
    /// Where its env bundles have tokens.
    variables: Vec<VariableName>,
}

impl Desk {
    /// Looks for tokens in the env bundles of what an agent dispatches. `None`: there is nothing to be handed on.
    pub(crate) async fn handed_on(
        &self,
        opened: &Opened,
        client: &Client,
        request: &Dispatch,
    ) -> Result<Option<HandedOn>, Trouble> {
        let Some(claims) = client.claims().filter(|_| client.is_agent()).cloned() else { return Ok(None) };
        let world = opened.engine.world();
        let tokens = Tokens::new(world.keys.token_key());
        let tokens = tokens.map_err(|error| Trouble::new("bug", error.to_string()))?;
        let secrets = opened.agora.env_secrets(request).await.map_err(|error| self.explain(error))?;
        let mut variables = Vec::new();
        for (variable, reference) in secrets {
            // What cannot be had now cannot be had when the agent starts, which then says so.
            if let Supplied::Value(value) = world.vault.supply(&reference).await
                && tokens.check(value.expose(), opened.now()).is_some()
            {
                variables.push(variable);
            }
        }
        Ok(Some(HandedOn { tokens, claims, variables }))
    }
}

impl HandedOn {
    /// Gives one dispatch tokens of its own: bound to it, one deeper, and good no longer than its parent's.
    pub(crate) fn give(&self, opened: &Opened, request: Dispatch) -> Result<Dispatch, Trouble> {
        let dispatch = DispatchId::from_entropy(opened.random());
        let token = self.tokens.seal(&self.claims.one_deeper(dispatch.clone()));
        let value = SecretValue::new(token, ShortSecrets::Refuse)
            .map_err(|error| Trouble::new("bug", error.to_string()))?;
        let request = request.dispatch_id(dispatch.as_str());
        let give =
            |request: Dispatch, variable: &VariableName| request.secret(variable.clone(), value.clone());
        Ok(self.variables.iter().fold(request, give))
    }
}
