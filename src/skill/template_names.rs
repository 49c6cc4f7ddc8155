//! The variables that prompt templates can use, and those that a template does use.

use std::collections::BTreeSet;

use minijinja::machinery::{Token, tokenize};
use minijinja::syntax::SyntaxConfig;

/// Every variable.
pub(crate) const VARIABLES: [&str; 9] = [
    "input",
    "parameter",
    "skill",
    "run_dir",
    "body",
    "output_schema",
    "execution_mode",
    "script_makes_result",
    "message_is_result",
];
/// The members of `skill`.
pub(crate) const OF_SKILL: [&str; 5] = ["id", "name", "version", "description", "dir"];
/// Words with a meaning of their own where a variable could stand.
const WORDS: [&str; 12] =
    ["true", "false", "none", "True", "False", "None", "not", "loop", "self", "caller", "super", "namespace"];

/// A variable in a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Used {
    pub(crate) name: String,
    /// The member of it, where one is named.
    pub(crate) member: Option<String>,
    pub(crate) line: u16,
}

/// The variables that a template certainly takes from outside: members of the known ones, and what a tag begins with.
pub(crate) fn used(template: &str) -> Vec<Used> {
    // What cannot be read as tokens is reported by the parser.
    let tokens: Vec<(Token<'_>, u16)> = tokenize(template, false, SyntaxConfig::default())
        .map_while(|token| token.ok().map(|(token, span)| (token, span.start_line)))
        .collect();
    let own = assigned(&tokens);
    let mut found = Vec::new();
    for (at, (token, line)) in tokens.iter().enumerate() {
        let Token::Ident(name) = token else { continue };
        let before = at.checked_sub(1).and_then(|at| tokens.get(at)).map(|(token, _)| token);
        if matches!(before, Some(Token::Dot | Token::Pipe)) || own.contains(name) || WORDS.contains(name) {
            continue;
        }
        let behind = |steps: usize| tokens.get(at + steps).map(|(token, _)| token);
        let member = match (behind(1), behind(2), behind(3)) {
            (Some(Token::Dot), Some(Token::Ident(member)), _) => Some((*member).to_owned()),
            (Some(Token::BracketOpen), Some(Token::Str(member)), Some(Token::BracketClose)) => {
                Some((*member).to_owned())
            }
            _ => None,
        };
        let begins_tag = matches!(before, Some(Token::VariableStart)) && !matches!(behind(1), Some(Token::ParenOpen));
        if VARIABLES.contains(name) || begins_tag {
            found.push(Used { name: (*name).to_owned(), member, line: *line });
        }
    }
    found
}

/// The names that the template itself gives to something: every name in a tag that does so.
fn assigned<'a>(tokens: &[(Token<'a>, u16)]) -> BTreeSet<&'a str> {
    let mut names = BTreeSet::new();
    let mut inside = false;
    for pair in tokens.windows(2) {
        match (&pair[0].0, &pair[1].0) {
            (Token::BlockStart, Token::Ident("for" | "set" | "macro" | "call" | "with" | "import" | "from")) => {
                inside = true;
            }
            // What stands behind these is used, not named.
            (Token::Ident("in") | Token::Assign | Token::BlockEnd, _) => inside = false,
            (Token::Ident(name), _) if inside && !VARIABLES.contains(name) => {
                names.insert(*name);
            }
            _ => {}
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(template: &str) -> Vec<String> {
        let named = |used: Used| used.member.map_or(used.name.clone(), |member| format!("{}.{member}", used.name));
        used(template).into_iter().map(named).collect()
    }

    #[test]
    fn what_a_template_takes_from_outside_is_found_and_what_it_names_itself_is_not() {
        assert_eq!(names("{{ input.a }} {{ parameter['b c'] | upper }}"), ["input.a", "parameter.b c"]);
        assert_eq!(
            names("{% if input.a and not parameter.b %}{{ body }}{% endif %}"),
            ["input.a", "parameter.b", "body"]
        );
        assert_eq!(names("{% for item in input.list %}{{ item.x }} {{ loop.index }}{% endfor %}"), ["input.list"]);
        assert_eq!(names("{% set x = input.a %}{{ x }}{{ range(3) }}{{ true }}"), ["input.a"]);
        assert_eq!(names("{{ titel }}{{ env.HOME }}"), ["titel", "env.HOME"]);
        assert_eq!(used("a\n{{ titel }}")[0].line, 2);
        assert_eq!(names("{{ a.input.b }}"), ["a.input"], "a member of another thing");
    }
}
