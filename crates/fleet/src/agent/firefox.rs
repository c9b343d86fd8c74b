//! Firefox specifics: readiness and version. Firefox prints its URL before it can be used, and
//! reports its version only inside a session.

use std::path::Path;

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::fs;
use tokio_tungstenite::connect_async;
use tokio_tungstenite::tungstenite::Message;

use super::launch::StartError;

/// Completes when Firefox accepts sessions. It listens after about a second and reports readiness,
/// but the first session waits about three seconds more. This opens and ends that first session, so
/// that no client pays for it.
pub(super) async fn wait_until_ready(endpoint: &str) -> Result<(), StartError> {
    let failed = |error: &dyn std::fmt::Display| StartError(format!("it lets nobody in: {error}"));
    let (mut socket, _) = connect_async(endpoint).await.map_err(|error| failed(&error))?;
    for (id, method, params) in
        [(1, "session.new", json!({ "capabilities": {} })), (2, "session.end", json!({}))]
    {
        let command = json!({ "id": id, "method": method, "params": params }).to_string();
        socket.send(Message::text(command)).await.map_err(|error| failed(&error))?;
        loop {
            let message = socket.next().await.ok_or_else(|| failed(&"it hangs up"))?;
            let message = message.map_err(|error| failed(&error))?;
            let Ok(reply) = serde_json::from_slice::<Value>(&message.into_data()) else { continue };
            match reply["type"].as_str() {
                Some("success") if reply["id"] == id => break,
                Some("error") => return Err(failed(&reply["message"])),
                _ => {}
            }
        }
    }
    Ok(())
}

/// The version, read from the file beside the program.
pub(super) async fn version(binary: &Path) -> String {
    let text = fs::read_to_string(binary.with_file_name("application.ini")).await.unwrap_or_default();
    let version = text.lines().find_map(|line| line.strip_prefix("Version="));
    version.map_or_else(|| "Firefox".to_owned(), |version| format!("Firefox/{version}"))
}
