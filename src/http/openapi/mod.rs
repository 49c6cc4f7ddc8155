//! The OpenAPI document: every route of the table, with what it takes, answers and refuses. The schemas are in `schema/api`.

mod catalog;
mod components;
mod operation;
mod parameters;
mod refusals;
mod runs;
mod shape;

use serde_json::{Map, Value, json};

use crate::http::server::route_table::Route;

const ABOUT: &str = "Runs agent skills and returns validated, traceable results. docs/api.md tells how event streams, \
    idempotency, waiting and uploads work; docs/errors.md lists every error code.";

/// The document of these routes. A route that the catalog does not describe is left out, which a test refuses.
pub(crate) fn document(routes: &[Route]) -> Value {
    let mut paths: Map<String, Value> = Map::new();
    let mut components = components::all();
    for route in routes {
        let Some(operation) = catalog::described(&route.method, &route.path) else { continue };
        let path = plain_path(&route.path);
        let described = operation.document(route, &mut components);
        let methods = paths.entry(path).or_insert_with(|| json!({}));
        methods[route.method.to_lowercase()] = described;
    }
    json!({
        "openapi": "3.1.0",
        "info": {"title": "skill-runner", "version": env!("CARGO_PKG_VERSION"), "description": ABOUT, "license": {"name": "MIT", "identifier": "MIT"}},
        "tags": catalog::TAGS.map(|(name, description)| json!({"name": name, "description": description})),
        "paths": paths,
        "components": components,
    })
}

/// OpenAPI has no sign for a part of a path that may hold slashes.
fn plain_path(path: &str) -> String {
    path.replace("{*", "{")
}
