//! The gateway, sessions and workers from the command line.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use serde_json::Value;
use tidemill::fleet::{Capacity, Offer, WorkerEntry, WorkerStatus};

use crate::place::{Place, Running};

const COMMANDS: [&[&str]; 9] = [
    &["gateway"],
    &["session"],
    &["session", "list"],
    &["session", "show"],
    &["session", "close"],
    &["fleet"],
    &["fleet", "list"],
    &["fleet", "show"],
    &["fleet", "drain"],
];

#[test]
fn every_command_of_the_fleet_says_what_it_does_with_an_example() {
    let place = Place::new();
    for command in COMMANDS {
        let help = place.ok(&[command, &["--help"]].concat());
        assert!(help.contains("Example"), "{command:?}: {help}");
    }
    insta::assert_snapshot!("help_gateway", place.ok(&["gateway", "--help"]));
}

#[test]
fn wrong_use_is_refused_and_no_secret_is_shown() {
    let cases: &[&[&str]] = &[
        &["gateway", "--listen", "0.0.0.0:0"],
        &["gateway", "--listen", "[::]:0"],
        &["gateway", "--token", "ci=hunter2:reed"],
        &["gateway", "--token", "hunter2"],
        &["gateway", "--listen", "here"],
        &["gateway", "--queue-time", "soon"],
        &["gateway", "--lease", "5s"],
        &["session", "show", "a b"],
        &["fleet", "drain", "chromium"],
        &["fleet", "list", "--kind", "cmd"],
    ];
    let (place, mut said) = (Place::new(), String::new());
    for case in cases {
        let run = place.run(case);
        assert_eq!((run.code, run.stdout.as_str()), (Some(2), ""), "{case:?}: {run:?}");
        assert!(!run.stderr.contains("hunter2"), "{run:?}");
        let words =
            run.stderr.lines().filter(|line| line.starts_with("error: ") || line.starts_with("hint: "));
        let command = case.join(" ").replace("hunter2", "…");
        let _ = writeln!(said, "$ tidemill {command}\n{}\n", words.collect::<Vec<_>>().join("\n"));
    }
    insta::assert_snapshot!("fleet_wrong_use", said);
    assert!(place.files().is_empty(), "{:?}", place.files());
}

#[test]
fn what_is_not_there_is_said() {
    let place = Place::new();
    place.ok(&["enqueue", "ok"]);
    let cases: &[&[&str]] = &[
        &["session", "list"],
        &["session", "show", "nope"],
        &["session", "close", "nope"],
        &["fleet", "list"],
        &["fleet", "show", "chromium:nope"],
        &["fleet", "drain", "chromium:nope"],
    ];
    let mut said = String::new();
    for case in cases {
        let run = place.run(case);
        let _ =
            writeln!(said, "$ tidemill {} ({:?})\n{}{}", case.join(" "), run.code, run.stdout, run.stderr);
    }
    insta::assert_snapshot!("fleet_nothing_there", said);
}

#[test]
fn a_session_is_opened_shown_and_closed() {
    let place = Place::new();
    let (mut gateway, address) = start(&place);
    let browser = join(&place);
    let mut client = connect(&address);
    let session = place.json(&["session", "list"]).remove(0);
    let id = session["session"].as_str().unwrap();
    assert_eq!((&session["worker"], &session["detail"]["name"]), (&"chromium:a".into(), &"x".into()));
    assert_eq!(place.json(&["session", "show", id])[0]["offer"], "cdp");
    assert_eq!(place.json(&["fleet", "list", "--kind", "chromium"])[0]["active"], 1);
    assert_eq!(place.json(&["session", "close", id])[0]["result"], "closed");
    assert_eq!(client.read(&mut [0]).unwrap_or(0), 0, "the connection is closed");
    assert_eq!(place.json(&["fleet", "drain", "chromium:a"])[0]["result"], "ordered");
    assert_eq!(place.json(&["fleet", "show", "chromium:a"])[0]["state"], "ordered to drain");
    gateway.signal("TERM");
    assert_eq!(gateway.code(), Some(0));
    drop(browser);
}

/// A gateway, and where it listens.
pub(crate) fn start(place: &Place) -> (Running, String) {
    let mut gateway = place.start(&["gateway", "--listen", "127.0.0.1:0", "--json"]);
    let mut line = String::new();
    BufReader::new(gateway.0.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let said: Value = serde_json::from_str(&line).unwrap();
    (gateway, said["address"].as_str().unwrap().to_owned())
}

/// Enters a server that agrees to every handshake and then says nothing.
fn join(place: &Place) -> std::thread::JoinHandle<()> {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let member = WorkerEntry {
        id: "chromium:a".parse().unwrap(),
        offer: Offer::new("cdp").unwrap(),
        endpoint: format!("ws://{}/", listener.local_addr().unwrap()),
        status: WorkerStatus::Available,
        capacity: Capacity { concurrent: 1, lifetime: 0 },
        beat_timeout: Duration::from_secs(3600),
        detail: "{}".into(),
    };
    let url = format!("sqlite:{}", place.path("tidemill.db").display());
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let client = tidemill::connect(&url).await.unwrap();
        client.store().join(&[member]).await.unwrap();
    });
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let agreed = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n";
        stream.write_all(agreed).unwrap();
        // Until it is closed.
        let _ = stream.read_to_end(&mut Vec::new());
    })
}

/// A client whose handshake was agreed to.
fn connect(address: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let headers = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: a2V5\r\n";
    write!(stream, "GET /?name=x HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n").unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    assert!(head.starts_with(b"HTTP/1.1 101"), "{}", String::from_utf8_lossy(&head));
    stream
}
