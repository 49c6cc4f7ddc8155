//! The tables: made and brought up to date by whoever opens the store first, and never used by an older program.

use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Error as ServerError, Transaction};
use uuid::Uuid;

use super::failure;
use super::filter::QueuePlace;
use super::place::Place;
use crate::domain::fair_queue::ShareRule;
use crate::store::standing::Standing;

/// Every version, oldest first. A change of the tables is another file here.
const VERSIONS: &[&str] = &[include_str!("schema_1.sql"), include_str!("schema_2.sql"), include_str!("schema_3.sql")];

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
    if looked.get::<_, i32>(0) < OLDEST_SERVER {
        let version: &str = looked.get(4);
        return Err(Unfit::Reason(format!("the server has version {version}; at least 13 is needed")));
    }
    let encoding: &str = looked.get(1);
    if encoding != "UTF8" {
        return Err(Unfit::Reason(format!(
            "the database has the encoding {encoding}, and UTF8 is needed: create another one, for example with \
             createdb -E UTF8 -T template0"
        )));
    }
    if looked.get::<_, &str>(2) == "off" || looked.get::<_, &str>(3) == "off" {
        return Err(Unfit::Reason(
            "the server has fsync or full_page_writes switched off, so that a crash can lose acknowledged events: \
             switch them on"
                .to_owned(),
        ));
    }
    Ok(format!("PostgreSQL {}", looked.get::<_, &str>(4)))
}

/// What the tables are, without changing anything.
pub(super) async fn look_at_tables(client: &Client, schema: &str) -> Result<String, Unfit> {
    let there = client.query_one("select to_regclass($1) is not null", &[&format!("{schema}.about")]).await?;
    if !there.get::<_, bool>(0) {
        return Ok("its tables do not exist yet; the first start creates them".to_owned());
    }
    let found: i32 = client.query_one("select version from about", &[]).await?.get(0);
    match known() {
        known if found > known => Err(newer(found)),
        known if found < known => Ok(format!("its tables have version {found}; the next start brings them to {known}")),
        _ => Ok(format!("its tables have version {found}")),
    }
}

fn known() -> i32 {
    i32::try_from(VERSIONS.len()).unwrap_or(i32::MAX)
}

fn newer(found: i32) -> Unfit {
    Unfit::Reason(format!(
        "its tables have version {found}, and this program knows them up to {}: use the newer skill-runner that made them",
        known()
    ))
}

/// Looks at the server, and makes the tables or brings them up to date, in one transaction and one process at a time.
pub(super) async fn prepare(client: &mut Client, place: &Place, share: &ShareRule) -> Result<(), Unfit> {
    look(client).await?;
    migrate(client, &place.schema, share).await
}

async fn migrate(client: &mut Client, schema: &str, share: &ShareRule) -> Result<(), Unfit> {
    let transaction = client.transaction().await?;
    transaction.execute("select pg_advisory_xact_lock($1, hashtext($2))", &[&LOCK, &schema]).await?;
    let there: bool = transaction.query_one("select to_regnamespace($1) is not null", &[&schema]).await?.get(0);
    if !there {
        transaction.batch_execute(&format!("create schema {schema}")).await?;
    }
    let of = format!("{schema}.about");
    let there: bool = transaction.query_one("select to_regclass($1) is not null", &[&of]).await?.get(0);
    let found: i32 = if there {
        transaction.query_one("select version from about", &[]).await?.get(0)
    } else {
        transaction
            .batch_execute("create table about (version integer not null, folder uuid, made_at timestamptz default now()); insert into about (version) values (0)")
            .await?;
        0
    };
    if found > known() {
        return Err(newer(found));
    }
    for (done, version) in VERSIONS.iter().enumerate().skip(usize::try_from(found).unwrap_or(0)) {
        transaction.batch_execute(version).await?;
        let now = i32::try_from(done + 1).unwrap_or(i32::MAX);
        transaction.execute("update about set version = $1", &[&now]).await?;
    }
    if found == 1 {
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
        let at = QueuePlace::of(Standing::of_any(row.get(1), share));
        let values: [&(dyn ToSql + Sync); 7] =
            [&row.get::<_, Uuid>(0), &at.waits, &at.not_before, &at.due_at, &at.priority, &at.share, &at.shared_key];
        transaction.execute(&place, &values).await?;
    }
    Ok(())
}

/// Ties the database to the data folder that has its runs' files: the first one stays. Returns the one that it belongs to.
pub(super) async fn claim_for(client: &Client, folder: Uuid) -> Result<Option<Uuid>, ServerError> {
    client.execute("update about set folder = $1 where folder is null", &[&folder]).await?;
    let row = client.query_one("select folder from about", &[]).await?;
    Ok(row.get(0))
}

/// The same for a database that holds nothing; one that is this folder's already is emptied.
pub(super) async fn claim_empty(client: &mut Client, folder: Uuid) -> Result<Option<Uuid>, ServerError> {
    let transaction = client.transaction().await?;
    let claim = "update about set folder = $1 where folder is null and not exists (select from runs)";
    transaction.execute(claim, &[&folder]).await?;
    let found: Option<Uuid> = transaction.query_one("select folder from about", &[]).await?.get(0);
    if found == Some(folder) {
        let tables = "runs, events, index_rows, raw_chunks, run_files, controls, nodes, records, record_kinds, record_files, \
             record_changes";
        transaction.batch_execute(&format!("truncate {tables}")).await?;
    }
    transaction.commit().await?;
    Ok(found)
}
