//! The plan of the code, enforced: layers, pure modules, no import cycles, one idea per file.

mod code_literals;
mod engine_names;
mod file_steps;
mod foreign_json;
mod imports;
mod one_place;
mod planted;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use syn::visit::Visit;

/// The modules and their layers; a module imports only modules of lower layers.
const LAYERS: &[(&str, u8)] = &[
    ("bounded", 0),
    ("domain", 0),
    ("engine", 1),
    ("metrics", 1),
    ("settings", 1),
    ("skill", 2),
    ("convergence", 3),
    ("fcmp", 3),
    ("projection", 3),
    ("prompt", 3),
    ("verdict", 4),
    ("files", 5),
    ("trust", 5),
    ("artifact", 6),
    ("environments", 6),
    ("export", 6),
    ("installed_engines", 6),
    ("registry", 6),
    ("renderer", 6),
    ("store", 6),
    ("supervisor", 6),
    ("telemetry", 6),
    ("blobs", 6),
    ("workspace", 6),
    ("audit", 7),
    ("orchestrator", 7),
    ("http", 8),
    ("cli", 9),
    ("fuzz", 10),
];

/// Layers up to this one are pure.
const PURE_UP_TO: u8 = 4;

/// The parts of the orchestrator in their order; a part imports only itself and the parts before it.
const ORCHESTRATOR: &[&str] = &[
    "error",
    "environment",
    "access",
    "run_files",
    "log",
    "results",
    "shared",
    "handle",
    "packages",
    "admission",
    "turn",
    "runs",
    "intake",
    "inspect",
    "lifecycle",
];

/// The parts of the API, lowest first.
const HTTP: &[&str] = &[
    "answer",
    "state",
    "request",
    "attachment",
    "server",
    "feeds",
    "jobs",
    "engines",
    "inspect",
    "skills",
    "management",
    "system",
    "ui",
    "openapi",
    "router",
    "serve",
    "foreign",
];

/// The parts of the command line, lowest first.
const CLI: &[&str] = &[
    "failure",
    "global",
    "runtime",
    "stop_signals",
    "time_span",
    "terminal",
    "logging",
    "connect",
    "e2e_client",
    "engines",
    "service",
    "inspect",
    "run",
    "runs",
    "skill",
    "command_line",
];

/// First parts of paths that no pure module may name outside its tests.
const IMPURE: &[&str] = &[
    "std::fs",
    "std::net::TcpStream",
    "std::net::TcpListener",
    "std::net::UdpSocket",
    "std::process",
    "std::thread",
    "std::env",
    "std::io::stdin",
    "std::io::stdout",
    "tokio",
    "axum",
    "sled",
    "tokio_postgres",
    "tokio_rustls",
    "rustix",
    "libc",
    "tempfile",
    "tracing",
    "ureq",
    "async_stream",
    "tokio_stream",
    "zip",
];

/// No file is longer than this; most are far shorter.
const LINES_MAX: usize = 500;

struct Source {
    path: PathBuf,
    module: String,
    text: String,
}

fn sources() -> Vec<Source> {
    let found = sources_in("src");
    assert!(found.len() > 50, "the sources were found");
    found
}

fn sources_in(folder: &str) -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let mut found = Vec::new();
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let relative = path.strip_prefix(&root).unwrap();
                let first = relative.components().next().unwrap().as_os_str().to_str().unwrap();
                let module = first.trim_end_matches(".rs").to_owned();
                let text = fs::read_to_string(&path).unwrap();
                found.push(Source { path: relative.to_owned(), module, text });
            }
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}

/// Every path a file names outside `#[cfg(test)]`.
#[derive(Default)]
struct Names(Vec<String>);

fn is_test_only(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && attribute.parse_args::<syn::Path>().is_ok_and(|condition| condition.is_ident("test"))
    })
}

impl<'ast> Visit<'ast> for Names {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !is_test_only(&item.attrs) {
            syn::visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        if !is_test_only(&item.attrs) {
            self.use_tree(String::new(), &item.tree);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let parts: Vec<String> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        self.0.push(parts.join("::"));
        syn::visit::visit_path(self, path);
    }
}

impl Names {
    fn use_tree(&mut self, prefix: String, tree: &syn::UseTree) {
        let joined = |name: String| if prefix.is_empty() { name } else { format!("{prefix}::{name}") };
        match tree {
            syn::UseTree::Path(path) => self.use_tree(joined(path.ident.to_string()), &path.tree),
            syn::UseTree::Name(name) => self.0.push(joined(name.ident.to_string())),
            syn::UseTree::Rename(rename) => self.0.push(joined(rename.ident.to_string())),
            syn::UseTree::Glob(_) => self.0.push(prefix),
            syn::UseTree::Group(group) => group.items.iter().for_each(|tree| self.use_tree(prefix.clone(), tree)),
        }
    }
}

fn names(source: &Source) -> Vec<String> {
    let file = syn::parse_file(&source.text).unwrap_or_else(|error| panic!("{}: {error}", source.path.display()));
    let mut names = Names::default();
    names.visit_file(&file);
    names.0
}

/// Files that hold only tests are not bound by the rules of their module.
fn test_files(sources: &[Source]) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for source in sources {
        let file = syn::parse_file(&source.text).unwrap();
        for item in file.items {
            if let syn::Item::Mod(module) = item
                && module.content.is_none()
                && is_test_only(&module.attrs)
            {
                let folder = match source.path.file_stem().unwrap().to_str().unwrap() {
                    "mod" | "lib" | "main" => source.path.parent().unwrap().to_owned(),
                    stem => source.path.parent().unwrap().join(stem),
                };
                files.push(folder.join(format!("{}.rs", module.ident)));
            }
        }
    }
    files
}

