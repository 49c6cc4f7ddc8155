//! A row of one database.

use bytes::{Bytes, BytesMut};

use super::damage::{damaged, engine_failed};
use super::database::Database;
use super::keys::{self, RowStart};
use crate::store::{Error, IndexKey};

/// What this one database says of a row: nothing, that it is gone, or the row.
pub(super) fn row_in(database: &Database, key: &IndexKey) -> Result<Option<Option<Bytes>>, Error> {
    match database.db()?.get(keys::row_key(key)).map_err(engine_failed)? {
        Some(value) => whole_row(database, key, &value).map(Some),
        None => Ok(None),
    }
}

/// The row that begins with this value; `None` if the value says that it is gone.
pub(super) fn whole_row(database: &Database, key: &IndexKey, value: &[u8]) -> Result<Option<Bytes>, Error> {
    let damaged = || damaged(format!("row {key:?}"));
    let len = match keys::row_start(value).ok_or_else(damaged)? {
        RowStart::Gone => return Ok(None),
        RowStart::Whole(row) => return Ok(Some(row)),
        RowStart::FirstPart(len) => len,
    };
    let mut row = BytesMut::with_capacity(len);
    for key in keys::keys_of_row(key, len) {
        let value = database.db()?.get(key).map_err(engine_failed)?.ok_or_else(damaged)?;
        row.extend_from_slice(keys::row_part(&value).ok_or_else(damaged)?);
    }
    if row.len() == len { Ok(Some(row.freeze())) } else { Err(damaged()) }
}
