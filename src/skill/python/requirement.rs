//! One requirement: a package with the versions that fit, or a file of the skill's own package.

use std::fmt;
use std::path::Path;

use super::super::package::{PackageFiles, stays_inside};

/// What is wrong with a declaration, and at which key of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) key: String,
    pub(crate) reason: String,
}

impl Fault {
    pub(crate) fn new(key: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { key: key.into(), reason: reason.into() }
    }
}

/// What stands before a path.
const HERE: &str = "./";

/// A requirement as an installer reads it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Requirement {
    text: String,
    /// How long the path of a file of the package is, with which the text then begins, behind `./`.
    path: usize,
}

impl Requirement {
    /// Reads one line; the reason when it is not a requirement.
    pub(crate) fn parse(line: &str, files: &PackageFiles) -> Result<Self, String> {
        let text = without_comment(line);
        if text.is_empty() {
            return Err("a requirement is empty".to_owned());
        }
        if text.chars().any(char::is_control) {
            return Err(format!("{text:?} holds a control character"));
        }
        if text.starts_with('-') {
            return Err(format!(
                "{text:?} is an option of an installer; list requirements alone: the index to install from is the operator's choice"
            ));
        }
        match path_of(text) {
            Some(path) => Self::of_path(text, path, files),
            None => named(text).map(|()| Self { text: text.to_owned(), path: 0 }),
        }
    }

    fn of_path(text: &str, path: &str, files: &PackageFiles) -> Result<Self, String> {
        let plain = path.strip_prefix(HERE).unwrap_or(path).trim_end_matches('/');
        let below = format!("{plain}/");
        if !stays_inside(plain) {
            return Err(format!("{path:?} is not a relative path inside the package"));
        }
        if !files.contains(plain) && !files.paths().any(|file| file.starts_with(&below)) {
            return Err(format!("the package has no file {plain:?}"));
        }
        Ok(Self { text: format!("{HERE}{plain}{}", &text[path.len()..]), path: plain.len() })
    }

    /// As it is written, with a path relative to the package, `./` before it.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// The file or folder of the package that is installed, if it is one.
    pub(crate) fn path(&self) -> Option<&str> {
        (self.path > 0).then(|| &self.text[HERE.len()..HERE.len() + self.path])
    }

    /// The same for an installer that is started elsewhere; `package` is where the package is.
    pub(crate) fn in_package(&self, package: &Path) -> String {
        match self.path() {
            Some(path) => {
                let behind = &self.text[HERE.len() + path.len()..];
                format!("{}{behind}", package.join(path).to_string_lossy())
            }
            None => self.text.clone(),
        }
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The requirements of a file, one a line; a backslash at the end of a line joins the next.
pub(crate) fn lines(text: &str) -> Vec<String> {
    let joined = text.replace("\\\r\n", " ").replace("\\\n", " ");
    joined.lines().filter(|line| !without_comment(line).is_empty()).map(str::to_owned).collect()
}

fn without_comment(line: &str) -> &str {
    let line = line.trim();
    // A `#` inside a word belongs to a URL.
    let comment = line.match_indices('#').find(|(at, _)| *at == 0 || line[..*at].ends_with(char::is_whitespace));
    comment.map_or(line, |(at, _)| &line[..at]).trim_end()
}

/// The path at the begin of a requirement, if it begins with one and not with a name.
fn path_of(text: &str) -> Option<&str> {
    let word = text.split([' ', '\t', ';', '[']).next().unwrap_or(text);
    let of_file = [".whl", ".tar.gz", ".zip"].iter().any(|end| word.ends_with(end));
    let is_url = word.contains("://") || word.contains('@');
    (!is_url && (word.contains(['/', '\\']) || of_file || word == ".")).then_some(word)
}

/// Checks `name[extras] versions ; marker` and `name[extras] @ url ; marker`.
fn named(text: &str) -> Result<(), String> {
    let of_name = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let (name, rest) = text.split_at(text.find(|c| !of_name(c)).unwrap_or(text.len()));
    let ends = |end: Option<char>| end.is_some_and(|c| c.is_ascii_alphanumeric());
    if rest.starts_with("://") || rest.starts_with('+') {
        return Err(format!("{text:?} is an address without a name; write NAME @ ADDRESS"));
    }
    if !ends(name.chars().next()) || !ends(name.chars().last()) {
        return Err(format!("{text:?} does not begin with the name of a package"));
    }
    let rest = extras(rest.trim_start()).map_err(|reason| format!("{text:?}: {reason}"))?.trim_start();
    let rest = rest.split(" --hash=").next().unwrap_or_default();
    if let Some(address) = rest.strip_prefix('@') {
        return address_fault(address.trim()).map_or(Ok(()), |reason| Err(format!("{text:?}: {reason}")));
    }
    let (versions, marker) = rest.split_once(';').map_or((rest, None), |(versions, marker)| (versions, Some(marker)));
    if marker.is_some_and(|marker| marker.trim().is_empty()) {
        return Err(format!("{text:?} has no condition behind its semicolon"));
    }
    let versions = versions.trim();
    let inner = versions.strip_prefix('(').map_or(Some(versions), |inner| inner.strip_suffix(')'));
    let inner = inner.ok_or_else(|| format!("{text:?} has a parenthesis that is not closed"))?;
    match inner.trim().is_empty() {
        true => Ok(()),
        false => inner.split(',').try_for_each(clause).map_err(|reason| format!("{text:?}: {reason}")),
    }
}

fn extras(rest: &str) -> Result<&str, &'static str> {
    let Some(inside) = rest.strip_prefix('[') else { return Ok(rest) };
    let (names, rest) = inside.split_once(']').ok_or("the bracket of the extras is not closed")?;
    let is_name = |name: &str| name.trim().chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c));
    if names.split(',').all(is_name) { Ok(rest) } else { Err("the extras are not names") }
}

