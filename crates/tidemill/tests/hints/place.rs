//! A store, and its wake-up channels.

use tempfile::TempDir;
use tidemill::{Client, JobId, Namespace};
use tidemill_testkit::servers::{Redis, shared_cluster, shared_postgres};
use tokio_postgres::NoTls;

/// A store, and a client that publishes on its channels.
pub(crate) struct Place {
    pub(crate) client: Client,
    channel: Channel,
    _kept: (Option<TempDir>, Option<Redis>),
}

enum Channel {
    Redis { pg: redis::Client, namespace: String },
    Postgres(tokio_postgres::Client),
}

impl Place {
    /// A SQLite store with wake-ups through Redis.
    pub(crate) async fn sqlite() -> Self {
        let (directory, redis) = (tempfile::tempdir().unwrap(), Redis::start().unwrap());
        let url = format!("sqlite:{}", directory.path().join("jobs.db").display());
        let connector = tidemill::ClientBuilder::new(&url).wake(redis.url().as_str());
        let client = connector.namespace(Namespace::new("hints:").unwrap()).connect().await.unwrap();
        let channel = Channel::of_redis(&redis.url(), "hints:");
        Self { client, channel, _kept: (Some(directory), Some(redis)) }
    }

    pub(crate) async fn redis() -> Self {
        let redis = Redis::start().unwrap();
        let place = Self::on_redis(&redis.url(), "hints:").await;
        Self { _kept: (None, Some(redis)), ..place }
    }

    pub(crate) async fn cluster() -> Self {
        let namespace = format!("hints-{}:", JobId::generate());
        Self::on_redis(&shared_cluster().url(), &namespace).await
    }

    pub(crate) async fn on_redis(url: &str, namespace: &str) -> Self {
        let connector = tidemill::ClientBuilder::new(url).namespace(Namespace::new(namespace).unwrap());
        let client = connector.connect().await.unwrap();
        // Any server of a cluster will do.
        let channel = Channel::of_redis(&url.replacen("+cluster", "", 1), namespace);
        Self { client, channel, _kept: (None, None) }
    }

    pub(crate) async fn postgres() -> Self {
        let url = shared_postgres().database().unwrap();
        let (pg, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
        tokio::spawn(connection);
        let client = tidemill::connect(&url).await.unwrap();
        Self { client, channel: Channel::Postgres(pg), _kept: (None, None) }
    }

    /// Publishes a wake-up of Tidemill.
    pub(crate) async fn publish(&self, message: &str) {
        match &self.channel {
            Channel::Redis { .. } => self.publish_on("wake", message).await,
            Channel::Postgres(pg) => {
                pg.execute("SELECT pg_notify('tidemill_wake', $1)", &[&message]).await.unwrap();
            }
        }
    }

    /// Publishes messages of other programs, on their channels.
    pub(crate) async fn publish_foreign(&self, job: &str) {
        if let Channel::Redis { .. } = &self.channel {
            for channel in ["chainc", "owls", "sched"] {
                self.publish_on(channel, job).await;
            }
        }
    }

    async fn publish_on(&self, channel: &str, message: &str) {
        let Channel::Redis { pg, namespace } = &self.channel else { return };
        let mut connection = pg.get_multiplexed_async_connection().await.unwrap();
        let channel = format!("{namespace}{channel}");
        let _: i64 =
            redis::cmd("PUBLISH").arg(channel).arg(message).query_async(&mut connection).await.unwrap();
    }
}

impl Channel {
    fn of_redis(url: &str, namespace: &str) -> Self {
        Self::Redis { pg: redis::Client::open(url).unwrap(), namespace: namespace.to_owned() }
    }
}
