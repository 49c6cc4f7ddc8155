//! The samples as a picture: one panel for each column, time to the right.

use std::fmt::Write;

use crate::sample::{COLUMNS, Column, Sample};

const WIDTH: f64 = 900.0;
const PANEL: f64 = 120.0;
/// Room for the numbers at the left, and above and below a curve.
const LEFT: f64 = 70.0;
const EDGE: f64 = 24.0;

pub fn svg(samples: &[Sample]) -> String {
    let height = PANEL * COLUMNS.len() as f64 + EDGE;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" font-size=\"11\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    let last = samples.last().map_or(1.0, |sample| sample.second);
    for (at, column) in COLUMNS.iter().enumerate() {
        panel(&mut svg, samples, column, at as f64 * PANEL, last);
    }
    let _ = writeln!(svg, "<text x=\"{LEFT}\" y=\"{}\">0 s</text>", height - 8.0);
    let _ = writeln!(svg, "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{last:.0} s</text>", WIDTH - EDGE, height - 8.0);
    svg + "</svg>\n"
}

fn panel(svg: &mut String, samples: &[Sample], column: &Column, top: f64, last: f64) {
    let most = samples.iter().map(column.of).fold(0.0, f64::max).max(1.0);
    let (floor, ceiling) = (top + PANEL - 4.0, top + EDGE);
    let x = |second: f64| LEFT + second / last * (WIDTH - LEFT - EDGE);
    let y = |value: f64| floor - value / most * (floor - ceiling);
    let text = |x: f64, y: f64, anchor: &str, text: &str| {
        format!("<text x=\"{x}\" y=\"{y}\" text-anchor=\"{anchor}\">{text}</text>\n")
    };
    *svg += &text(LEFT, ceiling - 8.0, "start", column.name);
    *svg += &text(LEFT - 6.0, ceiling + 4.0, "end", &format!("{most:.0}"));
    *svg += &text(LEFT - 6.0, floor, "end", "0");
    // The axes, and where the thirds of the verdict begin.
    let right = x(last);
    let lines = [(LEFT, ceiling, LEFT, floor), (LEFT, floor, right, floor)];
    let thirds = [1.0, 2.0].map(|third| (x(last * third / 3.0), ceiling, x(last * third / 3.0), floor));
    for (x1, y1, x2, y2) in lines.into_iter().chain(thirds) {
        let _ = writeln!(svg, "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"#bbb\"/>");
    }
    // A second without a request has no latency.
    let known = samples.iter().filter(|sample| (column.of)(sample).is_finite());
    let points = known.map(|sample| format!("{:.1},{:.1}", x(sample.second), y((column.of)(sample))));
    let points: Vec<String> = points.collect();
    let _ = writeln!(
        svg,
        "<polyline fill=\"none\" stroke=\"#1668a8\" stroke-width=\"1.5\" points=\"{}\"/>",
        points.join(" ")
    );
}
