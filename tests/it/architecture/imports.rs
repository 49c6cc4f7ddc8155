//! Which file imports which: re-exports are followed to the file that defines a name, so a facade hides nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use syn::visit::Visit;

use super::{Source, is_test_only, test_files};

/// The files of a tree and the files each imports.
pub(super) struct Imports(pub BTreeMap<PathBuf, BTreeSet<PathBuf>>);

type Module = Vec<String>;

/// A path that a file names, and whether it only passes it on.
struct Named {
    path: Vec<String>,
    reexport: bool,
}

#[derive(Default)]
struct Names {
    found: Vec<Named>,
    /// Depth of inline modules: `super` means something else there.
    inside: usize,
}

impl<'ast> Visit<'ast> for Names {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !is_test_only(&item.attrs) {
            self.inside += 1;
            syn::visit::visit_item_mod(self, item);
            self.inside -= 1;
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        if !is_test_only(&item.attrs) {
            let reexport = !matches!(item.vis, syn::Visibility::Inherited);
            self.use_tree(&mut Vec::new(), &item.tree, reexport);
        }
    }

    /// `pub(super)` imports nothing.
    fn visit_visibility(&mut self, _: &'ast syn::Visibility) {}

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let parts: Vec<String> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        self.push(parts, false);
        syn::visit::visit_path(self, path);
    }
}

impl Names {
    fn use_tree(&mut self, prefix: &mut Vec<String>, tree: &syn::UseTree, reexport: bool) {
        match tree {
            syn::UseTree::Path(path) => {
                prefix.push(path.ident.to_string());
                self.use_tree(prefix, &path.tree, reexport);
                prefix.pop();
            }
            syn::UseTree::Name(name) if name.ident == "self" => self.push(prefix.clone(), reexport),
            syn::UseTree::Name(name) => self.push([prefix.as_slice(), &[name.ident.to_string()]].concat(), reexport),
            syn::UseTree::Rename(name) => self.push([prefix.as_slice(), &[name.ident.to_string()]].concat(), reexport),
            syn::UseTree::Glob(_) => self.push(prefix.clone(), reexport),
            syn::UseTree::Group(group) => {
                group.items.iter().for_each(|tree| self.use_tree(prefix, tree, reexport));
            }
        }
    }

    fn push(&mut self, mut path: Vec<String>, reexport: bool) {
        for _ in 0..self.inside {
            if path.first().is_some_and(|first| first == "super") {
                path.remove(0);
            }
        }
        self.found.push(Named { path, reexport });
    }
}

fn module_of(path: &Path) -> Module {
    let mut parts: Module =
        path.with_extension("").components().map(|part| part.as_os_str().to_str().unwrap().to_owned()).collect();
    if parts.last().is_some_and(|last| matches!(last.as_str(), "mod" | "lib" | "main")) {
        parts.pop();
    }
    parts
}

struct Tree {
    files: BTreeMap<Module, PathBuf>,
    reexports: BTreeMap<Module, BTreeMap<String, Module>>,
}

impl Tree {
    /// A path from the root of the crate; `None` for one that leads out of it.
    fn absolute(&self, module: &[String], path: &[String]) -> Option<Module> {
        let mut base = module.to_vec();
        match path.first()?.as_str() {
            "crate" => Some(path[1..].to_vec()),
            "self" => Some([base, path[1..].to_vec()].concat()),
            "super" => {
                let ups = path.iter().take_while(|part| *part == "super").count();
                base.truncate(base.len().saturating_sub(ups));
                Some([base, path[ups..].to_vec()].concat())
            }
            child => {
                base.push(child.to_owned());
                self.files.contains_key(&base).then(|| [module, path].concat())
            }
        }
    }

    /// The file that defines what a path names.
    fn definition(&self, path: &[String], depth: usize) -> Option<&PathBuf> {
        let module = (0..=path.len()).rev().map(|n| &path[..n]).find(|module| self.files.contains_key(*module))?;
        let rest = &path[module.len()..];
        if let Some(name) = rest.first()
            && depth < 8
            && let Some(passed_on) = self.reexports.get(module).and_then(|names| names.get(name))
        {
            return self.definition(&[passed_on.as_slice(), &rest[1..]].concat(), depth + 1);
        }
        self.files.get(module)
    }
}

