//! PostgreSQL's own risks with the fleet: concurrent connections, and times and names in SQL.

// A failed setup is a failed test.
#![allow(clippy::unwrap_used)]

mod world;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tidemill_core::fleet::SessionId;
use tidemill_core::store::Store;
use tidemill_core::store::fleet::{AttachParams, Attached, LeaseParams, Leased, ReleaseParams, WaitParams};
use tidemill_core::wake::{NoTransport, Transport};
use tidemill_core::{HolderId, Timestamp};
use tidemill_postgres::{PostgresOptions, PostgresStore};
use tidemill_testkit::conformance::harness::{FleetHarness, chromium};
use tidemill_testkit::conformance::{SHORT, until};
use tidemill_testkit::servers::{Postgres, shared_postgres};
use world::{connect, query};

/// Long enough for a call on a busy machine.
const GRACE: Duration = Duration::from_secs(3);

/// Gateways, each with connections of its own.
async fn yards(url: &str, many: u32) -> Vec<FleetHarness> {
    let yard = async |number| {
        let mut yard = FleetHarness::new(Arc::new(connect(url).await) as Arc<dyn Store>);
        yard.holder = HolderId::from_process("gateway", number, 0);
        yard
    };
    join_all((0..many).map(yard)).await
}

/// Opens and ends sessions repeatedly, and checks each time that no worker has more than its
/// capacity.
async fn churn(yard: &FleetHarness, rounds: usize) -> usize {
    let mut given = 0;
    for _ in 0..rounds {
        let wish = yard.lease_params();
        let Leased::Granted(grant) = yard.lease(&wish).await else { continue };
        given += 1;
        assert!(yard.counts(&grant.worker).await.0 <= 2, "{} is full", grant.worker);
        assert_eq!(yard.attach(&yard.attach_params(&wish.session, &grant.worker)).await, Attached::Held);
        assert!(yard.release(&wish.session).await);
    }
    given
}

#[tokio::test(flavor = "multi_thread")]
async fn leases_from_many_connections_never_exceed_what_a_member_takes_on() {
    let yards = yards(&shared_postgres().database().unwrap(), 4).await;
    for name in ["a", "b", "c"] {
        yards[0].join(name, 2, 0).await;
    }
    let crowd = yards.iter().flat_map(|yard| [churn(yard, 40), churn(yard, 40), churn(yard, 40)]);
    let given: usize = join_all(crowd).await.into_iter().sum();
    assert!(given >= 6);
    let lifetimes: u64 = yards[0].members(None).await.iter().map(|info| info.lifetime).sum();
    assert_eq!(lifetimes, given as u64, "every session was counted once");
    assert!(yards[0].sessions(None).await.is_empty());
}

/// A browser and several gateways that all believe to be connected to it, after the store has lost
/// all data.
#[tokio::test(flavor = "multi_thread")]
async fn of_many_who_claim_a_forgotten_place_at_once_as_many_hold_it_as_there_are_places() {
    let yards = yards(&shared_postgres().database().unwrap(), 4).await;
    let member = yards[0].join("a", 3, 0).await;
    let claims = yards.iter().flat_map(|yard| {
        let member = &member;
        let claim = move |_| {
            let held: Vec<AttachParams> =
                (0..3).map(|_| yard.attach_params(&SessionId::generate(), member)).collect();
            async move { yard.fleet().attach(&held).await.unwrap() }
        };
        (0..3).map(claim)
    });
    let answers = join_all(claims).await.concat();
    assert_eq!(answers.iter().filter(|answer| **answer == Attached::Held).count(), 3);
    assert_eq!(yards[0].counts(&member).await, (3, 3));
}

