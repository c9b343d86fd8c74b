//! Connections: which server has which shard, one shared connection to each, and others for blocking reads.
//!
//! A single server and a Cluster are the same here: shards map to servers, and the map is read again when a
//! server says that a slot has moved or does not answer.

mod acl_cache;
mod blocking;
pub(crate) mod breaker;
pub(crate) mod keys;
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

use acl_cache::Grants;
pub(crate) use blocking::Blocking;
pub(crate) use node::Node;
pub(crate) use pubsub::Subscriptions;
use replicated::REPLICAS_MS;
pub(crate) use topology::servers;

use crate::connection::keys::Keys;
use crate::connection::script::Script;
use crate::error::{classify, is_connection, is_denied, is_moved, is_no_script};
use crate::options::Options;

/// The way to the servers.
#[derive(Debug)]
pub(crate) struct Link {
    options: Options,
    keys: Arc<Keys>,
    /// The server of each shard. Replaced as a whole when the Cluster has changed.
    shards: RwLock<Vec<Arc<Node>>>,
    /// Commands sent, for whoever counts.
    sent: AtomicU64,
    /// What the user may not do, as it was last asked.
    grants: Grants,
}

impl Link {
    pub(crate) async fn connect(options: Options, keys: Arc<Keys>) -> Result<Self, Error> {
        let first = Node::of(&options)?;
        let nodes = if options.cluster {
            topology::discover(&options, &keys, &[first]).await?
        } else {
            first.reach().await.map_err(|error| unreachable(&options, error))?;
            vec![first; usize::from(options.shards)]
        };
        let (shards, sent, grants) = (RwLock::new(nodes), AtomicU64::new(0), Grants::default());
        Ok(Self { options, keys, shards, sent, grants })
    }

    pub(crate) fn options(&self) -> &Options {
        &self.options
    }

    pub(crate) fn keys(&self) -> &Keys {
        &self.keys
    }

    pub(crate) fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    pub(crate) fn count(&self, commands: u64) {
        self.sent.fetch_add(commands, Ordering::Relaxed);
    }

    /// The server of a shard.
    pub(crate) fn node(&self, shard: u16) -> Arc<Node> {
        self.read_shards()[usize::from(shard)].clone()
    }

    /// The shards that a server has.
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

    /// Finds out anew which server has which shard.
    async fn refresh(&self) {
        if !self.options.cluster {
            return;
        }
        let mut seeds = self.nodes();
        seeds.extend(Node::new(self.options.info.clone()));
        match topology::discover(&self.options, &self.keys, &seeds).await {
            Ok(nodes) => *self.shards.write().unwrap_or_else(std::sync::PoisonError::into_inner) = nodes,
            Err(error) => tracing::warn!(error = error.full_message(), "cannot learn the Cluster's layout"),
        }
    }

    /// Sends one command to the server of `shard`.
    pub(crate) async fn query<T: FromRedisValue>(&self, shard: u16, command: &Cmd) -> Result<T, Error> {
        let answer = self.send(shard, command).await.map_err(|error| classify("a command", error))?;
        redis::from_redis_value(answer).map_err(|_| crate::error::odd_answer("a command"))
    }

    /// Sends one command and leaves the error as it is, for callers who look at it.
    pub(crate) async fn send(&self, shard: u16, command: &Cmd) -> Result<Value, RedisError> {
        self.count(1);
        let node = self.node(shard);
        match node.command(command).await {
            // It was not executed, so trying again is safe.
            Err(error) if is_moved(&error) => {
                self.refresh().await;
                self.node(shard).command(command).await
            }
            Err(error) => {
                let error = self.explained(shard, std::iter::once(command), error).await;
                Err(self.failed(error).await)
            }
            answer => answer,
        }
    }

    /// Sends several commands in one trip. An error of any fails all; a transaction is all or nothing.
    pub(crate) async fn pipeline(&self, shard: u16, pipeline: &Pipeline) -> Result<Vec<Value>, RedisError> {
        self.count(pipeline.len() as u64);
        let node = self.node(shard);
        match node.pipeline(pipeline).await {
            Err(error) => {
                let error = self.explained(shard, pipeline.cmd_iter(), error).await;
                Err(self.failed(error).await)
            }
            answer => answer,
        }
    }

    /// Calls a script by its hash; loads it where it is not known.
    pub(crate) async fn call(&self, shard: u16, call: Call<'_>) -> Result<Value, Error> {
        self.check_right(shard, call.script).await?;
        let what = || format!("script {}", call.script.name);
        match self.send(shard, &call.command).await {
            Err(error) if is_no_script(&error) => {
                let load = redis::cmd("SCRIPT").arg("LOAD").arg(&call.script.code).take();
                self.send(shard, &load).await.map_err(|error| classify(&what(), error))?;
                self.send(shard, &call.command).await.map_err(|error| classify(&what(), error))
            }
            answer => answer.map_err(|error| classify(&what(), error)),
        }
    }

    /// Calls a script and reads, in one trip, what it has set apart for this caller.
    pub(crate) async fn call_and_read(
        &self,
        shard: u16,
        call: Call<'_>,
        read: Cmd,
    ) -> Result<(Value, Value), Error> {
        self.check_right(shard, call.script).await?;
        let what = || format!("script {}", call.script.name);
        let mut both = Pipeline::with_capacity(2);
        both.add_command(call.command).add_command(read);
        let answer = match self.pipeline(shard, &both).await {
            Err(error) if is_no_script(&error) => {
                let load = redis::cmd("SCRIPT").arg("LOAD").arg(&call.script.code).take();
                self.send(shard, &load).await.map_err(|error| classify(&what(), error))?;
                self.pipeline(shard, &both).await
            }
            // It was not executed, and by now it is known where to.
            Err(error) if is_moved(&error) => self.pipeline(shard, &both).await,
            answer => answer,
        };
        let answer = answer.map_err(|error| classify(&what(), error))?;
        <[Value; 2]>::try_from(answer)
            .map(|[answer, read]| (answer, read))
            .map_err(|_| crate::error::odd_answer(&what()))
    }

