//! What pages show of a file.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::files::Preview;

/// Its size, and its content as text, or as an image in base64.
pub(crate) fn previewed(size: u64, preview: &Preview) -> Value {
    let (kind, mime, content) = match preview {
        Preview::Text(text) => ("text", None, Some(text.clone())),
        Preview::Image { mime, bytes } => ("image", Some(*mime), Some(STANDARD.encode(bytes))),
        Preview::Binary => ("binary", None, None),
        Preview::TooLarge => ("too_large", None, None),
    };
    json!({"size": size, "preview": kind, "mime": mime, "content": content})
}
