//! The header `traceparent` of W3C Trace Context: the trace that a request belongs to.

use std::fmt;

/// A trace, and the span in it that caused a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TraceParent {
    /// 32 hexadecimal digits.
    pub(crate) trace_id: String,
    /// 16 hexadecimal digits.
    pub(crate) span_id: String,
    /// Whether the trace is recorded.
    pub(crate) sampled: bool,
}

impl TraceParent {
    /// Reads the header; `None` for what the standard says to ignore.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let hex = |part: &str, digits: usize| {
            part.len() == digits && part.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
        };
        let mut parts = text.trim().split('-');
        let (version, trace_id, span_id, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        // Later versions may add parts; this one has none.
        let rest_fits = parts.next().is_none() || version != "00";
        let ids =
            hex(trace_id, 32) && hex(span_id, 16) && trace_id.contains(|c| c != '0') && span_id.contains(|c| c != '0');
        if !(hex(version, 2) && version != "ff" && ids && hex(flags, 2) && rest_fits) {
            return None;
        }
        let sampled = u8::from_str_radix(flags, 16).is_ok_and(|flags| flags & 1 == 1);
        Some(Self { trace_id: trace_id.to_owned(), span_id: span_id.to_owned(), sampled })
    }
}

impl fmt::Display for TraceParent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{}-{}-{:02x}", self.trace_id, self.span_id, u8::from(self.sampled))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
    const SPAN: &str = "00f067aa0ba902b7";

    #[test]
    fn the_example_of_the_standard_is_read_and_written() {
        let text = format!("00-{TRACE}-{SPAN}-01");
        let read = TraceParent::parse(&text).unwrap();
        assert_eq!(read, TraceParent { trace_id: TRACE.into(), span_id: SPAN.into(), sampled: true });
        assert_eq!(read.to_string(), text);
        assert!(!TraceParent::parse(&format!("00-{TRACE}-{SPAN}-00")).unwrap().sampled);
        assert!(TraceParent::parse(&format!("cc-{TRACE}-{SPAN}-01-more")).is_some(), "a later version");
    }

    #[test]
    fn what_the_standard_forbids_is_ignored() {
        let zeros = "0".repeat(32);
        for wrong in [
            String::new(),
            format!("ff-{TRACE}-{SPAN}-01"),
            format!("00-{TRACE}-{SPAN}-01-more"),
            format!("00-{}-{SPAN}-01", TRACE.to_uppercase()),
            format!("00-{zeros}-{SPAN}-01"),
            format!("00-{TRACE}-{}-01", &zeros[..16]),
            format!("00-{TRACE}-{SPAN}"),
            format!("00-{TRACE}x-{SPAN}-01"),
            format!("00-{TRACE}-{SPAN}-1"),
        ] {
            assert_eq!(TraceParent::parse(&wrong), None, "{wrong}");
        }
    }
}
