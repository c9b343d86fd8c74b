//! A real client of a real browser, with every part started from the command line.

use std::io::{BufRead, BufReader, Lines, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

use crate::fleet::start;
use crate::place::{Place, until};

/// A Node process that does with Puppeteer what it is told, one order a line. It ends with its standard input.
struct Client {
    child: Child,
    orders: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
}

impl Client {
    fn start() -> Self {
        let node = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fleet/tests/node");
        let is_there = node.join("node_modules/puppeteer-core").is_dir();
        assert!(is_there, "puppeteer-core is not installed: `cargo xtask test` installs it");
        let mut command = Command::new("node");
        command.current_dir(node).args(["client.mjs", "puppeteer-core"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("node does not start: `cargo xtask test` installs it");
        let (orders, answers) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let mut client = Self { child, orders, answers: BufReader::new(answers).lines() };
        assert_eq!(client.answer(), "ready");
        client
    }

    fn give(&mut self, order: &Value) -> Value {
        writeln!(self.orders, "{order}").unwrap();
        self.answer()
    }

    fn answer(&mut self) -> Value {
        let line = self.answers.next().expect("a client that lives").unwrap();
        let answer: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(answer["error"], Value::Null);
        answer["ok"].clone()
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_client_is_listed_by_its_name_and_cut_off_when_its_session_is_closed() {
    let place = Place::new();
    let (mut gateway, address) = start(&place);
    let mut browser = place.start(&["browser"]);
    let mut client = Client::start();
    let url = format!("ws://{address}/?name=checkout&meta.team=web");
    let version = client.give(&json!({ "order": "connect", "way": "puppeteer", "url": url }));
    assert!(version.as_str().unwrap().contains("Chrome"), "{version}");
    client.give(&json!({ "order": "open", "url": "data:text/html,<p>here</p>" }));
    let session = place.json(&["session", "list"]).remove(0);
    let detail = &session["detail"];
    assert_eq!((&detail["name"], &detail["meta"]["team"]), (&"checkout".into(), &"web".into()));
    assert_eq!(delete(&address, session["session"].as_str().unwrap()), "202");
    client.give(&json!({ "order": "gone" }));
    until("the session to be over", || place.json(&["session", "list"]).is_empty());
    for running in [&mut browser, &mut gateway] {
        running.signal("TERM");
        assert_eq!(running.code(), Some(0));
    }
}

/// Asks the gateway to close a session: the status of its answer.
fn delete(address: &str, session: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    let head = "Host: localhost\r\nConnection: close\r\n";
    write!(stream, "DELETE /v1/sessions/{session} HTTP/1.1\r\n{head}\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.split(' ').nth(1).unwrap().to_owned()
}
