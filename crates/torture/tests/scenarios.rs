//! Every scenario on every store, once.

#![allow(
    missing_docs,
    clippy::expect_used,
    reason = "a test is named by what it shows and fails by panicking"
)]

use std::path::Path;

use tidemill_torture::{Kind, Stage, scenario};

const PROGRAM: &str = env!("CARGO_BIN_EXE_torture");

async fn stage(kind: Kind) -> Stage {
    Stage::set(kind, Path::new(PROGRAM)).await.expect("a stage")
}

macro_rules! on {
    ($($store:ident: $kind:expr),*) => {$(
        mod $store {
            use super::*;

            #[tokio::test(flavor = "multi_thread")]
            async fn a_killed_worker_s_jobs_are_finished_by_another_when_the_lease_is_over() {
                scenario::killed::run(&stage($kind).await).await.unwrap();
            }
        }
    )*};
}

on!(sqlite: Kind::Sqlite, redis: Kind::Redis, cluster: Kind::Cluster, postgres: Kind::Postgres);
