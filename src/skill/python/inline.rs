//! Metadata in the head of a script, as PEP 723 describes it: TOML in comments between `# /// script` and `# ///`.

use toml::Table;

use super::requirement::Fault;

const BEGIN: &str = "# /// script";
const END: &str = "# ///";

/// What a script says about itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Inline {
    pub(crate) dependencies: Vec<String>,
    pub(crate) python: Option<String>,
}

/// Reads the block of a script; `None` when it has none.
pub(crate) fn read(text: &str) -> Option<Result<Inline, Fault>> {
    let blocks = blocks(text);
    let block = blocks.first()?;
    if blocks.len() > 1 {
        return Some(Err(Fault::new("", format!("it has {} blocks `{BEGIN}`; keep one", blocks.len()))));
    }
    Some(parsed(block))
}

/// The content of each block, without the comment signs.
fn blocks(text: &str) -> Vec<String> {
    let lines: Vec<&str> = text.lines().map(|line| line.trim_end_matches('\r')).collect();
    let mut blocks = Vec::new();
    let mut at = 0;
    while at < lines.len() {
        let begins = lines[at] == BEGIN;
        at += 1;
        if !begins {
            continue;
        }
        let comments = lines[at..].iter().take_while(|line| **line == "#" || line.starts_with("# "));
        let comments: Vec<&str> = comments.copied().collect();
        // The last end counts: the content itself may hold such a line.
        if let Some(end) = comments.iter().rposition(|line| *line == END) {
            let content = comments[..end].iter().map(|line| line.get(2..).unwrap_or_default());
            blocks.push(content.collect::<Vec<_>>().join("\n"));
            at += end + 1;
        } else {
            // Nor does another block in these comments have an end.
            at += comments.len();
        }
    }
    blocks
}

fn parsed(block: &str) -> Result<Inline, Fault> {
    let table: Table = block.parse().map_err(|error: toml::de::Error| {
        Fault::new("", format!("its block `{BEGIN}` is not TOML: {}", error.message()))
    })?;
    let dependencies = match table.get("dependencies") {
        None => Vec::new(),
        Some(written) => {
            let texts = written.as_array().map(|items| items.iter().map(|item| item.as_str().map(str::to_owned)));
            let texts: Option<Vec<String>> = texts.and_then(|texts| texts.collect());
            texts
                .ok_or_else(|| Fault::new("", format!("dependencies in its block `{BEGIN}` must be a list of texts")))?
        }
    };
    let python = match table.get("requires-python") {
        None => None,
        Some(written) => Some(
            written
                .as_str()
                .map(str::to_owned)
                .ok_or_else(|| Fault::new("", format!("requires-python in its block `{BEGIN}` must be a text")))?,
        ),
    };
    Ok(Inline { dependencies, python })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_block_of_a_script_is_read_wherever_it_stands() {
        let text = "#!/usr/bin/env python3\n# a comment\n\n# /// script\n# requires-python = \">=3.11\"\n\
                    # dependencies = [\n#   \"requests<3\",\n#   'rich',\n# ]\n#\n# [tool.other]\n# x = 1\n# ///\nimport rich\n";
        let expected =
            Inline { dependencies: vec!["requests<3".into(), "rich".into()], python: Some(">=3.11".to_owned()) };
        assert_eq!(read(text), Some(Ok(expected.clone())));
        assert_eq!(read(&text.replace('\n', "\r\n")), Some(Ok(expected)));
        assert_eq!(read("# /// script\n# ///\n"), Some(Ok(Inline::default())));
    }

    #[test]
    fn a_script_without_a_whole_block_has_none() {
        for text in
            ["", "import x\n", "# /// other\n# x = 1\n# ///\n", "# /// script\n# x = 1\n", "#/// script\n# ///\n"]
        {
            assert_eq!(read(text), None, "{text:?}");
        }
        assert_eq!(read("# /// script\n# x = 1\nimport x\n# ///\n"), None, "code ends the block");
    }

    #[test]
    fn comments_without_an_end_are_no_block_however_often_one_begins() {
        let begins = "# /// script\n".repeat(1000);
        assert_eq!(read(&begins), None);
        assert_eq!(read(&format!("{begins}\n# /// script\n# ///\n")), Some(Ok(Inline::default())));
        assert!(matches!(read(&format!("{begins}# ///\n")), Some(Err(_))), "one block with an end, and no TOML");
    }

    #[test]
    fn a_block_that_cannot_be_read_says_why() {
        let reason = |text: &str| read(text).unwrap().unwrap_err().reason;
        assert!(reason("# /// script\n# a = \n# ///\n").contains("is not TOML"));
        assert!(reason("# /// script\n# dependencies = 'x'\n# ///\n").contains("must be a list of texts"));
        assert!(reason("# /// script\n# requires-python = 3\n# ///\n").contains("must be a text"));
        assert!(reason("# /// script\n# ///\n\n# /// script\n# ///\n").contains("2 blocks"));
    }
}
