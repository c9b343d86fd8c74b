//! The client against a browser that does as the test says.

use std::sync::Arc;
use std::time::Duration;

use futures_util::{FutureExt, SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::io::DuplexStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::Role;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::connection::{COMMAND_TIMEOUT, CdpConnection};
use super::{BrowserError, BrowserPage};

/// The browser's side of a connection, and the task of the client's driver.
struct FakeBrowser {
    socket: WebSocketStream<DuplexStream>,
    driver: AbortOnDropHandle<()>,
}

impl FakeBrowser {
    async fn connect() -> (CdpConnection, Self) {
        let (here, there) = tokio::io::duplex(1 << 16);
        let (connection, driver) = CdpConnection::new(here).await;
        let driver = AbortOnDropHandle::new(tokio::spawn(driver.run(CancellationToken::new())));
        let socket = WebSocketStream::from_raw_socket(there, Role::Server, None).await;
        (connection, Self { socket, driver })
    }

    /// A connection with an open page, whose session is `S`.
    async fn with_page() -> (BrowserPage, Self) {
        let (connection, mut browser) = Self::connect().await;
        let answers = async {
            for _ in 0..9 {
                browser.answer_as_usual().await;
            }
        };
        let (page, ()) = tokio::join!(BrowserPage::open(&connection, "C"), answers);
        (page.unwrap(), browser)
    }

    async fn receive(&mut self) -> Value {
        match self.socket.next().await.unwrap().unwrap() {
            Message::Text(text) => serde_json::from_str(&text).unwrap(),
            other => panic!("{other:?}"),
        }
    }

    async fn send(&mut self, message: Value) {
        self.socket.send(Message::text(message.to_string())).await.unwrap();
    }

    async fn answer(&mut self, command: &Value, result: Value) {
        self.send(json!({ "id": command["id"], "result": result })).await;
    }

    async fn event(&mut self, method: &str, params: Value) {
        self.send(json!({ "method": method, "params": params, "sessionId": "S" })).await;
    }

    async fn answer_as_usual(&mut self) -> Value {
        let command = self.receive().await;
        let result = match command["method"].as_str().unwrap() {
            "Target.createTarget" => json!({ "targetId": "T" }),
            "Target.attachToTarget" => json!({ "sessionId": "S" }),
            "Page.getFrameTree" => {
                json!({ "frameTree": { "frame": { "id": "T", "loaderId": "0", "url": "about:blank" } } })
            }
            "Page.navigate" => json!({ "frameId": "T", "loaderId": "1" }),
            _ => json!({}),
        };
        self.answer(&command, result).await;
        command
    }
}

async fn ask(connection: &CdpConnection, method: &str) -> Result<Value, BrowserError> {
    connection.call_method(None, method, &json!({}), COMMAND_TIMEOUT).await
}

#[tokio::test]
async fn answers_find_their_commands_in_any_order() {
    let (connection, mut browser) = FakeBrowser::connect().await;
    let answers = async {
        let (first, second) = (browser.receive().await, browser.receive().await);
        browser.send(json!({ "id": 999, "result": {} })).await;
        browser.answer(&second, json!({ "is": second["method"] })).await;
        browser.answer(&first, json!({ "is": first["method"] })).await;
    };
    let (one, two, ()) = tokio::join!(biased; ask(&connection, "A.one"), ask(&connection, "A.two"), answers);
    assert_eq!((one.unwrap(), two.unwrap()), (json!({ "is": "A.one" }), json!({ "is": "A.two" })));
}

#[tokio::test]
async fn a_refused_command_says_which_and_why() {
    let (connection, mut browser) = FakeBrowser::connect().await;
    let refuse = async {
        let id = browser.receive().await["id"].clone();
        browser.send(json!({ "id": id, "error": { "code": -32601, "message": "no such method" } })).await;
    };
    let (refused, ()) = tokio::join!(ask(&connection, "A.b"), refuse);
    assert_eq!(refused.unwrap_err().to_string(), "A.b: no such method (-32601)");
    let confuse = async {
        let command = browser.receive().await;
        browser.answer(&command, json!(7)).await;
    };
    let params = json!({});
    let call = connection.call_method::<String>(None, "A.b", &params, COMMAND_TIMEOUT);
    assert!(matches!(tokio::join!(call, confuse).0, Err(BrowserError::Json { .. })));
}

#[tokio::test(start_paused = true)]
async fn a_command_has_a_deadline_and_leaves_nothing_behind() {
    let (connection, mut browser) = FakeBrowser::connect().await;
    let (limit, params) = (Duration::from_secs(5), json!({}));
    let call = connection.call_method::<Value>(None, "A.b", &params, limit);
    assert!(matches!(call.await, Err(BrowserError::Timeout { after, .. }) if after == limit));
    assert!(ask(&connection, "A.dropped").now_or_never().is_none());
    assert_eq!(connection.pending_calls(), 0);
    // A late answer is ignored.
    let late = browser.receive().await;
    browser.answer(&late, json!({})).await;
    browser.receive().await;
    let answer = async { browser.answer_as_usual().await };
    tokio::join!(ask(&connection, "A.c"), answer).0.unwrap();
}

#[tokio::test]
async fn a_closed_connection_fails_all_calls_and_ends_all_receivers() {
    for is_aborted in [false, true] {
        let (page, mut browser) = FakeBrowser::with_page().await;
        let mut events = page.events::<Value>("A.b");
        let call = page.call("A.b", json!({}));
        let close = async {
            browser.receive().await;
            if is_aborted {
                browser.driver.abort();
            } else {
                drop(browser.socket);
            }
        };
        let (failed, ()) = tokio::join!(call, close);
        assert!(matches!(failed, Err(BrowserError::Closed)));
        assert!(matches!(page.call("A.b", json!({})).await, Err(BrowserError::Closed)));
        assert!(matches!(page.wait_for_network_idle(None).await, Err(BrowserError::Closed)));
        assert!(events.recv().await.is_none() && page.events::<Value>("A.b").recv().await.is_none());
    }
}

#[tokio::test]
async fn a_connection_ends_with_its_last_handle() {
    let (connection, browser) = FakeBrowser::connect().await;
    drop(connection.clone());
    assert!(!browser.driver.is_finished());
    drop(connection);
    browser.driver.await.unwrap();
}

#[tokio::test]
async fn a_page_has_loaded_when_its_document_has() {
    let (page, mut browser) = FakeBrowser::with_page().await;
    let lifecycle = |loader: &str, name: &str| json!({ "frameId": "T", "loaderId": loader, "name": name });
    let load = async {
        let navigate = browser.answer_as_usual().await;
        assert_eq!(navigate["params"], json!({ "url": "http://a/", "frameId": "T" }));
        browser.event("Page.lifecycleEvent", lifecycle("0", "load")).await;
        let frame = json!({ "frame": { "id": "T", "loaderId": "1", "url": "http://a/b" } });
        browser.event("Page.frameNavigated", frame).await;
        browser.event("Page.lifecycleEvent", lifecycle("1", "load")).await;
    };
    tokio::join!(page.goto("http://a/"), load).0.unwrap();
    assert_eq!(page.url(), "http://a/b");
    let scroll = async {
        let navigate = browser.receive().await;
        browser.answer(&navigate, json!({ "frameId": "T" })).await;
        let within = json!({ "frameId": "T", "url": "http://a/b#c" });
        browser.event("Page.navigatedWithinDocument", within).await;
    };
    tokio::join!(page.goto("http://a/b#c"), scroll).0.unwrap();
    assert_eq!(page.url(), "http://a/b#c", "the event comes after the answer");
    let refuse = async {
        let navigate = browser.receive().await;
        let result = json!({ "frameId": "T", "loaderId": "2", "errorText": "net::ERR_ABORTED" });
        browser.answer(&navigate, result).await;
    };
    let error = tokio::join!(page.goto("http://b/"), refuse).0.unwrap_err();
    assert_eq!(error.to_string(), "http://b/: net::ERR_ABORTED");
}

#[tokio::test(start_paused = true)]
async fn a_page_that_does_not_load_is_an_error() {
    let (page, mut browser) = FakeBrowser::with_page().await;
    let (failed, _) = tokio::join!(page.goto("http://a/"), browser.answer_as_usual());
    assert_eq!(failed.unwrap_err().to_string(), "Page.navigate was not done within 30s");
}

#[tokio::test(start_paused = true)]
async fn a_navigation_has_the_deadline_of_its_caller() {
    let (page, mut browser) = FakeBrowser::with_page().await;
    for seconds in [1, 300] {
        let (limit, started) = (Duration::from_secs(seconds), tokio::time::Instant::now());
        // The page is there but does not load.
        let (failed, _) = tokio::join!(page.navigate("http://a/", limit), browser.answer_as_usual());
        assert!(matches!(failed, Err(BrowserError::Timeout { after, .. }) if after == limit));
        assert_eq!(started.elapsed().as_secs(), seconds);
        // The browser does not answer at all.
        let failed = page.navigate("http://a/", limit).await;
        assert!(matches!(failed, Err(BrowserError::Timeout { after, .. }) if after == limit));
        browser.receive().await;
    }
}

#[tokio::test]
async fn events_go_to_those_who_want_them() {
    let (page, mut browser) = FakeBrowser::with_page().await;
    let (mut ours, mut others) = (page.events::<u32>("A.b"), page.events::<u32>("A.c"));
    browser.send(json!({ "method": "A.b", "params": 0, "sessionId": "another" })).await;
    browser.event("A.b", json!(1)).await;
    browser.event("A.c", json!(2)).await;
    assert_eq!(ours.recv().await.unwrap().unwrap(), 1);
    assert_eq!(others.recv().await.unwrap().unwrap(), 2);
}

#[tokio::test]
async fn a_dialog_is_dismissed_unless_the_handler_receives_it() {
    let (page, mut browser) = FakeBrowser::with_page().await;
    for (kind, accept) in [("confirm", false), ("beforeunload", true)] {
        browser.event("Page.javascriptDialogOpening", json!({ "message": "?", "type": kind })).await;
        let closed = browser.receive().await;
        assert_eq!(
            (&closed["method"], &closed["params"], &closed["sessionId"]),
            (&json!("Page.handleJavaScriptDialog"), &json!({ "accept": accept }), &json!("S"))
        );
    }
    let mut dialogs = page.events::<Value>("Page.javascriptDialogOpening");
    browser.event("Page.javascriptDialogOpening", json!({ "message": "!" })).await;
    assert_eq!(dialogs.recv().await.unwrap().unwrap()["message"], "!");
    let accept = page.call("Page.handleJavaScriptDialog", json!({ "accept": true }));
    let (accepted, command) = tokio::join!(accept, browser.answer_as_usual());
    accepted.unwrap();
    assert_eq!(command["params"]["accept"], true);
}

#[tokio::test]
async fn events_are_received_while_the_browser_reads_nothing() {
    let (page, mut browser) = FakeBrowser::with_page().await;
    let mut marks = page.events::<u32>("A.mark");
    let large = json!({ "text": "x".repeat(1 << 20) });
    let mut calls = futures_util::future::join_all((0..32).map(|_| page.call("A.b", large.clone())));
    assert!((&mut calls).now_or_never().is_none());
    // The queue of commands is full, and the dialog needs a reply.
    browser.event("Page.javascriptDialogOpening", json!({ "message": "?", "type": "alert" })).await;
    browser.event("A.mark", json!(7)).await;
    assert_eq!(marks.recv().await.unwrap().unwrap(), 7);
}

#[tokio::test]
async fn a_page_that_closes_itself_fails_its_own_calls_only() {
    let (page, mut browser) = FakeBrowser::with_page().await;
    let connection = page.connection().clone();
    let detach = async {
        browser.receive().await;
        let other = browser.receive().await;
        let detached = json!({ "method": "Target.detachedFromTarget", "params": { "sessionId": "S" } });
        browser.send(detached).await;
        browser.answer(&other, json!({})).await;
    };
    let calls = (page.call("A.b", json!({})), ask(&connection, "A.c"), detach);
    let (closed, other, ()) = tokio::join!(biased; calls.0, calls.1, calls.2);
    assert!(matches!(closed, Err(BrowserError::Closed)));
    other.unwrap();
}

#[tokio::test]
async fn a_script_in_the_isolated_world_waits_while_the_page_is_replaced() {
    let (page, mut browser) = FakeBrowser::with_page().await;
    assert_eq!(page.evaluate_isolated::<u32>("1").await.unwrap(), None);
    let mut marks = page.events::<u32>("A.mark");
    let context = json!({ "id": 7, "uniqueId": "7.8", "name": "tidemill", "auxData": { "frameId": "T" } });
    browser.event("Runtime.executionContextCreated", json!({ "context": context })).await;
    browser.event("A.mark", json!(1)).await;
    marks.recv().await.unwrap().unwrap();
    let replies = [
        json!({ "result": { "result": { "type": "number", "value": 42 } } }),
        json!({ "error": { "code": -32602, "message": "uniqueContextId not found" } }),
        json!({ "error": { "code": -32000, "message": "Inspected target navigated or closed" } }),
    ];
    for (mut reply, expected) in replies.into_iter().zip([Some(42), None, None]) {
        let answer = async {
            let command = browser.receive().await;
            assert_eq!(command["params"]["uniqueContextId"], "7.8");
            reply["id"] = command["id"].clone();
            browser.send(reply).await;
        };
        let (value, ()) = tokio::join!(page.evaluate_isolated::<u32>("6 * 7"), answer);
        assert_eq!(value.unwrap(), expected);
    }
}

#[tokio::test]
async fn a_value_of_a_script_is_typed_and_an_exception_is_an_error() {
    let (page, mut browser) = FakeBrowser::with_page().await;
    let results = [
        json!({ "result": { "type": "object", "value": ["a"] } }),
        json!({ "result": { "type": "undefined" } }),
        json!({ "result": {}, "exceptionDetails": { "text": "Uncaught", "exception": { "description": "Error: no" } } }),
    ];
    let mut evaluated = Vec::new();
    for result in results {
        let answer = async {
            let command = browser.receive().await;
            browser.answer(&command, result).await;
        };
        evaluated.push(tokio::join!(page.evaluate::<Option<Vec<String>>>("it"), answer).0);
    }
    assert_eq!(evaluated.remove(0).unwrap(), Some(vec!["a".to_owned()]));
    assert_eq!(evaluated.remove(0).unwrap(), None);
    assert!(matches!(evaluated.remove(0), Err(BrowserError::Script(error)) if error == "Error: no"));
}

#[tokio::test]
async fn a_receiver_that_is_dropped_receives_no_more() {
    let (page, mut browser) = FakeBrowser::with_page().await;
    for _ in 0..100 {
        drop(page.events::<Value>("A.b"));
    }
    let mut marks = page.events::<u32>("A.mark");
    browser.event("A.b", json!({})).await;
    browser.event("A.mark", json!(1)).await;
    marks.recv().await.unwrap().unwrap();
    assert_eq!(page.connection().sinks_of(&Arc::from("S")), 2);
}
