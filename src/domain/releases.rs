//! Which versions of the program can work side by side: those of one release and of the next.

/// What is wrong with services of these versions on one store; none if they fit.
pub(crate) fn warning<'a>(versions: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let mut known: Vec<(Release, &str)> =
        versions.into_iter().filter_map(|version| Some((Release::of(version)?, version))).collect();
    known.sort_unstable();
    let ((oldest, old), (newest, new)) = (known.first()?, known.last()?);
    if oldest == newest || oldest.is_followed_by(newest) {
        return None;
    }
    Some(format!(
        "services of version {old} and {new} share this store; only versions of one release and the next one fit together"
    ))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Release {
    major: u64,
    minor: u64,
}

impl Release {
    fn of(version: &str) -> Option<Release> {
        let mut parts = version.split('.');
        let mut number = || parts.next()?.parse().ok();
        Some(Release { major: number()?, minor: number()? })
    }

    /// The last release of a major version is not known, so any of them counts.
    fn is_followed_by(&self, next: &Release) -> bool {
        let same = self.major == next.major && self.minor.checked_add(1) == Some(next.minor);
        same || self.major.checked_add(1) == Some(next.major) && next.minor == 0
    }
}

#[cfg(test)]
mod tests {
    use super::warning;

    #[test]
    fn one_release_and_the_next_fit_and_others_are_told() {
        for fitting in [&["0.1.0", "0.1.7"][..], &["0.1.0", "0.2.0", "0.2.1"], &["0.9.2", "1.0.0"], &["odd"], &[]] {
            assert_eq!(warning(fitting.iter().copied()), None, "{fitting:?}");
        }
        for apart in [&["0.3.0", "0.1.0", "0.2.0"][..], &["0.9.0", "1.1.0"], &["1.0.0", "3.0.0"]] {
            assert!(warning(apart.iter().copied()).is_some(), "{apart:?}");
        }
        assert_eq!(
            warning(["0.3.0", "0.1.0"]).unwrap(),
            "services of version 0.1.0 and 0.3.0 share this store; only versions of one release and the next one fit together"
        );
    }
}
