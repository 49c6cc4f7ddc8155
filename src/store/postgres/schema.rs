//! The tables: made and brought up to date by whoever opens the store first.
//!
//! Changes only add, so that a program of the release before goes on with tables of the next one. `about` has two numbers: `tables`
//! is the version of the tables, and `version` the oldest version that a program must know to use them. Programs that know of
//! no `tables` look at `version` alone, and are refused or not by the same rule.

use std::cmp::Ordering;

use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Error as ServerError, Row, Transaction};
use uuid::Uuid;

use super::failure;
use super::filter::QueuePlace;
use super::place::Place;
use crate::domain::fair_queue::ShareRule;
use crate::store::standing::Standing;

/// A version of the tables.
struct Version {
    /// What makes it of the one before.
    sql: &'static str,
    /// Programs that know the tables up to this version can use them.
    oldest: i32,
}

/// Every version, oldest first. A change of the tables is another file here.
const VERSIONS: &[Version] = &[
    Version { sql: include_str!("schema_1.sql"), oldest: 1 },
    Version { sql: include_str!("schema_2.sql"), oldest: 2 },
    Version { sql: include_str!("schema_3.sql"), oldest: 2 },
    Version { sql: include_str!("schema_4.sql"), oldest: 2 },
    Version { sql: include_str!("schema_5.sql"), oldest: 2 },
    Version { sql: include_str!("schema_6.sql"), oldest: 2 },
];

/// How long a start waits for services that use the tables while it changes them.
const CHANGE_TIMEOUT: &str = "set local lock_timeout = '10s'";

/// The oldest server that has what the tables use.
const OLDEST_SERVER: i32 = 130_000;

/// Holds back others who open the same store while one makes the tables; any number that nobody else uses.
const LOCK: i32 = 0x736b_696c;

/// Why the tables cannot be used.
pub(super) enum Unfit {
    Server(ServerError),
    /// For whoever chose the database.
    Reason(String),
}

impl From<ServerError> for Unfit {
    fn from(error: ServerError) -> Unfit {
        Unfit::Server(error)
    }
}

impl Unfit {
    pub(super) fn reason(&self) -> String {
        match self {
            Unfit::Server(error) => failure::refused(error),
            Unfit::Reason(reason) => reason.clone(),
        }
    }
}

/// Looks whether the server fits, and says what it is.
pub(super) async fn look(client: &Client) -> Result<String, Unfit> {
    let looked = client
        .query_one(
            "select current_setting('server_version_num')::int, current_setting('server_encoding'), \
             current_setting('fsync'), current_setting('full_page_writes'), current_setting('server_version')",
            &[],
        )
        .await?;
    if looked.try_get::<_, i32>(0)? < OLDEST_SERVER {
        let version: &str = looked.try_get(4)?;
        return Err(Unfit::Reason(format!("the server has version {version}; at least 13 is needed")));
    }
    let encoding: &str = looked.try_get(1)?;
    if encoding != "UTF8" {
        return Err(Unfit::Reason(format!(
            "the database has the encoding {encoding}, and UTF8 is needed: create another one, for example with \
             createdb -E UTF8 -T template0"
        )));
    }
    if looked.try_get::<_, &str>(2)? == "off" || looked.try_get::<_, &str>(3)? == "off" {
        return Err(Unfit::Reason(
            "the server has fsync or full_page_writes switched off, so that a crash can lose acknowledged events: \
             switch them on"
                .to_owned(),
        ));
    }
    Ok(format!("PostgreSQL {}", looked.try_get::<_, &str>(4)?))
}

/// What the tables are, without changing anything.
pub(super) async fn look_at_tables(client: &Client, schema: &str) -> Result<String, Unfit> {
    let there = client.query_one("select to_regclass($1) is not null", &[&format!("{schema}.about")]).await?;
    if !there.try_get::<_, bool>(0)? {
        return Ok("its tables do not exist yet; the first start creates them".to_owned());
    }
    let found = Found::read(&client.query_one(FOUND, &[]).await?)?;
    found.fits()?;
    let (tables, known) = (found.tables, known());
    Ok(match tables.cmp(&known) {
        Ordering::Greater => format!("its tables have version {tables}; this program knows {known}, and can use them"),
        Ordering::Less => format!("its tables have version {tables}; the next start brings them to {known}"),
        Ordering::Equal => format!("its tables have version {tables}"),
    })
}

/// What the tables say of themselves. A column that is not there yet is null.
const FOUND: &str = "select version, (to_jsonb(about) ->> 'tables')::int from about";

struct Found {
    tables: i32,
    oldest: i32,
}