/// Batches about several kinds, in opposite orders: each needs what the other has locked.
#[tokio::test(flavor = "multi_thread")]
async fn batches_about_the_same_members_in_other_orders_take_turns() {
    let yards = yards(&shared_postgres().database().unwrap(), 2).await;
    let mut members: Vec<_> = (0..20).map(|n| chromium(&format!("m{n}"), 5, 2)).collect();
    for (n, member) in members.iter_mut().enumerate() {
        member.id = format!("kind{}:m{n}", n % 3).parse().unwrap();
    }
    yards[0].fleet().join(&members).await.unwrap();
    let ids: Vec<_> = (0..40).map(|_| SessionId::generate()).collect();
    let batch = |yard: FleetHarness, forth: bool| {
        let (mut members, mut ids) = (members.clone(), ids.clone());
        if !forth {
            members.reverse();
            ids.reverse();
        }
        async move {
            let beat =
                |members| tidemill_core::store::fleet::BeatParams { workers: members, grace: Duration::ZERO };
            for _ in 0..30 {
                let on = |n: usize| &members[n % members.len()].id;
                let held: Vec<_> =
                    ids.iter().enumerate().map(|(n, id)| yard.attach_params(id, on(n))).collect();
                yard.fleet().attach(&held).await.unwrap();
                yard.fleet().beat(beat(&members)).await.unwrap();
                let holder = &yard.holder;
                let over = ids.iter().map(|id| ReleaseParams { session: id.clone(), holder: holder.clone() });
                yard.fleet().release(&over.collect::<Vec<_>>()).await.unwrap();
                yard.reap().await;
            }
        }
    };
    let turns = [(0, true), (1, false), (0, false), (1, true)];
    join_all(turns.map(|(yard, forth)| batch(yards[yard].clone(), forth))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_is_one_round_trip_whatever_becomes_of_it() {
    let url = shared_postgres().database().unwrap();
    // Only the verbs themselves are sent: wake-ups would use a connection of their own.
    let transport: Option<Arc<dyn Transport>> = Some(Arc::new(NoTransport));
    let options = PostgresOptions { transport, ..PostgresOptions::parse(&url).unwrap() };
    let yard = FleetHarness::new(Arc::new(PostgresStore::connect(options).await.unwrap()));
    yard.join("a", 1, 0).await;
    let first = yard.lease_params();
    let waiting = LeaseParams {
        wait: Some(WaitParams { max_waiting: 9, ttl: Duration::from_secs(60) }),
        ..yard.lease_params()
    };
    let mut before = yard.store.commands();
    for wish in [&first, &first, &waiting, &waiting, &yard.lease_params()] {
        yard.lease(wish).await;
        let now = yard.store.commands();
        assert_eq!(now - before, 1, "{wish:?}");
        before = now;
    }
}

#[tokio::test]
async fn times_without_end_and_ids_with_quotes_are_kept() {
    let url = shared_postgres().database().unwrap();
    let yard = FleetHarness::new(Arc::new(connect(&url).await)).with_lease(Duration::MAX);
    let mut member = chromium("a", 1, 0);
    (member.id, member.beat_timeout) = (r#"chromium:it's\"{a},b%""#.parse().unwrap(), Duration::MAX);
    yard.join_entry(&member).await;
    let mut wish = LeaseParams { keep: Duration::MAX, ..yard.lease_params() };
    assert_eq!(yard.lease_granted(&wish).await.worker, member.id);
    let held = AttachParams { started_at: Timestamp(7), ..yard.attach_params(&wish.session, &member.id) };
    assert_eq!(yard.attach(&held).await, Attached::Held);
    wish.rejected.push(member.id.clone());
    assert!(matches!(yard.lease(&wish).await, Leased::Refused { .. }));
    assert_eq!(query(&url, "SELECT id FROM tidemill.sessions").await.len(), 0);
    let seen: BTreeMap<_, _> =
        yard.members(None).await.into_iter().map(|info| (info.worker.id, info.lifetime)).collect();
    assert_eq!(seen, BTreeMap::from([(member.id, 1)]));
}

#[tokio::test]
async fn a_member_that_was_found_full_has_a_place_as_soon_as_a_session_is_over() {
    let url = shared_postgres().database().unwrap();
    let yard = FleetHarness::new(Arc::new(connect(&url).await));
    let mut member = chromium("a", 1, 0);
    let a = yard.join_entry(&member).await;
    let (session, _) = yard.open().await;
    assert!(matches!(yard.lease(&yard.lease_params()).await, Leased::Refused { .. }));
    // Its holder shortens the session after the worker was marked as full.
    let short = AttachParams { ttl: SHORT, ..yard.attach_params(&session, &a) };
    assert_eq!(yard.attach(&short).await, Attached::Held);
    let second = until("the place", || async {
        let wish = yard.lease_params();
        matches!(yard.lease(&wish).await, Leased::Granted(_)).then_some(wish.session)
    });
    let second = second.await;
    assert!(matches!(yard.lease(&yard.lease_params()).await, Leased::Refused { .. }));
    assert!(yard.release(&second).await);
    yard.open().await;
    assert!(matches!(yard.lease(&yard.lease_params()).await, Leased::Refused { .. }));
    member.capacity.concurrent = 2;
    yard.beat(&member).await;
    yard.open().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_crash_nobody_is_given_a_member_before_holders_have_spoken() {
    let server = Postgres::start().unwrap();
    let database = server.database().unwrap();
    let yard = yards(&database, 1).await.remove(0);
    let member = chromium("a", 2, 0);
    yard.join_entry(&member).await;
    // A commit that waits for the disk makes all earlier commits durable too.
    query(&database, "CREATE TABLE afterwards ()").await;
    let (session, _) = yard.open().await;
    server.restart().unwrap();
    until("the server", || async { yard.fleet().list_waiting().await.ok() }).await;
    // Its slot is free, as far as the server knows. The session on the other worker may be lost.
    let none = async || matches!(yard.lease(&yard.lease_params()).await, Leased::Refused { workers: 1, .. });
    assert!(none().await, "the member has not beaten since");
    yard.beat_after(&member, GRACE).await;
    assert!(none().await, "nobody has had time to say what they hold");
    assert_eq!(yard.attach(&yard.attach_params(&session, &member.id)).await, Attached::Held);
    tokio::time::sleep(GRACE).await;
    yard.open().await;
    assert!(none().await, "both places are taken");
}
