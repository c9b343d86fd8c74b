//! Jobs that another program schedules with a plain ZADD, without a wake-up.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidemill::{Fail, Job, Worker};
use tidemill_testkit::servers::Redis;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// How many queues the worker serves.
const QUEUES: usize = 50;

/// Many polls of the queues, and far fewer than one for each queue.
const A_FEW_LOOKS: Duration = Duration::from_secs(60);

#[derive(Serialize, Deserialize)]
struct Ping {
    n: u32,
}

impl Job for Ping {
    const KIND: &'static str = "ping";
    type Output = ();
}

#[tokio::test(flavor = "multi_thread")]
async fn one_look_finds_what_others_have_scheduled_in_any_of_many_queues() {
    let redis = Redis::start().unwrap();
    let client = tidemill::connect(&redis.url()).await.unwrap();
    let (ran, mut runs) = mpsc::unbounded_channel();
    let handler = move |ping: Ping| {
        let ran = ran.clone();
        async move {
            ran.send(ping.n).unwrap();
            Ok::<_, Fail>(())
        }
    };
    let worker = Worker::builder(&client).handle(handler);
    let worker = (0..QUEUES).fold(worker, |worker, n| worker.queue(&format!("q{n}"), 1));
    let stop = CancellationToken::new();
    let worker = tokio::spawn(worker.run_until(stop.clone().cancelled_owned()));
    for n in [7, 23, 42] {
        let envelope = format!(
            r#"{{"job_id":"foreign-{n}","task_type":"ping","payload":{{"n":{n}}},"attempts":0,"max_attempts":3}}"#
        );
        redis.command(&["ZADD", &format!("tidemill:stream:q{n}:scheduled"), "1", &envelope]).unwrap();
        let run = tokio::time::timeout(A_FEW_LOOKS, runs.recv()).await.unwrap();
        assert_eq!(run, Some(n));
    }
    stop.cancel();
    worker.await.unwrap().unwrap();
}
