//! Connections: the server of each shard, a shared connection to each server, and dedicated
//! connections for blocking reads.
//!
//! A single server and a Cluster are treated alike: shards map to servers. The map is refreshed
//! when a slot has moved or a server does not respond.

mod acl_cache;
mod blocking;
pub(crate) mod breaker;
pub(crate) mod keys;
pub(crate) mod named_args;
mod node;
mod pubsub;
mod replicated;
pub(crate) mod reply;
pub(crate) mod script;
mod topology;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, RwLock};
use std::time::Duration;

use redis::{Cmd, ErrorKind, FromRedisValue, Pipeline, RedisError, Value};
use tidemill_core::{Error, Timestamp};

use acl_cache::AclCache;
pub(crate) use blocking::BlockingConnection;
pub(crate) use node::Node;
pub(crate) use pubsub::PubSubConnection;
use replicated::REPLICA_TIMEOUT_MS;
pub(crate) use topology::server_addresses;

use crate::connection::keys::Keys;
use crate::connection::named_args::NamedArgs;
use crate::connection::script::Script;
use crate::error::{classify, is_connection, is_denied, is_moved, is_no_script};
use crate::options::RedisOptions;

/// The connections to all servers of the store.
#[derive(Debug)]
pub(crate) struct Connections {
    options: RedisOptions,
    keys: Arc<Keys>,
    /// The server of each shard. Replaced as a whole when the Cluster has changed.
    shards: RwLock<Vec<Arc<Node>>>,
    /// Number of commands sent, for statistics.
    sent: AtomicU64,
    /// The user's permissions as last checked.
    acl_cache: AclCache,
}

impl Connections {
    pub(crate) async fn connect(options: RedisOptions, keys: Arc<Keys>) -> Result<Self, Error> {
        let first = Node::from_options(&options)?;
        let nodes = if options.cluster {
            topology::discover(&options, &keys, &[first]).await?
        } else {
            first.ensure_connected().await.map_err(|error| connect_error(&options, error))?;
            vec![first; usize::from(options.shards)]
        };
        let (shards, sent, grants) = (RwLock::new(nodes), AtomicU64::new(0), AclCache::default());
        Ok(Self { options, keys, shards, sent, acl_cache: grants })
    }

    pub(crate) fn options(&self) -> &RedisOptions {
        &self.options
    }

    pub(crate) fn keys(&self) -> &Keys {
        &self.keys
    }

    pub(crate) fn commands_sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    pub(crate) fn count_commands(&self, commands: u64) {
        self.sent.fetch_add(commands, Ordering::Relaxed);
    }

    /// The server of a shard.
    pub(crate) fn node(&self, shard: u16) -> Arc<Node> {
        self.read_shards()[usize::from(shard)].clone()
    }

    /// The shards of a server.
    pub(crate) fn shards_of(&self, node: &Arc<Node>) -> Vec<u16> {
        (0..)
            .zip(self.read_shards().iter())
            .filter(|(_, of)| Arc::ptr_eq(of, node))
            .map(|(shard, _)| shard)
            .collect()
    }

    /// Every server once.
    pub(crate) fn nodes(&self) -> Vec<Arc<Node>> {
        let mut nodes: Vec<Arc<Node>> = Vec::new();
        for node in self.read_shards().iter() {
            if !nodes.iter().any(|known| Arc::ptr_eq(known, node)) {
                nodes.push(node.clone());
            }
        }
        nodes
    }

    fn read_shards(&self) -> std::sync::RwLockReadGuard<'_, Vec<Arc<Node>>> {
        self.shards.read().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Discovers again which server has which shard.
    async fn refresh(&self) {
        if !self.options.cluster {
            return;
        }
        let mut seeds = self.nodes();
        seeds.extend(Node::new(self.options.info.clone()));
        match topology::discover(&self.options, &self.keys, &seeds).await {
            Ok(nodes) => *self.shards.write().unwrap_or_else(std::sync::PoisonError::into_inner) = nodes,
            Err(error) => {
                tracing::warn!(error = error.full_message(), "cannot discover the Cluster's layout")
            }
        }
    }

    /// Sends one command to the server of `shard`.
    pub(crate) async fn query<T: FromRedisValue>(&self, shard: u16, command: &Cmd) -> Result<T, Error> {
        let reply = self.send(shard, command).await.map_err(|error| classify("a command", error))?;
        redis::from_redis_value(reply).map_err(|_| crate::error::unexpected_reply("a command"))
    }

