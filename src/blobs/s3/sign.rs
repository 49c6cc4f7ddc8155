//! The signature of a request: AWS Signature Version 4, with all of the request in its headers.

use hmac::{Hmac, KeyInit, Mac};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use sha2::{Digest, Sha256};

use super::keys::Keys;

/// All but what a URL may hold as it is.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
const SERVICE: &str = "s3";

/// What is signed.
pub(super) struct Signed<'a> {
    pub(super) method: &'a str,
    pub(super) host: &'a str,
    /// As it stands in the URL.
    pub(super) path: &'a str,
    /// As it stands in the URL; see [`query`].
    pub(super) query: &'a str,
    /// Names in lower case and values, besides those that are added here.
    pub(super) headers: &'a [(&'static str, String)],
    /// The hash of the body.
    pub(super) body: &'a [u8; 32],
    pub(super) region: &'a str,
    /// As `20261118T113155Z`.
    pub(super) time: &'a str,
}

/// A query in the order and the spelling that a signature needs.
pub(super) fn query(pairs: &[(&str, &str)]) -> String {
    let encoded = |text: &str| utf8_percent_encode(text, ENCODED).to_string();
    let mut pairs: Vec<String> =
        pairs.iter().map(|(name, value)| format!("{}={}", encoded(name), encoded(value))).collect();
    pairs.sort_unstable();
    pairs.join("&")
}

/// The headers to send: those given, those that every signed request has, and the signature. `host` is signed and not among them.
pub(super) fn sign(request: &Signed<'_>, keys: &Keys) -> Vec<(&'static str, String)> {
    let body = hex::encode(request.body);
    let mut headers = request.headers.to_vec();
    headers.push(("x-amz-content-sha256", body.clone()));
    headers.push(("x-amz-date", request.time.to_owned()));
    headers.extend(keys.session.clone().map(|token| ("x-amz-security-token", token)));
    let mut signed: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (*name, value.trim())).collect();
    signed.push(("host", request.host));
    signed.sort_unstable();
    let lines: String = signed.iter().map(|(name, value)| format!("{name}:{value}\n")).collect();
    let names = signed.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(";");
    let canonical = [request.method, request.path, request.query, &lines, &names, &body].join("\n");
    let day = request.time.split('T').next().unwrap_or_default();
    let scope = format!("{day}/{}/{SERVICE}/aws4_request", request.region);
    let text = format!("AWS4-HMAC-SHA256\n{}\n{scope}\n{}", request.time, hex::encode(Sha256::digest(canonical)));
    let key = format!("AWS4{}", keys.secret).into_bytes();
    let key = [day, request.region, SERVICE, "aws4_request"].iter().fold(key, |key, part| hmac(&key, part));
    let signature = hex::encode(hmac(&key, &text));
    let value =
        format!("AWS4-HMAC-SHA256 Credential={}/{scope}, SignedHeaders={names}, Signature={signature}", keys.id);
    headers.push(("authorization", value));
    headers
}

fn hmac(key: &[u8], text: &str) -> Vec<u8> {
    // A key may have any length, so there is always one.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key) else { return Vec::new() };
    mac.update(text.as_bytes());
    mac.finalize().into_bytes().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples in Amazon's description of the signature.
    #[test]
    fn a_signature_is_the_one_that_the_standard_gives() {
        let keys = Keys {
            id: "AKIAIOSFODNN7EXAMPLE".into(),
            secret: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY".into(),
            session: None,
        };
        let empty: [u8; 32] = Sha256::digest("").into();
        let signature = |method, path, query: &str, headers: &[(&'static str, String)], body: &[u8; 32]| {
            let (host, region, time) = ("examplebucket.s3.amazonaws.com", "us-east-1", "20130524T000000Z");
            let signed = sign(&Signed { method, host, path, query, headers, body, region, time }, &keys);
            let value = signed.last().unwrap().1.clone();
            value.rsplit_once("Signature=").unwrap().1.to_owned()
        };
        let range = [("range", "bytes=0-9".to_owned())];
        assert_eq!(
            signature("GET", "/test.txt", "", &range, &empty),
            "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"
        );
        assert_eq!(
            signature("GET", "/", &query(&[("prefix", "J"), ("max-keys", "2")]), &[], &empty),
            "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"
        );
        let put = [
            ("date", "Fri, 24 May 2013 00:00:00 GMT".to_owned()),
            ("x-amz-storage-class", "REDUCED_REDUNDANCY".to_owned()),
        ];
        assert_eq!(
            signature("PUT", "/test%24file.text", "", &put, &Sha256::digest("Welcome to Amazon S3.").into()),
            "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd"
        );
    }

    #[test]
    fn a_query_is_sorted_and_encoded() {
        assert_eq!(query(&[("uploads", ""), ("a b", "x/y+z=~")]), "a%20b=x%2Fy%2Bz%3D~&uploads=");
    }
}
