//! The wake-up listener: passes wake-ups to waiting clients and to held sessions.

use futures_util::StreamExt;
use tidemill_core::wake::Wake;
use tokio_util::sync::CancellationToken;

use super::shared::GatewayShared;

/// Listens until `stop`.
pub(crate) async fn run(shared: &GatewayShared, stop: CancellationToken) {
    let mut wakes = shared.store.subscribe();
    loop {
        let wake = tokio::select! {
            wake = wakes.next() => wake,
            () = stop.cancelled() => return,
        };
        match wake {
            Some(Wake::Capacity(kind)) => shared.waiters.notify(Some(&kind)),
            Some(Wake::Session(session)) => shared.sessions.recheck(&session),
            Some(Wake::Everything) => {
                shared.waiters.notify(None);
                shared.sessions.recheck_all();
            }
            Some(_) => {}
            None => return,
        }
    }
}
