//! Firefox: says that it listens before it can be used, and tells its version to nobody who has not begun a session.

use std::path::Path;

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::fs;
use tokio_tungstenite::connect_async;
use tokio_tungstenite::tungstenite::Message;

use super::recipe::NotStarted;

/// Completes when it can be used. It listens after a second, and answers that it is ready, but lets the first session
/// wait for some three seconds more until it has started; so that one is begun here, and not by a client.
pub(super) async fn is_up(endpoint: &str) -> Result<(), NotStarted> {
    let failed = |error: &dyn std::fmt::Display| NotStarted(format!("it lets nobody in: {error}"));
    let (mut socket, _) = connect_async(endpoint).await.map_err(|error| failed(&error))?;
    for (id, method, params) in
        [(1, "session.new", json!({ "capabilities": {} })), (2, "session.end", json!({}))]
    {
        let order = json!({ "id": id, "method": method, "params": params }).to_string();
        socket.send(Message::text(order)).await.map_err(|error| failed(&error))?;
        loop {
            let message = socket.next().await.ok_or_else(|| failed(&"it hangs up"))?;
            let message = message.map_err(|error| failed(&error))?;
            let Ok(answer) = serde_json::from_slice::<Value>(&message.into_data()) else { continue };
            match answer["type"].as_str() {
                Some("success") if answer["id"] == id => break,
                Some("error") => return Err(failed(&answer["message"])),
                _ => {}
            }
        }
    }
    Ok(())
}

/// Its version, which is written beside its program.
pub(super) async fn version(binary: &Path) -> String {
    let text = fs::read_to_string(binary.with_file_name("application.ini")).await.unwrap_or_default();
    let version = text.lines().find_map(|line| line.strip_prefix("Version="));
    version.map_or_else(|| "Firefox".to_owned(), |version| format!("Firefox/{version}"))
}
