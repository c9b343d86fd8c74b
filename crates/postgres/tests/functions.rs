//! The functions in the schema, called as a program in any language would.

// A failed setup is a failed test.
#![allow(clippy::unwrap_used)]

mod world;

use std::sync::Arc;

use tidemill_core::envelope::Envelope;
use tidemill_core::job::JobState;
use tidemill_core::{JobId, Outcome};
use tidemill_testkit::conformance::{LONG, QueueHarness};
use tidemill_testkit::servers::shared_postgres;
use world::{connect, query, queue, session};

async fn scene() -> (String, QueueHarness) {
    let url = shared_postgres().database().unwrap();
    let scene = QueueHarness::new(Arc::new(connect(&url).await), queue("mail"));
    (url, scene)
}

async fn call(url: &str, call: &str) -> String {
    query(url, &format!("SELECT tidemill.{call}")).await.remove(0).remove(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_is_made_by_a_select_and_an_idle_worker_hears_of_it() {
    let (url, scene) = scene().await;
    let idle = scene.clone();
    let waiting = tokio::spawn(async move { idle.claim_with(1, 1, LONG).await });
    let id = call(&url, r#"enqueue('mail', 'send', '{"to": "ü"}', max_attempts => 3)"#).await;
    let claimed = waiting.await.unwrap().remove(0);
    assert_eq!(claimed.lease.job.as_str(), id);
    let envelope = claimed.body.unwrap();
    assert_eq!((envelope.kind().as_str(), envelope.max_attempts()), ("send", 3));
    assert_eq!(envelope.payload(), r#"{"to": "ü"}"#.as_bytes());
    assert!(envelope.keep_result().is_none());
}

#[tokio::test]
async fn a_job_may_be_later_deduplicated_and_wait_for_others() {
    let (url, scene) = scene().await;
    let first = call(&url, "enqueue('mail', 'send', dedup => 'k')").await;
    assert_eq!(call(&url, "enqueue('mail', 'send', dedup => 'k')").await, first);
    let waiting = call(&url, &format!("enqueue('mail', 'send', after_chains => ARRAY['{first}'])")).await;
    assert_eq!(scene.state(&JobId::new(&waiting).unwrap()).await, Some(JobState::Blocked));
    let later = call(&url, "enqueue('mail', 'send', delay => '30 years', id => 'later')").await;
    assert_eq!(scene.state(&JobId::new(&later).unwrap()).await, Some(JobState::Scheduled));
    assert_eq!(call(&url, &format!("complete('{first}', '[1]')")).await, "yes");
    assert_eq!(call(&url, &format!("complete('{first}', '[1]')")).await, "done");
    assert_eq!(call(&url, "complete('nothing', '[1]')").await, "not_found");
    let claimed = scene.claim_one().await;
    assert_eq!(claimed.lease.job.as_str(), waiting);
    assert_eq!(claimed.body.as_ref().unwrap().blockers().unwrap()[0].output.get(), "[1]");
    scene.settle(&claimed, Outcome::Done("null".into())).await;
}

#[tokio::test]
async fn what_is_not_valid_is_refused_by_name() {
    let (url, _) = scene().await;
    let user = session(&url).await;
    for (bad, named) in [
        ("enqueue('a b', 'k')", "queue"),
        ("enqueue(NULL, 'k')", "queue"),
        ("enqueue('q', 'a b')", "kind"),
        ("enqueue('q', NULL)", "kind"),
        ("enqueue('q', 'k', id => 'a~1')", "id"),
        ("enqueue('q', 'k', max_attempts => 0)", "max_attempts"),
        ("enqueue('q', 'k', max_attempts => NULL)", "max_attempts"),
        ("enqueue('q', 'k', dedup => '')", "dedup"),
        ("enqueue('q', 'k', dedup => 'a', id => 'b')", "dedup"),
        ("enqueue('q', 'k', keep_result => '-1 second')", "keep_result"),
        ("enqueue('q', 'k', delay => '101 years')", "delay"),
        ("enqueue('q', 'k', delay => NULL)", "delay"),
        ("enqueue('q', 'k', to_json(repeat('x', 1048575)))", "payload"),
        ("enqueue('q', 'k', after_chains => NULL)", "after_chains"),
        ("enqueue('q', 'k', after_chains => ARRAY[NULL])", "after_chains"),
    ] {
        let error = user.batch_execute(&format!("SELECT tidemill.{bad}")).await.unwrap_err();
        let error = error.as_db_error().unwrap();
        assert_eq!(error.code().code(), "TM003", "{bad}");
        assert!(error.message().contains(named), "{bad}: {}", error.message());
    }
    let error = user.batch_execute("SELECT tidemill.enqueue('q', 'k', after_chains => ARRAY['no'])").await;
    let error = error.unwrap_err();
    let error = error.as_db_error().unwrap();
    assert_eq!((error.code().code(), error.message()), ("TM002", "chain no not found"));
}

#[tokio::test]
async fn the_largest_payload_is_what_the_setting_says() {
    let (url, scene) = scene().await;
    let user = session(&url).await;
    let large = "SELECT tidemill.enqueue('mail', 'send', to_json(repeat('x', 1500000)))";
    let error = user.batch_execute(large).await.unwrap_err();
    let said = error.as_db_error().unwrap().message();
    assert_eq!(said, "the payload must have at most 1048576 bytes");
    user.batch_execute(&format!("SET tidemill.max_payload = '2MB'; {large}")).await.unwrap();
    assert_eq!(scene.claim_one().await.body.unwrap().payload().len(), 1_500_002);
    let small = "SET tidemill.max_payload = '10'; SELECT tidemill.enqueue('mail', 'send', '\"123456789\"')";
    let error = user.batch_execute(small).await.unwrap_err();
    assert_eq!(error.as_db_error().unwrap().message(), "the payload must have at most 10 bytes");
}

/// A worker that reads no retention closes the chain without notifying its waiters.
#[tokio::test]
async fn only_a_job_that_keeps_its_result_for_a_worker_can_be_waited_for() {
    let (url, _) = scene().await;
    let user = session(&url).await;
    let start = r#"{"job_id":"a","task_type":"t","#;
    let rests: [&[u8]; 10] = [
        br#""keep_result_ms":5}"#,
        br#""keep_result_ms":null}"#,
        br#""payload":"\u0000 \ud800 \\u0000","keep_result_ms":5}"#,
        br#""payload":{"x":"\u0000","keep_result_ms":5}}"#,
        br#""payload":"\u0000 \"keep_result_ms\":5"}"#,
        br#""payload":["\u0000","keep_result_ms"]}"#,
        b"\"meta\":\"\xff keep\",\"payload\":[\"keep_result_ms\"]}",
        br#""payload":"\ud800","meta":["keep_result_ms"]}"#,
        br#""keep_result_ms":60000,"payload":"\u00fc"}"#,
        br#""payload":1}"#,
    ];
    for rest in rests {
        let bytes = [start.as_bytes(), rest].concat();
        let kept: Option<i64> =
            user.query_one("SELECT tidemill.keep_of($1)", &[&bytes]).await.unwrap().get(0);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Ok(envelope) = Envelope::read(bytes.into()) {
            let keep = envelope.keep_result().map(|keep| i64::try_from(keep.as_millis()).unwrap());
            assert_eq!(kept, keep, "{text}");
        }
    }
}

#[tokio::test]
async fn a_step_of_a_chain_is_the_same_here_and_there() {
    let (url, _) = scene().await;
    let user = session(&url).await;
    for id in [
        "a",
        "a~1",
        "a~0",
        "a~01",
        "a~+1",
        "a~",
        "~1",
        "~~1",
        "a~1~2",
        "a~2147483647",
        "a~2147483648",
        "a~4294967295",
        "a~4294967296",
        "a~9999999999",
        "a~99999999999",
        "a~1x",
        "a~-1",
        "a.~7",
    ] {
        let split = "SELECT tidemill.chain_of($1), tidemill.step_of($1)";
        let row = user.query_one(split, &[&id]).await.unwrap();
        let job = JobId::new(id).unwrap();
        assert_eq!(row.get::<_, &str>(0), job.chain().as_str(), "{id}");
        assert_eq!(row.get::<_, i32>(1), i32::try_from(job.step()).unwrap_or(i32::MAX), "{id}");
    }
}

/// Callers may have tables, settings and plans of their own.
#[tokio::test]
async fn a_caller_with_temporary_tables_of_the_same_names_gets_the_stores() {
    let (url, scene) = scene().await;
    let user = session(&url).await;
    user.batch_execute(
        "CREATE TEMP TABLE jobs (id text); CREATE TEMP TABLE ready (id text); CREATE TEMP TABLE keys (id text);
         CREATE TEMP TABLE queues (number text); CREATE TEMP TABLE blocks (id text)",
    )
    .await
    .unwrap();
    let row = user.query_one("SELECT tidemill.enqueue('mail', 'send', dedup => 'k')", &[]).await.unwrap();
    assert_eq!(scene.claim_one().await.lease.job.as_str(), row.get::<_, &str>(0));
    assert_eq!(
        user.query_one("SHOW enable_seqscan", &[]).await.unwrap().get::<_, &str>(0),
        "on",
        "what a function sets ends with it"
    );
}

/// Functions that users call have the settings of the store's own, except a limit to how long a
/// user's transaction waits.
#[tokio::test]
async fn functions_for_others_bring_their_settings() {
    let (url, _) = scene().await;
    let settings = query(
        &url,
        "SELECT proname, array_to_string(proconfig, ';') FROM pg_proc
         WHERE pronamespace = 'tidemill'::regnamespace AND proconfig IS NOT NULL
             AND array_to_string(proconfig, ';') NOT LIKE '%lock_timeout%' ORDER BY proname",
    )
    .await;
    let names: Vec<_> = settings.iter().map(|row| row[0].as_str()).collect();
    let expected = [
        "complete",
        "complete_by_continuing",
        "complete_by_delivering",
        "complete_job",
        "continue_job",
        "deliver_job",
        "enqueue",
        "enqueue_jobs",
        "release",
        "settle_job",
    ];
    assert_eq!(names, expected);
    for row in settings {
        for setting in ["search_path=tidemill, pg_temp", "enable_seqscan=off", "enable_bitmapscan=off"] {
            assert!(row[1].contains(setting), "{row:?}");
        }
    }
}

#[tokio::test]
async fn a_lease_that_is_not_the_current_one_fails_with_a_code_of_its_own() {
    let (url, scene) = scene().await;
    call(&url, "enqueue('mail', 'send')").await;
    let claimed = scene.claim_one().await;
    let user = session(&url).await;
    let settle = "SELECT tidemill.settle_job($1, $2, NULL, '', NULL, 0, 0)";
    let token = i64::try_from(claimed.lease.token.0).unwrap();
    let error = user.query(settle, &[&(token + 1), &claimed.lease.job.as_str()]).await.unwrap_err();
    assert_eq!(error.code().unwrap().code(), "TM001");
    user.query(settle, &[&token, &claimed.lease.job.as_str()]).await.unwrap();
    assert!(scene.store.get_job(&claimed.lease.job).await.unwrap().is_none());
}