    /// Sends commands and a script that ends them, as one transaction. The script travels as text: if the server did not
    /// know its hash, the commands would take effect without it.
    pub(crate) async fn transaction(
        &self,
        shard: u16,
        mut commands: Pipeline,
        end: Call<'_>,
    ) -> Result<(), Error> {
        self.check_right(shard, end.script).await?;
        commands.atomic().add_command(end.as_text()).ignore();
        let answer = match self.pipeline(shard, &commands).await {
            // It was not executed, and by now it is known where to.
            Err(error) if is_moved(&error) => self.pipeline(shard, &commands).await,
            answer => answer,
        };
        answer.map(|_| ()).map_err(|error| classify("a transaction", error))
    }

    async fn failed(&self, error: RedisError) -> RedisError {
        if is_connection(&error) || is_moved(&error) {
            self.refresh().await;
        }
        error
    }

    /// Calls a script that must not get lost. With the durability class `replicated` it is acknowledged only when
    /// replicas have confirmed it.
    pub(crate) async fn write(&self, shard: u16, call: Call<'_>) -> Result<Written, Error> {
        let wanted = self.options.replicas;
        if wanted == 0 {
            return Ok(Written { answer: self.call(shard, call).await?, shortfall: None });
        }
        self.check_right(shard, call.script).await?;
        let what = || format!("script {}", call.script.name);
        let (answer, reached) = match Box::pin(self.send_confirmed(shard, &call.command)).await {
            Err(error) if is_no_script(&error) => {
                let load = redis::cmd("SCRIPT").arg("LOAD").arg(&call.script.code).take();
                self.send(shard, &load).await.map_err(|error| classify(&what(), error))?;
                Box::pin(self.send_confirmed(shard, &call.command)).await
            }
            answer => answer,
        }
        .map_err(|error| classify(&what(), error))?;
        Ok(Written { answer, shortfall: (reached < wanted).then_some((reached, wanted)) })
    }

    async fn send_confirmed(&self, shard: u16, command: &Cmd) -> Result<(Value, u32), RedisError> {
        self.count(2);
        match self.node(shard).confirmed(command, self.options.replicas).await {
            // It was not executed, so trying again is safe.
            Err(error) if is_moved(&error) => {
                self.refresh().await;
                self.node(shard).confirmed(command, self.options.replicas).await
            }
            Err(error) => {
                let error = self.explained(shard, std::iter::once(command), error).await;
                Err(self.failed(error).await)
            }
            answer => answer,
        }
    }

    /// The time of a shard's server.
    pub(crate) async fn time(&self, shard: u16) -> Result<Timestamp, Error> {
        let (seconds, micros): (i64, i64) = self.query(shard, &redis::cmd("TIME")).await?;
        Ok(Timestamp(seconds * 1000 + micros / 1000))
    }
}

/// Why the first connection failed.
pub(crate) fn unreachable(options: &Options, error: RedisError) -> Error {
    let is_about_role = is_denied(&error) && error.to_string().contains("'role'");
    if options.sentinels.is_some() && is_about_role {
        let user = options.info.redis_settings().username().unwrap_or("default");
        let grant = format!("ACL SETUSER {user} +role");
        return Error::Denied(format!("behind Sentinel a user must be allowed ROLE: {grant} ({error})"));
    }
    let place = options.place();
    match classify(&format!("connecting to {place}"), error) {
        Error::Denied(reason) if options.sentinels.is_some() => Error::Denied(format!(
            "{place}: the Sentinels or the server refused a password or a user: {reason}"
        )),
        other => other,
    }
}

/// What to say of a server that does not answer.
pub(crate) fn silent() -> RedisError {
    RedisError::from((ErrorKind::Io, "the server did not answer"))
}

/// What a script has answered that has taken effect.
#[derive(Debug, Default)]
#[must_use = "its shortfall has to be reported when all is done"]
pub(crate) struct Written {
    pub(crate) answer: Value,
    /// How many replicas have confirmed it, and how many were to.
    shortfall: Option<(u32, u32)>,
}

impl Written {
    /// Whether enough replicas have it. `what` says what took place, such as "the job was made".
    pub(crate) fn confirmed(&self, what: &str) -> Result<(), Error> {
        let Some((reached, wanted)) = self.shortfall else { return Ok(()) };
        let within = Duration::from_millis(REPLICAS_MS);
        let confirmed = format!("{reached} of {wanted} replicas confirmed it within {within:?}");
        Err(Error::Unconfirmed(format!("{what}, but {confirmed}")))
    }
}

/// A call of a script: keys first, then arguments.
pub(crate) struct Call<'a> {
    script: &'a Script,
    command: Cmd,
}

impl<'a> Call<'a> {
    pub(crate) fn new(script: &'a Script, keys: &[String]) -> Self {
        let mut command = redis::cmd("EVALSHA");
        command.arg(&script.sha).arg(keys.len());
        for key in keys {
            command.arg(key);
        }
        Self { script, command }
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
