//! `POST /reload` and `POST /upgrade`: what SIGHUP and SIGUSR2 do, for clients with the token. The
//! answer is the outcome, so it comes when that is known.

use crate::admin_body::AdminBody;
use crate::admin_reply::{JSON, TEXT, page, unauthorized, unready};
use crate::token::AdminToken;
use ::http::{HeaderMap, Response, StatusCode};
use serde_json::Value;
use tokio::sync::oneshot;

/// What a client may order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeCommand {
    /// Read the configuration again.
    Reload,
    /// Start the program again, which takes over the listeners.
    Upgrade,
}

/// The outcome of a command: what the answer says, or the reason of a failure, in lines.
pub type CommandOutcome = Result<Value, String>;

/// The place for the outcome of one command. A client without one learns that the node stops.
pub struct CommandReply(oneshot::Sender<CommandOutcome>);

/// The commands of a node, for clients with the token.
pub struct NodeCommands {
    /// Without a token, there are no commands.
    token: AdminToken,
    order: Box<dyn Fn(NodeCommand, CommandReply) + Send + Sync>,
}

impl CommandReply {
    /// Sends the outcome. The client may have gone.
    pub fn send(self, outcome: CommandOutcome) {
        let _ = self.0.send(outcome);
    }
}

impl NodeCommand {
    /// Returns the command of a path.
    pub(crate) fn of(path: &str) -> Option<NodeCommand> {
        match path {
            "/reload" => Some(NodeCommand::Reload),
            "/upgrade" => Some(NodeCommand::Upgrade),
            _ => None,
        }
    }
}

impl NodeCommands {
    /// Passes the commands of clients with the token to `order`, which returns at once.
    pub fn new(
        token: Option<&str>,
        order: impl Fn(NodeCommand, CommandReply) + Send + Sync + 'static,
    ) -> NodeCommands {
        NodeCommands {
            token: AdminToken::new(token),
            order: Box::new(order),
        }
    }

    /// Sets another token, or none.
    pub fn set_token(&self, token: Option<&str>) {
        let _ = self.token.set(token);
    }

    /// Executes a command for a client with the token, and answers with its outcome.
    pub(crate) async fn respond(
        &self,
        headers: &HeaderMap,
        command: NodeCommand,
    ) -> Response<AdminBody> {
        if !self.token.is_set() {
            return disabled();
        }
        if !self.token.is_in(headers) {
            return unauthorized("larder: send Authorization: Bearer and the [admin] token\n");
        }
        let (reply, outcome) = oneshot::channel();
        (self.order)(command, CommandReply(reply));
        match outcome.await {
            Ok(Ok(value)) => page(StatusCode::OK, JSON, format!("{value}\n")),
            Ok(Err(reason)) => page(StatusCode::CONFLICT, TEXT, format!("larder: {reason}\n")),
            Err(_) => unready("larder: the node stops\n"),
        }
    }
}

/// Returns the answer of a node that takes no commands.
pub(crate) fn disabled() -> Response<AdminBody> {
    let line = "larder: nobody may send commands: set [admin] token, or send the signals SIGHUP and SIGUSR2\n";
    page(StatusCode::FORBIDDEN, TEXT, line.to_owned())
}
