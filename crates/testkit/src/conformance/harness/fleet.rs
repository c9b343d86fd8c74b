//! The harness of fleet cases: browsers, a gateway that holds sessions, and their calls.

use std::slice::from_ref;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tidemill_core::fleet::{Capacity, Offer, SessionId, WorkerDefaults, WorkerKey, WorkerKind};
use tidemill_core::name::HolderId;
use tidemill_core::store::fleet::{
    AttachParams, Attached, BeatParams, Grant, LeaseParams, Leased, ListSessionsParams, ListWorkersParams,
    Reaped, ReleaseParams, SessionInfo, WaitParams, WorkerEntry, WorkerInfo, WorkerOrders, WorkerStatus,
};
use tidemill_core::store::{Fleet, Store};

use super::LONG;

/// A gateway on a store.
#[derive(Clone)]
pub struct FleetHarness {
    /// The store.
    pub store: Arc<dyn Store>,
    /// The holder of the gateway's sessions.
    pub holder: HolderId,
    /// The lease of its sessions.
    pub lease: Duration,
}

impl FleetHarness {
    /// A gateway on this store.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store, holder: HolderId::from_process("gateway", 1, 0), lease: LONG }
    }

    /// The same with another lease.
    pub fn with_lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// The fleet contract of the store.
    pub fn fleet(&self) -> &dyn Fleet {
        &*self.store
    }

    /// Registers a Chromium with this capacity.
    pub async fn join(&self, name: &str, concurrent: u32, lifetime: u32) -> WorkerKey {
        let member = chromium(name, concurrent, lifetime);
        self.join_entry(&member).await
    }

    /// Registers a worker.
    pub async fn join_entry(&self, member: &WorkerEntry) -> WorkerKey {
        self.fleet().join(from_ref(member)).await.expect("it joins");
        member.id.clone()
    }

    /// Sends a beat of a worker.
    pub async fn beat(&self, member: &WorkerEntry) -> WorkerOrders {
        self.beat_after(member, Duration::ZERO).await
    }

    /// Sends a beat of a worker. If it has to be registered again, it waits this long for its
    /// sessions.
    pub async fn beat_after(&self, member: &WorkerEntry, grace: Duration) -> WorkerOrders {
        self.fleet().beat(BeatParams { workers: from_ref(member), grace }).await.expect("it beats")[0]
    }

    /// The parameters of a new session that does not wait.
    pub fn lease_params(&self) -> LeaseParams {
        LeaseParams {
            session: SessionId::generate(),
            kind: kind("chromium"),
            offers: vec![offer("cdp")],
            holder: self.holder.clone(),
            ttl: self.lease,
            keep: Duration::ZERO,
            detail: Bytes::from_static(b"{\"name\":\"a\"}"),
            rejected: Vec::new(),
            wait: None,
            defaults: WorkerDefaults::default(),
        }
    }

    /// A params of a new session that waits.
    pub fn waiting_lease_params(&self) -> LeaseParams {
        LeaseParams { wait: Some(WaitParams { max_waiting: 100, ttl: LONG }), ..self.lease_params() }
    }

    /// Asks for a lease.
    pub async fn lease(&self, lease: &LeaseParams) -> Leased {
        self.fleet().lease(lease).await.expect("an answer")
    }

    /// Asks for a lease that must be granted.
    pub async fn lease_granted(&self, lease: &LeaseParams) -> Grant {
        match self.lease(lease).await {
            Leased::Granted(grant) => grant,
            other => panic!("nothing was given: {other:?}"),
        }
    }

    /// Opens a session on any worker.
    pub async fn open(&self) -> (SessionId, Grant) {
        let params = self.lease_params();
        let grant = self.lease_granted(&params).await;
        (params.session, grant)
    }

    /// The parameters with which this gateway renews a session.
    pub fn attach_params(&self, session: &SessionId, member: &WorkerKey) -> AttachParams {
        AttachParams {
            session: session.clone(),
            worker: member.clone(),
            holder: self.holder.clone(),
            ttl: self.lease,
            keep: Duration::ZERO,
            connected: true,
            take_over: false,
            must_exist: false,
            detail: Bytes::from_static(b"{\"name\":\"a\"}"),
            started_at: self.store.clock().now(),
        }
    }

    /// Renews a session.
    pub async fn attach(&self, attach: &AttachParams) -> Attached {
        self.fleet().attach(from_ref(attach)).await.expect("an answer")[0]
    }

    /// Ends a session, or stops waiting for one.
    pub async fn release(&self, session: &SessionId) -> bool {
        let release = ReleaseParams { session: session.clone(), holder: self.holder.clone() };
        self.fleet().release(&[release]).await.expect("an answer")[0]
    }

    /// Removes expired entries.
    pub async fn reap(&self) -> Reaped {
        self.fleet().reap(Some(WorkerDefaults::default())).await.expect("it reaps")
    }

    /// A worker, if it is registered.
    pub async fn member(&self, member: &WorkerKey) -> Option<WorkerInfo> {
        self.fleet().get_worker(member).await.expect("an answer")
    }

    /// The number of a worker's current sessions, and of all its sessions so far.
    pub async fn counts(&self, member: &WorkerKey) -> (u32, u64) {
        let info = self.member(member).await.expect("the member is there");
        (info.active, info.lifetime)
    }

    /// All workers, page by page.
    pub async fn members(&self, kind: Option<&WorkerKind>) -> Vec<WorkerInfo> {
        let (mut all, mut cursor) = (Vec::new(), None);
        loop {
            let page = self
                .fleet()
                .list_workers(ListWorkersParams { kind, cursor, limit: 3 })
                .await
                .expect("a page");
            assert!(page.items.len() <= 3);
            all.extend(page.items);
            cursor = page.next;
            if cursor.is_none() {
                return all;
            }
        }
    }

    /// All sessions, page by page.
    pub async fn sessions(&self, member: Option<&WorkerKey>) -> Vec<SessionInfo> {
        let (mut all, mut cursor) = (Vec::new(), None);
        loop {
            let page = self
                .fleet()
                .list_sessions(ListSessionsParams { worker: member, cursor, limit: 3 })
                .await
                .expect("a page");
            assert!(page.items.len() <= 3);
            all.extend(page.items);
            cursor = page.next;
            if cursor.is_none() {
                return all;
            }
        }
    }
}

/// A kind of worker.
pub fn kind(name: &str) -> WorkerKind {
    WorkerKind::new(name).expect("a kind")
}

/// An offer.
pub fn offer(name: &str) -> Offer {
    Offer::new(name).expect("an offer")
}

/// A Chromium that offers CDP, with this capacity.
pub fn chromium(name: &str, concurrent: u32, lifetime: u32) -> WorkerEntry {
    WorkerEntry {
        id: format!("chromium:{name}").parse().expect("an id"),
        offer: offer("cdp"),
        endpoint: format!("ws://127.0.0.1:9222/devtools/browser/{name}"),
        status: WorkerStatus::Available,
        capacity: Capacity { concurrent, lifetime },
        beat_timeout: LONG,
        detail: Bytes::from_static(b"{\"host\":\"here\"}"),
    }
}
