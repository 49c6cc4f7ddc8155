//! TLS in front of a plain server on loopback, with a certificate made for it.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use tempfile::TempDir;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// A key and its certificate for the name `localhost`, which vouches for itself.
pub struct Keys {
    folder: TempDir,
}

impl Keys {
    pub fn new() -> Keys {
        let keys = Keys { folder: tempfile::tempdir().unwrap() };
        let made = Command::new("openssl")
            .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"])
            .args(["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"])
            .args(["-addext", "basicConstraints=critical,CA:FALSE"])
            .arg("-keyout")
            .arg(keys.key())
            .arg("-out")
            .arg(keys.certificate())
            .output()
            .unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        keys
    }

    pub fn key(&self) -> PathBuf {
        self.folder.path().join("key")
    }

    pub fn certificate(&self) -> PathBuf {
        self.folder.path().join("cert")
    }
}

/// Passes on what comes over TLS until it is dropped.
pub struct Front {
    pub keys: Keys,
    pub port: u16,
    _runtime: tokio::runtime::Runtime,
}

impl Front {
    pub fn of(server: SocketAddr) -> Front {
        let keys = Keys::new();
        let certificates = vec![CertificateDer::from_pem_file(keys.certificate()).unwrap()];
        let key = PrivateKeyDer::from_pem_file(keys.key()).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(certificates, key)
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let port = listener.local_addr().unwrap().port();
        runtime.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let acceptor = acceptor.clone();
                tokio::spawn(async move {
                    // A client that does not trust it breaks off.
                    let Ok(mut outside) = acceptor.accept(stream).await else { return };
                    let mut inside = TcpStream::connect(server).await.unwrap();
                    let _ = tokio::io::copy_bidirectional(&mut outside, &mut inside).await;
                });
            }
        });
        Front { keys, port, _runtime: runtime }
    }

    /// The address by the name that the certificate has.
    pub fn url(&self) -> String {
        format!("https://localhost:{}", self.port)
    }
}