    /// Sends one command and returns the driver's error, for callers that inspect it.
    pub(crate) async fn send(&self, shard: u16, command: &Cmd) -> Result<Value, RedisError> {
        self.count_commands(1);
        let node = self.node(shard);
        match node.command(command).await {
            // It was not executed, so trying again is safe.
            Err(error) if is_moved(&error) => {
                self.refresh().await;
                self.node(shard).command(command).await
            }
            Err(error) => {
                let error = self.explain_error(shard, std::iter::once(command), error).await;
                Err(self.refresh_after(error).await)
            }
            reply => reply,
        }
    }

    /// Sends several commands in one round trip. An error of any fails all; a transaction is
    /// atomic.
    pub(crate) async fn pipeline(&self, shard: u16, pipeline: &Pipeline) -> Result<Vec<Value>, RedisError> {
        self.count_commands(pipeline.len() as u64);
        let node = self.node(shard);
        match node.pipeline(pipeline).await {
            Err(error) => {
                let error = self.explain_error(shard, pipeline.cmd_iter(), error).await;
                Err(self.refresh_after(error).await)
            }
            reply => reply,
        }
    }

    /// Calls a script by its hash; loads it if the server does not have it.
    pub(crate) async fn call(&self, shard: u16, call: ScriptCall<'_>) -> Result<Value, Error> {
        self.check_permission(shard, call.script).await?;
        let what = || format!("script {}", call.script.name);
        match self.send(shard, &call.command).await {
            Err(error) if is_no_script(&error) => {
                let load = redis::cmd("SCRIPT").arg("LOAD").arg(&call.script.code).take();
                self.send(shard, &load).await.map_err(|error| classify(&what(), error))?;
                self.send(shard, &call.command).await.map_err(|error| classify(&what(), error))
            }
            reply => reply.map_err(|error| classify(&what(), error)),
        }
    }

    /// Calls a script and reads, in the same round trip, the data that it set apart for this
    /// caller.
    pub(crate) async fn call_and_read(
        &self,
        shard: u16,
        call: ScriptCall<'_>,
        read: Cmd,
    ) -> Result<(Value, Value), Error> {
        self.check_permission(shard, call.script).await?;
        let what = || format!("script {}", call.script.name);
        let mut both = Pipeline::with_capacity(2);
        both.add_command(call.command).add_command(read);
        let reply = match self.pipeline(shard, &both).await {
            Err(error) if is_no_script(&error) => {
                let load = redis::cmd("SCRIPT").arg("LOAD").arg(&call.script.code).take();
                self.send(shard, &load).await.map_err(|error| classify(&what(), error))?;
                self.pipeline(shard, &both).await
            }
            // It was not executed, and the shard map has been refreshed.
            Err(error) if is_moved(&error) => self.pipeline(shard, &both).await,
            reply => reply,
        };
        let reply = reply.map_err(|error| classify(&what(), error))?;
        <[Value; 2]>::try_from(reply)
            .map(|[reply, read]| (reply, read))
            .map_err(|_| crate::error::unexpected_reply(&what()))
    }

    /// Sends commands and a final script as one transaction. The script is sent as text: with an
    /// unknown hash the commands would take effect without it.
    pub(crate) async fn transaction(
        &self,
        shard: u16,
        mut commands: Pipeline,
        end: ScriptCall<'_>,
    ) -> Result<(), Error> {
        self.check_permission(shard, end.script).await?;
        commands.atomic().add_command(end.as_text()).ignore();
        let reply = match self.pipeline(shard, &commands).await {
            // It was not executed, and the shard map has been refreshed.
            Err(error) if is_moved(&error) => self.pipeline(shard, &commands).await,
            reply => reply,
        };
        reply.map(|_| ()).map_err(|error| classify("a transaction", error))
    }

    async fn refresh_after(&self, error: RedisError) -> RedisError {
        if is_connection(&error) || is_moved(&error) {
            self.refresh().await;
        }
        error
    }

    /// Calls a script that must not be lost. With the durability class `replicated` it succeeds
    /// only after replicas have confirmed it.
    pub(crate) async fn write(&self, shard: u16, call: ScriptCall<'_>) -> Result<WriteOutcome, Error> {
        let wanted = self.options.replicas;
        if wanted == 0 {
            return Ok(WriteOutcome { reply: self.call(shard, call).await?, shortfall: None });
        }
        self.check_permission(shard, call.script).await?;
        let what = || format!("script {}", call.script.name);
        let (reply, reached) = match Box::pin(self.send_confirmed(shard, &call.command)).await {
            Err(error) if is_no_script(&error) => {
                let load = redis::cmd("SCRIPT").arg("LOAD").arg(&call.script.code).take();
                self.send(shard, &load).await.map_err(|error| classify(&what(), error))?;
                Box::pin(self.send_confirmed(shard, &call.command)).await
            }
            reply => reply,
        }
        .map_err(|error| classify(&what(), error))?;
        Ok(WriteOutcome { reply, shortfall: (reached < wanted).then_some((reached, wanted)) })
    }

