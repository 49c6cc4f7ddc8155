//! The variable parts of a path.

use std::collections::HashMap;

use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;

use crate::http::answer::problem::Problem;

/// The variable parts of the path, decoded.
pub(crate) async fn path_params(parts: &mut Parts) -> Result<HashMap<String, String>, Problem> {
    let Path(params) = Path::<HashMap<String, String>>::from_request_parts(parts, &())
        .await
        .map_err(|error| Problem::InvalidRequest { message: error.body_text(), details: Vec::new() })?;
    Ok(params)
}
