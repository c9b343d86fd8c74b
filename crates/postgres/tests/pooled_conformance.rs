//! The conformance suite on PostgreSQL behind PgBouncer in transaction mode.

// A failed setup is a failed test.
#![allow(clippy::unwrap_used)]

mod world;

use std::sync::{Arc, OnceLock};

use tidemill_core::Store;
use tidemill_testkit::conformance::StoreUnderTest;
use tidemill_testkit::servers::{Pgbouncer, PgbouncerOptions, PoolMode, shared_postgres};
use world::connect;

/// One pooler for all cases.
fn pooler() -> &'static Pgbouncer {
    static POOLER: OnceLock<Pgbouncer> = OnceLock::new();
    POOLER.get_or_init(|| {
        let options = PgbouncerOptions {
            mode: PoolMode::Transaction,
            size: 4,
            settings: vec!["server_idle_timeout = 5".into()],
        };
        Pgbouncer::start(shared_postgres(), &options).unwrap()
    })
}

async fn open() -> StoreUnderTest {
    let direct = shared_postgres().database().unwrap();
    pooler().check_alive().unwrap();
    let url = format!("{}?listen={direct}", pooler().url(&direct));
    let again = url.clone();
    StoreUnderTest::new(Arc::new(connect(&url).await), ()).reopen(move || {
        let url = again.clone();
        async move { Arc::new(connect(&url).await) as Arc<dyn Store> }
    })
}

tidemill_testkit::conformance!(open);