fn address_fault(address: &str) -> Option<&'static str> {
    match address.split_once(':') {
        Some(("file", _)) => Some("file: leads outside the package; name a file of the package by its relative path"),
        Some((scheme, _)) if !scheme.is_empty() => None,
        _ => Some("what stands behind @ is not an address"),
    }
}

/// Checks one `>= 1.2`.
fn clause(text: &str) -> Result<(), String> {
    let text = text.trim();
    let (_, version) =
        super::version::operator(text).ok_or_else(|| format!("{text:?} is not a comparison such as >=1.2"))?;
    let of_version = |c: char| c.is_ascii_alphanumeric() || ".*+!_-".contains(c);
    let version = version.trim();
    if !version.is_empty() && version.chars().all(of_version) {
        Ok(())
    } else {
        Err(format!("{version:?} is not a version"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package() -> PackageFiles {
        let mut files = PackageFiles::new();
        files.insert("wheels/x-1-py3-none-any.whl", Vec::new());
        files.insert("vendor/tool/pyproject.toml", Vec::new());
        files
    }

    #[test]
    fn what_installers_take_is_a_requirement() {
        for line in [
            "requests",
            "requests==2.31.0",
            "Jinja2 >= 3, < 4",
            "uvicorn[standard] ~= 0.30",
            "zope.interface (>=5.0)",
            "pywin32 ; sys_platform == 'win32'",
            "a[b,c]>=1.0rc1,!=1.1.*;python_version<'3.12'  # why",
            "thing @ https://host.invalid/thing-1.whl#sha256=00",
            "thing@git+https://host.invalid/thing.git",
            "a===1.0+local.1",
            "a==1 --hash=sha256:00 --hash=sha256:11",
        ] {
            let parsed = Requirement::parse(line, &package()).unwrap();
            assert_eq!((parsed.text(), parsed.path()), (without_comment(line), None), "{line}");
        }
        for (line, text, path) in [
            ("./wheels/x-1-py3-none-any.whl", "./wheels/x-1-py3-none-any.whl", "wheels/x-1-py3-none-any.whl"),
            (
                "wheels/x-1-py3-none-any.whl[extra] ; os_name == 'posix'",
                "./wheels/x-1-py3-none-any.whl[extra] ; os_name == 'posix'",
                "wheels/x-1-py3-none-any.whl",
            ),
            ("./vendor/tool/", "./vendor/tool", "vendor/tool"),
        ] {
            let parsed = Requirement::parse(line, &package()).unwrap();
            assert_eq!((parsed.text(), parsed.path()), (text, Some(path)), "{line}");
            assert_eq!(parsed.in_package(Path::new("/run/skill")), format!("/run/skill{}", &text[1..]));
        }
    }

    #[test]
    fn anything_else_says_what_is_wrong_with_it() {
        for (line, reason) in [
            ("", "is empty"),
            ("# only a comment", "is empty"),
            ("-r other.txt", "option of an installer"),
            ("--index-url https://host.invalid", "option of an installer"),
            ("-e ./vendor/tool", "option of an installer"),
            ("../outside.whl", "not a relative path inside the package"),
            ("/etc/x.whl", "not a relative path inside the package"),
            ("./wheels/none.whl", "the package has no file \"wheels/none.whl\""),
            ("https://host.invalid/x.whl", "write NAME @ ADDRESS"),
            ("git+https://host.invalid/x", "write NAME @ ADDRESS"),
            ("x @ file:///etc/x.whl", "outside the package"),
            ("x @ nothing", "not an address"),
            ("!x", "does not begin with the name"),
            ("x-", "does not begin with the name"),
            ("requests=2", "is not a comparison"),
            ("requests 2", "is not a comparison"),
            ("requests==", "is not a version"),
            ("requests[a", "not closed"),
            ("requests (>=1", "not closed"),
            ("requests ;", "no condition"),
            ("requests >=1, ", "is not a comparison"),
            ("a\u{0}b", "control character"),
        ] {
            let found = Requirement::parse(line, &package()).unwrap_err();
            assert!(found.contains(reason), "{line}: {found}");
        }
    }

    #[test]
    fn a_file_of_requirements_has_comments_empty_lines_and_joined_lines() {
        let text = "# head\n\na==1 \\\n  --hash=sha256:00\r\nb # why\n";
        assert_eq!(lines(text), ["a==1    --hash=sha256:00", "b # why"]);
    }
}
