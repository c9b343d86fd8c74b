//! What the user may do on the servers there are: asked when the store connects, again when a server has another connection, and
//! when a command is refused. After a failover another server may know other rights.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};
use std::time::{Duration, Instant};

use redis::{ErrorKind, RedisError};
use tidemill_core::Error;

use super::{Link, Node};
use crate::acl::Rights;
use crate::connection::script::Script;
use crate::error::{DENIED, classify};

/// How long what a server said of the user is taken for true when something is refused.
const BELIEVED: Duration = Duration::from_secs(1);

/// Makes the list of scripts that must not be sent.
type Refusals = Box<dyn Fn(&Rights) -> HashMap<String, String> + Send + Sync>;

/// What the user lacks, and which scripts are not sent for it.
#[derive(Default)]
pub(super) struct Grants {
    /// By the address of the server.
    rights: Mutex<HashMap<String, (Rights, Instant)>>,
    /// The scripts that the user has no right to run as a whole, by hash, and why.
    refused: RwLock<HashMap<String, String>>,
    refusals: OnceLock<Refusals>,
    /// One asks at a time: after a failover everybody finds the new connection at once.
    asking: tokio::sync::Mutex<()>,
}

impl Grants {
    fn why(&self, script: &Script) -> Option<String> {
        self.refused.read().unwrap_or_else(PoisonError::into_inner).get(&script.sha).cloned()
    }

    /// What the user lacks on any of the servers.
    fn merged(&self) -> Rights {
        let mut all = Rights::default();
        let rights = self.rights.lock().unwrap_or_else(PoisonError::into_inner);
        rights.values().for_each(|(rights, _)| all.merge(rights.clone()));
        all
    }

    fn age(&self, node: &Node) -> Option<Duration> {
        let rights = self.rights.lock().unwrap_or_else(PoisonError::into_inner);
        rights.get(node.address()).map(|(_, asked)| asked.elapsed())
    }
}

impl std::fmt::Debug for Grants {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Grants").finish_non_exhaustive()
    }
}

impl Link {
    /// Never sends the scripts that `refusals` names for what the user lacks: the server would end them between two writes.
    pub(crate) fn refuse(
        &self,
        refusals: impl Fn(&Rights) -> HashMap<String, String> + Send + Sync + 'static,
    ) {
        let _ = self.grants.refusals.set(Box::new(refusals));
        self.list_refused();
    }

    /// What the user lacks on any of the servers.
    pub(crate) async fn rights(&self) -> Result<Rights, Error> {
        for node in self.nodes() {
            self.ask_rights(&node).await?;
        }
        Ok(self.grants.merged())
    }

    /// Refuses a script that the server would end half-way.
    pub(super) async fn check_right(&self, shard: u16, script: &Script) -> Result<(), Error> {
        let node = self.node(shard);
        if !node.is_judged() {
            Box::pin(self.judge(&node)).await;
        }
        if self.grants.why(script).is_none() {
            return Ok(());
        }
        // The right may have been granted since.
        Box::pin(self.ask_again(&node)).await;
        self.grants.why(script).map_or(Ok(()), |why| Err(Error::Denied(why)))
    }

    /// Asks a server that was reached by a new connection. If it does not answer, neither will it execute what comes next.
    async fn judge(&self, node: &Arc<Node>) {
        let _turn = self.grants.asking.lock().await;
        if node.is_judged() || node.reach().await.is_err() {
            return;
        }
        let asked = self.ask_rights(node).await;
        if let Err(lack) = asked.and_then(|()| self.grants.merged().check_all()) {
            tracing::warn!(%node, "reached by a new connection: {}", lack.full_message());
        }
    }

    async fn ask_again(&self, node: &Arc<Node>) {
        let _turn = self.grants.asking.lock().await;
        if self.grants.age(node).is_some_and(|age| age <= BELIEVED) {
            return;
        }
        if let Err(error) = self.ask_rights(node).await {
            tracing::debug!(error = error.full_message(), "cannot ask what the user may do");
        }
    }

    async fn ask_rights(&self, node: &Arc<Node>) -> Result<(), Error> {
        node.reach().await.map_err(|error| classify("asking for the user's rights", error))?;
        let number = node.number();
        let shard = self.shards_of(node).first().copied().unwrap_or_default();
        let rights = Rights::of_store(node, self.options(), self.keys().sample(shard)).await?;
        let known: Vec<String> = self.nodes().iter().map(|node| node.address().to_owned()).collect();
        let mut all = self.grants.rights.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|address, _| known.contains(address));
        all.insert(node.address().to_owned(), (rights, Instant::now()));
        drop(all);
        node.judged(number);
        self.list_refused();
        Ok(())
    }

    fn list_refused(&self) {
        if let Some(refusals) = self.grants.refusals.get() {
            let refused = refusals(&self.grants.merged());
            *self.grants.refused.write().unwrap_or_else(PoisonError::into_inner) = refused;
        }
    }

    /// An error that names what the user lacks, and the line that grants it: the server names one command at most.
    pub(crate) async fn explain_denial(&self, shard: u16, error: RedisError) -> RedisError {
        Box::pin(self.ask_again(&self.node(shard))).await;
        match self.grants.merged().check_all() {
            Err(Error::Denied(why)) => {
                RedisError::from((ErrorKind::Extension, DENIED, format!("{why} ({error})")))
            }
            _ => error,
        }
    }
}
