//! Removals of shared files, as one of several services on the database has them.

use std::sync::Arc;
use std::time::Duration;

use tokio_postgres::Row;
use uuid::Uuid;

use super::cell::cell;
use super::member::Member;
use crate::store::removals::{BEGUN_FOR, FileHash, Removals, Turn};
use crate::store::{BoxFuture, Error};

/// A turn of which nothing is heard for so long is over; a page is looked at in far less.
const TURN_SECONDS: f64 = 300.0;

const TAKE_TURN: &str = "update file_clean_up set turn = $1, turn_until = clock_timestamp() + $2 * interval '1 second' \
     where (turn is null or turn = $1 or turn_until < clock_timestamp() \
         or turn_until > clock_timestamp() + $2 * interval '2 seconds') and (looked_at is not null \
         or all_looked_at is null or all_looked_at <= clock_timestamp() - $3 * interval '1 second' \
         or all_looked_at > clock_timestamp() + interval '1 minute') \
     returning looked_at, \
         (select extract(epoch from clock_timestamp() - least(greatest(made_at, 'epoch'), clock_timestamp()))::float8 from about)";
const LOOKED_AT: &str = "update file_clean_up set turn = case when $2::bytea is not null then turn end, looked_at = $2, \
         turn_until = clock_timestamp() + $3 * interval '1 second', \
         all_looked_at = case when $2::bytea is null then clock_timestamp() else all_looked_at end \
     where turn = $1";
const LOOK_AGAIN: &str = "update file_clean_up set all_looked_at = null";
const BEGIN: &str = "select begin_removal_1($1, $2)";
const BEGUN_LONG_AGO: &str = "update file_removals set begun_by = $1, begun_at = clock_timestamp() \
     where number is null and begun_at < clock_timestamp() - $2 * interval '1 second' returning sha256";
const END: &str = "select end_removal_1($1, $2, $3)";

fn bytes(files: &[FileHash]) -> Arc<Vec<Vec<u8>>> {
    Arc::new(files.iter().map(|file| file.to_vec()).collect())
}

fn hash(row: &Row) -> Result<Option<FileHash>, Error> {
    Ok(cell::<Option<&[u8]>>(row, 0)?.and_then(|hash| hash.try_into().ok()))
}

impl Member {
    fn incarnation(&self) -> Result<Uuid, Error> {
        self.held.lease().map(|lease| lease.incarnation).ok_or(Error::NotOwner)
    }
}

impl Removals for Member {
    fn take_turn(&self, every: Duration) -> BoxFuture<'_, Result<Option<Turn>, Error>> {
        Box::pin(async move {
            let (me, every) = (self.incarnation()?, every.as_secs_f64());
            let ask = self.link.ask("look for unneeded files in", move |reader| {
                Box::pin(async move {
                    let statement = reader.prepared(TAKE_TURN).await?;
                    reader.client().query_opt(&statement, &[&me, &TURN_SECONDS, &every]).await
                })
            });
            let turn = |row: Row| {
                let age = Duration::try_from_secs_f64(cell::<Option<f64>>(&row, 1)?.unwrap_or_default());
                Ok(Turn { after: hash(&row)?, store_age: age.unwrap_or_default() })
            };
            ask.await?.map(turn).transpose()
        })
    }

    fn looked_at(&self, up_to: Option<FileHash>) -> BoxFuture<'_, Result<bool, Error>> {
        Box::pin(async move {
            let me = self.incarnation()?;
            let ask = self.link.ask("look for unneeded files in", move |reader| {
                Box::pin(async move {
                    let statement = reader.prepared(LOOKED_AT).await?;
                    let up_to = up_to.as_ref().map(|file| file.as_slice());
                    reader.client().execute(&statement, &[&me, &up_to, &TURN_SECONDS]).await
                })
            });
            Ok(ask.await? == 1)
        })
    }

    fn look_again(&self) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(async move {
            let ask = self.link.ask("look for unneeded files in", move |reader| {
                Box::pin(async move {
                    let statement = reader.prepared(LOOK_AGAIN).await?;
                    reader.client().execute(&statement, &[]).await
                })
            });
            ask.await.map(drop)
        })
    }

    fn begin_removal(&self, among: &[FileHash]) -> BoxFuture<'_, Result<Vec<FileHash>, Error>> {
        let among = bytes(among);
        Box::pin(async move {
            let me = self.incarnation()?;
            let ask = self.link.ask("begin to remove files of", move |reader| {
                let among = among.clone();
                Box::pin(async move {
                    let statement = reader.prepared(BEGIN).await?;
                    reader.client().query(&statement, &[&me, &*among]).await
                })
            });
            ask.await?.iter().filter_map(|row| hash(row).transpose()).collect()
        })
    }

    fn begun_long_ago(&self) -> BoxFuture<'_, Result<Vec<FileHash>, Error>> {
        Box::pin(async move {
            let me = self.incarnation()?;
            let ask = self.link.ask("look for unneeded files in", move |reader| {
                Box::pin(async move {
                    let statement = reader.prepared(BEGUN_LONG_AGO).await?;
                    reader.client().query(&statement, &[&me, &BEGUN_FOR.as_secs_f64()]).await
                })
            });
            ask.await?.iter().filter_map(|row| hash(row).transpose()).collect()
        })
    }

    fn end_removal(&self, removed: &[FileHash], left: &[FileHash]) -> BoxFuture<'_, Result<(), Error>> {
        let (removed, left) = (bytes(removed), bytes(left));
        Box::pin(async move {
            let me = self.incarnation()?;
            let ask = self.link.ask("end removals of files in", move |reader| {
                let (removed, left) = (removed.clone(), left.clone());
                Box::pin(async move {
                    let statement = reader.prepared(END).await?;
                    reader.client().execute(&statement, &[&me, &*removed, &*left]).await
                })
            });
            ask.await.map(drop)
        })
    }
}
