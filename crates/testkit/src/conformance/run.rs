//! Runs one case.

use std::future::Future;
use std::time::Duration;

use super::StoreUnderTest;

/// Far more than any case needs on a busy machine. A case that hangs must end nevertheless.
const CASE_TIMEOUT: Duration = Duration::from_secs(300);

/// Opens a store and runs one case on a runtime of its own.
pub fn run<O, C>(open: impl FnOnce() -> O, case: impl FnOnce(StoreUnderTest) -> C)
where
    O: Future<Output = StoreUnderTest>,
    C: Future<Output = ()>,
{
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let subject = open().await;
        tokio::time::timeout(CASE_TIMEOUT, Box::pin(case(subject))).await.expect("the case ends");
    });
}

/// The number of cases.
pub fn count() -> usize {
    crate::conformance!(@each names).len()
}