/// Imports of higher layers, and impure names in pure modules.
fn misplaced(sources: &[Source]) -> Vec<String> {
    let layers: BTreeMap<&str, u8> = LAYERS.iter().copied().collect();
    let tests = test_files(sources);
    let mut broken = Vec::new();
    for source in sources.iter().filter(|source| !tests.contains(&source.path)) {
        let Some(layer) = layers.get(source.module.as_str()) else {
            assert!(matches!(source.module.as_str(), "main" | "lib"), "{} has no layer", source.path.display());
            continue;
        };
        for name in names(source) {
            if let Some(rest) = name.strip_prefix("crate::") {
                let module = rest.split("::").next().unwrap();
                let lower = layers.get(module).is_some_and(|other| other < layer);
                if module != source.module && !lower {
                    broken.push(format!("{} (layer {layer}) names {name}", source.path.display()));
                }
            }
            let impure = IMPURE.iter().any(|bad| name == *bad || name.starts_with(&format!("{bad}::")));
            if *layer <= PURE_UP_TO && impure {
                broken.push(format!("{} is pure but names {name}", source.path.display()));
            }
        }
    }
    broken
}

#[test]
fn every_module_imports_only_lower_modules_and_pure_modules_touch_nothing() {
    assert_eq!(misplaced(&sources()), Vec::<String>::new());
}

#[test]
fn a_planted_upward_import_and_a_planted_impure_name_are_found() {
    let planted = |text: &str| [Source { path: "domain/x.rs".into(), module: "domain".into(), text: text.into() }];
    let upward = misplaced(&planted("use crate::http::serve;"));
    assert_eq!(upward, ["domain/x.rs (layer 0) names crate::http::serve"]);
    assert_eq!(misplaced(&planted("fn f() { std::fs::read(p); }")), ["domain/x.rs is pure but names std::fs::read"]);
}

#[test]
fn the_library_lists_its_modules_by_layer() {
    let text = fs::read_to_string(format!("{}/src/lib.rs", env!("CARGO_MANIFEST_DIR"))).unwrap();
    let mut listed: Vec<(u8, &str)> = Vec::new();
    let mut layer = None;
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("// L") {
            layer = rest.split(',').next().and_then(|number| number.parse().ok());
        } else if let Some((_, module)) = line.trim_end_matches(';').split_once("mod ") {
            listed.push((layer.unwrap(), module));
        }
    }
    let mut layers: Vec<(u8, &str)> = LAYERS.iter().map(|(module, layer)| (*layer, *module)).collect();
    layers.sort_unstable();
    assert_eq!(listed, layers);
}

#[test]
fn no_file_imports_itself_through_others() {
    assert_eq!(imports::Imports::of(&sources()).cycles(), Vec::<Vec<PathBuf>>::new());
}

#[test]
fn the_parts_of_the_orchestrator_import_only_parts_before_them() {
    assert_eq!(imports::Imports::of(&sources()).against("orchestrator", ORCHESTRATOR), Vec::<String>::new());
}

#[test]
fn the_parts_of_the_api_and_of_the_command_line_import_only_parts_before_them() {
    let imports = imports::Imports::of(&sources());
    assert_eq!(imports.against("http", HTTP), Vec::<String>::new());
    assert_eq!(imports.against("cli", CLI), Vec::<String>::new());
}

#[test]
fn every_file_says_what_it_is_for_and_holds_one_idea() {
    let mut broken = Vec::new();
    for source in sources().into_iter().chain(sources_in("shim/src")) {
        if !source.text.starts_with("//! ") {
            broken.push(format!("{} does not begin with a //! sentence", source.path.display()));
        }
        let lines = source.text.lines().count();
        if lines > LINES_MAX {
            broken.push(format!("{} has {lines} lines, more than {LINES_MAX}", source.path.display()));
        }
        for module in ["util", "utils", "common", "manager", "service", "helpers", "misc"] {
            if source.path.file_stem().is_some_and(|stem| stem == module) {
                broken.push(format!("{}: {module} says nothing", source.path.display()));
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn every_pure_module_denies_impure_calls_to_clippy_too() {
    for (module, layer) in LAYERS {
        let text = fs::read_to_string(format!("{}/src/{module}/mod.rs", env!("CARGO_MANIFEST_DIR"))).unwrap();
        let denies = text.contains("#![deny(clippy::disallowed_methods, clippy::disallowed_types)]");
        assert_eq!(denies, *layer <= PURE_UP_TO, "src/{module}/mod.rs");
    }
}

#[test]
fn the_checks_find_what_they_look_for() {
    let source = |text: &str| Source { path: "x.rs".into(), module: "domain".into(), text: text.into() };
    let found = names(&source(
        "use std::{fs, io::Write as W}; #[cfg(test)] mod t { use tokio::net; } fn f() { crate::http::serve(); }",
    ));
    assert!(found.contains(&"std::fs".to_owned()) && found.contains(&"crate::http::serve".to_owned()));
    assert!(!found.iter().any(|name| name.starts_with("tokio")), "{found:?}");
}
