//! The name that a mistyped one was meant to be.

/// How alike a name must be to be suggested; 1 is the same.
const ALIKE: f64 = 0.85;
/// Fewest characters of a part that stands for a whole name.
const PART_MIN: usize = 3;

/// The name that is most like one that nothing has, if one is alike or contains it.
pub(crate) fn most_like(name: &str, known: impl IntoIterator<Item = String>) -> Option<String> {
    let alike = |known: String| (strsim::jaro_winkler(name, &known), known);
    let mut all: Vec<(f64, String)> = known.into_iter().map(alike).collect();
    all.sort_by(|(one, _), (other, _)| other.total_cmp(one));
    let contains = |known: &str| name.chars().count() >= PART_MIN && known.contains(name);
    let found = all.iter().find(|(alike, _)| *alike >= ALIKE).or_else(|| all.iter().find(|(_, known)| contains(known)));
    found.map(|(_, name)| name.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_a_part_and_nothing_else_lead_to_a_name() {
        let known = || ["demo-echo", "demo-prime-number", "word-count"].map(str::to_owned);
        for (typed, meant) in [
            ("demo-ehco", Some("demo-echo")),
            ("demo_echo", Some("demo-echo")),
            ("wordcount", Some("word-count")),
            ("demo-prime", Some("demo-prime-number")),
            ("echo", Some("demo-echo")),
            ("ec", None),
            ("pdf-tools", None),
            ("", None),
        ] {
            assert_eq!(most_like(typed, known()).as_deref(), meant, "{typed}");
        }
    }
}
