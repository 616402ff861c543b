//! The server's client, and its connections.

use std::time::Duration;

use ::redis::aio::MultiplexedConnection;
use ::redis::io::tcp::TcpSettings;
use ::redis::{AsyncConnectionConfig, Client, Cmd, IntoConnectionInfo, RedisError, RedisResult, Value};
#[cfg(feature = "redis-cluster")]
use ::redis::{cluster::ClusterClient, cluster_async::ClusterConnection};

use super::server::Server;

/// Commands that wait to be written before others wait for them.
const PIPELINE_COMMANDS: usize = 1024;

/// Makes connections.
#[derive(Clone)]
pub(super) enum Place {
    /// One server.
    Server(Client),
    /// A cluster.
    #[cfg(feature = "redis-cluster")]
    Cluster(Box<ClusterClient>),
}

/// Takes many commands at a time, and writes them one after the other without waiting for answers.
#[derive(Clone)]
pub(super) enum Connection {
    Server(MultiplexedConnection),
    #[cfg(feature = "redis-cluster")]
    Cluster(ClusterConnection),
}

/// The address without names and passwords.
pub(super) fn address(url: &str) -> RedisResult<String> {
    Ok(url.into_connection_info()?.addr().to_string())
}

/// A server's client.
pub(super) fn server(url: &str) -> RedisResult<Client> {
    Client::open(url.into_connection_info()?.set_tcp_settings(tcp_settings()))
}

/// Without delays, a question that follows a page is sent before the server has acknowledged the page.
fn tcp_settings() -> TcpSettings {
    TcpSettings::default().set_nodelay(true)
}

impl Place {
    /// Makes a connection. The caller limits the time that it takes.
    pub async fn connect(&self) -> RedisResult<Connection> {
        match self {
            Self::Server(client) => {
                let config = AsyncConnectionConfig::new()
                    .set_connection_timeout(None)
                    .set_response_timeout(None)
                    .set_pipeline_buffer_size(PIPELINE_COMMANDS);
                let connection = client.get_multiplexed_async_connection_with_config(&config).await?;
                Ok(Connection::Server(connection))
            }
            #[cfg(feature = "redis-cluster")]
            Self::Cluster(client) => Ok(Connection::Cluster(client.get_async_connection().await?)),
        }
    }
}

/// A cluster's client, whose commands take no longer than `patience`.
#[cfg(feature = "redis-cluster")]
pub(super) fn cluster(urls: &[&str], patience: Duration) -> RedisResult<ClusterClient> {
    ClusterClient::builder(urls.iter().copied())
        .connection_timeout(patience)
        .response_timeout(patience)
        .tcp_settings(tcp_settings())
        .retries(1)
        .build()
}

impl Connection {
    /// Runs a command. The answer is an error if the server says so, or if there is none after `patience`.
    pub async fn run(&mut self, command: &Cmd, patience: Duration) -> RedisResult<Value> {
        let answer = async {
            match self {
                Self::Server(connection) => command.query_async(connection).await,
                #[cfg(feature = "redis-cluster")]
                Self::Cluster(connection) => command.query_async(connection).await,
            }
        };
        tokio::time::timeout(patience, answer).await.unwrap_or_else(|_| Err(no_answer(patience)))
    }

    /// What the server says of itself.
    pub async fn ask(&mut self, patience: Duration) -> RedisResult<Option<Server>> {
        Ok(match self.run(&::redis::cmd("INFO"), patience).await? {
            // A cluster answers by node.
            Value::Map(nodes) => Server::of(nodes.iter().filter_map(|(_, text)| text_of(text))),
            text => Server::of(text_of(&text)),
        })
    }
}

fn text_of(value: &Value) -> Option<&str> {
    match value {
        Value::BulkString(bytes) => std::str::from_utf8(bytes).ok(),
        Value::VerbatimString { text, .. } | Value::SimpleString(text) => Some(text),
        _ => None,
    }
}

/// The error of a server that does not answer.
pub(super) fn no_answer(after: Duration) -> RedisError {
    let message = format!("no answer in {} ms", after.as_millis());
    std::io::Error::new(std::io::ErrorKind::TimedOut, message).into()
}
