//! Other programs write straight into Redis, as they always have, and their jobs run.

use serde_json::Value;
use tidemill_testkit::servers::Redis;

use crate::place::Place;

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
