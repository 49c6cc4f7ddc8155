//! Raw output that is kept with the events that cite it, for other services.

use bytes::Bytes;
use tokio_postgres::types::ToSql;

use super::cell::cell;
use super::group::stream_number;
use super::read::Questions;
use crate::domain::fact::Stream;
use crate::domain::ids::RunId;
use crate::store::pieces::Pieces;
use crate::store::{Error, RawPiece};

/// Pieces from the one on in which the reader is, up to the one with which the page is full; of each what the reader wants.
const RAW: &str = "select greatest(byte_from, least($3, byte_from + octet_length(bytes))), \
       substring(bytes from (least(greatest($3 - byte_from, 0), octet_length(bytes)) + 1)::int for $6) from ( \
       select byte_from, bytes, sum(octet_length(bytes)) over (order by byte_from) - octet_length(bytes) as before \
       from (select byte_from, bytes from raw_chunks where run = $1 and stream = $2 and byte_from >= coalesce( \
          (select max(byte_from) from raw_chunks where run = $1 and stream = $2 and byte_from <= $3), $3) \
          order by byte_from limit $5) as next) as page \
     where before <= $4 order by byte_from";

/// Pieces that are looked at in one query.
const PIECES: i64 = 64;

impl Questions {
    pub(super) async fn raw(
        &self,
        run: RunId,
        stream: Stream,
        from: u64,
        max_bytes: usize,
    ) -> Result<Vec<RawPiece>, Error> {
        let mut pieces = Pieces::new(stream, from, max_bytes);
        loop {
            let at = i64::try_from(pieces.at()).unwrap_or(i64::MAX);
            let free = i64::try_from(max_bytes).unwrap_or(i64::MAX);
            // At least a byte is wanted.
            let each = i32::try_from(max_bytes.max(1)).unwrap_or(i32::MAX);
            let ask = self.link(run.0).ask("read raw output of", move |reader| {
                Box::pin(async move {
                    let statement = reader.prepared(RAW).await?;
                    let values: [&(dyn ToSql + Sync); 6] = [&run.0, &stream_number(stream), &at, &free, &PIECES, &each];
                    reader.client().query(&statement, &values).await
                })
            });
            let rows = ask.await?;
            for row in &rows {
                let begins = u64::try_from(cell::<i64>(row, 0)?).unwrap_or_default();
                if !pieces.add(begins, &Bytes::copy_from_slice(cell(row, 1)?)) {
                    return Ok(pieces.found);
                }
            }
            let is_last = i64::try_from(rows.len()).unwrap_or(i64::MAX) < PIECES;
            if is_last || i64::try_from(pieces.at()).unwrap_or(i64::MAX) == at {
                return Ok(pieces.found);
            }
        }
    }
}
