//! A value of a row that the server gave: what is not of the expected type, or is missing, is an error of that question alone.

use tokio_postgres::Row;
use tokio_postgres::types::FromSql;

use super::failure;
use crate::store::Error;

pub(super) fn cell<'a, T: FromSql<'a>>(row: &'a Row, at: usize) -> Result<T, Error> {
    row.try_get(at).map_err(|error| failure::broken("understand a row of", error))
}
