//! What other programs and servers say: object stores, databases, installers, agent CLIs, the service itself, processes.

use super::texts::text;
use super::ways::{about, way};
use crate::blobs::foreign;
use crate::cli::{ForeignText, foreign_event_stream};
use crate::environments::foreign_complaint;
use crate::installed_engines::{foreign_models, foreign_version};
use crate::store::foreign_notification;
use crate::supervisor::foreign_process;

pub(super) const OBJECTS: &[&str] = &[
    "<?xml version=\"1.0\"?>",
    "<ListBucketResult>",
    "</ListBucketResult>",
    "<Contents>",
    "</Contents>",
    "<Key>skill-runner/sha256/ab/",
    "</Key>",
    "<Size>",
    "</Size>",
    "<LastModified>2026-01-01T00:00:00Z</LastModified>",
    "<Error>",
    "</Error>",
    "<Code>NoSuchKey</Code>",
    "<!--",
    "-->",
    "<a:b c=\"d\">",
    "/>",
    "&amp;",
    "&#x",
    "&#1114112;",
    ";",
    "Wed, 18 Nov 2026 12:00:00 GMT\n",
    "-9999999999999",
];
pub(super) const KEYS: &[&str] =
    &["[default]", "[other]", "aws_access_key_id", "aws_secret_access_key", "aws_session_token", "=", "\n", "#", " "];
pub(super) const NOTIFICATION: &[&str] =
    &[" ", "=", "00000000000000000000000000000001", "18446744073709551615", "-1", "+1", "+", "~", "!", "*"];
pub(super) const INSTALLER: &[&str] = &[
    "ERROR: ",
    "error: ",
    "No matching distribution found for ",
    " was not found in the package registry",
    "there is no version of ",
    "Failed to build ",
    "Could not fetch URL ",
    ": 404 Client Error",
    ": 502 Server Error",
    "×",
    "╰─▶",
    "\n",
    ",",
    ";",
];
pub(super) const PROGRAM: &[&str] = &["v1.2.3", "/", "\n", " ", "provider/model", "(", ")", ",", "-", "\u{1b}[31m"];
pub(super) const EVENTS: &[&str] = &[
    "event: chat_event\n",
    "event: snapshot\n",
    "data: {}\n",
    "data:",
    "id: 1\n",
    "\n\n",
    "\r\n",
    ": \n",
    "retry: 1\n",
];
pub(super) const TERMINAL: &[&str] =
    &["\u{1b}[2J", "\u{1b}]0;", "\u{7}", "\u{9b}31m", "\r", "\r\n", "\n", "\t", "\u{202e}", "\u{7f}", "€", "🦀"];
pub(super) const PROCESS: &[&str] = &[") S 1 ", "(", ")", " ", "\n", "\\", "18446744073709551615"];

pub(super) fn objects(bytes: &[u8]) -> u64 {
    let (code, time, listed) = foreign::answer(&text(bytes));
    way((code.map(|code| about(code.len())), time.is_some(), about(listed)))
}

pub(super) fn keys(bytes: &[u8]) -> u64 {
    way(foreign::has_keys(&text(bytes)))
}

pub(super) fn notification(bytes: &[u8]) -> u64 {
    let text = text(bytes);
    way((foreign_notification(&text), about(text.split(' ').count())))
}

/// What an installer printed and, behind a zero byte, its log.
pub(super) fn installer(bytes: &[u8]) -> u64 {
    let text = text(bytes);
    let (said, log) = text.split_once('\0').unwrap_or((&text, ""));
    way(foreign_complaint(said, log))
}

pub(super) fn program(bytes: &[u8]) -> u64 {
    let text = text(bytes);
    way((about(foreign_models(&text)), foreign_version(&text)))
}

/// However a stream comes in, its events are the same.
pub(super) fn event_stream(bytes: &[u8]) -> u64 {
    let whole = foreign_event_stream(bytes, bytes.len().max(1));
    assert_eq!(foreign_event_stream(bytes, 3), whole);
    way(whole.iter().map(|event| about(event.len())).take(20).collect::<Vec<_>>())
}

/// Nothing that is shown controls the terminal, and it is the same however it comes in.
pub(super) fn terminal(bytes: &[u8]) -> u64 {
    let shown = |size: usize| {
        let mut foreign = ForeignText::default();
        let mut all: String = bytes.chunks(size).map(|piece| foreign.next(piece)).collect();
        all.push_str(&foreign.rest());
        all
    };
    let whole = shown(bytes.len().max(1));
    assert!(!whole.chars().any(|c| c.is_control() && !['\n', '\t'].contains(&c)), "{whole:?}");
    assert_eq!(shown(3), whole);
    way((about(whole.len()), about(whole.matches('\u{fffd}').count())))
}

/// The name that a process gave itself.
pub(super) fn process(bytes: &[u8]) -> u64 {
    assert!(foreign_process(bytes), "{bytes:?}");
    way(about(bytes.len()))
}
