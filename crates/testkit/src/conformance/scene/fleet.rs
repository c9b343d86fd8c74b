//! The stage of the fleet's cases: members, a gateway that holds sessions, and their moves.

use std::slice::from_ref;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tidemill_core::fleet::{MemberId, MemberKind, Offer, Room, SessionId, Standard};
use tidemill_core::name::WorkerId;
use tidemill_core::store::fleet::{
    Attach, Attached, Beat, Grant, Lease, Leased, Line, ListMembers, ListSessions, Member, MemberInfo,
    Orders, Reaped, Release, SessionInfo, Status,
};
use tidemill_core::store::{Fleet, Store};

use super::LONG;

/// A gateway on a store.
#[derive(Clone)]
pub struct Yard {
    /// The store.
    pub store: Arc<dyn Store>,
    /// Who holds sessions.
    pub holder: WorkerId,
    /// For how long.
    pub lease: Duration,
}

impl Yard {
    /// A gateway on this store.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store, holder: WorkerId::of_process("gateway", 1, 0), lease: LONG }
    }

    /// The same with another lease.
    pub fn leasing(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// What the store knows.
    pub fn fleet(&self) -> &dyn Fleet {
        self.store.fleet()
    }

    /// Enters a Chromium with this much room.
    pub async fn join(&self, name: &str, concurrent: u32, lifetime: u32) -> MemberId {
        let member = chromium(name, concurrent, lifetime);
        self.enter(&member).await
    }

    /// Enters a member.
    pub async fn enter(&self, member: &Member) -> MemberId {
        self.fleet().join(from_ref(member)).await.expect("it joins");
        member.id.clone()
    }

    /// A member lives.
    pub async fn beat(&self, member: &Member) -> Orders {
        self.beat_after(member, Duration::ZERO).await
    }

    /// A member lives, and if it has to be entered anew it waits this long for sessions.
    pub async fn beat_after(&self, member: &Member, grace: Duration) -> Orders {
        self.fleet().beat(Beat { members: from_ref(member), grace }).await.expect("it beats")[0]
    }

    /// A wish of a new session.
    pub fn wish(&self) -> Lease {
        Lease {
            session: SessionId::generate(),
            kind: kind("chromium"),
            offers: vec![offer("cdp")],
            holder: self.holder.clone(),
            ttl: self.lease,
            keep: Duration::ZERO,
            detail: Bytes::from_static(b"{\"name\":\"a\"}"),
            refused: Vec::new(),
            line: None,
            standard: Standard::default(),
        }
    }

    /// A wish of a new session that waits.
    pub fn patient_wish(&self) -> Lease {
        Lease { line: Some(Line { most: 100, ttl: LONG }), ..self.wish() }
    }

    /// What becomes of a wish.
    pub async fn ask(&self, lease: &Lease) -> Leased {
        self.fleet().lease(lease).await.expect("an answer")
    }

    /// Asks for a member that must be given.
    pub async fn get(&self, lease: &Lease) -> Grant {
        match self.ask(lease).await {
            Leased::Given(grant) => grant,
            other => panic!("nothing was given: {other:?}"),
        }
    }

    /// A new session, on whatever member.
    pub async fn open(&self) -> (SessionId, Grant) {
        let wish = self.wish();
        let grant = self.get(&wish).await;
        (wish.session, grant)
    }

    /// What this gateway says of a session it holds.
    pub fn hold(&self, session: &SessionId, member: &MemberId) -> Attach {
        Attach {
            session: session.clone(),
            member: member.clone(),
            holder: self.holder.clone(),
            ttl: self.lease,
            keep: Duration::ZERO,
            connected: true,
            take: false,
            must_exist: false,
            detail: Bytes::from_static(b"{\"name\":\"a\"}"),
            started_at: self.store.clock().now(),
        }
    }

    /// Says what it holds.
    pub async fn attach(&self, attach: &Attach) -> Attached {
        self.fleet().attach(from_ref(attach)).await.expect("an answer")[0]
    }

    /// Ends a session, or gives up waiting.
    pub async fn release(&self, session: &SessionId) -> bool {
        let release = Release { session: session.clone(), holder: self.holder.clone() };
        self.fleet().release(&[release]).await.expect("an answer")[0]
    }

    /// Removes what is dead.
    pub async fn reap(&self) -> Reaped {
        self.fleet().reap(Some(Standard::default())).await.expect("it reaps")
    }

    /// A member, if it is there.
    pub async fn member(&self, member: &MemberId) -> Option<MemberInfo> {
        self.fleet().member(member).await.expect("an answer")
    }

    /// How many sessions a member has, and has had.
    pub async fn counts(&self, member: &MemberId) -> (u32, u64) {
        let info = self.member(member).await.expect("the member is there");
        (info.active, info.lifetime)
    }

    /// All members, page by page.
    pub async fn members(&self, kind: Option<&MemberKind>) -> Vec<MemberInfo> {
        let (mut all, mut cursor) = (Vec::new(), None);
        loop {
            let page = self.fleet().members(ListMembers { kind, cursor, limit: 3 }).await.expect("a page");
            assert!(page.items.len() <= 3);
            all.extend(page.items);
            cursor = page.next;
            if cursor.is_none() {
                return all;
            }
        }
    }

    /// All sessions, page by page.
    pub async fn sessions(&self, member: Option<&MemberId>) -> Vec<SessionInfo> {
        let (mut all, mut cursor) = (Vec::new(), None);
        loop {
            let page =
                self.fleet().sessions(ListSessions { member, cursor, limit: 3 }).await.expect("a page");
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
pub fn kind(name: &str) -> MemberKind {
    MemberKind::new(name).expect("a kind")
}

/// An offer.
pub fn offer(name: &str) -> Offer {
    Offer::new(name).expect("an offer")
}

/// A Chromium that speaks CDP, with this much room.
pub fn chromium(name: &str, concurrent: u32, lifetime: u32) -> Member {
    Member {
        id: format!("chromium:{name}").parse().expect("an id"),
        offer: offer("cdp"),
        endpoint: format!("ws://127.0.0.1:9222/devtools/browser/{name}"),
        status: Status::Available,
        room: Room { concurrent, lifetime },
        fresh: LONG,
        detail: Bytes::from_static(b"{\"host\":\"here\"}"),
    }
}
