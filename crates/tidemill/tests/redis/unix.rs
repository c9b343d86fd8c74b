//! A server behind a Unix socket.

use tidemill_testkit::servers::{Redis, RedisOptions};

use crate::work::works;

#[tokio::test(flavor = "multi_thread")]
async fn a_socket_is_as_good_as_a_port() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("redis.sock").display().to_string();
    let user = ["--user", "worker", "on", ">hunter2", "~*", "&*", "+@all"];
    let args = ["--unixsocket", &socket].into_iter().chain(user).map(str::to_owned).collect();
    let redis = Redis::with(RedisOptions { args, ..RedisOptions::default() }).unwrap();
    works(&format!("unix://{socket}")).await;
    works(&format!("redis+unix://{socket}?db=3&username=worker&password=hunter2")).await;
    assert!(redis.command(&["INFO", "keyspace"]).unwrap().contains("db3:keys="));
    let refused = tidemill::connect(&format!("redis+unix://{socket}?username=worker&password=hunter3")).await;
    let error = refused.err().unwrap().to_string();
    assert!(error.contains("Password authentication failed") && !error.contains("hunter"), "{error}");
}
