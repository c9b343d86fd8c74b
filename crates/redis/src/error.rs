//! Classification of driver and server errors, by what the caller can do about them.

use std::error::Error as StdError;
use std::io;
use std::sync::Arc;

use redis::{ErrorKind, RedisError, ServerErrorKind};
use tidemill_core::Error;

use crate::inspect::damage::DAMAGED_PREFIX;

/// Prefix of an error that names missing permissions.
pub(crate) const DENIED_PREFIX: &str = "the user lacks a right";

/// Classifies an error of the driver. `what` names the failed operation.
pub(crate) fn classify(what: &str, error: RedisError) -> Error {
    let code = error.code().unwrap_or_default().to_owned();
    let text = error.to_string();
    if let (true, Some(keys)) = (text.starts_with(DAMAGED_PREFIX), error.detail()) {
        return Error::Unsuitable(format!("{what}: {keys}"));
    }
    if let (true, Some(rights)) = (text.starts_with(DENIED_PREFIX), error.detail()) {
        return Error::Denied(format!("{what}: {rights}"));
    }
    match code.as_str() {
        "OOM" => Error::Full("Redis is out of memory".into()),
        "READONLY" => Error::unavailable("this Redis server is a read-only replica", error),
        "MISCONF" => Error::Full(format!("Redis cannot persist: {text}")),
        "NOAUTH" | "WRONGPASS" => Error::Denied(text),
        "WRONGTYPE" => Error::Unsuitable(format!("a key holds something else than it should: {text}")),
        _ if is_master_unknown(&error) => Error::unavailable(what, error),
        "LOADING" | "CLUSTERDOWN" | "MASTERDOWN" | "TRYAGAIN" | "BUSY" | "MOVED" | "ASK" | "NOREPLICAS" => {
            Error::unavailable(what, error)
        }
        // In a transaction the first error is hidden behind the abort.
        "EXECABORT" if text.contains("OOM") => Error::Full("Redis is out of memory".into()),
        _ if is_authentication(&error) => Error::Denied(text),
        _ if is_denied(&error) => Error::Denied(format!(
            "{what}: {text}: `tidemill doctor` shows the ACL SETUSER line that grants it"
        )),
        _ if is_certificate(&text) => {
            let advice = "name the authority of its certificate with ssl_ca_certs=FILE";
            Error::Unsuitable(format!("{what}: the server's certificate is not trusted: {advice} ({text})"))
        }
        _ if is_certificate_wanted(&text) => {
            let advice = "name them with ssl_certfile=FILE and ssl_keyfile=FILE";
            Error::Unsuitable(format!(
                "{what}: the server wants a certificate and key of the client: {advice} ({text})"
            ))
        }
        _ if is_connection(&error) && may_have_been_sent(&error) => Error::unanswered(what, error),
        _ if is_connection(&error) => Error::unavailable(what, error),
        _ if text.contains("OOM command not allowed") => Error::Full("Redis is out of memory".into()),
        _ => Error::Unsuitable(format!("{what}: {text}")),
    }
}

fn is_authentication(error: &RedisError) -> bool {
    error.kind() == ErrorKind::AuthenticationFailed
}

/// Whether the client does not trust the server's certificate.
fn is_certificate(text: &str) -> bool {
    text.contains("invalid peer certificate")
}

/// Whether the server requires a client certificate, or rejects this one.
fn is_certificate_wanted(text: &str) -> bool {
    text.contains("CertificateRequired") || text.contains("BadCertificate") || text.contains("UnknownCA")
}

/// Whether no Sentinel knows a working master: the name is wrong, or a failover is in progress.
fn is_master_unknown(error: &RedisError) -> bool {
    error.kind() == ErrorKind::MasterNameNotFoundBySentinel
}

/// Whether the user lacks a permission for a command, a key or a channel, alone or in a script.
pub(crate) fn is_denied(error: &RedisError) -> bool {
    // In a script, of Redis 7.0 and of later versions; and of EXEC.
    let elsewhere =
        ["The user executing the script can't", "ACL failure in script", "because of: NOPERM", DENIED_PREFIX];
    error.code() == Some("NOPERM") || {
        let text = error.to_string();
        elsewhere.iter().any(|words| text.contains(words))
    }
}

/// Whether the connection is broken, so that the next call should open another. That includes a
/// master that has become a replica.
pub(crate) fn is_connection(error: &RedisError) -> bool {
    error.is_io_error()
        || error.code() == Some("READONLY")
        || error.is_timeout()
        || error.is_connection_dropped()
        || error.is_connection_refusal()
}

/// Opening a connection failed, so nothing was sent.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct NotConnected(RedisError);

/// Marks an error of opening a connection, to distinguish it from a command without a reply. Errors
/// that the server returned stay as they are.
pub(crate) fn not_connected(error: RedisError) -> RedisError {
    if !is_connection(&error) {
        return error;
    }
    RedisError::from(io::Error::new(io::ErrorKind::NotConnected, NotConnected(error)))
}

/// Whether a command may have reached the server before the connection broke.
fn may_have_been_sent(error: &RedisError) -> bool {
    let cause = error.source().and_then(|cause| cause.downcast_ref::<Arc<dyn StdError + Send + Sync>>());
    let io = cause.and_then(|cause| cause.downcast_ref::<io::Error>());
    !io.and_then(io::Error::get_ref).is_some_and(|inner| inner.is::<NotConnected>())
}

/// The first error of a pipeline or transaction, as if its command had been sent alone. The
/// driver's summary has no code, so it cannot be classified.
pub(crate) fn first_server_error(error: RedisError) -> RedisError {
    let refused = error.clone().into_server_errors();
    match refused.as_deref() {
        Some([(_, first), ..]) => RedisError::from(first.clone()),
        _ => error,
    }
}

/// Whether the server does not have a script.
pub(crate) fn is_no_script(error: &RedisError) -> bool {
    error.kind() == ErrorKind::Server(ServerErrorKind::NoScript)
}

/// Whether the slot has moved to another server. The command was not executed.
pub(crate) fn is_moved(error: &RedisError) -> bool {
    error.kind() == ErrorKind::Server(ServerErrorKind::Moved)
}

/// Whether a stream or its group is missing: after FLUSHALL, or before the first read.
pub(crate) fn is_no_group(error: &RedisError) -> bool {
    error.code() == Some("NOGROUP")
}

/// A reply of an unexpected shape.
pub(crate) fn unexpected_reply(what: &str) -> Error {
    Error::Corrupt(format!("Redis sent an unexpected reply to {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_sent_may_have_taken_effect() {
        let refused = || RedisError::from(io::Error::from(io::ErrorKind::ConnectionRefused));
        assert!(matches!(classify("a", not_connected(refused())), Error::Unavailable { .. }));
        assert!(matches!(classify("a", refused()), Error::Unanswered { .. }));
        let denied = RedisError::from((ErrorKind::AuthenticationFailed, "no"));
        assert!(matches!(classify("a", not_connected(denied)), Error::Denied(_)));
    }
}
