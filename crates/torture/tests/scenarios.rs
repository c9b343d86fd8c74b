//! Every scenario on every store, once.

#![allow(
    missing_docs,
    clippy::expect_used,
    reason = "a test is named by what it shows and fails by panicking"
)]

use std::path::Path;
use std::time::Duration;

use tidemill_torture::{Environment, StoreKind, scenario};

const PROGRAM: &str = env!("CARGO_BIN_EXE_torture");

async fn environment(kind: StoreKind) -> Environment {
    Environment::start(kind, Path::new(PROGRAM)).await.expect("an environment")
}

macro_rules! on {
    ($($store:ident: $kind:expr),*) => {$(
        mod $store {
            use super::*;

            #[tokio::test(flavor = "multi_thread")]
            async fn a_killed_worker_s_jobs_are_finished_by_another_when_the_lease_is_over() {
                scenario::killed::run(&environment($kind).await).await.unwrap();
            }

            #[tokio::test(flavor = "multi_thread")]
            async fn a_stopped_worker_s_late_settlements_are_refused() {
                scenario::stopped::run(&environment($kind).await).await.unwrap();
            }

            #[tokio::test(flavor = "multi_thread")]
            async fn a_stopped_worker_that_comes_back_cannot_commit() {
                scenario::stopped_run::run(&environment($kind).await).await.unwrap();
            }

            #[tokio::test(flavor = "multi_thread")]
            async fn a_worker_makes_progress_again_after_every_outage() {
                scenario::outage::run(&environment($kind).await).await.unwrap();
            }

            #[tokio::test(flavor = "multi_thread")]
            async fn poison_jobs_die_after_their_attempts_and_harm_no_other() {
                let mut environment = environment($kind).await;
                environment.lease = Duration::from_secs(1);
                let seed = fastrand::u64(..);
                scenario::poison::run(&environment, seed).await.unwrap_or_else(|error| panic!("seed {seed}: {error:#}"));
            }

            #[tokio::test(flavor = "multi_thread")]
            async fn killed_gateways_and_agents_leave_no_session_no_process_and_no_directory() {
                let (environment, seed) = (environment($kind).await, fastrand::u64(..));
                let torment = scenario::fleet::run(&environment, seed, 10);
                torment.await.unwrap_or_else(|error| panic!("seed {seed}: {error:#}"));
            }

            #[tokio::test(flavor = "multi_thread")]
            async fn no_browser_has_more_clients_than_places_whoever_is_killed_and_whatever_becomes_of_the_store() {
                let (environment, seed) = (environment($kind).await, fastrand::u64(..));
                let torment = scenario::shared::run(&environment, seed, 6);
                torment.await.unwrap_or_else(|error| panic!("seed {seed}: {error:#}"));
            }

            #[tokio::test(flavor = "multi_thread")]
            async fn every_chain_is_closed_once_however_often_its_workers_are_killed() {
                let (environment, seed) = (environment($kind).await, fastrand::u64(..));
                let torment = scenario::chains::run(&environment, seed, Duration::from_secs(5));
                torment.await.unwrap_or_else(|error| panic!("seed {seed}: {error:#}"));
            }

            #[tokio::test(flavor = "multi_thread")]
            async fn an_order_survives_the_death_of_its_worker_at_every_await_point() {
                scenario::order::run(&environment($kind).await).await.unwrap();
            }

            #[tokio::test(flavor = "multi_thread")]
            async fn every_workflow_returns_what_was_foretold_however_often_its_workers_are_killed() {
                let (environment, seed) = (environment($kind).await, fastrand::u64(..));
                let torment = scenario::workflows::run(&environment, seed, 60);
                torment.await.unwrap_or_else(|error| panic!("seed {seed}: {error:#}"));
            }

            #[tokio::test(flavor = "multi_thread")]
            async fn every_job_is_accounted_for_after_a_random_torment() {
                let (environment, seed) = (environment($kind).await, fastrand::u64(..));
                let torment = scenario::random::run(&environment, seed, Duration::from_secs(5));
                torment.await.unwrap_or_else(|error| panic!("seed {seed}: {error:#}"));
            }
        }
    )*};
}

on!(sqlite: StoreKind::Sqlite, redis: StoreKind::Redis, cluster: StoreKind::Cluster, postgres: StoreKind::Postgres);
