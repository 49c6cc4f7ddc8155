//! Records that services on the database share.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::watch;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::bounds::bounded;
use super::cell::cell;
use super::failure;
use super::member::Member;
use crate::store::{BoxFuture, Changed, Error, Expected, LeaseId, Record, RecordChange, RecordList, Records, records};

const ONE: &str = concat!("select key, revision, ", bounded!("value"), " from records where kind = $1 and key = $2");
/// In one statement, so that the records are those of the revision.
const LIST: &str = concat!(
    "select record_kinds.revision, records.key, records.revision, ",
    bounded!("records.value"),
    " from record_kinds left join records on records.kind = record_kinds.kind and octet_length(records.key) <= 512 \
     where record_kinds.kind = $1 order by records.key collate \"C\""
);
const REVISIONS: &str = "select coalesce(revision, 0) from unnest($1::text[]) with ordinality as asked (kind, place) \
     left join record_kinds using (kind) order by place";
const CHANGE: &str = "select o_done, o_found, case when octet_length(o_value) <= 4194304 then o_value end from change_record_2($1, $2, $3, $4, $5, $6, $7)";
/// Nothing if the lease is over. Whoever says that it is waits for the row, until this is committed. The function is called for the row that
/// was found: in a join it could be called first.
const CHANGE_UNDER: &str = "select (done).o_done, (done).o_found, \
         case when octet_length((done).o_value) <= 4194304 then (done).o_value end from ( \
         select change_record_2($1, $2, $3, $4, $5, $6, $7) as done \
         from (select from nodes where incarnation = $8 and not over and lease_until > clock_timestamp() for share) as lease \
         offset 0) as made";

fn revision(stored: i64) -> u64 {
    u64::try_from(stored).unwrap_or_default()
}

fn stored(expected: Expected) -> i64 {
    match expected {
        Expected::Absent => -1,
        Expected::Any => 0,
        Expected::At(revision) => i64::try_from(revision).unwrap_or(i64::MAX).max(1),
    }
}

impl Member {
    /// Changes a record; under a lease, if that is in force.
    pub(super) async fn change(&self, change: RecordChange, lease: Option<LeaseId>) -> Result<Changed, Error> {
        records::check(&change)?;
        let files: Vec<Vec<u8>> = change.files.iter().map(|file| file.to_vec()).collect();
        let key = change.key.clone();
        let put_after = i64::try_from(change.put_after).unwrap_or(i64::MAX);
        let (id, sent) = (Uuid::now_v7(), Arc::new((change, files)));
        let ask = self.link.ask("change a record of", move |reader| {
            let sent = sent.clone();
            Box::pin(async move {
                let (change, files) = &*sent;
                let value = change.value.as_deref();
                let expected = stored(change.expected);
                let values: [&(dyn ToSql + Sync); 7] =
                    [&id, &change.kind, &change.key, &expected, &value, files, &put_after];
                let answer = match &lease {
                    Some(lease) => {
                        let statement = reader.prepared(CHANGE_UNDER).await?;
                        let under: [&(dyn ToSql + Sync); 1] = [&lease.0];
                        reader.client().query_opt(&statement, &[&values[..], &under[..]].concat()).await
                    }
                    None => {
                        let statement = reader.prepared(CHANGE).await?;
                        reader.client().query_opt(&statement, &values).await
                    }
                };
                match answer {
                    Err(error) if failure::is_removed_file(&error) => Ok(Err(Error::FilesRemoved)),
                    answer => Ok(answer?.ok_or(Error::NotOwner)),
                }
            })
        });
        let row = ask.await??;
        let Some(done) = cell::<Option<i64>>(&row, 0)? else {
            let value = cell::<Option<&[u8]>>(&row, 2)?.unwrap_or_default();
            let found = cell::<Option<i64>>(&row, 1)?.map(|found| Record {
                key,
                revision: revision(found),
                value: Bytes::copy_from_slice(value),
            });
            return Ok(Changed::Refused { found });
        };
        self.heads.records_changed();
        Ok(Changed::Done { revision: revision(done) })
    }
}

impl Records for Member {
    fn record(&self, kind: &'static str, key: &str) -> BoxFuture<'_, Result<Option<Record>, Error>> {
        let key = Arc::new(key.to_owned());
        Box::pin(async move {
            if key.contains('\0') {
                return Ok(None);
            }
            let ask = self.records.link().ask("read a record of", move |reader| {
                let key = key.clone();
                Box::pin(async move {
                    let statement = reader.prepared(ONE).await?;
                    reader.client().query_opt(&statement, &[&kind, &*key]).await
                })
            });
            let record = |row: Row| {
                let (key, value) = (cell(&row, 0)?, Bytes::copy_from_slice(cell(&row, 2)?));
                Ok(Record { key, revision: revision(cell(&row, 1)?), value })
            };
            ask.await?.map(record).transpose()
        })
    }

    fn records(&self, kind: &'static str) -> BoxFuture<'_, Result<RecordList, Error>> {
        Box::pin(async move {
            let ask = self.records.link().ask("list records of", move |reader| {
                Box::pin(async move {
                    let statement = reader.prepared(LIST).await?;
                    reader.client().query(&statement, &[&kind]).await
                })
            });
            let rows = ask.await?;
            let mut list = RecordList::default();
            for row in &rows {
                list.revision = revision(cell(row, 0)?);
                if let Some(key) = cell::<Option<String>>(row, 1)? {
                    let value = Bytes::copy_from_slice(cell(row, 3)?);
                    list.records.push(Record { key, revision: revision(cell(row, 2)?), value });
                }
            }
            Ok(list)
        })
    }

    fn record_revisions(&self, kinds: &[&'static str]) -> BoxFuture<'_, Result<Vec<u64>, Error>> {
        let kinds = Arc::new(kinds.to_vec());
        Box::pin(async move {
            let ask = self.records.link().ask("look for changed records of", move |reader| {
                let kinds = kinds.clone();
                Box::pin(async move {
                    let statement = reader.prepared(REVISIONS).await?;
                    reader.client().query(&statement, &[&*kinds]).await
                })
            });
            ask.await?.iter().map(|row| Ok(revision(cell(row, 0)?))).collect()
        })
    }

    fn change_record(&self, change: RecordChange) -> BoxFuture<'_, Result<Changed, Error>> {
        Box::pin(self.change(change, None))
    }

    fn records_changed(&self) -> watch::Receiver<u64> {
        self.records.changed.clone()
    }
}
