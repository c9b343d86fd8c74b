//! The reaper: removes dead workers and sessions from the fleet every few seconds. Any number of
//! gateways may run it.

use std::collections::HashSet;
use std::time::Duration;

use tidemill_core::store::fleet::{Reaped, UnusableEntry};
use tokio_util::sync::CancellationToken;

use super::shared::GatewayShared;

/// The mean interval. Half of it is random, so that gateways do not run at the same time.
const REAP_INTERVAL: Duration = Duration::from_secs(3);

/// The most unusable entries to remember, so that each is logged once. Further ones are not logged.
const MAX_REPORTED: usize = 1_000;

/// Reaps until `stop`.
pub(crate) async fn run(shared: &GatewayShared, stop: CancellationToken) {
    let mut reported = ReportedEntries::default();
    loop {
        let reaped = shared.fleet().reap(Some(shared.options.worker_defaults)).await;
        shared.leases.record_store_result(&reaped);
        match reaped {
            Ok(reaped) => reported.log(&reaped),
            Err(error) if error.is_transient() => {}
            Err(error) => {
                tracing::warn!(error = error.full_message(), "cannot remove dead workers from the fleet")
            }
        }
        tokio::select! {
            () = tokio::time::sleep(REAP_INTERVAL.mul_f64(0.5 + fastrand::f64())) => {}
            () = stop.cancelled() => return,
        }
    }
}

/// Unusable entries of other programs that were logged.
#[derive(Debug, Default)]
struct ReportedEntries(HashSet<String>);

impl ReportedEntries {
    fn log(&mut self, reaped: &Reaped) {
        for worker in &reaped.workers {
            tracing::warn!(worker = %worker, "a worker has died");
        }
        for worker in &reaped.found {
            self.0.remove(&worker.to_string());
            tracing::info!(worker = %worker, "found a worker of another program");
        }
        for UnusableEntry { name, reason } in &reaped.unusable {
            if self.is_new(name) {
                tracing::warn!(worker = name, reason, "a registered worker cannot be used");
            }
        }
    }

    fn is_new(&mut self, name: &str) -> bool {
        self.0.len() < MAX_REPORTED && self.0.insert(name.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_entry_is_reported_once_and_only_so_many() {
        let mut reported = ReportedEntries::default();
        assert!(reported.is_new("chromium:a") && !reported.is_new("chromium:a"));
        let new = (0..2 * MAX_REPORTED).filter(|number| reported.is_new(&number.to_string()));
        assert_eq!(new.count(), MAX_REPORTED - 1);
    }
}
