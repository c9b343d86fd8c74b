//! A door to this machine's browsers for gateways on other machines: browsers listen on their own machine only.
//!
//! Every browser has a path that nobody can guess. Whoever asks for another one learns nothing.

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

use super::recipe::NotStarted;
use crate::wire::{DialError, Endpoint, Request, Side, Traffic, agreement, dial, splice};

/// How long a gateway may take to say what it wants, and a browser to agree.
const LIMIT: Duration = Duration::from_secs(10);

/// More connections than any machine has browsers for.
const MOST: usize = 4096;

/// When the system has no more connections to give, asking at once would not help.
const PAUSE: Duration = Duration::from_millis(100);

/// The door, and where its paths lead.
#[derive(Debug)]
pub(super) struct Door {
    /// How gateways get here: host and port.
    advertise: String,
    paths: Mutex<HashMap<String, Endpoint>>,
}

/// A path through the door, for as long as this is kept.
#[derive(Debug)]
pub(super) struct Path {
    door: Arc<Door>,
    key: String,
}

impl Door {
    pub(super) fn new(advertise: String) -> Arc<Self> {
        Arc::new(Self { advertise, paths: Mutex::default() })
    }

    /// Opens a path to a browser. Only what listens on a plain WebSocket can be led to.
    pub(super) fn open(self: &Arc<Self>, endpoint: &str) -> Result<Path, NotStarted> {
        let nowhere = || NotStarted(format!("no door leads to {endpoint:?}, which is no plain WebSocket"));
        let (key, endpoint) =
            (uuid::Uuid::new_v4().simple().to_string(), Endpoint::parse(endpoint).ok_or_else(nowhere)?);
        self.paths().insert(key.clone(), endpoint);
        Ok(Path { door: self.clone(), key })
    }

    /// Lets gateways through, for ever.
    pub(super) async fn run(self: Arc<Self>, listener: TcpListener) {
        let (places, mut guests) = (Arc::new(Semaphore::new(MOST)), JoinSet::new());
        loop {
            let Ok(place) = places.clone().acquire_owned().await else { return };
            while guests.try_join_next().is_some() {}
            match listener.accept().await {
                Ok((stream, _)) => {
                    let door = self.clone();
                    guests.spawn(async move {
                        door.receive(stream).await;
                        drop(place);
                    });
                }
                Err(error) => {
                    warn!("cannot accept a connection: {error}");
                    sleep(PAUSE).await;
                }
            }
        }
    }

    async fn receive(&self, mut stream: TcpStream) {
        // Messages are small and each is waited for.
        let _ = stream.set_nodelay(true);
        let request = match timeout(LIMIT, Request::read(&mut stream)).await {
            Ok(Ok(Some(request))) => request,
            Ok(Ok(None)) => return refuse(stream, StatusCode::BAD_REQUEST, "").await,
            Ok(Err(_)) | Err(_) => return,
        };
        let Some(endpoint) = self.find(&request.path) else {
            return refuse(stream, StatusCode::NOT_FOUND, "").await;
        };
        match dial(&endpoint, &request.headers, LIMIT).await {
            Ok(answer) => {
                if stream.write_all(&agreement(&answer.headers)).await.is_ok() {
                    let gateway = Side { stream, early: request.early };
                    // Whichever side ends it, both are closed then.
                    let _ = splice(gateway, answer.side, &Traffic::default()).await;
                }
            }
            // In the browser's own words, so that it makes no difference where the gateway is.
            Err(DialError::Refused { status, words }) => {
                debug!("a browser does not want its client: {status}: {words}");
                refuse(stream, status, &words).await;
            }
            Err(error) => {
                debug!("a browser cannot be had: {error}");
                refuse(stream, StatusCode::BAD_GATEWAY, "").await;
            }
        }
    }

    /// Where a path leads: `/KEY`, or `/KEY/MORE`.
    fn find(&self, path: &str) -> Option<Endpoint> {
        let path = path.strip_prefix('/')?;
        let (key, more) = path.split_once('/').unwrap_or((path, ""));
        let endpoint = self.paths().get(key)?.clone();
        Some(if more.is_empty() { endpoint } else { endpoint.below(more) })
    }

    fn paths(&self) -> MutexGuard<'_, HashMap<String, Endpoint>> {
        self.paths.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Path {
    /// What gateways are told.
    pub(super) fn endpoint(&self) -> String {
        format!("ws://{}/{}", self.door.advertise, self.key)
    }
}

impl Drop for Path {
    fn drop(&mut self) {
        self.door.paths().remove(&self.key);
    }
}

async fn refuse(mut stream: TcpStream, status: StatusCode, words: &str) {
    let length = words.len();
    let answer = format!("HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{words}");
    // Whoever has gone already does not want to know.
    let _ = stream.write_all(answer.as_bytes()).await;
    let _ = stream.shutdown().await;
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;

    use super::*;

    #[test]
    fn a_path_leads_to_its_browser_for_as_long_as_it_is_kept() {
        let door = Door::new("browsers-1:7719".into());
        let path = door.open("ws://127.0.0.1:9222/session").unwrap();
        let shown = path.endpoint();
        let asked = shown.strip_prefix("ws://browsers-1:7719").unwrap().to_owned();
        assert_eq!(door.find(&asked).unwrap().target, "/session");
        assert_eq!(door.find(&format!("{asked}/abc")).unwrap().target, "/session/abc");
        assert!(
            ["/", "", "/devtools/browser/a", "/json/version"].iter().all(|path| door.find(path).is_none())
        );
        drop(path);
        assert!(door.find(&asked).is_none());
    }

    #[tokio::test]
    async fn a_refusal_is_passed_on_as_the_browser_said_it() {
        let browser = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let door = Door::new("browsers-1:7719".into());
        let path = door.open(&format!("ws://{}/own", browser.local_addr().unwrap())).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let _door = tokio::spawn(door.clone().run(listener));
        let says = async {
            let (mut stream, _) = browser.accept().await.unwrap();
            assert_ne!(stream.read(&mut [0; 4096]).await.unwrap(), 0);
            let answer = "HTTP/1.1 428 Precondition Required\r\nContent-Length: 14\r\n\r\nanother client";
            stream.write_all(answer.as_bytes()).await.unwrap();
        };
        let asks = async {
            let mut stream = TcpStream::connect(address).await.unwrap();
            let more: String = (0..80).map(|n| format!("X-{n}: y\r\n")).collect();
            let request = format!("GET /{} HTTP/1.1\r\nUpgrade: websocket\r\n{more}\r\n", path.key);
            stream.write_all(request.as_bytes()).await.unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.unwrap();
            answer
        };
        let ((), answer) = tokio::join!(says, asks);
        assert!(
            answer.starts_with("HTTP/1.1 428 ") && answer.ends_with("\r\n\r\nanother client"),
            "{answer}"
        );
    }
}
