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
        (_, "ExpiredToken" | "InvalidToken" | "TokenRefreshRequired") => {
            "the key no longer holds, or its s3_session_token is wrong; give the service a new one, best by \
             s3_credentials_file"
                .to_owned()
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
