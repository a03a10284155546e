//! A form that is shown while a call goes on, and can be taken back: whoever fills in what nobody waits for is told so.

use std::time::Duration;

use rmcp::RoleServer;
use rmcp::model::{
    CancelledNotificationParam, ClientResult, ElicitRequest, ElicitRequestParams, ElicitResult, RequestId,
    ServerRequest,
};
use rmcp::service::{Peer, PeerRequestOptions, RequestHandle, ServiceError};

/// How long a person may look at a form before the call is given back to the model. The question stays open.
pub(super) const FORM_TIME: Duration = Duration::from_secs(600);

/// A form before a person.
pub(super) struct Shown {
    peer: Peer<RoleServer>,
    id: RequestId,
    /// Until it is waited for.
    handle: Option<RequestHandle<RoleServer>>,
}

impl Shown {
    pub(super) async fn new(
        peer: &Peer<RoleServer>,
        form: ElicitRequestParams,
    ) -> Result<Self, ServiceError> {
        let request = ServerRequest::ElicitRequest(ElicitRequest::new(form));
        let mut options = PeerRequestOptions::no_options();
        options.timeout = Some(FORM_TIME);
        let handle = peer.send_cancellable_request(request, options).await?;
        Ok(Self { peer: peer.clone(), id: handle.id.clone(), handle: Some(handle) })
    }

    /// Returns what the person did with it. When they do not look, the client is told that nobody waits any more.
    pub(super) async fn result(&mut self) -> Result<ElicitResult, ServiceError> {
        let Some(handle) = self.handle.take() else { return Err(ServiceError::UnexpectedResponse) };
        match handle.await_response().await? {
            ClientResult::ElicitResult(result) => Ok(result),
            _ => Err(ServiceError::UnexpectedResponse),
        }
    }

    /// Takes it back.
    pub(super) async fn take_back(&self, why: &str) {
        let cancelled = CancelledNotificationParam::new(Some(self.id.clone()), Some(why.to_owned()));
        // Who is gone has no form before them.
        let _ = self.peer.notify_cancelled(cancelled).await;
    }
}
