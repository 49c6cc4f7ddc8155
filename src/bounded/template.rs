//! Templates, parsed only when it is certain that the stack suffices.
//!
//! The parser limits brackets and blocks, but not chains such as `a.b.c`, `not not a`, `1 + 1 + 1` and `elif`: each link makes
//! the syntax tree deeper, and it is walked by recursion. Here the depth is found from the tokens beforehand. Templates are
//! never compiled in the service: the compiler folds constants, so that `"x" * 1000000` takes memory.

use minijinja::machinery::{Token, parse, tokenize};
use minijinja::syntax::SyntaxConfig;

/// Longest chain in one tag, through all brackets that are open.
const CHAIN_MAX: usize = 150;
/// Most brackets that are open at once.
const BRACKETS_MAX: usize = 15;
/// Longest line. The parser counts columns in 16 bits, and an error behind the last of them breaks it where overflows are checked.
const LINE_MAX: usize = 60_000;
/// Most `elif` of a template.
const ELIF_MAX: usize = 100;

/// Why a template cannot be used, if it cannot.
pub(crate) fn fault(text: &str) -> Option<String> {
    measure(text)
        .and_then(|()| parse(text, "template", SyntaxConfig::default()).map_err(|error| error.to_string()))
        .err()
}

/// Whether the template's syntax tree is shallow. What cannot be read as tokens is shallow enough: parsing stops there.
fn measure(text: &str) -> Result<(), String> {
    for (number, line) in text.split('\n').enumerate() {
        if line.chars().count() > LINE_MAX {
            return Err(format!("line {}: a template may have at most {LINE_MAX} characters in a line", number + 1));
        }
    }
    let mut elifs = 0;
    // Per open bracket, the links since the last comma. What stands between commas are neighbours in the tree.
    let mut links = vec![0_usize];
    for token in tokenize(text, false, SyntaxConfig::default()) {
        let Ok((token, span)) = token else { return Ok(()) };
        let add = |links: &mut Vec<usize>| links.last_mut().map(|last| *last += 1);
        match token {
            Token::VariableStart | Token::BlockStart => links = vec![0],
            Token::Comma => {
                links.pop();
                links.push(0);
            }
            Token::ParenOpen | Token::BracketOpen | Token::BraceOpen => {
                add(&mut links);
                links.push(0);
            }
            Token::ParenClose | Token::BracketClose | Token::BraceClose if links.len() > 1 => {
                links.pop();
            }
            token => {
                elifs += usize::from(matches!(token, Token::Ident("elif")));
                add(&mut links);
            }
        }
        let too_much = |what: &str, most: usize| {
            Err(format!("line {}: a template may have at most {most} {what}", span.start_line))
        };
        if links.len() > BRACKETS_MAX + 1 {
            return too_much("open brackets at once", BRACKETS_MAX);
        }
        if links.iter().sum::<usize>() > CHAIN_MAX {
            return too_much("names and operators in one expression", CHAIN_MAX);
        }
        if elifs > ELIF_MAX {
            return too_much("elif", ELIF_MAX);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Chains of every kind, with this many links.
    fn chains(links: usize) -> Vec<String> {
        let repeat = |link: &str| link.repeat(links);
        vec![
            format!("{{{{ 1{} }}}}", repeat("+1")),
            format!("{{{{ x{} }}}}", repeat("+x")),
            format!("{{{{ 'a'{} }}}}", repeat("~'a'")),
            format!("{{{{ x{} }}}}", repeat("**x")),
            format!("{{{{ {}x }}}}", repeat("not ")),
            format!("{{{{ {}1 }}}}", repeat("-")),
            format!("{{{{ x{} }}}}", repeat(".b")),
            format!("{{{{ x{} }}}}", repeat("|abs")),
            format!("{{{{ x{} }}}}", repeat(" is defined")),
            format!("{{{{ x{} }}}}", repeat("[0]")),
            format!("{{{{ x{} }}}}", repeat("()")),
            format!("{{{{ 1{} }}}}", repeat(" if x else 1")),
            format!("{{{{ 1{} }}}}", repeat(" if x")),
            format!("{{{{ {}x{} }}}}", repeat("("), repeat(")")),
            format!("{{{{ {}x{} }}}}", repeat("["), repeat("]")),
            format!("{{{{ {}x{} }}}}", repeat("{1:"), repeat("}")),
            format!("{{% set {}x{} = 1 %}}", repeat("("), repeat(")")),
            format!("{{% if x %}}{}{{% endif %}}", repeat("{% elif x %}")),
            format!("{}{}", repeat("{% if x %}"), repeat("{% endif %}")),
            format!("{}{}", repeat("{% for x in y %}"), repeat("{% endfor %}")),
            format!("{}x{}", repeat("{% filter upper %}"), repeat("{% endfilter %}")),
        ]
    }

    #[test]
    fn no_chain_is_long_enough_for_the_stack() {
        for template in chains(100_000) {
            assert!(fault(&template).is_some(), "{}", &template[..40]);
        }
        // Whatever is let through is parsed: a stack overflow would end this test.
        for links in [10, 14, 40, 60, 74, 100, 140, 150, 200] {
            chains(links).iter().for_each(|template| drop(fault(template)));
        }
        let usual = ["{{ input.a.b|join(', ')|upper }}", "{% for x in [1, 2, {'a': (1, 2)}] %}{{ x }}{% endfor %}"];
        assert_eq!(usual.map(fault), [None, None]);
        assert_eq!(fault(&format!("{{{{ [{}] }}}}", "'a', ".repeat(10_000))), None);
    }

    /// The deepest that is let through: nested blocks, a chain of `elif`, brackets, and a chain in the innermost one.
    #[test]
    fn the_deepest_template_is_parsed_on_a_small_stack() {
        let blocks = 60;
        let inner = format!("{}x{}{}", "(".repeat(BRACKETS_MAX), "+x".repeat(60), ")".repeat(BRACKETS_MAX));
        let template = format!(
            "{}{{% if x %}}{}{{{{ {inner} }}}}{{% endif %}}{}",
            "{% for x in y %}".repeat(blocks),
            "{% elif x %}".repeat(ELIF_MAX),
            "{% endfor %}".repeat(blocks)
        );
        let parsed = std::thread::Builder::new().stack_size(2 << 20).spawn(move || fault(&template)).unwrap();
        assert_eq!(parsed.join().unwrap(), None);
    }

    #[test]
    fn constants_are_not_computed() {
        let large = "{{ 'a' * 9000000 }}\n".repeat(50_000);
        assert_eq!(fault(&large), None);
    }

    /// With overflow checks, an error behind column 65535 was a panic of the parser, which ended whoever listed the skill.
    #[test]
    fn a_line_is_no_longer_than_the_parser_can_count() {
        let most = format!("{}{{#", "x".repeat(LINE_MAX - 2));
        assert_eq!(fault(&most).unwrap(), "syntax error: unexpected end of comment (in template:1)");
        for text in ["{#".repeat(40_000), format!("{}{{{{ 1 + }}}}", "é".repeat(70_000)), "x".repeat(LINE_MAX + 1)] {
            let said = "line 2: a template may have at most 60000 characters in a line";
            assert_eq!(fault(&format!("a\n{text}")).as_deref(), Some(said));
        }
    }

    #[test]
    fn a_fault_names_its_line() {
        assert_eq!(fault("a\n{{ 1 + }}").unwrap(), "syntax error: unexpected end of variable block (in template:2)");
        let long = format!("\n\n{{{{ x{} }}}}", ".a".repeat(100));
        assert_eq!(
            fault(&long).unwrap(),
            "line 3: a template may have at most 150 names and operators in one expression"
        );
    }
}
