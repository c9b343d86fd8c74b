//! Sessions that somebody else ends.

use std::time::Duration;

use crate::client::{BrowserClient, Library, Way};
use crate::world::World;

#[tokio::test]
async fn closing_a_session_cuts_its_client_off_at_once() {
    // With a lease of an hour a gateway that waited for its next beat would be found out.
    let hour = Duration::from_secs(3600);
    let world = World::set_up(|gateway| gateway.lease(hour), |agent| agent).await;
    let mut client = BrowserClient::start(Library::Puppeteer).await;
    client.connect(Way::Puppeteer, &world.ws("/?name=checkout&meta.team=web")).await.unwrap();
    client.open(&world.site.url).await;
    let id = world.session("checkout").await.session;
    let (status, session) = world.request("GET", &format!("/v1/sessions/{id}")).await;
    assert_eq!(status, 200);
    assert_eq!(
        (&session["detail"]["name"], &session["detail"]["meta"]["team"]),
        (&"checkout".into(), &"web".into())
    );
    assert_eq!(world.request("DELETE", &format!("/v1/sessions/{id}")).await.0, 202);
    client.gone().await;
    world.deserted().await;
    client.end().await;
    world.end().await;
}
