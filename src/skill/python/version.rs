//! Which versions of Python fit: `>=3.10,<4`.

/// Operators, the longer ones before those that they begin with.
const OPERATORS: [(&str, Operator); 8] = [
    ("===", Operator::Equal),
    ("~=", Operator::Compatible),
    ("==", Operator::Equal),
    ("!=", Operator::NotEqual),
    ("<=", Operator::AtMost),
    (">=", Operator::AtLeast),
    ("<", Operator::Below),
    (">", Operator::Above),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operator {
    Equal,
    NotEqual,
    Compatible,
    AtMost,
    AtLeast,
    Below,
    Above,
}

/// The operator at the begin of a comparison, and what follows it.
pub(crate) fn operator(text: &str) -> Option<(Operator, &str)> {
    OPERATORS.iter().find_map(|(written, operator)| Some((*operator, text.strip_prefix(written)?)))
}

/// Comparisons that all have to hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Specifiers(Vec<Specifier>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Specifier {
    operator: Operator,
    release: Vec<u64>,
    /// Whether anything may follow: `3.10.*`.
    open: bool,
}

impl Specifiers {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        text.split(',').map(|clause| specifier(clause.trim())).collect::<Result<_, _>>().map(Self)
    }

    /// Whether a version, such as `[3, 11, 7]`, fits.
    pub(crate) fn fit(&self, version: &[u64]) -> bool {
        self.0.iter().all(|specifier| specifier.fits(version))
    }
}

fn specifier(clause: &str) -> Result<Specifier, String> {
    let no_version = || format!("{clause:?} does not name versions of Python; write a comparison such as >=3.10");
    let (operator, version) = operator(clause).ok_or_else(no_version)?;
    let version = version.trim();
    let (numbers, open) = version.strip_suffix(".*").map_or((version, false), |numbers| (numbers, true));
    let release: Vec<u64> = numbers.split('.').map(str::parse).collect::<Result<_, _>>().map_err(|_| no_version())?;
    let comparable = match operator {
        Operator::Equal | Operator::NotEqual => true,
        Operator::Compatible => !open && release.len() > 1,
        Operator::AtMost | Operator::AtLeast | Operator::Below | Operator::Above => !open,
    };
    if comparable { Ok(Specifier { operator, release, open }) } else { Err(no_version()) }
}

impl Specifier {
    fn fits(&self, version: &[u64]) -> bool {
        let order = padded(version, &self.release).cmp(&padded(&self.release, version));
        match self.operator {
            Operator::Equal if self.open => begins(version, &self.release),
            Operator::NotEqual if self.open => !begins(version, &self.release),
            Operator::Equal => order.is_eq(),
            Operator::NotEqual => order.is_ne(),
            Operator::AtMost => order.is_le(),
            Operator::AtLeast => order.is_ge(),
            Operator::Below => order.is_lt(),
            Operator::Above => order.is_gt(),
            Operator::Compatible => order.is_ge() && begins(version, &self.release[..self.release.len() - 1]),
        }
    }
}

/// With zeros at its end until it is as long as the other one.
fn padded(version: &[u64], other: &[u64]) -> Vec<u64> {
    let mut padded = version.to_vec();
    padded.resize(version.len().max(other.len()), 0);
    padded
}

fn begins(version: &[u64], with: &[u64]) -> bool {
    padded(version, with).starts_with(with)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_number_by_number() {
        for (written, fits) in [
            (">=3.10", true),
            (">=3.12", false),
            (">=3.10, <3.12", true),
            ("<3.11", false),
            ("<=3.11", false),
            (">3.11", true),
            ("==3.11.*", true),
            ("==3.11", false),
            ("==3.11.7", true),
            ("===3.11.7", true),
            ("!=3.11.*", false),
            ("!=3.11", true),
            ("~=3.9", true),
            ("~=3.11.2", true),
            ("~=3.10.1", false),
            (">=3.11.7.0", true),
        ] {
            assert_eq!(Specifiers::parse(written).unwrap().fit(&[3, 11, 7]), fits, "{written}");
        }
    }

    #[test]
    fn what_names_no_versions_is_refused() {
        for written in ["", "3.10", ">=", ">= three", "~=3", ">=3.*", "=>3", ">=3,", ">=3.10rc1"] {
            assert!(Specifiers::parse(written).is_err(), "{written}");
        }
    }
}
