//! Metrics as the body of an OTLP/HTTP request in JSON.

use serde_json::{Value as Json, json};

use super::catalog::Kind;
use super::snapshot::{Metric, Sample, Value};
use crate::domain::time::Timestamp;

/// Sums and histograms count from the start of the service on.
const CUMULATIVE: u8 = 2;

/// The body of a request to `/v1/metrics`: the resource, and all metrics with the moments their counts began and were read.
pub(crate) fn otlp(metrics: &[Metric], resource: &Json, began: Timestamp, now: Timestamp) -> Json {
    let metrics: Vec<Json> = metrics
        .iter()
        .filter(|metric| !metric.samples.is_empty())
        .map(|metric| {
            let points: Vec<Json> =
                metric.samples.iter().map(|sample| point(metric.kind, sample, began, now)).collect();
            let (member, data) = match metric.kind {
                Kind::Counter => {
                    ("sum", json!({"dataPoints": points, "aggregationTemporality": CUMULATIVE, "isMonotonic": true}))
                }
                Kind::Gauge => ("gauge", json!({"dataPoints": points})),
                Kind::Histogram => ("histogram", json!({"dataPoints": points, "aggregationTemporality": CUMULATIVE})),
            };
            let mut told = json!({"name": metric.name, "description": metric.help, "unit": unit(metric.name)});
            told[member] = data;
            told
        })
        .collect();
    let scope = json!({"name": "skill-runner", "version": env!("CARGO_PKG_VERSION")});
    json!({"resourceMetrics": [{"resource": resource, "scopeMetrics": [{"scope": scope, "metrics": metrics}]}]})
}

fn unit(name: &str) -> &'static str {
    let name = name.trim_end_matches("_total");
    if name.ends_with("_seconds") {
        "s"
    } else if name.ends_with("_bytes") {
        "By"
    } else if name.ends_with("_usd") {
        "USD"
    } else {
        "1"
    }
}

fn point(kind: Kind, sample: &Sample, began: Timestamp, now: Timestamp) -> Json {
    let attributes = sample.labels.iter().map(|(label, value)| json!({"key": label, "value": {"stringValue": value}}));
    let mut point = json!({"attributes": attributes.collect::<Vec<_>>(), "timeUnixNano": nanos(now)});
    if kind != Kind::Gauge {
        point["startTimeUnixNano"] = nanos(began).into();
    }
    match &sample.value {
        // 64-bit numbers are text in this format.
        Value::Whole(number) => point["asInt"] = number.to_string().into(),
        Value::Real(number) => point["asDouble"] = json!(number),
        Value::Buckets { bounds, counts, sum } => {
            point["explicitBounds"] = json!(bounds);
            point["bucketCounts"] = counts.iter().map(u64::to_string).collect();
            point["count"] = counts.iter().sum::<u64>().to_string().into();
            point["sum"] = json!(sum);
        }
    }
    point
}

/// Nanoseconds since 1970, as text.
fn nanos(moment: Timestamp) -> String {
    (i128::from(moment.as_micros()) * 1000).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_metric_has_its_form_and_those_without_a_series_are_left_out() {
        let sample = |value| Sample { labels: vec![("engine", "codex".into())], value };
        let metric = |name, kind, samples| Metric { name, help: "h", kind, samples };
        let buckets = Value::Buckets { bounds: &[1.0], counts: vec![2, 1], sum: 4.5 };
        let metrics = [
            metric("a_total", Kind::Counter, vec![sample(Value::Whole(3))]),
            metric("b_bytes", Kind::Gauge, vec![sample(Value::Whole(-1))]),
            metric("c_usd_total", Kind::Counter, vec![sample(Value::Real(0.5))]),
            metric("d_seconds", Kind::Histogram, vec![sample(buckets)]),
            metric("e", Kind::Gauge, vec![]),
        ];
        let body = otlp(&metrics, &json!({"attributes": []}), Timestamp::from_micros(1), Timestamp::from_micros(2));
        let labels = json!([{"key": "engine", "value": {"stringValue": "codex"}}]);
        let (began, now) = ("1000", "2000");
        let expected = json!([
            {"name": "a_total", "description": "h", "unit": "1", "sum": {
                "dataPoints": [{"attributes": labels, "timeUnixNano": now, "startTimeUnixNano": began, "asInt": "3"}],
                "aggregationTemporality": 2, "isMonotonic": true}},
            {"name": "b_bytes", "description": "h", "unit": "By", "gauge": {
                "dataPoints": [{"attributes": labels, "timeUnixNano": now, "asInt": "-1"}]}},
            {"name": "c_usd_total", "description": "h", "unit": "USD", "sum": {
                "dataPoints": [{"attributes": labels, "timeUnixNano": now, "startTimeUnixNano": began, "asDouble": 0.5}],
                "aggregationTemporality": 2, "isMonotonic": true}},
            {"name": "d_seconds", "description": "h", "unit": "s", "histogram": {
                "dataPoints": [{"attributes": labels, "timeUnixNano": now, "startTimeUnixNano": began,
                    "explicitBounds": [1.0], "bucketCounts": ["2", "1"], "count": "3", "sum": 4.5}],
                "aggregationTemporality": 2}},
        ]);
        assert_eq!(body["resourceMetrics"][0]["scopeMetrics"][0]["metrics"], expected);
    }
}
