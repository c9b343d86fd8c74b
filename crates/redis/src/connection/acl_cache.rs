//! The user's permissions on each server: checked when the store connects, after a reconnect, and
//! when a command is denied. After a failover another server may have other ACLs.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};
use std::time::{Duration, Instant};

use redis::{ErrorKind, RedisError};
use tidemill_core::Error;

use super::{Connections, Node};
use crate::acl::MissingPermissions;
use crate::connection::script::Script;
use crate::error::{DENIED_PREFIX, classify};

/// How long a checked permission is trusted when a command is denied.
const RECHECK_AFTER: Duration = Duration::from_secs(1);

/// Computes the scripts that must not be sent.
type RefusalRules = Box<dyn Fn(&MissingPermissions) -> HashMap<String, String> + Send + Sync>;

/// The user's missing permissions, and the scripts that are not sent because of them.
#[derive(Default)]
pub(super) struct AclCache {
    /// By the address of the server.
    permissions: Mutex<HashMap<String, (MissingPermissions, Instant)>>,
    /// The scripts that the user may not run completely, by hash, with the reason.
    refused: RwLock<HashMap<String, String>>,
    rules: OnceLock<RefusalRules>,
    /// Serializes checks: after a failover all callers notice the new connection at once.
    checking: tokio::sync::Mutex<()>,
}

impl AclCache {
    fn refusal_of(&self, script: &Script) -> Option<String> {
        self.refused.read().unwrap_or_else(PoisonError::into_inner).get(&script.sha).cloned()
    }

    /// The permissions that the user lacks on any server.
    fn merged(&self) -> MissingPermissions {
        let mut all = MissingPermissions::default();
        let permissions = self.permissions.lock().unwrap_or_else(PoisonError::into_inner);
        permissions.values().for_each(|(permissions, _)| all.merge(permissions.clone()));
        all
    }

    fn checked_ago(&self, node: &Node) -> Option<Duration> {
        let permissions = self.permissions.lock().unwrap_or_else(PoisonError::into_inner);
        permissions.get(node.address()).map(|(_, fetched)| fetched.elapsed())
    }
}

impl std::fmt::Debug for AclCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Grants").finish_non_exhaustive()
    }
}

impl Connections {
    /// Never sends the scripts that `rules` returns: the server would abort them between two
    /// writes.
    pub(crate) fn set_refusal_rules(
        &self,
        rules: impl Fn(&MissingPermissions) -> HashMap<String, String> + Send + Sync + 'static,
    ) {
        let _ = self.acl_cache.rules.set(Box::new(rules));
        self.update_refused();
    }

    /// Checks the permissions on all servers; returns those that the user lacks on any.
    pub(crate) async fn missing_permissions(&self) -> Result<MissingPermissions, Error> {
        for node in self.nodes() {
            self.fetch_permissions(&node).await?;
        }
        Ok(self.acl_cache.merged())
    }

    /// Rejects a script that the server would abort between two writes.
    pub(super) async fn check_permission(&self, shard: u16, script: &Script) -> Result<(), Error> {
        let node = self.node(shard);
        if !node.has_checked_permissions() {
            Box::pin(self.check_new_connection(&node)).await;
        }
        if self.acl_cache.refusal_of(script).is_none() {
            return Ok(());
        }
        // The permission may have been granted since.
        Box::pin(self.recheck(&node)).await;
        self.acl_cache.refusal_of(script).map_or(Ok(()), |refusal| Err(Error::Denied(refusal)))
    }

    /// Checks a server after a reconnect. A server that does not respond executes no script either.
    async fn check_new_connection(&self, node: &Arc<Node>) {
        let _guard = self.acl_cache.checking.lock().await;
        if node.has_checked_permissions() || node.ensure_connected().await.is_err() {
            return;
        }
        let fetched = self.fetch_permissions(node).await;
        if let Err(error) = fetched.and_then(|()| self.acl_cache.merged().check_all()) {
            tracing::warn!(%node, "reached by a new connection: {}", error.full_message());
        }
    }

    async fn recheck(&self, node: &Arc<Node>) {
        let _guard = self.acl_cache.checking.lock().await;
        if self.acl_cache.checked_ago(node).is_some_and(|age| age <= RECHECK_AFTER) {
            return;
        }
        if let Err(error) = self.fetch_permissions(node).await {
            tracing::debug!(error = error.full_message(), "cannot check the user's permissions");
        }
    }

    async fn fetch_permissions(&self, node: &Arc<Node>) -> Result<(), Error> {
        node.ensure_connected().await.map_err(|error| classify("asking for the user's rights", error))?;
        let number = node.generation();
        let shard = self.shards_of(node).first().copied().unwrap_or_default();
        let permissions =
            MissingPermissions::check_store(node, self.options(), self.keys().acl_sample(shard)).await?;
        let known: Vec<String> = self.nodes().iter().map(|node| node.address().to_owned()).collect();
        let mut all = self.acl_cache.permissions.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|address, _| known.contains(address));
        all.insert(node.address().to_owned(), (permissions, Instant::now()));
        drop(all);
        node.set_permissions_checked(number);
        self.update_refused();
        Ok(())
    }

    fn update_refused(&self) {
        if let Some(rules) = self.acl_cache.rules.get() {
            let refused = rules(&self.acl_cache.merged());
            *self.acl_cache.refused.write().unwrap_or_else(PoisonError::into_inner) = refused;
        }
    }

    /// An error with all missing permissions and the command that grants them; the server names
    /// one.
    pub(crate) async fn explain_denial(&self, shard: u16, error: RedisError) -> RedisError {
        Box::pin(self.recheck(&self.node(shard))).await;
        match self.acl_cache.merged().check_all() {
            Err(Error::Denied(refusal)) => {
                RedisError::from((ErrorKind::Extension, DENIED_PREFIX, format!("{refusal} ({error})")))
            }
            _ => error,
        }
    }
}
