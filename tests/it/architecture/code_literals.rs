//! The text of a code stands in its table alone: everything else names the enum.

use std::collections::BTreeSet;
use std::path::Path;

use skill_runner::domain::codes::{ErrorCode, FindingCode, WarningCode};
use syn::visit::Visit;

use super::{Source, is_test_only, sources, test_files};

/// Literals and macro arguments outside tests and comments.
#[derive(Default)]
struct Literals(Vec<String>);

impl<'ast> Visit<'ast> for Literals {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !is_test_only(&item.attrs) {
            syn::visit::visit_item_mod(self, item);
        }
    }

    fn visit_attribute(&mut self, _: &'ast syn::Attribute) {}

    fn visit_lit_str(&mut self, literal: &'ast syn::LitStr) {
        self.0.push(format!("{:?}", literal.value()));
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        self.0.push(call.tokens.to_string());
    }
}

fn codes() -> BTreeSet<&'static str> {
    let errors = ErrorCode::ALL.iter().map(|code| code.as_str());
    let warnings = WarningCode::ALL.iter().map(|code| code.as_str());
    errors.chain(warnings).chain(FindingCode::ALL.iter().map(|code| code.as_str())).collect()
}

/// The codes that a file has as text.
fn written(source: &Source, codes: &BTreeSet<&'static str>) -> Vec<&'static str> {
    let mut literals = Literals::default();
    literals.visit_file(&syn::parse_file(&source.text).unwrap());
    let has = |code: &&&str| literals.0.iter().any(|literal| literal.contains(&format!("\"{code}\"")));
    codes.iter().filter(has).copied().collect()
}

#[test]
fn no_file_but_the_tables_has_the_text_of_a_code() {
    let (sources, codes) = (sources(), codes());
    let tests = test_files(&sources);
    let tables = Path::new("domain/codes");
    let mut broken = Vec::new();
    for source in sources.iter().filter(|source| !tests.contains(&source.path) && !source.path.starts_with(tables)) {
        for code in written(source, &codes) {
            broken.push(format!("{} has the text of the code {code}; name the enum instead", source.path.display()));
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn the_check_finds_a_code_wherever_the_text_stands() {
    let source = |text: &str| Source { path: "x.rs".into(), module: "http".into(), text: text.into() };
    let codes = codes();
    for text in [
        "const A: &str = \"TIMEOUT\";",
        "fn f() { json!({\"code\": \"TIMEOUT\"}) }",
        "fn f() { matches!(code, \"TIMEOUT\") }",
    ] {
        assert_eq!(written(&source(text), &codes), ["TIMEOUT"], "{text}");
    }
    let free =
        "/// As \"TIMEOUT\".\nconst A: &str = \"TIMEOUT of 3\"; #[cfg(test)] mod t { const B: &str = \"TIMEOUT\"; }";
    assert_eq!(written(&source(free), &codes), Vec::<&str>::new());
}
