//! What a server's refusal means, and what to do about it.

use super::client::{Answer, Client};
use crate::blobs::error::Error;

/// Clocks that are further apart are refused by servers.
const CLOCKS_APART_SECONDS: i64 = 15 * 60;

/// The error for an answer that is not what was asked for. `doing` completes "may not ...", such as "read objects (s3:GetObject)".
pub(super) fn refused(client: &Client, answer: &Answer, doing: &str) -> Error {
    let code = answer.code().unwrap_or_default();
    let reason = match (answer.status, code.as_str()) {
        (_, "NoSuchBucket") => {
            format!("the server {} has no bucket {}; create it, or correct blobs", client.endpoint(), client.bucket())
        }
        (_, "InvalidAccessKeyId") => {
            "the server does not know the key; correct s3_access_key_id (AWS_ACCESS_KEY_ID)".to_owned()
        }
        (_, "SignatureDoesNotMatch") => {
            "the secret is not that of the key; correct s3_secret_access_key (AWS_SECRET_ACCESS_KEY). If it is right, \
             something between changes requests, or s3_endpoint is not how the server knows itself"
                .to_owned()
        }
        (_, "RequestTimeTooSkewed") => {
            let apart = answer.clocks_apart().unwrap_or(CLOCKS_APART_SECONDS);
            format!("the clocks of this machine and of the server are {apart} seconds apart; have both set by NTP")
        }
        // A new key may be on its way.
        (_, "ExpiredToken" | "InvalidToken" | "TokenRefreshRequired") => {
            let advice = "the key no longer holds, or its s3_session_token is wrong; give the service a new one, best by \
                          s3_credentials_file";
            return Error::Unreachable { reason: format!("{advice} ({})", client.told(answer)) };
        }
        (
            _,
            "AuthorizationHeaderMalformed"
            | "PermanentRedirect"
            | "TemporaryRedirect"
            | "IllegalLocationConstraintException",
        )
        | (301 | 307 | 308, _) => match answer.header("x-amz-bucket-region") {
            Some(region) => format!("the bucket is in the region {region}; set s3_region (AWS_REGION) to it"),
            None => {
                "the bucket is in another region or at another server; correct s3_region and s3_endpoint".to_owned()
            }
        },
        (_, "InvalidBucketName") => "the server takes this for no name of a bucket; correct blobs".to_owned(),
        (401 | 403, _) => format!("the key may not {doing}; let it, or use another"),
        (404 | 405, "") => {
            format!("{} does not answer as an S3 server; correct s3_endpoint", client.endpoint())
        }
        _ => return Error::Unusable { place: client.place(), reason: client.told(answer) },
    };
    let reason = format!("{reason} ({})", client.told(answer));
    Error::Unusable { place: client.place(), reason }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use ureq::http::HeaderMap;

    use super::*;
    use crate::settings::{BlobsPlace, Settings};

    fn client() -> Client {
        let pairs = [
            ("SKILL_RUNNER_BLOBS", "s3://bucket/prefix"),
            ("AWS_ENDPOINT_URL", "http://store.example"),
            ("AWS_ACCESS_KEY_ID", "the-id"),
            ("AWS_SECRET_ACCESS_KEY", "the-secret"),
        ];
        let env: BTreeMap<_, _> = pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        match Settings::load(None, &env, &[], 1).unwrap().several.blobs {
            Some(BlobsPlace::S3(place)) => Client::new(&place).unwrap(),
            other => panic!("{other:?}"),
        }
    }

    /// Those that a test cannot get from its server.
    #[test]
    fn a_refusal_is_told_with_what_to_do_and_without_keys() {
        let client = client();
        let date = jiff::Timestamp::now().strftime("%a, %d %b %Y %H:%M:%S GMT").to_string();
        let told = |status: u16, code: &str, headers: &[(&'static str, &str)]| {
            let message = "words with the-id and the-secret";
            let body = format!("<Error><Code>{code}</Code><Message>{message}</Message></Error>").into_bytes();
            let mut all = HeaderMap::new();
            for (name, value) in headers {
                all.insert(*name, value.parse().unwrap());
            }
            refused(&client, &Answer { status, headers: all, body }, "write objects")
        };
        for (status, code, headers, expected) in [
            (403, "RequestTimeTooSkewed", &[("date", date.as_str())][..], "seconds apart; have both set by NTP"),
            (
                301,
                "PermanentRedirect",
                &[("x-amz-bucket-region", "eu-west-1")],
                "the bucket is in the region eu-west-1; set s3_region",
            ),
            (400, "AuthorizationHeaderMalformed", &[], "correct s3_region and s3_endpoint"),
            (400, "ExpiredToken", &[], "the key no longer holds"),
            (403, "AccessDenied", &[], "the key may not write objects; let it, or use another"),
            (404, "NoSuchBucket", &[], "the server http://store.example has no bucket bucket; create it"),
            (418, "Other", &[], "it answered 418 Other words with ******** and ********"),
        ] {
            let error = told(status, code, headers);
            let text = error.to_string();
            assert!(text.contains(expected) && !text.contains("the-secret") && !text.contains("the-id"), "{text}");
            assert_eq!(matches!(error, Error::Unreachable { .. }), code == "ExpiredToken", "{text}");
        }
    }
}
