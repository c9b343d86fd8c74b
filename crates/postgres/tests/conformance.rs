//! The conformance suite on PostgreSQL: one database per case, on one server.

// A failed setup is a failed test.
#![allow(clippy::unwrap_used)]

mod world;

use std::sync::Arc;

use tidemill_core::Store;
use tidemill_testkit::conformance::StoreUnderTest;
use world::{connect, query};

async fn open() -> StoreUnderTest {
    let url = tidemill_testkit::servers::shared_postgres().database().unwrap();
    let (again, left) = (url.clone(), url.clone());
    StoreUnderTest::new(Arc::new(connect(&url).await), ())
        .reopen(move || {
            let url = again.clone();
            async move { Arc::new(connect(&url).await) as Arc<dyn Store> }
        })
        .leftovers(move || {
            let url = left.clone();
            async move { leftovers(&url).await }
        })
}

async fn leftovers(url: &str) -> Vec<String> {
    let rows = query(
        url,
        "SELECT 'job ' || id FROM tidemill.jobs UNION ALL SELECT 'ready ' || id FROM tidemill.ready
         UNION ALL SELECT 'lease ' || id FROM tidemill.leases
         UNION ALL SELECT 'block ' || job || ' ' || chain FROM tidemill.blocks
         UNION ALL SELECT 'key ' || key FROM tidemill.keys UNION ALL SELECT 'owed ' || chain FROM tidemill.owed
         UNION ALL SELECT 'run ' || id FROM tidemill.runs UNION ALL SELECT 'entry of ' || run FROM tidemill.journal
         UNION ALL SELECT 'alarm of ' || run FROM tidemill.alarms
         UNION ALL SELECT 'delivery to ' || run FROM tidemill.deliveries
         UNION ALL SELECT 'run key ' || key FROM tidemill.run_keys
         UNION ALL SELECT 'attribute of ' || run FROM tidemill.attributes
         UNION ALL SELECT 'member ' || id FROM tidemill.members UNION ALL SELECT 'session ' || id FROM tidemill.sessions
         UNION ALL SELECT 'ticket of ' || session FROM tidemill.tickets",
    );
    rows.await.iter().map(|row| row[0].clone()).collect()
}

tidemill_testkit::conformance!(open);
