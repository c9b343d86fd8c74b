//! Removes what is dead from the fleet, every few seconds. Any number of gateways may do so at once.

use std::collections::HashSet;
use std::time::Duration;

use tidemill_core::store::fleet::{Reaped, UnusableEntry};
use tokio_util::sync::CancellationToken;

use super::desk::Desk;

/// How often, give or take half of it, so that many gateways do not come at the same time.
const EVERY: Duration = Duration::from_secs(3);

/// How many entries that cannot be used are remembered, so that each is logged once. Beyond that none is logged.
const MAX_REPORTED: usize = 1_000;

/// Reaps until `stop`.
pub(crate) async fn run(desk: &Desk, stop: CancellationToken) {
    let mut reported = Reported::default();
    loop {
        let reaped = desk.fleet().reap(Some(desk.options.standard)).await;
        desk.heard(&reaped);
        match reaped {
            Ok(reaped) => reported.log(&reaped),
            Err(error) if error.is_transient() => {}
            Err(error) => {
                tracing::warn!(error = error.full_message(), "the fleet cannot be cleared of what is dead")
            }
        }
        tokio::select! {
            () = tokio::time::sleep(EVERY.mul_f64(0.5 + fastrand::f64())) => {}
            () = stop.cancelled() => return,
        }
    }
}

/// The entries of other programs that were logged because they cannot be used.
#[derive(Debug, Default)]
struct Reported(HashSet<String>);

impl Reported {
    fn log(&mut self, reaped: &Reaped) {
        for member in &reaped.workers {
            tracing::warn!(worker = %member, "a worker has died");
        }
        for member in &reaped.found {
            self.0.remove(&member.to_string());
            tracing::info!(worker = %member, "a worker of another program was found");
        }
        for UnusableEntry { name, reason: why } in &reaped.unusable {
            if self.is_new(name) {
                tracing::warn!(worker = name, why, "a registered worker cannot be used");
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
        let mut reported = Reported::default();
        assert!(reported.is_new("chromium:a") && !reported.is_new("chromium:a"));
        let new = (0..2 * MAX_REPORTED).filter(|number| reported.is_new(&number.to_string()));
        assert_eq!(new.count(), MAX_REPORTED - 1);
    }
}
