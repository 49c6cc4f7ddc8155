//! The list of all shared files in a bucket, page by page.

use jiff::Timestamp;

use super::client::{Request, age};
use super::object::Objects;
use super::refusal::refused;
use super::xml::Element;
use crate::blobs::content::hash_of;
use crate::blobs::error::Error;
use crate::blobs::shared::{Blob, Listed};

/// The longest page that servers give, and the shortest that is asked for.
const PAGE_MAX: usize = 1000;
const PAGE_MIN: usize = 100;
/// Most pages of one list. What else is in the bucket has its own place.
const PAGES_MAX: usize = 1000;

impl Objects {
    pub(super) fn list(&self, after: Option<[u8; 32]>, most: usize) -> Result<Vec<Listed>, Error> {
        let prefix = self.all();
        let mut listed = Vec::new();
        let mut behind = after.map(|sha256| self.key(&Blob { sha256, size: 0 })).unwrap_or_default();
        for page in 0.. {
            if listed.len() >= most {
                break;
            }
            if page == PAGES_MAX {
                let reason = format!("its list has no end: {PAGES_MAX} pages of what is no shared file");
                return Err(Error::Unusable { place: self.client.place(), reason });
            }
            let count = (most - listed.len()).clamp(PAGE_MIN, PAGE_MAX).to_string();
            let mut query = vec![("list-type", "2"), ("prefix", prefix.as_str()), ("max-keys", count.as_str())];
            if !behind.is_empty() {
                query.push(("start-after", &behind));
            }
            let answer = self.client.ask(Request { query: &query, ..Request::new("GET", "") })?;
            let Some(page) = answer.xml().filter(|_| answer.status == 200) else {
                return Err(refused(&self.client, &answer, "list the bucket (s3:ListBucket)"));
            };
            let now = answer.time();
            let Some(last) = page.all("Contents").filter_map(|found| found.text_of("Key")).last() else { break };
            if last <= behind.as_str() {
                let reason = "the server lists the same objects again".to_owned();
                return Err(Error::Unusable { place: self.client.place(), reason });
            }
            listed.extend(page.all("Contents").filter_map(|found| as_listed(&prefix, found, now)));
            behind = last.to_owned();
            if page.text_of("IsTruncated") != Some("true") {
                break;
            }
        }
        // A server may give more than it was asked for.
        listed.truncate(most);
        Ok(listed)
    }

    /// Whether it is the key of a shared file. Others are never asked for, whatever a server lists.
    pub(super) fn is_own(&self, key: &str) -> bool {
        key.strip_prefix(&self.all()).and_then(hash_in).is_some()
    }
}

/// The hash in a key without its prefix.
fn hash_in(key: &str) -> Option<[u8; 32]> {
    let (part, name) = key.split_once('/')?;
    hash_of(name).filter(|_| name.starts_with(part) && part.len() == 2)
}

/// What else is there is passed over.
pub(super) fn as_listed(prefix: &str, found: &Element, now: Option<i64>) -> Option<Listed> {
    let sha256 = hash_in(found.text_of("Key")?.strip_prefix(prefix)?)?;
    let put = found.text_of("LastModified")?.parse::<Timestamp>().ok()?;
    let size = found.text_of("Size")?.parse().ok()?;
    Some(Listed { blob: Blob { sha256, size }, age: age(now, Some(put.as_second())) })
}
