//! A client's first words on standard input. Who says something out of order is not sent away for it: a notification, or an answer to what
//! nobody asked, has no answer anyhow, and is left aside until there is a request.

use rmcp::RoleServer;
use rmcp::model::JsonRpcMessage;
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;

/// A transport that begins with a request.
#[derive(Debug)]
pub(crate) struct Entrance<T> {
    inner: T,
    is_entered: bool,
}

impl<T> Entrance<T> {
    pub(crate) fn new(inner: T) -> Self {
        Self { inner, is_entered: false }
    }
}

impl<T: Transport<RoleServer>> Transport<RoleServer> for Entrance<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.inner.send(item)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        loop {
            let message = self.inner.receive().await?;
            self.is_entered |= matches!(message, JsonRpcMessage::Request(_));
            if self.is_entered {
                return Some(message);
            }
        }
    }

    fn close(&mut self) -> impl Future<Output = Result<(), Self::Error>> + Send {
        self.inner.close()
    }
}
