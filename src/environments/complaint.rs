//! Why an installer failed, read from its own words.

/// What sort of failure it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reason {
    /// The index has no such package, or no version that fits.
    NotFound,
    /// The index could not be reached.
    Unreachable,
    /// The requirements contradict each other.
    Conflict,
    /// A package was found and could not be built.
    BuildFailed,
    NoSpace,
    Other,
}

impl Reason {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::NotFound => "not_found",
            Self::Unreachable => "index_unreachable",
            Self::Conflict => "conflict",
            Self::BuildFailed => "build_failed",
            Self::NoSpace => "no_space",
            Self::Other => "other",
        }
    }

    /// What to do about it.
    pub(super) fn hint(self) -> &'static str {
        match self {
            Self::NotFound => {
                "correct the requirement, name an index that has it (PIP_INDEX_URL of the service), or put its wheel into the package"
            }
            Self::Unreachable => {
                "give this machine access to a package index (PIP_INDEX_URL of the service names another one), or put the wheels into the package"
            }
            Self::Conflict => "change the versions in the requirements so that they fit together",
            Self::BuildFailed => "use a version that has a wheel for this machine, or install what its build needs",
            Self::NoSpace => "free space on the disk of the data folder",
            Self::Other => "read the installer's words in the log of the run",
        }
    }
}

/// A failure as far as it is understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Complaint {
    pub(super) reason: Reason,
    /// The package it is about.
    pub(super) package: Option<String>,
    /// The line that says most.
    pub(super) line: String,
}

/// Words that tell a reason; the first that is found decides.
const SIGNS: [(Reason, &[&str]); 5] = [
    (Reason::NoSpace, &["No space left on device"]),
    (
        Reason::Unreachable,
        &[
            "Failed to establish a new connection",
            "Temporary failure in name resolution",
            "Name or service not known",
            "Failed to resolve",
            "Remote end closed connection",
            "Connection aborted",
            "could not be queried",
            "is being ignored. If this repository",
            "Connection refused",
            "Connection reset",
            "Network is unreachable",
            "ConnectTimeoutError",
            "ReadTimeoutError",
            "ProxyError",
            "SSLError",
            "Failed to fetch",
            "dns error",
            "error sending request",
            "network connectivity is disabled",
        ],
    ),
    (
        Reason::Conflict,
        &["ResolutionImpossible", "conflicting dependencies", "conclude that your requirements are unsatisfiable and"],
    ),
    (
        Reason::NotFound,
        &[
            "No matching distribution found for ",
            "was not found in the package registry",
            "was not found in the provided package locations",
            "there is no version of ",
            "there are no versions of ",
            "No solution found when resolving",
            "is not a supported wheel on this platform",
        ],
    ),
    (
        Reason::BuildFailed,
        &["Failed building wheel", "Failed to build", "metadata-generation-failed", "subprocess-exited-with-error"],
    ),
];

/// Most lines that are quoted.
const LINES_MAX: usize = 3;
/// Longest line that is quoted.
const LINE_MAX: usize = 400;

/// Reads the end of what an installer printed. pip tells its log alone that the index answered with an error; it then
/// prints that there is no such package.
pub(super) fn read(said: &str, log: &str) -> Complaint {
    let sign =
        SIGNS.iter().find_map(|(reason, signs)| signs.iter().find(|sign| said.contains(**sign)).map(|_| *reason));
    let reason = sign.unwrap_or(Reason::Other);
    let complaint = Complaint { reason, package: package(said), line: decisive(said) };
    match not_fetched(log).filter(|_| reason == Reason::NotFound) {
        Some(line) => Complaint { reason: Reason::Unreachable, line: shortened(line), ..complaint },
        None => complaint,
    }
}

/// What is made of the words of an installer: its lengths are bounded.
#[cfg(any(test, fuzzing))]
pub(crate) fn foreign(said: &str, log: &str) -> (&'static str, bool, bool) {
    let complaint = read(said, log);
    assert!(complaint.line.chars().count() <= LINE_MAX + 1, "{}", complaint.line);
    (complaint.reason.as_str(), complaint.package.is_some(), complaint.line.is_empty())
}

/// `Could not fetch URL http://…: 502 Server Error: Bad Gateway …`; an index without the package answers 404.
fn not_fetched(log: &str) -> Option<&str> {
    let mut lines =
        log.lines().filter_map(|line| line.split_once("Could not fetch URL ").map(|(before, _)| &line[before.len()..]));
    lines.rfind(|line| !line.contains(": 404 Client Error"))
}

fn shortened(text: &str) -> String {
    let cut = text.chars().count() > LINE_MAX;
    text.chars().take(LINE_MAX).chain(cut.then_some('…')).collect()
}

