//! Spans as the body of an OTLP/HTTP request in JSON.

use serde_json::{Value, json};

use super::{Attribute, Happened, Outcome, Span};
use crate::domain::time::Timestamp;

/// A span of work inside a service.
const INTERNAL: u8 = 1;

/// What sends the spans or metrics: the name of the service, its version, and which of its processes.
pub(crate) fn resource(service: &str, instance: &str) -> Value {
    json!({"attributes": attributes(&[
        ("service.name", Attribute::Text(service.to_owned())),
        ("service.version", Attribute::Text(env!("CARGO_PKG_VERSION").to_owned())),
        ("service.instance.id", Attribute::Text(instance.to_owned())),
    ])})
}

/// The body of a request to `/v1/traces`.
pub(crate) fn otlp(spans: &[Span], resource: &Value) -> Value {
    let scope = json!({"name": "skill-runner", "version": env!("CARGO_PKG_VERSION")});
    let spans: Vec<Value> = spans.iter().map(span).collect();
    json!({"resourceSpans": [{"resource": resource, "scopeSpans": [{"scope": scope, "spans": spans}]}]})
}

fn span(span: &Span) -> Value {
    let status = match &span.outcome {
        Outcome::Unset => json!({}),
        Outcome::Ok => json!({"code": 1}),
        Outcome::Error(message) => json!({"code": 2, "message": message}),
    };
    let mut told = json!({
        "traceId": span.trace_id,
        "spanId": span.span_id,
        "name": span.name,
        "kind": INTERNAL,
        "startTimeUnixNano": nanos(span.from),
        "endTimeUnixNano": nanos(span.to),
        "attributes": attributes(&span.attributes),
        "events": span.events.iter().map(event).collect::<Vec<_>>(),
        "status": status,
    });
    if let Some(parent) = &span.parent_id {
        told["parentSpanId"] = parent.as_str().into();
    }
    told
}

fn event(event: &Happened) -> Value {
    json!({"timeUnixNano": nanos(event.at), "name": event.name, "attributes": attributes(&event.attributes)})
}

fn attributes(all: &[(&'static str, Attribute)]) -> Value {
    let value = |value: &Attribute| match value {
        Attribute::Text(text) => json!({"stringValue": text}),
        // 64-bit numbers are text in this format.
        Attribute::Whole(number) => json!({"intValue": number.to_string()}),
        Attribute::Real(number) => json!({"doubleValue": number}),
        Attribute::Flag(flag) => json!({"boolValue": flag}),
    };
    all.iter().map(|(key, told)| json!({"key": key, "value": value(told)})).collect()
}

/// Nanoseconds since 1970, as text.
fn nanos(moment: Timestamp) -> String {
    (i128::from(moment.as_micros()) * 1000).to_string()
}