impl Imports {
    pub fn of(sources: &[Source]) -> Self {
        let tests = test_files(sources);
        let sources: Vec<&Source> = sources
            .iter()
            .filter(|source| !tests.contains(&source.path) && source.path != Path::new("main.rs"))
            .collect();
        let files = sources.iter().map(|source| (module_of(&source.path), source.path.clone())).collect();
        let mut tree = Tree { files, reexports: BTreeMap::new() };
        let mut named: Vec<(&Source, Vec<Named>)> = Vec::new();
        for source in sources {
            let mut names = Names::default();
            names.visit_file(&syn::parse_file(&source.text).unwrap());
            let module = module_of(&source.path);
            for name in names.found.iter().filter(|name| name.reexport) {
                if let (Some(target), Some(last)) = (tree.absolute(&module, &name.path), name.path.last()) {
                    tree.reexports.entry(module.clone()).or_default().insert(last.clone(), target);
                }
            }
            named.push((source, names.found));
        }
        let mut imports = BTreeMap::new();
        for (source, names) in named {
            let module = module_of(&source.path);
            let used = names.iter().filter(|name| !name.reexport);
            let files = used.filter_map(|name| tree.definition(&tree.absolute(&module, &name.path)?, 0));
            let others = files.filter(|file| **file != source.path).cloned().collect();
            imports.insert(source.path.clone(), others);
        }
        Self(imports)
    }

    /// Every set of files that import each other, directly or through others.
    pub fn cycles(&self) -> Vec<Vec<PathBuf>> {
        let reach = |from: &PathBuf| {
            let mut seen = BTreeSet::new();
            let mut left: Vec<&PathBuf> = self.0[from].iter().collect();
            while let Some(file) = left.pop() {
                if seen.insert(file.clone()) {
                    left.extend(self.0.get(file).into_iter().flatten());
                }
            }
            seen
        };
        let reached: BTreeMap<&PathBuf, BTreeSet<PathBuf>> = self.0.keys().map(|file| (file, reach(file))).collect();
        let mut cycles = BTreeSet::new();
        for (file, reaches) in &reached {
            if reaches.contains(*file) {
                let back = |other: &&PathBuf| reached.get(other).is_some_and(|reaches| reaches.contains(*file));
                cycles.insert(reaches.iter().filter(back).cloned().collect::<Vec<_>>());
            }
        }
        cycles.into_iter().collect()
    }

    /// Imports that go against an order of the parts of one module: a part may import itself and those before it.
    pub fn against(&self, module: &str, order: &[&str]) -> Vec<String> {
        let part = |file: &Path| -> Option<String> {
            let inner = file.strip_prefix(module).ok()?;
            let first = inner.components().next()?.as_os_str().to_str()?;
            Some(first.trim_end_matches(".rs").to_owned())
        };
        let place = |part: &str| order.iter().position(|known| *known == part);
        let mut broken = BTreeSet::new();
        for (file, imported) in &self.0 {
            let Some(from) = part(file).filter(|from| from != "mod") else { continue };
            let Some(own) = place(&from) else {
                broken.insert(format!("{module}/{from} has no place in the order"));
                continue;
            };
            for other in imported {
                if let Some(to) = part(other).filter(|to| to != "mod")
                    && place(&to).is_none_or(|place| place > own)
                {
                    broken.insert(format!("{} imports {}, which comes later", file.display(), other.display()));
                }
            }
        }
        broken.into_iter().collect()
    }
}

fn source(path: &str, text: &str) -> Source {
    Source { path: path.into(), module: path.split('/').next().unwrap().into(), text: text.into() }
}

#[test]
fn a_planted_cycle_is_found_also_through_a_facade() {
    let planted = [
        source("lib.rs", "pub mod a;"),
        source("a/mod.rs", "mod one; mod two; mod three; pub use three::Three;"),
        source("a/one.rs", "use super::two::Two; pub struct One(Two);"),
        source("a/two.rs", "pub struct Two; fn f() { crate::a::Three::new(); }"),
        source("a/three.rs", "use crate::a::one; pub struct Three(one::One);"),
    ];
    let files = ["a/one.rs", "a/three.rs", "a/two.rs"].map(PathBuf::from).to_vec();
    assert_eq!(Imports::of(&planted).cycles(), [files]);
    let mended = planted.into_iter().map(|file| match file.path.to_str() {
        Some("a/three.rs") => source("a/three.rs", "#[cfg(test)] mod tests { use crate::a::one; } pub struct Three;"),
        _ => file,
    });
    assert_eq!(Imports::of(&mended.collect::<Vec<_>>()).cycles(), Vec::<Vec<PathBuf>>::new());
}

#[test]
fn a_planted_import_against_the_inner_order_is_found() {
    let planted = [
        source("lib.rs", "pub mod m;"),
        source("m/mod.rs", "mod low; mod high;"),
        source("m/low/mod.rs", "pub mod x;"),
        source("m/low/x.rs", "use crate::m::high::High;"),
        source("m/high.rs", "pub struct High;"),
    ];
    let imports = Imports::of(&planted);
    assert_eq!(imports.against("m", &["low", "high"]), ["m/low/x.rs imports m/high.rs, which comes later"]);
    assert_eq!(imports.against("m", &["high", "low"]), Vec::<String>::new());
    assert_eq!(imports.against("m", &["low"]).len(), 2, "what is in no order is told");
}
