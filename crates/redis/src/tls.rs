//! Certificates that a URL names: a private authority, and a client's own.

use std::fs;

use redis::{Client, ClientTlsConfig, ConnectionInfo, TlsCertificates};
use tidemill_core::Error;

use crate::url::invalid;

/// The parameters' names are those of redis-py, which Celery and Django users know.
pub(crate) const AUTHORITY: &str = "ssl_ca_certs";
pub(crate) const CERTIFICATE: &str = "ssl_certfile";
pub(crate) const KEY: &str = "ssl_keyfile";

/// The files that a URL names.
#[derive(Default)]
pub(crate) struct Files {
    pub(crate) authority: Option<String>,
    pub(crate) certificate: Option<String>,
    pub(crate) key: Option<String>,
}

impl Files {
    pub(crate) fn is_empty(&self) -> bool {
        self.authority.is_none() && self.certificate.is_none() && self.key.is_none()
    }

    /// Reads them. Errors name the parameter and the file.
    pub(crate) fn read(&self) -> Result<TlsCertificates, Error> {
        let root_cert =
            self.authority.as_deref().map(|file| pem(AUTHORITY, file, "CERTIFICATE")).transpose()?;
        let client_tls = match (&self.certificate, &self.key) {
            (Some(certificate), Some(key)) => Some(ClientTlsConfig {
                client_cert: pem(CERTIFICATE, certificate, "CERTIFICATE")?,
                client_key: pem(KEY, key, "PRIVATE KEY")?,
            }),
            (None, None) => None,
            (Some(_), None) => return Err(invalid(&format!("has {CERTIFICATE} without {KEY}"))),
            (None, Some(_)) => return Err(invalid(&format!("has {KEY} without {CERTIFICATE}"))),
        };
        Ok(TlsCertificates { client_tls, root_cert })
    }
}

fn pem(parameter: &str, file: &str, what: &str) -> Result<Vec<u8>, Error> {
    let read = fs::read(file);
    let bytes =
        read.map_err(|error| invalid(&format!("has {parameter}={file}, which cannot be read: {error}")))?;
    let text = String::from_utf8_lossy(&bytes);
    if !text.lines().any(|line| line.starts_with("-----BEGIN ") && line.contains(what)) {
        return Err(invalid(&format!("has {parameter}={file}, which has no {what} in PEM form")));
    }
    Ok(bytes)
}

/// The same server, reached with these certificates.
pub(crate) fn with_certificates(
    info: ConnectionInfo,
    certificates: TlsCertificates,
) -> Result<ConnectionInfo, Error> {
    let client = Client::build_with_tls(info, certificates)
        .map_err(|error| invalid(&format!("names certificates that cannot be used: {error}")))?;
    Ok(client.get_connection_info().clone())
}
