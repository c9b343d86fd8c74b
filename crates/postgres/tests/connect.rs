//! Connecting: to an empty database, with too few rights, to the wrong schema, to no server.

// A failed setup is a failed test.
#![allow(clippy::unwrap_used)]

mod world;

use futures_util::future::join_all;
use tidemill_core::store::{Durability, Inspect, Queues};
use tidemill_core::{Error, Queue, QueueName, Store};
use tidemill_postgres::{PostgresOptions, PostgresStore};
use tidemill_testkit::servers::{Postgres, PostgresOptions as ServerOptions, shared_postgres};
use world::{connect, query};

async fn refused(url: &str) -> Error {
    match PostgresStore::connect(PostgresOptions::parse(url).unwrap()).await {
        Ok(_) => panic!("{url} was accepted"),
        Err(error) => error,
    }
}

/// The database of `url`, seen by a new role.
async fn as_role(url: &str, role: &str) -> String {
    query(url, &format!("CREATE ROLE {role} LOGIN")).await;
    url.replace("postgres://postgres@", &format!("postgres://{role}@"))
}

#[tokio::test(flavor = "multi_thread")]
async fn many_processes_can_start_on_an_empty_database_at_once() {
    let url = shared_postgres().database().unwrap();
    let stores = join_all((0..16).map(|_| connect(&url))).await;
    let queue = Queue::at_least_once(QueueName::new("jobs").unwrap());
    for paused in join_all(stores.iter().map(|store| store.pause(&queue))).await {
        paused.unwrap();
    }
    assert_eq!(
        query(&url, "SELECT version FROM tidemill.migrations").await,
        [["1"], ["2"], ["3"], ["4"], ["5"]]
    );
    assert_eq!(stores[0].list_queues().await.unwrap().len(), 1);
}

#[tokio::test]
async fn two_schemas_in_one_database_are_two_stores() {
    let url = shared_postgres().database().unwrap();
    let (one, other) = (connect(&url).await, connect(&format!("{url}?schema=other")).await);
    one.pause(&Queue::at_least_once(QueueName::new("jobs").unwrap())).await.unwrap();
    assert_eq!((one.list_queues().await.unwrap().len(), other.list_queues().await.unwrap().len()), (1, 0));
}

#[tokio::test]
async fn a_role_that_may_not_create_the_schema_is_told_which_right_it_lacks() {
    let url = shared_postgres().database().unwrap();
    let error = refused(&as_role(&url, "nobody").await).await;
    assert!(
        matches!(&error, Error::Denied(why) if why.contains("nobody lacks CREATE on database")),
        "{error}"
    );
    assert_eq!(query(&url, "SELECT FROM pg_namespace WHERE nspname = 'tidemill'").await.len(), 0);
}

#[tokio::test]
async fn a_role_that_may_not_use_the_tables_is_told_which_rights_it_lacks() {
    let url = shared_postgres().database().unwrap();
    connect(&url).await;
    let reader = as_role(&url, "reader").await;
    let error = refused(&reader).await;
    assert!(matches!(&error, Error::Denied(why) if why.contains("USAGE on schema tidemill")), "{error}");
    query(
        &url,
        "GRANT USAGE ON SCHEMA tidemill TO reader; GRANT SELECT ON ALL TABLES IN SCHEMA tidemill TO reader",
    )
    .await;
    let error = refused(&reader).await;
    assert!(matches!(&error, Error::Denied(why) if why.contains("INSERT on jobs")), "{error}");
}

#[tokio::test]
async fn a_schema_that_is_there_needs_no_right_to_create() {
    let url = shared_postgres().database().unwrap();
    connect(&url).await;
    let user = as_role(&url, "plain_user").await;
    let grants = "GRANT USAGE ON SCHEMA tidemill TO plain_user;
        GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA tidemill TO plain_user;
        GRANT USAGE ON ALL SEQUENCES IN SCHEMA tidemill TO plain_user";
    query(&url, grants).await;
    let store = connect(&user).await;
    store.pause(&Queue::at_most_once(QueueName::new("jobs").unwrap())).await.unwrap();
}

#[tokio::test]
async fn a_schema_of_a_newer_build_is_left_alone() {
    let url = shared_postgres().database().unwrap();
    connect(&url).await;
    query(&url, "INSERT INTO tidemill.migrations VALUES (99)").await;
    let error = refused(&url).await;
    assert!(matches!(&error, Error::Unsuitable(why) if why.contains("version 99")), "{error}");
}

#[tokio::test]
async fn a_database_that_is_not_there_is_named() {
    let url = shared_postgres().url().replace("/postgres", "/nowhere");
    let error = refused(&url.replace("postgres:///nowhere", "postgres://")).await;
    assert!(error.full_message().contains("nowhere"), "{}", error.full_message());
}

#[tokio::test]
async fn an_unreachable_server_is_named_and_the_password_is_not() {
    // Port 1 of the loopback address: nothing listens there.
    let error = refused("postgres://me:s3cret@127.0.0.1:1/work").await;
    assert!(matches!(error, Error::Unavailable { .. }), "{error}");
    assert!(error.full_message().contains("127.0.0.1:1"), "{}", error.full_message());
    assert!(!format!("{error:?} {}", error.full_message()).contains("s3cret"));
}

#[tokio::test]
async fn a_wrong_password_is_refused_and_not_shown() {
    let server = Postgres::start().unwrap();
    query(&server.url(), "CREATE ROLE locked LOGIN PASSWORD 'right'").await;
    let rules = "host all locked 127.0.0.1/32 scram-sha-256\nhost all all 127.0.0.1/32 trust\n";
    std::fs::write(server.directory().join("data/pg_hba.conf"), rules).unwrap();
    query(&server.url(), "SELECT pg_reload_conf()").await;
    let url = format!("postgres://locked:s3cret@127.0.0.1:{}/postgres", server.port());
    // The server applies the new rules a moment after it reports success.
    let error = loop {
        let error = refused(&url).await;
        if !error.full_message().contains("lacks") {
            break error;
        }
    };
    assert!(matches!(error, Error::Denied(_)), "{error}");
    assert!(!format!("{error:?} {}", error.full_message()).contains("s3cret"));
}

#[tokio::test]
async fn durability_is_what_the_server_does_with_a_commit() {
    let url = shared_postgres().database().unwrap();
    // The shared server has fsync off.
    assert_eq!(connect(&url).await.durability(), Durability::Process);
    let careful = Postgres::with(ServerOptions { fsync: true, ..ServerOptions::default() }).unwrap();
    let store = connect(&careful.database().unwrap()).await;
    assert_eq!(store.durability(), Durability::Fsync);
    let checkup = store.checkup().await.unwrap();
    assert_eq!(checkup.durability, Durability::Fsync);
    assert!(checkup.server.starts_with("postgresql "), "{checkup:?}");
    let role = format!("{}?options=-c%20synchronous_commit%3Doff", careful.url());
    assert_eq!(connect(&role).await.durability(), Durability::Process);
}
