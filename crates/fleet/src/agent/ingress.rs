//! The ingress: a listener through which gateways on other machines reach this machine's browsers,
//! which listen on loopback only.
//!
//! Each browser has an unguessable path. Any other path answers 404.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hyper::StatusCode;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tracing::{debug, warn};

use super::launch::StartError;
use crate::net::{DialError, Endpoint, PeerStream, Traffic, UpgradeRequest, dial, encode_response, splice};

/// How long a gateway may take to send its request, and a browser to accept it.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// Far more connections than one machine has browsers for.
const MAX_CONNECTIONS: usize = 4096;

/// After a failed accept: the process is likely out of file descriptors, and an immediate retry
/// would fail too.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

/// The listener's address, and the browser behind each path.
#[derive(Debug)]
pub(super) struct Ingress {
    /// The host and port by which gateways reach this listener.
    advertise: String,
    paths: Mutex<HashMap<String, Endpoint>>,
}

/// A path to one browser. Dropping it removes the path.
#[derive(Debug)]
pub(super) struct IngressPath {
    ingress: Arc<Ingress>,
    key: String,
}

impl Ingress {
    pub(super) fn new(advertise: String) -> Arc<Self> {
        Arc::new(Self { advertise, paths: Mutex::default() })
    }

    /// Adds a path to a browser. The browser must listen on a plain WebSocket.
    pub(super) fn add_path(self: &Arc<Self>, endpoint: &str) -> Result<IngressPath, StartError> {
        let not_websocket = || StartError(format!("cannot expose {endpoint:?}: it is not a plain WebSocket"));
        let (key, endpoint) =
            (uuid::Uuid::new_v4().simple().to_string(), Endpoint::parse(endpoint).ok_or_else(not_websocket)?);
        self.paths().insert(key.clone(), endpoint);
        Ok(IngressPath { ingress: self.clone(), key })
    }

    /// Accepts gateways until the task is dropped.
    pub(super) async fn run(self: Arc<Self>, listener: TcpListener) {
        let (permits, mut connections) = (Arc::new(Semaphore::new(MAX_CONNECTIONS)), JoinSet::new());
        loop {
            let Ok(permit) = permits.clone().acquire_owned().await else { return };
            while connections.try_join_next().is_some() {}
            match listener.accept().await {
                Ok((stream, _)) => {
                    let ingress = self.clone();
                    connections.spawn(async move {
                        ingress.serve_connection(stream).await;
                        drop(permit);
                    });
                }
                Err(error) => {
                    warn!("cannot accept a connection: {error}");
                    sleep(ACCEPT_RETRY_DELAY).await;
                }
            }
        }
    }

    async fn serve_connection(&self, mut stream: TcpStream) {
        // Messages are small, and each side waits for the other's.
        let _ = stream.set_nodelay(true);
        let request = match timeout(HANDSHAKE_TIMEOUT, UpgradeRequest::read(&mut stream)).await {
            Ok(Ok(Some(request))) => request,
            Ok(Ok(None)) => return send_error(stream, StatusCode::BAD_REQUEST, "").await,
            Ok(Err(_)) | Err(_) => return,
        };
        let Some(endpoint) = self.find_endpoint(&request.path) else {
            return send_error(stream, StatusCode::NOT_FOUND, "").await;
        };
        match dial(&endpoint, &request.headers, HANDSHAKE_TIMEOUT).await {
            Ok(response) => {
                if stream.write_all(&encode_response(&response.headers)).await.is_ok() {
                    let gateway = PeerStream { stream, read_ahead: request.read_ahead };
                    // When either side ends the connection, both are closed.
                    let _ = splice(gateway, response.stream, &Traffic::default()).await;
                }
            }
            // The browser's own response is passed on, so clients see the same error wherever the
            // gateway runs.
            Err(DialError::Refused { status, body }) => {
                debug!("the browser refused the client: {status}: {body}");
                send_error(stream, status, &body).await;
            }
            Err(error) => {
                debug!("cannot connect to the browser: {error}");
                send_error(stream, StatusCode::BAD_GATEWAY, "").await;
            }
        }
    }

    /// Resolves `/KEY` or `/KEY/MORE` to a browser's endpoint.
    fn find_endpoint(&self, path: &str) -> Option<Endpoint> {
        let path = path.strip_prefix('/')?;
        let (key, rest) = path.split_once('/').unwrap_or((path, ""));
        let endpoint = self.paths().get(key)?.clone();
        Some(if rest.is_empty() { endpoint } else { endpoint.join(rest) })
    }

    fn paths(&self) -> MutexGuard<'_, HashMap<String, Endpoint>> {
        self.paths.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl IngressPath {
    /// The endpoint that is published in the fleet.
    pub(super) fn endpoint(&self) -> String {
        format!("ws://{}/{}", self.ingress.advertise, self.key)
    }
}

impl Drop for IngressPath {
    fn drop(&mut self) {
        self.ingress.paths().remove(&self.key);
    }
}

async fn send_error(mut stream: TcpStream, status: StatusCode, body: &str) {
    let length = body.len();
    let response =
        format!("HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}");
    // The peer may have disconnected already.
    let _ = stream.write_all(response.as_bytes()).await;
    let _ = stream.shutdown().await;
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;

    use super::*;

    #[test]
    fn a_path_leads_to_its_browser_for_as_long_as_it_is_kept() {
        let ingress = Ingress::new("browsers-1:7719".into());
        let path = ingress.add_path("ws://127.0.0.1:9222/session").unwrap();
        let shown = path.endpoint();
        let asked = shown.strip_prefix("ws://browsers-1:7719").unwrap().to_owned();
        assert_eq!(ingress.find_endpoint(&asked).unwrap().target, "/session");
        assert_eq!(ingress.find_endpoint(&format!("{asked}/abc")).unwrap().target, "/session/abc");
        assert!(
            ["/", "", "/devtools/browser/a", "/json/version"]
                .iter()
                .all(|path| ingress.find_endpoint(path).is_none())
        );
        drop(path);
        assert!(ingress.find_endpoint(&asked).is_none());
    }

    #[tokio::test]
    async fn a_refusal_is_passed_on_as_the_browser_said_it() {
        let browser = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let ingress = Ingress::new("browsers-1:7719".into());
        let path = ingress.add_path(&format!("ws://{}/own", browser.local_addr().unwrap())).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let _door = tokio::spawn(ingress.clone().run(listener));
        let says = async {
            let (mut stream, _) = browser.accept().await.unwrap();
            assert_ne!(stream.read(&mut [0; 4096]).await.unwrap(), 0);
            let response = "HTTP/1.1 428 Precondition Required\r\nContent-Length: 14\r\n\r\nanother client";
            stream.write_all(response.as_bytes()).await.unwrap();
        };
        let asks = async {
            let mut stream = TcpStream::connect(address).await.unwrap();
            let rest: String = (0..80).map(|n| format!("X-{n}: y\r\n")).collect();
            let request = format!("GET /{} HTTP/1.1\r\nUpgrade: websocket\r\n{rest}\r\n", path.key);
            stream.write_all(request.as_bytes()).await.unwrap();
            let mut response = String::new();
            stream.read_to_string(&mut response).await.unwrap();
            response
        };
        let ((), response) = tokio::join!(says, asks);
        assert!(
            response.starts_with("HTTP/1.1 428 ") && response.ends_with("\r\n\r\nanother client"),
            "{response}"
        );
    }
}
