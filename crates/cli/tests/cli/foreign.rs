//! Other programs write straight into Redis, as they always have, and their jobs run.

use serde_json::Value;
use tidemill_testkit::servers::Redis;

use crate::place::{Place, until};

const LIST: &str = "msaas:dev:queue:jobs.generic";
const STREAM: &str = "msaas:dev:stream:jobs.browser";

#[test]
fn jobs_that_other_programs_wrote_run_and_garbage_goes_to_the_dead_letters() {
    let (place, redis) = (Place::new(), Redis::start().unwrap());
    let envelope = |id: &str| {
        format!(
            r#"{{"job_id":"{id}","task_type":"navigate","attempts":0,"max_attempts":5,"payload":{{"n":1}},
               "meta":{{"source":"api"}},"x-trace":"kept"}}"#
        )
    };
    redis.command(&["LPUSH", LIST, &envelope("listed")]).unwrap();
    redis.command(&["LPUSH", LIST, "garbage in a list"]).unwrap();
    redis.command(&["XADD", STREAM, "*", "data", &envelope("streamed")]).unwrap();
    redis.command(&["XADD", STREAM, "*", "data", "{\"garbage\": true}"]).unwrap();

    let url = redis.url();
    let store = ["--store", &url, "--namespace", "msaas:dev:", "--group", "jobs.browser=browser-workers"];
    let with = |args: &[&str]| place.json(&[&store, args].concat());
    let lanes = ["--at-most-once", "jobs.generic", "--queue", "jobs.browser"];
    let run = with(&[&["worker"], &lanes[..], &["--exec", "*=cat > $TIDEMILL_JOB_ID", "--drain"]].concat());
    assert_eq!((&run[0]["done"], &run[0]["dead"]), (&2.into(), &2.into()), "{run:?}");

    for id in ["listed", "streamed"] {
        let seen: Value = serde_json::from_str(&place.read(id)).unwrap();
        assert_eq!((&seen["job_id"], &seen["x-trace"]), (&id.into(), &"kept".into()));
    }
    let letters = with(&["dlq", "list"]);
    assert_eq!(letters.len(), 2, "{letters:?}");
    assert!(letters.iter().all(|letter| letter["reason"] == "invalid_envelope"), "{letters:?}");
    let raw: Vec<_> = letters.iter().map(|letter| letter["envelope"]["raw"].as_str().unwrap()).collect();
    assert!(raw.contains(&"garbage in a list") && raw.contains(&"{\"garbage\": true}"), "{raw:?}");
    let group = "return redis.call('XINFO', 'GROUPS', KEYS[1])[1][2]";
    assert!(redis.command(&["EVAL", group, "1", STREAM]).unwrap().contains("browser-workers"));
    assert_eq!(redis.command(&["XLEN", STREAM]).unwrap().trim_matches([':', '\r', '\n']), "0");
}

#[test]
fn a_job_that_another_program_wrote_is_shown_before_a_worker_has_seen_it() {
    let (place, redis) = (Place::new(), Redis::start().unwrap());
    let envelope = r#"{"job_id":"streamed","task_type":"navigate","payload":{"n":1}}"#;
    redis.command(&["XADD", STREAM, "*", "data", envelope]).unwrap();
    let url = redis.url();
    let store = ["--store", &url, "--namespace", "msaas:dev:"];
    let with = |args: &[&str]| place.json(&[&store, args].concat());
    let shown = with(&["job", "show", "streamed"]);
    assert_eq!(
        (&shown[0]["state"], &shown[0]["queue"]),
        (&"ready".into(), &"jobs.browser".into()),
        "{shown:?}"
    );
    redis.command(&["LPUSH", LIST, &envelope.replace("streamed", "listed")]).unwrap();
    let queues = with(&["queue", "list"]);
    let counts: Vec<_> =
        queues.iter().map(|queue| (queue["name"].as_str(), queue["ready"].as_u64())).collect();
    assert_eq!(counts, [(Some("jobs.browser"), Some(1)), (Some("jobs.generic"), Some(1))], "{queues:?}");
    redis.command(&["XADD", "msaas:dev:stream:new", "*", "data", envelope]).unwrap();
    assert_eq!(with(&["queue", "show", "new"])[0]["ready"], 1);
    assert_eq!(with(&["job", "list"]).len(), 3);
}

#[test]
fn a_worker_is_on_the_roster_survives_a_flushed_server_and_goes_when_another_program_says_so() {
    let (place, redis) = (Place::new(), Redis::start().unwrap());
    let url = redis.url();
    let mut worker =
        place.start(&["--store", &url, "--namespace", "", "--json", "worker", "--exec", "*=cat"]);
    let entry = || {
        let first = "return redis.call('KEYS', 'worker:jobs:*')[1] or ''";
        let answer = redis.command(&["EVAL", first, "0"]).unwrap();
        answer.lines().find(|line| line.starts_with("worker:jobs:")).map(ToOwned::to_owned)
    };
    until("the worker's entry", || entry().is_some());
    redis.command(&["FLUSHALL"]).unwrap();
    until("the worker's entry again", || entry().is_some());
    let key = entry().unwrap();
    let all = "return table.concat(redis.call('HGETALL', KEYS[1]), ' ')";
    let described = redis.command(&["EVAL", all, "1", &key]).unwrap();
    assert!(described.contains("available") && described.contains("lastHeartbeat"), "{described}");
    let order = key.replacen("worker:", "worker:cmd:", 1);
    redis.command(&["SET", &order, "shutdown", "EX", "60"]).unwrap();
    assert_eq!(worker.code(), Some(0));
    let said = std::io::read_to_string(worker.0.stdout.take().unwrap()).unwrap();
    assert!(said.contains(r#""ordered":true"#), "{said}");
    assert_eq!(entry(), None);
}

#[test]
fn doctor_names_a_damaged_key_and_renames_it_when_told_to() {
    let (place, redis) = (Place::new(), Redis::start().unwrap());
    let url = redis.url();
    let with = |args: &[&str]| place.run(&[&["--store", &url], args].concat());
    let delayed = ["enqueue", "ok", "--delay", "1h"];
    assert_eq!(with(&delayed).code, Some(0));
    let key = "tidemill:stream:default:scheduled";
    redis.command(&["DEL", key]).unwrap();
    redis.command(&["SET", key, "precious"]).unwrap();
    assert_ne!(with(&delayed).code, Some(0));

    let doctor = with(&["doctor"]);
    assert_eq!(doctor.code, Some(1), "{doctor:?}");
    let advice = format!(
        "`{key}` holds a string instead of a zset: `tidemill doctor --fix` renames it, and it is made anew"
    );
    assert!(doctor.stdout.contains(&advice), "{doctor:?}");
    assert_eq!(redis.command(&["GET", key]).unwrap(), "precious", "it only looks");

    let doctor = with(&["doctor", "--fix"]);
    assert_eq!(doctor.code, Some(0), "{doctor:?}");
    let (_, aside) = doctor.stdout.split_once("renamed to `").unwrap();
    let (aside, _) = aside.split_once('`').unwrap();
    assert!(aside.starts_with(&format!("{key}:damaged-")), "{doctor:?}");
    assert_eq!(redis.command(&["GET", aside]).unwrap(), "precious");
    assert_eq!(with(&delayed).code, Some(0));
    assert_eq!(with(&["doctor"]).code, Some(0));
}
