//! A measured figure beside the machine's limit and what is to be reached, and the table of them.

use crate::numbers::median;

#[derive(Debug, Clone)]
pub struct Figure {
    what: String,
    unit: &'static str,
    value: f64,
    limit: Option<(&'static str, f64)>,
    reach: Option<Reach>,
    note: String,
}

#[derive(Debug, Clone, Copy)]
enum Reach {
    AtMost(f64),
    AtLeast(f64),
}

impl Figure {
    pub fn new(what: impl Into<String>, unit: &'static str, value: f64) -> Figure {
        Figure { what: what.into(), unit, value, limit: None, reach: None, note: String::new() }
    }

    /// What the machine does without the service, measured in the same run, in the same unit.
    pub fn limit(self, what: &'static str, value: f64) -> Figure {
        Figure { limit: Some((what, value)), ..self }
    }

    pub fn at_most(self, value: f64) -> Figure {
        Figure { reach: Some(Reach::AtMost(value)), ..self }
    }

    pub fn at_least(self, value: f64) -> Figure {
        Figure { reach: Some(Reach::AtLeast(value)), ..self }
    }

    pub fn note(self, note: String) -> Figure {
        Figure { note, ..self }
    }

    /// The medians of several rounds, which have the same figures in the same order.
    pub fn medians(rounds: &[Vec<Figure>]) -> Vec<Figure> {
        let Some(last) = rounds.last() else { return Vec::new() };
        let over_rounds = |at: usize, value: &dyn Fn(&Figure) -> f64| {
            median(&rounds.iter().map(|figures| value(&figures[at])).collect::<Vec<_>>())
        };
        let merge = |(at, figure): (usize, &Figure)| Figure {
            value: over_rounds(at, &|figure| figure.value),
            limit: figure
                .limit
                .map(|(what, _)| (what, over_rounds(at, &|figure| figure.limit.map_or(f64::NAN, |limit| limit.1)))),
            reach: figure.reach.map(|reach| {
                let value = over_rounds(at, &|figure| figure.reach.map_or(f64::NAN, Reach::value));
                match reach {
                    Reach::AtMost(_) => Reach::AtMost(value),
                    Reach::AtLeast(_) => Reach::AtLeast(value),
                }
            }),
            ..figure.clone()
        };
        last.iter().enumerate().map(merge).collect()
    }

    fn reached(&self) -> Option<bool> {
        self.reach.map(|reach| match reach {
            Reach::AtMost(most) => self.value <= most,
            Reach::AtLeast(least) => self.value >= least,
        })
    }

    /// A row of the table; `before` is the same figure of another program.
    pub fn row(&self, before: Option<&Figure>) -> String {
        let with_unit = |value: f64| format!("{} {}", number(value), self.unit).trim_end().to_owned();
        let limit = self.limit.map_or_else(String::new, |(what, value)| format!("{} ({what})", with_unit(value)));
        let ratio = self.limit.map_or_else(String::new, |(_, value)| number(self.value / value));
        let reach = self.reach.map_or_else(String::new, |reach| match reach {
            Reach::AtMost(value) => format!("≤ {}", number(value)),
            Reach::AtLeast(value) => format!("≥ {}", number(value)),
        });
        let verdict = self.reached().map_or("", |reached| if reached { "reached" } else { "MISSED" });
        let before = before.map_or_else(String::new, |before| {
            format!(" {:>18} | {:>6} |", with_unit(before.value), number(self.value / before.value))
        });
        format!(
            "| {:<46} |{before} {:>18} | {:<40} | {:>6} | {:>10} | {:<7} | {}",
            self.what,
            with_unit(self.value),
            limit,
            ratio,
            reach,
            verdict,
            self.note
        )
    }
}

impl Reach {
    fn value(self) -> f64 {
        match self {
            Reach::AtMost(value) | Reach::AtLeast(value) => value,
        }
    }
}

/// The table's head; with two programs, with what the other one reached and the change.
pub fn head(compared: bool) -> String {
    let before = if compared { format!(" {:>18} | {:>6} |", "before", "ratio") } else { String::new() };
    let line = if compared { " ---: | ---: |" } else { "" };
    format!(
        "| {:<46} |{before} {:>18} | {:<40} | {:>6} | {:>10} | {:<7} | remarks\n| --- |{line} ---: | --- | ---: | ---: | --- | ---",
        "what", "measured", "limit in the same run", "ratio", "to reach", ""
    )
}

/// Three digits that matter, thousands apart.
pub fn number(value: f64) -> String {
    if !value.is_finite() {
        return "-".to_owned();
    }
    if value.abs() < 1000.0 {
        let decimals = [(100.0, 0), (10.0, 1), (0.1, 2)].iter().find(|(from, _)| value.abs() >= *from);
        return format!("{value:.*}", decimals.map_or(3, |(_, decimals)| *decimals));
    }
    let digits = format!("{value:.0}");
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at) % 3 == 0 {
            out.push(' ');
        }
        out.push(digit);
    }
    out
}