/// `No matching distribution found for x==1`, `Because x was not found in the package registry`.
fn package(said: &str) -> Option<String> {
    let after = |sign: &str| said.split_once(sign).map(|(_, rest)| rest);
    let word = |text: &str| {
        let end = text.find(|c: char| c.is_whitespace() || ",;(".contains(c)).unwrap_or(text.len());
        Some(text[..end].trim_end_matches('.').to_owned()).filter(|word| !word.is_empty())
    };
    after("No matching distribution found for ")
        .or_else(|| after("there is no version of "))
        .or_else(|| after("there are no versions of "))
        .and_then(word)
        .or_else(|| {
            let (before, _) = said.split_once(" was not found in the ")?;
            before.rsplit(char::is_whitespace).next().map(str::to_owned).filter(|word| !word.is_empty())
        })
}

/// The lines that name an error, joined; else the last one.
fn decisive(said: &str) -> String {
    let lines = || said.lines().map(str::trim).filter(|line| !line.is_empty());
    let names_error = |line: &&str| {
        let lower = line.to_ascii_lowercase();
        lower.starts_with("error:")
            || lower.starts_with("cause:")
            || line.starts_with('×')
            || line.starts_with("Caused by")
    };
    // uv draws a line below its first words.
    let drawn = |line: &&str| line.starts_with("╰─▶");
    let found: Vec<&str> = lines().filter(|line| names_error(line) || drawn(line)).collect();
    let text = match &found[..found.len().min(LINES_MAX)] {
        [] => lines().next_back().unwrap_or("it said nothing").to_owned(),
        found => {
            found.iter().map(|line| line.trim_start_matches(['×', '╰', '─', '▶', ' '])).collect::<Vec<_>>().join("; ")
        }
    };
    shortened(&text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(said: &str, reason: Reason, package: Option<&str>, line: &str) {
        let expected = Complaint { reason, package: package.map(str::to_owned), line: line.to_owned() };
        assert_eq!(read(said, ""), expected, "{said}");
    }

    #[test]
    fn an_index_that_answers_with_an_error_is_not_one_without_the_package() {
        let said = "ERROR: Could not find a version that satisfies the requirement nope\nERROR: No matching distribution found for nope\n";
        let line = |answer: &str| {
            format!(
                "2026-01-01T00:00:00,000   Could not fetch URL http://127.0.0.1:9/simple/nope/: {answer} for url: http://127.0.0.1:9/simple/nope/ - skipping\n"
            )
        };
        let of = |answer: &str| read(said, &format!("  Found link x\n{}  Skipping link\n", line(answer)));
        for answer in ["502 Server Error: Bad Gateway", "403 Client Error: Forbidden", "too many 503 error responses"] {
            let complaint = of(answer);
            assert_eq!(
                (complaint.reason, complaint.package.as_deref()),
                (Reason::Unreachable, Some("nope")),
                "{answer}"
            );
            assert!(complaint.line.starts_with("Could not fetch URL http://") && complaint.line.contains(answer));
        }
        assert_eq!(of("404 Client Error: Not Found").reason, Reason::NotFound);
        let broken = "ERROR: Failed building wheel for x\n";
        assert_eq!(read(broken, &line("502 Server Error")).reason, Reason::BuildFailed, "the index is not to blame");
    }

    #[test]
    fn pip_is_understood() {
        check(
            "Looking in links: /x\nERROR: Could not find a version that satisfies the requirement nope==1 (from versions: none)\n\
             ERROR: No matching distribution found for nope==1\n",
            Reason::NotFound,
            Some("nope==1"),
            "ERROR: Could not find a version that satisfies the requirement nope==1 (from versions: none); \
             ERROR: No matching distribution found for nope==1",
        );
        check(
            "WARNING: Retrying (Retry(total=0)) after connection broken by 'NewConnectionError(': Failed to establish a new connection')'\n\
             ERROR: No matching distribution found for nope\n",
            Reason::Unreachable,
            Some("nope"),
            "ERROR: No matching distribution found for nope",
        );
        check(
            "Building wheel\n  ERROR: Failed building wheel for x\n",
            Reason::BuildFailed,
            None,
            "ERROR: Failed building wheel for x",
        );
        check("something else\n\n", Reason::Other, None, "something else");
        check("", Reason::Other, None, "it said nothing");
    }

    #[test]
    fn uv_is_understood() {
        check(
            "  × No solution found when resolving dependencies:\n  ╰─▶ Because nope was not found in the provided package locations and you require nope, we can conclude that your requirements are unsatisfiable.\n",
            Reason::NotFound,
            Some("nope"),
            "No solution found when resolving dependencies:; Because nope was not found in the provided package locations and you require nope, we can conclude that your requirements are unsatisfiable.",
        );
        check(
            "error: No solution found when resolving dependencies\n  cause: Because nope was not found in the package registry and you require nope==1, we can conclude that your requirements are unsatisfiable.\n",
            Reason::NotFound,
            Some("nope"),
            "error: No solution found when resolving dependencies; cause: Because nope was not found in the package registry and you require nope==1, we can conclude that your requirements are unsatisfiable.",
        );
        check(
            "error: Failed to fetch: `http://127.0.0.1:1/simple/nope/`\n  Caused by: Could not connect\n",
            Reason::Unreachable,
            None,
            "error: Failed to fetch: `http://127.0.0.1:1/simple/nope/`; Caused by: Could not connect",
        );
    }
}
