//! Metrics in the text format of Prometheus (version 0.0.4).

use std::fmt::Write as _;

use super::catalog::Kind;
use super::snapshot::{Metric, Sample, Value};

/// The content type of the text.
pub(crate) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// All metrics as text.
pub(crate) fn prometheus(metrics: &[Metric]) -> String {
    let mut text = String::with_capacity(16 * 1024);
    for metric in metrics {
        let kind = match metric.kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "# HELP {} {}\n# TYPE {} {kind}", metric.name, escaped(metric.help, false), metric.name);
        for sample in &metric.samples {
            write_sample(&mut text, metric.name, sample);
        }
    }
    text
}

fn write_sample(text: &mut String, name: &str, sample: &Sample) {
    let labels = |more: Option<String>| {
        let all = sample.labels.iter().map(|(label, value)| format!("{label}=\"{}\"", escaped(value, true)));
        let all: Vec<String> = all.chain(more).collect();
        if all.is_empty() { String::new() } else { format!("{{{}}}", all.join(",")) }
    };
    let _ = match &sample.value {
        Value::Whole(number) => writeln!(text, "{name}{} {number}", labels(None)),
        Value::Real(number) => writeln!(text, "{name}{} {number}", labels(None)),
        Value::Buckets { bounds, counts, sum } => {
            let mut below = 0;
            let bounds = bounds.iter().map(f64::to_string).chain(["+Inf".to_owned()]);
            for (bound, count) in bounds.zip(counts) {
                below += count;
                let _ = writeln!(text, "{name}_bucket{} {below}", labels(Some(format!("le=\"{bound}\""))));
            }
            writeln!(text, "{name}_sum{} {sum}\n{name}_count{} {below}", labels(None), labels(None))
        }
    };
}

fn escaped(text: &str, quotes: bool) -> String {
    let text = text.replace('\\', "\\\\").replace('\n', "\\n");
    if quotes { text.replace('"', "\\\"") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_written_with_help_type_labels_and_cumulative_buckets() {
        let sample = |labels: &[(&'static str, &str)], value| Sample {
            labels: labels.iter().map(|(name, value)| (*name, (*value).to_owned())).collect(),
            value,
        };
        let buckets = Value::Buckets { bounds: &[0.01, 1.0], counts: vec![2, 1, 4], sum: 9.5 };
        let metrics = [
            Metric {
                name: "a_total",
                help: "Counts a.",
                kind: Kind::Counter,
                samples: vec![sample(&[("x", "q\"\\\n"), ("y", "z")], Value::Whole(3))],
            },
            Metric { name: "b", help: "None yet.", kind: Kind::Gauge, samples: vec![] },
            Metric { name: "c_seconds", help: "c.", kind: Kind::Histogram, samples: vec![sample(&[], buckets)] },
        ];
        let expected = "\
# HELP a_total Counts a.
# TYPE a_total counter
a_total{x=\"q\\\"\\\\\\n\",y=\"z\"} 3
# HELP b None yet.
# TYPE b gauge
# HELP c_seconds c.
# TYPE c_seconds histogram
c_seconds_bucket{le=\"0.01\"} 2
c_seconds_bucket{le=\"1\"} 3
c_seconds_bucket{le=\"+Inf\"} 7
c_seconds_sum 9.5
c_seconds_count 7
";
        assert_eq!(prometheus(&metrics), expected);
    }
}
