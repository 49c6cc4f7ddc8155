//! The files of the user interface, which the program carries packed and sends packed to whoever can unpack them.

use std::collections::HashMap;
use std::io::{self, Read as _};
use std::sync::LazyLock;

use axum::body::Body;
use axum::http::{HeaderMap, header};
use flate2::read::GzDecoder;
use sha2::{Digest, Sha256};

include!(concat!(env!("OUT_DIR"), "/ui_files.rs"));

/// A file of the user interface.
pub(super) struct Embedded {
    packed: &'static [u8],
    /// The hash of the content, in quotes.
    tag: String,
    /// The tag of the content as it is packed: other bytes need another tag.
    packed_tag: String,
    pub(super) content_type: &'static str,
}

static FILES: LazyLock<HashMap<&'static str, Embedded>> = LazyLock::new(|| {
    let embedded = |(path, packed): &(&'static str, &'static [u8])| {
        let hash = hex::encode(Sha256::digest(unpack(packed).ok()?));
        let (tag, packed_tag) = (format!("\"{hash}\""), format!("\"{hash}-gzip\""));
        Some((*path, Embedded { packed, tag, packed_tag, content_type: content_type(path) }))
    };
    UI_FILES.iter().filter_map(embedded).collect()
});

pub(super) fn named(path: &str) -> Option<&'static Embedded> {
    FILES.get(path)
}

impl Embedded {
    pub(super) fn tag(&self, packed: bool) -> &str {
        if packed { &self.packed_tag } else { &self.tag }
    }

    pub(super) fn content(&self, packed: bool) -> io::Result<Body> {
        if packed { Ok(Body::from(self.packed)) } else { unpack(self.packed).map(Body::from) }
    }
}

fn unpack(packed: &[u8]) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    GzDecoder::new(packed).read_to_end(&mut content)?;
    Ok(content)
}

/// Whether the client says that it can unpack what gzip has packed.
pub(super) fn takes_gzip(headers: &HeaderMap) -> bool {
    let given = headers.get_all(header::ACCEPT_ENCODING).into_iter().filter_map(|value| value.to_str().ok());
    given.flat_map(|value| value.split(',')).any(|coding| {
        let (name, weight) = coding.split_once(';').unwrap_or((coding, "q=1"));
        let weight = weight.trim().strip_prefix("q=").and_then(|weight| weight.parse::<f32>().ok());
        name.trim().eq_ignore_ascii_case("gzip") && weight.is_some_and(|weight| weight > 0.0)
    })
}

/// The types of the files that the folder `ui` may have; a browser is told to believe them.
fn content_type(path: &str) -> &'static str {
    match path.rsplit_once('.').map_or("", |(_, ending)| ending) {
        "html" => "text/html; charset=utf-8",
        "js" | "mjs" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "json" => "application/json",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        _ => "text/plain; charset=utf-8",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_client_that_says_so_is_sent_packed_files() {
        let takes =
            |value: &str| takes_gzip(&HeaderMap::from_iter([(header::ACCEPT_ENCODING, value.parse().unwrap())]));
        for value in ["gzip", "deflate, GZIP", "br;q=1.0,gzip;q=0.8, *;q=0.1", "gzip; q=0.001"] {
            assert!(takes(value), "{value}");
        }
        for value in ["", "identity", "br, *", "gzip;q=0", "gzip; q=0.000", "gzip;q=x", "gzip;level=1", "gzipped"] {
            assert!(!takes(value), "{value}");
        }
        assert!(!takes_gzip(&HeaderMap::new()));
    }
}
