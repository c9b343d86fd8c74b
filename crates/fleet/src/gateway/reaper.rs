//! Removes what is dead from the fleet, every few seconds. Any number of gateways may do so at once.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::desk::Desk;

/// How often, give or take half of it, so that many gateways do not come at the same time.
const EVERY: Duration = Duration::from_secs(3);

/// Reaps until `stop`.
pub(crate) async fn run(desk: &Desk, stop: CancellationToken) {
    loop {
        let reaped = desk.fleet().reap(Some(desk.options.standard)).await;
        desk.heard(&reaped);
        match reaped {
            Ok(reaped) => {
                for member in &reaped.members {
                    tracing::warn!(worker = %member, "a worker has died");
                }
                for member in &reaped.found {
                    tracing::info!(worker = %member, "a worker of another program was found");
                }
            }
            Err(error) if error.is_transient() => {}
            Err(error) => {
                tracing::warn!(error = error.chain(), "the fleet cannot be cleared of what is dead")
            }
        }
        tokio::select! {
            () = tokio::time::sleep(EVERY.mul_f64(0.5 + fastrand::f64())) => {}
            () = stop.cancelled() => return,
        }
    }
}
