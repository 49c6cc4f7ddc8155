//! TLS to the server, by rustls.

use std::future::Future;
use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::tls::{ChannelBinding, TlsConnect, TlsStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream as Encrypted;
use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::{self, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

use super::guarded::Guarded;
use super::reach::Wire;
use crate::trust::certificates;

/// Whose certificate is accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Trust {
    /// Any: the connection is encrypted, and nobody is told apart.
    Anyone,
    /// One that these roots vouch for, for the name of the server; the system's roots without a file.
    Roots(Option<PathBuf>),
}

/// Makes encrypted connections.
#[derive(Clone)]
pub(super) struct Tls(Arc<ClientConfig>);

impl Tls {
    pub(super) fn new(trust: &Trust) -> Result<Tls, String> {
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider.clone());
        let builder = builder.with_safe_default_protocol_versions().map_err(|error| error.to_string())?;
        let config = match trust {
            Trust::Anyone => builder.dangerous().with_custom_certificate_verifier(Arc::new(Unverified(provider))),
            Trust::Roots(file) => builder.with_root_certificates(roots(file.as_ref())?),
        };
        Ok(Tls(Arc::new(config.with_no_client_auth())))
    }
}

fn roots(file: Option<&PathBuf>) -> Result<RootCertStore, String> {
    let trusted = certificates(file.map(PathBuf::as_path)).map_err(|reason| match file {
        Some(_) => reason,
        None => format!("{reason}, or name a file with sslrootcert="),
    })?;
    let mut roots = RootCertStore::empty();
    // A list of the system may hold some that rustls does not take.
    let (taken, _) = roots.add_parsable_certificates(trusted);
    if taken == 0 { Err("none of the trusted certificates can be used".to_owned()) } else { Ok(roots) }
}

/// Accepts every certificate, as `sslmode=require` says.
#[derive(Debug)]
struct Unverified(Arc<CryptoProvider>);

impl ServerCertVerifier for Unverified {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

impl Tls {
    /// For a server that is known by this name.
    pub(super) fn to(&self, host: &str) -> io::Result<Handshake> {
        let server = ServerName::try_from(if host.is_empty() { "localhost" } else { host }.to_owned());
        Ok(Handshake { config: self.0.clone(), server: server.map_err(io::Error::other)? })
    }
}

/// A connection about to be encrypted.
pub(super) struct Handshake {
    config: Arc<ClientConfig>,
    server: ServerName<'static>,
}

impl TlsConnect<Guarded<Wire>> for Handshake {
    type Stream = Stream;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Stream>> + Send>>;

    fn connect(self, socket: Guarded<Wire>) -> Self::Future {
        Box::pin(async move {
            // What comes is measured when it was decrypted.
            let (wire, refused) = socket.into_parts();
            let encrypted = TlsConnector::from(self.config).connect(self.server, wire).await?;
            Ok(Stream(Box::new(Guarded::new(encrypted, false, refused))))
        })
    }
}

/// An encrypted connection.
pub(super) struct Stream(Box<Guarded<Encrypted<Wire>>>);

impl TlsStream for Stream {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl AsyncRead for Stream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}
