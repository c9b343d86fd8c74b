//! Handling of one proxy request: a tunnel for `CONNECT`, otherwise a forwarded request.

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

use super::blocked::BlockedLog;
use super::policy::{EgressError, EgressPolicy, EgressTarget};

/// Marks a response of the proxy itself to a refused request.
pub(crate) const REFUSED_HEADER: &str = "x-tidemill-refused";

/// A response: the server's, or an empty one of the proxy itself.
type ProxyResponse = Response<Either<Incoming, Empty<Bytes>>>;

/// Forwards requests.
#[derive(Debug, Clone)]
pub(super) struct Forwarder {
    pub(super) policy: Arc<EgressPolicy>,
    pub(super) blocked: Arc<BlockedLog>,
    /// Ends every tunnel.
    pub(super) shutdown: CancellationToken,
}

impl Forwarder {
    pub(super) async fn handle(self, request: Request<Incoming>) -> Result<ProxyResponse, Infallible> {
        let Some(target) = target(request.method(), request.uri()) else {
            return Ok(empty_response(StatusCode::BAD_REQUEST));
        };
        let stream = match self.policy.dial(&target).await {
            Ok(stream) => stream,
            Err(error) => {
                self.blocked.record(&error);
                return Ok(error_response(&error));
            }
        };
        let _ = stream.set_nodelay(true);
        if request.method() == Method::CONNECT {
            return Ok(self.tunnel(request, stream));
        }
        Ok(self.forward(request, stream, &target).await)
    }

    /// Copies bytes both ways until either side ends.
    fn tunnel(&self, request: Request<Incoming>, mut stream: TcpStream) -> ProxyResponse {
        let upgrade = hyper::upgrade::on(request);
        let copying = async move {
            if let Ok(client) = upgrade.await {
                let _ = tokio::io::copy_bidirectional(&mut TokioIo::new(client), &mut stream).await;
            }
        };
        tokio::spawn(self.shutdown.clone().run_until_cancelled_owned(copying));
        empty_response(StatusCode::OK)
    }

    async fn forward(
        &self,
        request: Request<Incoming>,
        stream: TcpStream,
        target: &EgressTarget,
    ) -> ProxyResponse {
        match self.exchange(request, stream).await {
            Ok(response) => response,
            Err(error) => {
                self.blocked.record(&EgressError::Failed(format!("{target}: {error}")));
                empty_response(StatusCode::BAD_GATEWAY)
            }
        }
    }

    async fn exchange(
        &self,
        mut request: Request<Incoming>,
        stream: TcpStream,
    ) -> Result<ProxyResponse, hyper::Error> {
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(self.shutdown.clone().run_until_cancelled_owned(connection));
        let authority = request.uri().authority().and_then(|authority| authority.as_str().rsplit('@').next());
        let host = authority.and_then(|authority| HeaderValue::from_str(authority).ok());
        strip_hop_by_hop(request.headers_mut());
        if let Some(host) = host {
            request.headers_mut().insert(HOST, host);
        }
        let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
        *request.uri_mut() = path.parse().unwrap_or_else(|_| Uri::from_static("/"));
        let mut response = sender.send_request(request).await?;
        strip_hop_by_hop(response.headers_mut());
        // Only this proxy may set it.
        response.headers_mut().remove(REFUSED_HEADER);
        Ok(response.map(Either::Left))
    }
}

/// The destination of a request: any for a tunnel, otherwise a plain HTTP server.
fn target(method: &Method, uri: &Uri) -> Option<EgressTarget> {
    let host = uri.host()?;
    if *method == Method::CONNECT {
        return Some(EgressTarget::new(host, uri.port_u16()?));
    }
    (uri.scheme_str() == Some("http")).then(|| EgressTarget::new(host, uri.port_u16().unwrap_or(80)))
}

/// Removes hop-by-hop headers.
fn strip_hop_by_hop(headers: &mut HeaderMap) {
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

fn empty_response(status: StatusCode) -> ProxyResponse {
    let mut response = Response::new(Either::Right(Empty::new()));
    *response.status_mut() = status;
    response
}

fn error_response(error: &EgressError) -> ProxyResponse {
    match error {
        EgressError::Failed(_) => empty_response(StatusCode::BAD_GATEWAY),
        EgressError::Refused(target) => {
            let mut answer = empty_response(StatusCode::FORBIDDEN);
            let target = HeaderValue::from_str(target).unwrap_or_else(|_| HeaderValue::from_static("?"));
            answer.headers_mut().insert(REFUSED_HEADER, target);
            answer
        }
    }
}
