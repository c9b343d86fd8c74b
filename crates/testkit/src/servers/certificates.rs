//! Certificates of a private authority for a server on the loopback address and for a client, made
//! with `openssl`.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

use super::ServerError;

/// Certificates and keys in a temporary directory. Dropping it removes them.
pub struct Certificates {
    directory: TempDir,
}

impl Certificates {
    /// Creates an authority and the certificates that it signs.
    pub fn new() -> Result<Self, ServerError> {
        let certificates = Self { directory: tempfile::Builder::new().prefix("tidemill-tls-").tempdir()? };
        certificates.make_authority("ca")?;
        certificates.sign("server", "subjectAltName=IP:127.0.0.1,DNS:localhost")?;
        certificates.sign("client", "extendedKeyUsage=clientAuth")?;
        Ok(certificates)
    }

    /// The certificate of the authority.
    pub fn authority(&self) -> PathBuf {
        self.file("ca.crt")
    }

    /// The certificate and the key of `server` or `client`.
    pub fn pair(&self, of: &str) -> (PathBuf, PathBuf) {
        (self.file(&format!("{of}.crt")), self.file(&format!("{of}.key")))
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn make_authority(&self, name: &str) -> Result<(), ServerError> {
        let (key, certificate) = (format!("{name}.key"), format!("{name}.crt"));
        self.openssl(&[
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
            "-days",
            "2",
            "-subj",
            "/CN=Tidemill test authority",
            "-addext",
            "basicConstraints=critical,CA:TRUE",
            "-keyout",
            &key,
            "-out",
            &certificate,
        ])
    }

    fn sign(&self, name: &str, extension: &str) -> Result<(), ServerError> {
        let [key, request, certificate, extensions] =
            ["key", "csr", "crt", "ext"].map(|end| format!("{name}.{end}"));
        std::fs::write(self.file(&extensions), extension)?;
        let subject = format!("/CN={name}");
        self.openssl(&[
            "req",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
            "-subj",
            &subject,
            "-keyout",
            &key,
            "-out",
            &request,
        ])?;
        self.openssl(&[
            "x509",
            "-req",
            "-in",
            &request,
            "-CA",
            "ca.crt",
            "-CAkey",
            "ca.key",
            "-CAcreateserial",
            "-days",
            "2",
            "-extfile",
            &extensions,
            "-out",
            &certificate,
        ])
    }

    fn openssl(&self, args: &[&str]) -> Result<(), ServerError> {
        let mut command = Command::new("openssl");
        command.args(args).current_dir(self.path()).stdin(Stdio::null());
        let output = command.output().map_err(|_| ServerError::missing("openssl", "openssl"))?;
        if output.status.success() {
            return Ok(());
        }
        Err(ServerError::new(format!("openssl {}: {}", args[0], String::from_utf8_lossy(&output.stderr))))
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }
}
