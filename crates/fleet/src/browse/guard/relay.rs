//! One request through the proxy: a tunnel for `CONNECT`, else passed on and its answer passed back.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::{Either, Empty};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::header::{
    CONNECTION, HOST, HeaderMap, HeaderName, HeaderValue, TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
};
use hyper::{Method, Request, Response, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

use super::ledger::Ledger;
use super::reach::{Reach, Target, Unreachable};

/// Says in an answer of the proxy's own that the target was refused.
pub(crate) const REFUSED: &str = "x-tidemill-refused";

/// An answer: that of the server, or an empty one of the proxy's own.
type Answer = Response<Either<Incoming, Empty<Bytes>>>;

/// Passes requests on.
#[derive(Debug, Clone)]
pub(super) struct Relay {
    pub(super) reach: Arc<Reach>,
    pub(super) ledger: Arc<Ledger>,
    /// Ends every tunnel.
    pub(super) end: CancellationToken,
}

impl Relay {
    pub(super) async fn answer(self, request: Request<Incoming>) -> Result<Answer, Infallible> {
        let Some(target) = target(request.method(), request.uri()) else {
            return Ok(own(StatusCode::BAD_REQUEST));
        };
        let stream = match self.reach.dial(&target).await {
            Ok(stream) => stream,
            Err(unreachable) => {
                self.ledger.note(&unreachable);
                return Ok(sorry(&unreachable));
            }
        };
        let _ = stream.set_nodelay(true);
        if request.method() == Method::CONNECT {
            return Ok(self.tunnel(request, stream));
        }
        Ok(self.forward(request, stream, &target).await)
    }

    /// Passes bytes both ways until either side has ended.
    fn tunnel(&self, request: Request<Incoming>, mut stream: TcpStream) -> Answer {
        let upgrade = hyper::upgrade::on(request);
        let passing = async move {
            if let Ok(client) = upgrade.await {
                let _ = tokio::io::copy_bidirectional(&mut TokioIo::new(client), &mut stream).await;
            }
        };
        tokio::spawn(self.end.clone().run_until_cancelled_owned(passing));
        own(StatusCode::OK)
    }

    async fn forward(&self, request: Request<Incoming>, stream: TcpStream, target: &Target) -> Answer {
        match self.exchange(request, stream).await {
            Ok(response) => response,
            Err(error) => {
                self.ledger.note(&Unreachable::Failed(format!("{target}: {error}")));
                own(StatusCode::BAD_GATEWAY)
            }
        }
    }

    async fn exchange(
        &self,
        mut request: Request<Incoming>,
        stream: TcpStream,
    ) -> Result<Answer, hyper::Error> {
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(self.end.clone().run_until_cancelled_owned(connection));
        let authority = request.uri().authority().and_then(|authority| authority.as_str().rsplit('@').next());
        let host = authority.and_then(|authority| HeaderValue::from_str(authority).ok());
        strip(request.headers_mut());
        if let Some(host) = host {
            request.headers_mut().insert(HOST, host);
        }
        let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
        *request.uri_mut() = path.parse().unwrap_or_else(|_| Uri::from_static("/"));
        let mut response = sender.send_request(request).await?;
        strip(response.headers_mut());
        // Only this proxy says so.
        response.headers_mut().remove(REFUSED);
        Ok(response.map(Either::Left))
    }
}

/// Where a request wants to go: a tunnel anywhere, anything else to a server of plain HTTP.
fn target(method: &Method, uri: &Uri) -> Option<Target> {
    let host = uri.host()?;
    if *method == Method::CONNECT {
        return Some(Target::new(host, uri.port_u16()?));
    }
    (uri.scheme_str() == Some("http")).then(|| Target::new(host, uri.port_u16().unwrap_or(80)))
}

/// Removes what concerns one connection only.
fn strip(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    let always = ["keep-alive", "proxy-connection", "proxy-authenticate", "proxy-authorization"];
    for name in [CONNECTION, TE, TRAILER, TRANSFER_ENCODING, UPGRADE].into_iter().chain(named) {
        headers.remove(name);
    }
    always.into_iter().for_each(|name| drop(headers.remove(name)));
}

fn own(status: StatusCode) -> Answer {
    let mut response = Response::new(Either::Right(Empty::new()));
    *response.status_mut() = status;
    response
}

fn sorry(unreachable: &Unreachable) -> Answer {
    match unreachable {
        Unreachable::Failed(_) => own(StatusCode::BAD_GATEWAY),
        Unreachable::Refused(what) => {
            let mut answer = own(StatusCode::FORBIDDEN);
            let what = HeaderValue::from_str(what).unwrap_or_else(|_| HeaderValue::from_static("?"));
            answer.headers_mut().insert(REFUSED, what);
            answer
        }
    }
}
