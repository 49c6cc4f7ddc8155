//! Glob patterns of a package. The library reads braces by recursion, and braces in braces without a limit.

use globset::{Glob, GlobBuilder};

/// Longest pattern, in bytes.
const LENGTH_MAX: usize = 512;
/// Most braces that are open at once.
const BRACES_MAX: usize = 4;

/// A compiled pattern, in which `*` stands for anything but `/`; or why there is none.
pub(crate) fn glob(pattern: &str) -> Result<Glob, String> {
    if pattern.len() > LENGTH_MAX {
        return Err(format!("it is longer than {LENGTH_MAX} bytes"));
    }
    // A brace in `[…]` or behind a `\` is none; that more are counted than there are does no harm.
    if pattern.bytes().filter(|byte| *byte == b'{').count() > BRACES_MAX {
        return Err(format!("it has more than {BRACES_MAX} opening braces"));
    }
    GlobBuilder::new(pattern).literal_separator(true).build().map_err(|error| error.kind().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn braces_in_braces_without_end_are_refused() {
        let nested = |depth: usize| format!("{}a{}", "{".repeat(depth), "}".repeat(depth));
        assert_eq!(glob(&nested(100_000)).unwrap_err(), "it is longer than 512 bytes");
        assert_eq!(glob(&nested(200)).unwrap_err(), "it has more than 4 opening braces");
        assert!(glob("{a,b}/{c,d}-*.md").unwrap().compile_matcher().is_match("a/c-1.md"));
    }
}
