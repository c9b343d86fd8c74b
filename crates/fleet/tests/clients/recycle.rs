//! Servers that have had all the clients they may have.

use std::collections::HashMap;

use tidemill_core::fleet::Capacity;

use crate::client::{BrowserClient, Library, Way};
use crate::site::use_page;
use crate::world::World;

#[tokio::test]
async fn nobody_is_sent_away_while_servers_take_each_others_places() {
    let room = Capacity { concurrent: 1, lifetime: 3 };
    let directory = Library::Playwright.directory();
    let world = World::with(|agent| agent.spare(0).playwright(directory).capacity(room)).await;
    world.available(1).await;
    let mut client = BrowserClient::start(Library::Playwright).await;
    let mut served = HashMap::new();
    for number in 1..=10 {
        let name = format!("client-{number}");
        client.connect(Way::Playwright, &world.ws(&format!("/?name={name}"))).await.unwrap();
        use_page(&mut client, &world.site.url).await;
        *served.entry(world.session(&name).await.worker.to_string()).or_insert(0) += 1;
        client.disconnect().await;
    }
    assert!(served.len() >= 4 && served.values().all(|clients| *clients <= 3), "{served:?}");
    client.end().await;
    world.end().await;
}