impl Found {
    fn read(row: &Row) -> Result<Found, ServerError> {
        let oldest = row.try_get(0)?;
        Ok(Found { tables: row.try_get::<_, Option<i32>>(1)?.unwrap_or(oldest), oldest })
    }

    /// Whether this program can use them.
    fn fits(&self) -> Result<(), Unfit> {
        if self.oldest <= known() {
            return Ok(());
        }
        let (tables, oldest, known) = (self.tables, self.oldest, known());
        Err(Unfit::Reason(format!(
            "its tables have version {tables} and need a program that knows version {oldest}; this one knows them up to \
             {known}: use the newer skill-runner that made them"
        )))
    }
}

fn known() -> i32 {
    i32::try_from(VERSIONS.len()).unwrap_or(i32::MAX)
}

/// Looks at the server, and makes the tables or brings them up to date, in one transaction and one process at a time.
pub(super) async fn prepare(client: &mut Client, place: &Place, share: &ShareRule) -> Result<(), Unfit> {
    look(client).await?;
    migrate(client, &place.schema, share).await
}

async fn migrate(client: &mut Client, schema: &str, share: &ShareRule) -> Result<(), Unfit> {
    let transaction = client.transaction().await?;
    transaction.execute("select pg_advisory_xact_lock($1, hashtext($2))", &[&LOCK, &schema]).await?;
    let there: bool = transaction.query_one("select to_regnamespace($1) is not null", &[&schema]).await?.try_get(0)?;
    if !there {
        transaction.batch_execute(&format!("create schema {schema}")).await?;
    }
    let of = format!("{schema}.about");
    let there: bool = transaction.query_one("select to_regclass($1) is not null", &[&of]).await?.try_get(0)?;
    let found = if there {
        Found::read(&transaction.query_one(FOUND, &[]).await?)?
    } else {
        transaction
            .batch_execute("create table about (version integer not null, folder uuid, made_at timestamptz default now()); insert into about (version) values (0)")
            .await?;
        Found { tables: 0, oldest: 0 }
    };
    found.fits()?;
    let missing = VERSIONS.get(usize::try_from(found.tables).unwrap_or(0)..).unwrap_or_default();
    if let Some(last) = missing.last() {
        transaction.batch_execute(CHANGE_TIMEOUT).await?;
        for version in missing {
            transaction.batch_execute(version.sql).await?;
        }
        transaction.execute("update about set version = $1, tables = $2", &[&last.oldest, &known()]).await?;
    }
    if found.tables == 1 {
        place_in_queue(&transaction, share).await?;
    }
    Ok(transaction.commit().await?)
}

/// Runs of tables without a queue get their places in it, in the order in which they were created.
async fn place_in_queue(transaction: &Transaction<'_>, share: &ShareRule) -> Result<(), ServerError> {
    let open =
        "select run, state from runs where status in ('queued', 'waiting_user', 'running') and state is not null";
    let place = transaction
        .prepare(
            "update runs set waits = $2, not_before = $3, due_at = $4, priority = $5, share = $6, shared_key = $7, \
             came = greatest(created_at, $3, 0), came_after = 0 where run = $1",
        )
        .await?;
    for row in transaction.query(open, &[]).await? {
        let at = QueuePlace::of(Standing::of_any(row.try_get(1)?, share));
        let values: [&(dyn ToSql + Sync); 7] = [
            &row.try_get::<_, Uuid>(0)?,
            &at.waits,
            &at.not_before,
            &at.due_at,
            &at.priority,
            &at.share,
            &at.shared_key,
        ];
        transaction.execute(&place, &values).await?;
    }
    Ok(())
}

/// Ties the database to the data folder that has its runs' files: the first one stays. Returns the one that it belongs to.
pub(super) async fn claim_for(client: &Client, folder: Uuid) -> Result<Option<Uuid>, ServerError> {
    client.execute("update about set folder = $1 where folder is null", &[&folder]).await?;
    let row = client.query_one("select folder from about", &[]).await?;
    row.try_get(0)
}

/// The same for a database that holds nothing; one that is this folder's already is emptied.
pub(super) async fn claim_empty(client: &mut Client, folder: Uuid) -> Result<Option<Uuid>, ServerError> {
    let transaction = client.transaction().await?;
    let claim = "update about set folder = $1 where folder is null and not exists (select from runs)";
    transaction.execute(claim, &[&folder]).await?;
    let found: Option<Uuid> = transaction.query_one("select folder from about", &[]).await?.try_get(0)?;
    if found == Some(folder) {
        let tables = "runs, events, index_rows, raw_chunks, run_files, controls, nodes, records, record_kinds, record_files, \
             record_changes, file_removals";
        transaction.batch_execute(&format!("truncate {tables}")).await?;
    }
    transaction.commit().await?;
    Ok(found)
}
