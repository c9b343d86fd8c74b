//! A page reaches what it may, and nothing else, however it tries.

use serde_json::json;
use tidemill_fleet::browser::{PageContent, UseBrowsers};

use crate::site::Site;
use crate::world::{Running, World};

#[tokio::test(flavor = "multi_thread")]
async fn a_private_address_is_dead_at_once_and_named() {
    let world = World::new().await;
    let (secret, worker) = (Site::open().await, world.built_in());
    let secret_url = secret.page("/", "<p>secret</p>");
    let addresses = [
        (secret_url.clone(), secret.address.to_string()),
        ("http://169.254.169.254/latest/meta-data".into(), "169.254.169.254:80".into()),
        ("https://10.0.0.1/".into(), "10.0.0.1:443".into()),
        ("http://[::1]/".into(), "[::1]:80".into()),
        ("http://[::ffff:127.0.0.1]/".into(), "127.0.0.1".into()),
        ("http://2130706433/".into(), "127.0.0.1:80".into()),
        (format!("http://localhost:{}/", secret.address.port()), "127.0.0.1".into()),
        (format!("https://localhost:{}/", secret.address.port()), "127.0.0.1".into()),
        (world.site.redirect("/out", &secret_url), secret.address.to_string()),
        (world.site.redirect("/cloud", "http://169.254.169.254/"), "169.254.169.254:80".into()),
        (world.site.redirect("/tls", &secret_url.replace("http", "https")), secret.address.to_string()),
    ];
    for (url, expected) in addresses {
        let (reason, error) = world.death("page_content", json!({ "url": url })).await;
        assert_eq!(reason, "forbidden_address", "{url}: {error}");
        assert!(error.contains(&expected), "{url}: {error}");
    }
    assert!(secret.visits().is_empty());
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sub_resources_are_refused_and_told() {
    let world = World::new().await;
    let (secret, worker) = (Site::open().await, world.built_in());
    let (s, port) = (secret.address, secret.address.port());
    let page = format!(
        "<iframe src='http://{s}/frame'></iframe><img src='http://{s}/img'><img src='http://169.254.169.254/img'>\
         <script src='http://localhost:{port}/script'></script><link rel=stylesheet href='http://{s}/css'>\
         <link rel=preconnect href='http://{s}'><p id=done></p><script>\
         const worker = new Worker(URL.createObjectURL(new Blob([`fetch('http://{s}/worker').finally(() => postMessage(1))`])));\
         const socket = new WebSocket('ws://{s}/socket');\
         Promise.allSettled([fetch('http://{s}/fetch', {{mode: 'no-cors'}}), fetch('https://{s}/tls', {{mode: 'no-cors'}}),\
           fetch('/hop', {{mode: 'no-cors'}}), new Promise(done => worker.onmessage = done),\
           new Promise(done => {{ socket.onopen = () => done(document.title = 'open'); socket.onerror = done; }})])\
         .then(() => document.getElementById('done').className = 'all')</script>"
    );
    let url = world.site.page("/", &page);
    world.site.redirect("/hop", &format!("http://{s}/hop"));
    let job = PageContent {
        wait: tidemill_fleet::browser::WaitUntil::Selector("#done.all".into()),
        ..PageContent::new(url)
    };
    let content = world.output(job).await;
    assert_eq!(content.title, "", "the socket did not open");
    for refused in [s.to_string(), "169.254.169.254:80".into(), format!("localhost:{port} (127.0.0.1)")] {
        assert!(content.refused.contains(&refused), "{:?}", content.refused);
    }
    assert_eq!(secret.visits(), Vec::<String>::new());
    // A job that fails for another reason names them as well.
    let url = world.site.page("/fails", &format!("<img src='http://{s}/img'>"));
    let payload = json!({ "url": url, "selector": ".none", "timeout": 1000 });
    let (_, error) = world.death("navigate_extract", payload).await;
    assert!(error.contains(&format!("refused to the page: {s}")), "{error}");
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_that_leads_to_a_refused_address_by_itself_is_dead_at_once() {
    let world = World::new().await;
    let (secret, worker) = (Site::open().await, world.built_in());
    let (secret_url, address) = (secret.page("/", "<p>secret</p>"), secret.address.to_string());
    let tls = secret_url.replace("http", "https");
    let pages = [
        (format!("<script>setTimeout(() => location = '{secret_url}', 50)</script>"), address.as_str()),
        (format!("<meta http-equiv=refresh content='0;url={secret_url}'>"), &address),
        (format!("<meta http-equiv=refresh content='0;url={tls}'>"), &address),
        ("<meta http-equiv=refresh content='0;url=file:///etc/hostname'>".into(), "file:///etc/hostname"),
        (
            "<script>setTimeout(() => location = 'file:///etc/hostname', 50)</script>".into(),
            "file:///etc/hostname",
        ),
    ];
    for (html, expected) in pages {
        let url = world.site.page("/", &html);
        // It would wait for ten minutes, and then again.
        let payload = json!({ "url": url, "selector": ".none", "timeout": 600_000 });
        let (reason, error) = world.death("navigate_extract", payload).await;
        assert_eq!(reason, "forbidden_address", "{html}: {error}");
        assert!(error.contains(expected), "{html}: {error}");
    }
    assert!(secret.visits().is_empty());
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frame_or_picture_that_is_refused_does_not_end_the_page() {
    let (world, secret) = (World::new().await, Site::open().await);
    let worker = world.built_in();
    let refused = format!("http://{}/", secret.address);
    let page = format!(
        "<iframe src='file:///etc/hostname'></iframe><img src='file:///etc/hostname'>\
         <iframe src='{refused}'></iframe><iframe srcdoc=\"<meta http-equiv=refresh content='0;url={refused}'>\"></iframe>\
         <script>setTimeout(() => document.body.id = 'later', 1000)</script>"
    );
    let url = world.site.page("/", &page);
    let wait = tidemill_fleet::browser::WaitUntil::Selector("#later".into());
    let content = world.output(PageContent { wait, ..PageContent::new(url) }).await;
    assert!(content.html.contains("later"), "{content:?}");
    worker.stop().await;
}

#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
struct Read {
    url: String,
}

impl tidemill_core::Job for Read {
    const KIND: &'static str = "read";
    type Output = String;
}

async fn read(job: Read, browser: tidemill_fleet::browser::Browser) -> Result<String, tidemill_worker::Fail> {
    Ok(browser.page(&job.url).await?.content().await?)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_pages_of_other_handlers_are_guarded_too() {
    let world = World::new().await;
    let secret = Site::open().await;
    let worker = Running::start(world.worker().browsers(world.browsers()).handle(read));
    let ours = world.site.page("/", "<p>ours");
    assert!(world.output(Read { url: ours }).await.contains("ours"));
    let secret_url = secret.page("/", "<p>secret");
    let local = format!("http://localhost:{}/", secret.address.port());
    let cases = [
        (world.site.redirect("/out", &secret_url), format!("refused: {}", secret.address)),
        (local, format!("refused: localhost:{} (127.0.0.1)", secret.address.port())),
        ("file:///etc/hostname".into(), "only http and https".into()),
    ];
    for (url, expected) in cases {
        let (_, error) = world.death("read", json!({ "url": url })).await;
        assert!(error.contains(&expected), "{url}: {error}");
    }
    assert!(secret.visits().is_empty());
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn private_addresses_can_be_allowed() {
    let world = World::new().await;
    let other = Site::open().await;
    let url = other.page("/", "<title>private</title>");
    let worker = Running::start(world.worker().browsers(world.browsers().allow_private()).browser_jobs());
    assert_eq!(world.output(PageContent::new(&url)).await.title, "private");
    let link_local = json!({ "url": "http://169.254.169.254/" });
    assert_eq!(world.death("page_content", link_local).await.0, "forbidden_address");
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_cannot_say_that_it_was_refused() {
    let world = World::new().await;
    // Past any proxy, as what comes through a tunnel: nobody takes the header away.
    let worker = Running::start(world.worker().browsers(world.browsers().without_proxy()).browser_jobs());
    let head = "200 OK\r\ncontent-type: text/html\r\nx-tidemill-refused: 10.0.0.1:80\r\ncontent-length: 19";
    let url = world.site.answer("/", &format!("{head}\r\n\r\n<title>open</title>"));
    assert_eq!(world.output(PageContent::new(&url)).await.title, "open");
    worker.stop().await;
}
