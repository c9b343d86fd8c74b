//! Verbs about the fleet.

use std::slice::from_ref;
use std::time::Duration;

use tidemill_core::Error;
use tidemill_core::fleet::{SessionId, WorkerDefaults, WorkerKey};
use tidemill_core::store::fleet::{
    BeatParams, LeaseParams, ListSessionsParams, ListWorkersParams, ReleaseParams, WaitParams,
};
use tidemill_testkit::conformance::LONG;
use tidemill_testkit::conformance::harness::{FleetHarness, chromium};

use crate::stage::Stage;

const VERBS: [&str; 14] = [
    "join",
    "beat",
    "part",
    "lease",
    "lease_again",
    "wait",
    "attach",
    "attach_new",
    "release",
    "quit",
    "close",
    "drain",
    "reap",
    "look",
];

const KEYS: [&str; 22] = [
    "cluster:lifetime_connections",
    "cluster:active_connections",
    "fleet:members",
    "fleet:places",
    "fleet:stale",
    "fleet:grace",
    "fleet:sessions",
    "fleet:ends",
    "fleet:lines",
    "fleet:counts",
    "fleet:held:chromium:a",
    "fleet:held:chromium:b",
    "fleet:live:chromium:cdp",
    "fleet:leaving:chromium:cdp",
    "fleet:limits:chromium:cdp",
    "fleet:free:chromium:cdp:0",
    "fleet:free:chromium:cdp:5",
    "fleet:line:chromium:cdp",
    "fleet:asked:chromium:cdp",
    "worker:chromium:a",
    "worker:cmd:chromium:a",
    "worker:cmd:chromium:b",
];

/// A fleet with a free member, a busy one, a session of that, and one that waits.
struct Scenery {
    yard: FleetHarness,
    session: SessionId,
    busy: WorkerKey,
    waiting: LeaseParams,
}

async fn prepare(stage: &Stage, verb: &str) -> Scenery {
    let yard = FleetHarness::new(stage.store.clone());
    let busy = yard.join("a", 1, 5).await;
    let (session, _) = yard.open().await;
    let line = Some(WaitParams { max_waiting: 100, ttl: LONG });
    let waiting = LeaseParams { wait: line, ..yard.lease_params() };
    yard.lease(&waiting).await;
    if verb != "wait" {
        // Room for whoever waits, and one more.
        yard.join("b", 2, 0).await;
    }
    if verb == "reap" {
        let brief = chromium("c", 1, 0);
        yard.join_entry(&tidemill_core::store::fleet::WorkerEntry {
            beat_timeout: Duration::from_millis(1),
            ..brief
        })
        .await;
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Scenery { yard, session, busy, waiting }
}

async fn act(verb: &str, scenery: &Scenery) -> Result<(), Error> {
    let Scenery { yard, session, busy, waiting } = scenery;
    let fleet = yard.fleet();
    let release =
        |session: &SessionId| ReleaseParams { session: session.clone(), holder: yard.holder.clone() };
    match verb {
        "join" => fleet.join(&[chromium("a", 1, 5), chromium("d", 1, 0)]).await,
        "beat" => {
            let members = [chromium("a", 1, 5), chromium("b", 2, 0)];
            fleet.beat(BeatParams { workers: &members, grace: Duration::ZERO }).await.map(drop)
        }
        "part" => fleet.part(from_ref(busy)).await,
        "lease" => fleet.lease(&yard.lease_params()).await.map(drop),
        "lease_again" => fleet.lease(waiting).await.map(drop),
        "wait" => fleet.lease(&yard.waiting_lease_params()).await.map(drop),
        "attach" => fleet.attach(&[yard.attach_params(session, busy)]).await.map(drop),
        "attach_new" => {
            let member = "chromium:b".parse().unwrap();
            fleet
                .attach(&[
                    yard.attach_params(session, busy),
                    yard.attach_params(&SessionId::generate(), &member),
                ])
                .await
                .map(drop)
        }
        "release" => fleet.release(&[release(session)]).await.map(drop),
        "quit" => fleet.release(&[release(&waiting.session)]).await.map(drop),
        "close" => fleet.close(session).await.map(drop),
        "drain" => fleet.drain(busy).await.map(drop),
        "reap" => fleet.reap(Some(WorkerDefaults::default())).await.map(drop),
        "look" => {
            fleet.list_workers(ListWorkersParams { kind: None, cursor: None, limit: 10 }).await?;
            fleet.list_sessions(ListSessionsParams { worker: None, cursor: None, limit: 10 }).await?;
            fleet.list_waiting().await.map(drop)
        }
        other => unreachable!("{other}"),
    }
}

#[tokio::test]
async fn a_verb_about_the_fleet_that_fails_for_a_spoiled_key_names_it_and_has_changed_nothing() {
    let (stage, mut wrong) = (Stage::new().await, Vec::new());
    let names = KEYS.map(str::to_owned);
    for verb in VERBS {
        let said = stage
            .play_all(
                verb,
                &names,
                async || prepare(&stage, verb).await,
                async |scenery| act(verb, scenery).await,
            )
            .await;
        wrong.extend(said);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test]
async fn a_member_whose_sessions_were_overwritten_is_not_given_twice() {
    let stage = Stage::new().await;
    let Scenery { yard, busy, .. } = prepare(&stage, "wait").await;
    stage.ask(&["SET", "tidemill:fleet:held:chromium:a", "wrong type"]);
    assert!(matches!(
        yard.lease(&yard.lease_params()).await,
        tidemill_core::store::fleet::Leased::Refused { .. }
    ));
    assert_eq!(yard.counts(&busy).await, (1, 1));
}
