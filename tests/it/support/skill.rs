//! Scripts for tiny skills.

/// Answers at once.
pub const HELLO: &str = "cat >/dev/null\necho '50% half way' >&2\necho 'a note' >&2\n\
    echo '{\"success\":true,\"action\":\"run\",\"data\":{\"greeting\":\"hello\"}}'\n";

/// Says it is ready, waits at its gate, then answers with the line it was given.
pub const GATED: &str = "cat >/dev/null\nmkfifo gate\necho ready >&2\nread line < gate\n\
    echo \"{\\\"success\\\":true,\\\"action\\\":\\\"run\\\",\\\"data\\\":{\\\"line\\\":\\\"$line\\\"}}\"\n";
