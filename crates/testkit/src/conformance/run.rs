//! Runs one case.

use std::future::Future;
use std::time::Duration;

use super::Subject;

/// Far more than any case needs on a busy machine; a case that hangs must still end.
const PATIENCE: Duration = Duration::from_secs(300);

/// Opens a store and holds it to one case, on a runtime of its own.
pub fn run<O, C>(open: impl FnOnce() -> O, case: impl FnOnce(Subject) -> C)
where
    O: Future<Output = Subject>,
    C: Future<Output = ()>,
{
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let subject = open().await;
        tokio::time::timeout(PATIENCE, Box::pin(case(subject))).await.expect("the case ends");
    });
}

/// How many cases there are.
pub fn count() -> usize {
    crate::conformance!(@each names).len()
}
