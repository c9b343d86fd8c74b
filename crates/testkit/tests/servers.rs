//! Servers start, pause, die and come back with their data.

use std::time::Duration;

use tidemill_testkit::servers::{Postgres, Redis, RedisCluster, RedisOptions, shared_postgres, shared_redis};

#[test]
fn redis_keeps_its_port_and_data_over_a_kill() {
    let redis = Redis::with(RedisOptions { appendonly: true, ..RedisOptions::default() }).unwrap();
    let url = redis.url();
    redis.command(&["SET", "word", "kept"]).unwrap();
    redis.kill().unwrap();
    assert!(redis.command(&["PING"]).is_err());
    redis.restart().unwrap();
    assert_eq!(redis.url(), url);
    assert_eq!(redis.command(&["GET", "word"]).unwrap(), "kept");
}

#[test]
fn a_paused_redis_answers_when_it_is_resumed() {
    let redis = Redis::start().unwrap();
    redis.pause().unwrap();
    std::thread::scope(|scope| {
        let answer = scope.spawn(|| redis.command(&["PING"]));
        std::thread::sleep(Duration::from_millis(100));
        assert!(!answer.is_finished());
        redis.resume().unwrap();
        assert_eq!(answer.join().unwrap().unwrap(), "PONG");
    });
}

#[test]
fn options_reach_the_server() {
    let args = vec!["--databases".to_owned(), "2".to_owned()];
    let options = RedisOptions { maxmemory: Some("4mb".to_owned()), args, ..RedisOptions::default() };
    let redis = Redis::with(options).unwrap();
    assert!(redis.command(&["INFO", "memory"]).unwrap().contains("maxmemory:4194304"));
}

#[test]
fn a_missing_binary_is_named_with_its_remedy() {
    let options = RedisOptions { binary: "no-such-server".to_owned(), ..RedisOptions::default() };
    let error = Redis::with(options).err().unwrap().to_string();
    assert!(error.contains("install no-such-server") && error.contains("cargo xtask test"), "{error}");
}

#[test]
fn a_server_that_does_not_come_up_says_why() {
    let args = vec!["--nonsense".to_owned()];
    let error = Redis::with(RedisOptions { args, ..RedisOptions::default() }).err().unwrap().to_string();
    assert!(error.contains("nonsense"), "{error}");
}

#[test]
fn a_cluster_has_three_masters_and_survives_the_restart_of_one() {
    let cluster = RedisCluster::start().unwrap();
    let shards = cluster.nodes().iter().filter(|node| {
        let answer = node.command(&["SET", "word", "kept"]);
        answer.is_ok_and(|answer| answer == "OK")
    });
    assert_eq!(shards.count(), 1, "a key has one home");
    cluster.nodes()[1].restart().unwrap();
    cluster.wait_until_ok().unwrap();
}

#[test]
fn postgres_gives_fresh_databases_and_survives_a_kill() {
    let postgres = Postgres::start().unwrap();
    let (one, other) = (postgres.database().unwrap(), postgres.database().unwrap());
    assert_ne!(one, other);
    postgres.pause().unwrap();
    postgres.resume().unwrap();
    postgres.kill().unwrap();
    assert!(postgres.database().is_err());
    postgres.restart().unwrap();
    assert_ne!(postgres.database().unwrap(), one);
}

#[test]
fn shared_servers_are_started_once() {
    assert_eq!(shared_redis().url(), shared_redis().url());
    assert_eq!(shared_postgres().url(), shared_postgres().url());
}
