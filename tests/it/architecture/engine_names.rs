//! To add an engine touches its folder and the list in `src/domain/engine.rs`: no other source names an agent CLI.

use std::path::Path;

use skill_runner::domain::engine::Engine;
use syn::visit::Visit;

use super::{Source, is_test_only, sources, test_files};

/// Files that name an agent CLI all the same, and why.
const EXCEPTIONS: &[(&str, &str)] = &[
    ("engine/mod.rs", "leads from each engine to its folder; the compiler asks for a new one"),
    ("skill/agent.rs", "agent folders keep their scripts in .claude/skills, whichever engine runs them"),
    ("cli/engines.rs", "an example in the help"),
    ("cli/service/config.rs", "an example in the help"),
    ("cli/inspect/replay/command.rs", "an example in the help"),
];

/// Literals, paths and macro arguments outside tests and comments.
#[derive(Default)]
struct Words(Vec<String>);

impl<'ast> Visit<'ast> for Words {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !is_test_only(&item.attrs) {
            syn::visit::visit_item_mod(self, item);
        }
    }

    fn visit_attribute(&mut self, attribute: &'ast syn::Attribute) {
        match &attribute.meta {
            syn::Meta::List(list) => self.0.push(list.tokens.to_string()),
            // Comments for readers of the code are free to name examples.
            syn::Meta::NameValue(_) | syn::Meta::Path(_) => {}
        }
    }

    fn visit_lit_str(&mut self, literal: &'ast syn::LitStr) {
        self.0.push(literal.value());
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        self.0.extend(path.segments.iter().map(|segment| segment.ident.to_string()));
        syn::visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        self.0.push(call.tokens.to_string());
    }
}

/// What a file says of agent CLIs.
fn named(source: &Source) -> Vec<String> {
    let mut words = Words::default();
    words.visit_file(&syn::parse_file(&source.text).unwrap());
    let names_an_agent = |word: &String| {
        let word = word.to_lowercase();
        Engine::AGENTS.iter().any(|engine| word.contains(engine.as_str()))
    };
    words.0.into_iter().filter(names_an_agent).collect()
}

/// The list, and the folder of an engine.
fn may_name(path: &Path) -> bool {
    let folder = |engine: &Engine| Path::new("engine").join(engine.as_str());
    path == Path::new("domain/engine.rs") || Engine::ALL.iter().any(|engine| path.starts_with(folder(engine)))
}

#[test]
fn only_the_list_and_the_folder_of_an_engine_name_it() {
    let sources = sources();
    let tests = test_files(&sources);
    let others = sources.iter().filter(|source| !tests.contains(&source.path) && !may_name(&source.path));
    let mut broken = Vec::new();
    let mut excused = Vec::new();
    for source in others {
        let found = named(source);
        let Some(first) = found.first() else { continue };
        match EXCEPTIONS.iter().find(|(path, _)| source.path == Path::new(path)) {
            Some((path, _)) => excused.push(*path),
            None => broken.push(format!("{} names an engine: {first}", source.path.display())),
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
    let needless: Vec<_> = EXCEPTIONS.iter().filter(|(path, _)| !excused.contains(path)).collect();
    assert!(needless.is_empty(), "these exceptions are not needed any more: {needless:?}");
}

#[test]
fn the_check_finds_a_name_wherever_the_code_has_it() {
    let source = |text: &str| Source { path: "x.rs".into(), module: "http".into(), text: text.into() };
    for text in [
        "const A: &str = \"CODEX_HOME\";",
        "fn f() { Engine::Codex; }",
        "fn f() { json!({ \"codex\": 1 }) }",
        "#[command(after_help = \"codex\")] struct A;",
    ] {
        assert_eq!(named(&source(text)).len(), 1, "{text}");
    }
    assert_eq!(
        named(&source("/// As codex does.\nfn f() {} #[cfg(test)] mod t { const A: &str = \"codex\"; }")).len(),
        0
    );
}
