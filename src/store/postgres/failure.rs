//! What an error of the server means: whether to try again, and in which words a start is refused.

use std::sync::Arc;

use tokio_postgres::Error as ServerError;
use tokio_postgres::error::SqlState;

use crate::domain::causes::chain;
use crate::store::Error;

/// Whether the same may work later, or on another connection: the server restarts, fails over, is full or was cut off.
pub(super) fn is_passing(error: &ServerError) -> bool {
    let Some(code) = error.code() else { return ends_connection(error) };
    let class = code.code().get(..2).unwrap_or_default();
    // Connections, rolled back transactions, missing resources, intervention of an operator, errors of the system; a server
    // that only takes reads.
    matches!(class, "08" | "40" | "53" | "55" | "57" | "58") || *code == SqlState::READ_ONLY_SQL_TRANSACTION
}

/// Whether a shared file was removed since it was put.
pub(super) fn is_removed_file(error: &ServerError) -> bool {
    error.code().is_some_and(|code| code.code() == "SR001")
}

/// Whether the disk of the server is full.
pub(super) fn is_full(error: &ServerError) -> bool {
    error.code() == Some(&SqlState::DISK_FULL)
}

/// Why a connection was refused, for whoever wrote the URL.
pub(super) fn refused(error: &ServerError) -> String {
    let Some(code) = error.code() else { return chain(error) };
    let said = error.as_db_error().map_or_else(|| error.to_string(), |said| said.message().to_owned());
    let advice = match code {
        c if *c == SqlState::INVALID_PASSWORD || *c == SqlState::INVALID_AUTHORIZATION_SPECIFICATION => {
            "check the user and the password in the URL"
        }
        c if *c == SqlState::INVALID_CATALOG_NAME => "create it, for example with createdb",
        c if *c == SqlState::INSUFFICIENT_PRIVILEGE => {
            "let the user create the schema, or create it for the user: create schema skill_runner authorization USER"
        }
        c if *c == SqlState::TOO_MANY_CONNECTIONS => "raise max_connections of the server",
        _ => return said,
    };
    format!("{said}; {advice}")
}

/// A read or write that failed for good.
pub(super) fn broken(action: &'static str, error: ServerError) -> Error {
    Error::Engine { action, source: Arc::new(error) }
}

/// Whether the connection is lost, or about to be.
pub(super) fn ends_connection(error: &ServerError) -> bool {
    if let Some(code) = error.code() {
        let class = code.code().get(..2).unwrap_or_default();
        return class == "08" || class == "57" && *code != SqlState::QUERY_CANCELED;
    }
    let io = std::error::Error::source(error).is_some_and(|source| source.is::<std::io::Error>());
    error.is_closed() || io
}