    async fn send_confirmed(&self, shard: u16, command: &Cmd) -> Result<(Value, u32), RedisError> {
        self.count_commands(2);
        match self.node(shard).write_replicated(command, self.options.replicas).await {
            // It was not executed, so trying again is safe.
            Err(error) if is_moved(&error) => {
                self.refresh().await;
                self.node(shard).write_replicated(command, self.options.replicas).await
            }
            Err(error) => {
                let error = self.explain_error(shard, std::iter::once(command), error).await;
                Err(self.refresh_after(error).await)
            }
            reply => reply,
        }
    }

    /// The time of a shard's server.
    pub(crate) async fn time(&self, shard: u16) -> Result<Timestamp, Error> {
        let (seconds, micros): (i64, i64) = self.query(shard, &redis::cmd("TIME")).await?;
        Ok(Timestamp(seconds * 1000 + micros / 1000))
    }
}

/// The error of a failed first connection.
pub(crate) fn connect_error(options: &RedisOptions, error: RedisError) -> Error {
    let is_about_role = is_denied(&error) && error.to_string().contains("'role'");
    if options.sentinels.is_some() && is_about_role {
        let user = options.info.redis_settings().username().unwrap_or("default");
        let grant = format!("ACL SETUSER {user} +role");
        return Error::Denied(format!("behind Sentinel a user must be allowed ROLE: {grant} ({error})"));
    }
    let place = options.display_address();
    match classify(&format!("connecting to {place}"), error) {
        Error::Denied(reason) if options.sentinels.is_some() => Error::Denied(format!(
            "{place}: the Sentinels or the server refused a password or a user: {reason}"
        )),
        other => other,
    }
}

/// The error of a server that does not respond.
pub(crate) fn no_response() -> RedisError {
    RedisError::from((ErrorKind::Io, "the server did not answer"))
}

/// The reply of a script that has taken effect.
#[derive(Debug, Default)]
#[must_use = "its shortfall has to be reported when all is done"]
pub(crate) struct WriteOutcome {
    pub(crate) reply: Value,
    /// How many replicas have confirmed it, and how many were required.
    shortfall: Option<(u32, u32)>,
}

impl WriteOutcome {
    /// Whether enough replicas have it. `what` names the effect, such as "the job was made".
    pub(crate) fn confirmed(&self, what: &str) -> Result<(), Error> {
        let Some((reached, wanted)) = self.shortfall else { return Ok(()) };
        let within = Duration::from_millis(REPLICA_TIMEOUT_MS);
        let confirmed = format!("{reached} of {wanted} replicas confirmed it within {within:?}");
        Err(Error::Unconfirmed(format!("{what}, but {confirmed}")))
    }
}

/// A call of a script: keys first, then arguments.
pub(crate) struct ScriptCall<'a> {
    script: &'a Script,
    command: Cmd,
}

impl<'a> ScriptCall<'a> {
    pub(crate) fn new(script: &'a Script, keys: &[String]) -> Self {
        let mut command = redis::cmd("EVALSHA");
        command.arg(&script.sha).arg(keys.len());
        for key in keys {
            command.arg(key);
        }
        Self { script, command }
    }

    /// A call of a script whose arguments have names.
    pub(crate) fn named(script: &'a Script, keys: &[String], args: &NamedArgs) -> Self {
        Self::new(script, keys).arg(args.as_bytes())
    }

    pub(crate) fn arg(mut self, value: impl redis::ToRedisArgs) -> Self {
        self.command.arg(value);
        self
    }

    /// The same call with the script's text instead of its hash.
    fn as_text(&self) -> Cmd {
        let mut command = redis::cmd("EVAL");
        command.arg(&self.script.code);
        for arg in self.command.args_iter().skip(2) {
            if let redis::Arg::Simple(arg) = arg {
                command.arg(arg);
            }
        }
        command
    }

    pub(crate) fn push(&mut self, value: impl redis::ToRedisArgs) {
        self.command.arg(value);
    }
}
