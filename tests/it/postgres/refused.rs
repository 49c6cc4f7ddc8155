//! A start that cannot work is refused in words that say what to do, and changes nothing.

use std::fs;
use std::process::Command;
use std::time::Duration;

use skill_runner::domain::ids::Seq;
use skill_runner::store::{Error, EventStore, Postgres, PostgresStore, contract};

use super::{open, options, told};
use crate::support::postgres::{self, Proxy, Server, When, fresh};
use crate::support::tls::Keys;

fn refusal(url: &str) -> String {
    let options = Postgres { lock_patience: Duration::ZERO, ..Postgres::new(url) };
    match PostgresStore::open(&options, None, |_| {}) {
        Ok(_) => panic!("it opened"),
        Err(error) => told(&error),
    }
}

#[test]
fn a_server_that_is_away_a_wrong_password_and_a_wrong_database_are_named() {
    if !postgres::installed("refused starts on PostgreSQL are explained") {
        return;
    }
    let server = postgres::shared();
    let url = server.url(&fresh());
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let said = refusal(&server.url_at(nobody, "x"));
    assert!(said.contains(&format!("postgres.x on {nobody}")) && said.contains("Connection refused"), "{said}");
    let said = refusal(&url.replace("not-a-secret", "wrong"));
    assert!(said.contains("password authentication failed") && said.contains("in the URL"), "{said}");
    assert!(!said.contains("wrong@"), "{said}");
    let said = refusal(&url.replace("/postgres?", "/nothing?"));
    assert!(said.contains("database \"nothing\" does not exist; create it"), "{said}");
    let said = refusal("postgres://u@h/d?sslmode=never");
    assert!(said.contains("sslmode must be"), "{said}");
    server.sql("create database latin encoding 'LATIN1' template template0 locale 'C'");
    let said = refusal(&url.replace("/postgres?", "/latin?"));
    assert!(said.contains("encoding LATIN1, and UTF8 is needed"), "{said}");
    server.sql("create role weak login password 'weak'");
    let said = refusal(&url.replace("runner:not-a-secret", "weak:weak"));
    assert!(said.contains("permission denied") && said.contains("create schema"), "{said}");
}

#[test]
fn a_server_that_takes_a_connection_and_says_nothing_is_not_waited_for() {
    // It needs no database: the system takes connections for whoever listens.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let said = refusal(&format!("postgres://u:p@{}/d?sslmode=disable", silent.local_addr().unwrap()));
    assert!(said.contains("did not answer within 10 s"), "{said}");
}

#[test]
fn an_older_program_refuses_newer_tables_and_leaves_them_alone() {
    if !postgres::installed("newer tables of PostgreSQL are refused") {
        return;
    }
    let (server, schema) = (postgres::shared(), fresh());
    drop(open(server, &schema));
    server.sql(&format!("update {schema}.about set version = 7"));
    let said = refusal(&server.url(&schema));
    assert!(said.contains("need a program that knows version 7; this one knows them up to 6"), "{said}");
    assert_eq!(server.sql(&format!("select version from {schema}.about")), "7");
    let looked = PostgresStore::look(&options(server, &schema));
    assert!(told(&looked.unwrap_err()).contains("version 7"));
}

/// The program of the release before goes on with the tables of the next one: it sees `version` alone.
#[test]
fn tables_of_the_next_release_are_used_and_left_as_they_are() {
    if !postgres::installed("tables of the next release are used") {
        return;
    }
    let (server, schema) = (postgres::shared(), fresh());
    drop(open(server, &schema));
    let about = || server.sql(&format!("select version, tables from {schema}.about"));
    assert_eq!(about(), "2|6", "programs that know version 2 can use them");
    server.sql(&format!("update {schema}.about set tables = 9; alter table {schema}.runs add column unknown text"));
    let looked = PostgresStore::look(&options(server, &schema)).unwrap();
    assert!(looked.contains("its tables have version 9; this program knows 6, and can use them"), "{looked}");
    drop(open(server, &schema));
    assert_eq!(about(), "2|9");
}

#[test]
fn a_look_changes_nothing() {
    if !postgres::installed("a look at PostgreSQL changes nothing") {
        return;
    }
    let (server, schema) = (postgres::shared(), fresh());
    let looked = PostgresStore::look(&options(server, &schema)).unwrap();
    assert!(looked.contains("PostgreSQL 1") && looked.contains("do not exist yet"), "{looked}");
    assert_eq!(server.sql(&format!("select count(*) from pg_namespace where nspname = '{schema}'")), "0");
    drop(open(server, &schema));
    assert!(PostgresStore::look(&options(server, &schema)).unwrap().contains("its tables have version 6"));
}

#[tokio::test]
async fn a_second_process_on_the_same_tables_is_refused_until_the_first_has_ended() {
    if !postgres::installed("a second process on the same PostgreSQL tables is refused") {
        return;
    }
    let (server, schema) = (postgres::shared(), fresh());
    let first = open(server, &schema);
    let said = refusal(&server.url(&schema));
    assert!(said.contains("another skill-runner uses this store: postgres."), "{said}");
    first.append(contract::events(contract::run(1), Seq(0), 3)).await.unwrap();
    drop(first);
    let second = open(server, &schema);
    assert_eq!(contract::holds_whole_log(&second, contract::run(1)).await.unwrap(), Seq(3));
}

#[tokio::test]
async fn a_process_that_was_taken_over_can_write_nothing_more() {
    if !postgres::installed("a process that was taken over can write nothing to PostgreSQL") {
        return;
    }
    let (server, schema) = (postgres::shared(), fresh());
    let (fatal, failed) = std::sync::mpsc::channel();
    let proxy = Proxy::to(server.address(), |_| When::Pass);
    let old = PostgresStore::open(&Postgres::new(server.url_at(proxy.address, &schema)), None, move |error| {
        let _ = fatal.send(error.clone());
    });
    let old = old.unwrap();
    old.append(contract::events(contract::run(1), Seq(0), 2)).await.unwrap();
    // The network between it and the server is gone, and with its connection its lock: another process takes over and writes.
    proxy.refuse(true);
    let new = open(server, &schema);
    assert_eq!(new.append(contract::events(contract::run(1), Seq(2), 3)).await.unwrap(), Seq(5));
    let late = old.append(contract::events(contract::run(2), Seq(0), 1));
    proxy.refuse(false);
    let error = late.await.unwrap_err();
    assert!(matches!(error, Error::InUse { .. }), "{error:?}");
    assert!(matches!(failed.recv_timeout(crate::support::LONG).unwrap(), Error::InUse { .. }));
    let error = old.append(contract::events(contract::run(2), Seq(0), 1)).await.unwrap_err();
    assert!(matches!(error, Error::Closed), "{error:?}");
    drop(old);
    // The new one was not disturbed, and nothing of the old one was written.
    assert_eq!(new.append(contract::events(contract::run(1), Seq(5), 1)).await.unwrap(), Seq(6));
    assert_eq!(contract::holds_whole_log(&new, contract::run(1)).await.unwrap(), Seq(6));
    assert_eq!(new.head(&contract::run(2)).await.unwrap(), Seq::START);
}

#[test]
fn a_server_that_can_lose_what_it_acknowledged_is_refused() {
    if !postgres::installed("a PostgreSQL server without fsync is refused") {
        return;
    }
    for setting in ["fsync", "full_page_writes"] {
        let server = Server::start(&[&format!("{setting} = off")]);
        let said = refusal(&server.url("s"));
        assert!(said.contains("fsync or full_page_writes switched off"), "{said}");
        assert_eq!(server.sql("select count(*) from pg_namespace where nspname = 's'"), "0", "nothing was made");
        let looked = PostgresStore::look(&options(&server, "s")).unwrap_err();
        assert!(told(&looked).contains("switch them on"), "{looked}");
    }
}

#[test]
fn a_data_folder_and_its_database_belong_together() {
    if !postgres::installed("a data folder and its PostgreSQL database belong together") {
        return;
    }
    let server = postgres::shared();
    let (folder, other, schema) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), fresh());
    let open_on = |schema: &str, folder: &tempfile::TempDir| {
        PostgresStore::open(&options(server, schema), Some(folder.path()), |_| {})
            .map(drop)
            .map_err(|error| told(&error))
    };
    open_on(&schema, &folder).unwrap();
    open_on(&schema, &folder).unwrap();
    let said = open_on(&schema, &other).unwrap_err();
    assert!(said.contains("belongs to another data folder"), "{said}");
    // A folder with an embedded store is not taken, and neither is the other way round.
    let sled = tempfile::tempdir().unwrap();
    drop(skill_runner::store::SledStore::open(sled.path(), |_| {}).unwrap());
    let said = open_on(&fresh(), &sled).unwrap_err();
    assert!(said.contains("has a log of its own (sled 2)"), "{said}");
    let said = skill_runner::store::SledStore::open(folder.path(), |_| {}).map(drop).unwrap_err();
    assert!(told(&said).contains("postgres 1"), "{said}");
}

#[tokio::test]
async fn connections_are_encrypted_and_the_server_is_verified() {
    if !postgres::installed("connections to PostgreSQL are encrypted and the server is verified") {
        return;
    }
    let keys = Keys::new();
    let server = Server::start(&[]);
    server.end();
    let dir = server.dir().join("data");
    for (from, name, mode) in [(keys.key(), "key", "600"), (keys.certificate(), "cert", "644")] {
        fs::copy(from, dir.join(name)).unwrap();
        let owner = format!("--reference={}", dir.join("PG_VERSION").display());
        assert!(Command::new("chown").arg(&owner).arg(dir.join(name)).status().unwrap().success());
        assert!(Command::new("chmod").arg(mode).arg(dir.join(name)).status().unwrap().success());
    }
    let conf = dir.join("postgresql.conf");
    let text = fs::read_to_string(&conf).unwrap() + "ssl = on\nssl_cert_file = 'cert'\nssl_key_file = 'key'\n";
    fs::write(&conf, text).unwrap();
    // Nobody gets in without TLS.
    fs::write(dir.join("pg_hba.conf"), "hostssl all all all scram-sha-256\n").unwrap();
    server.run();
    let certificate = keys.certificate().display().to_string();
    let url =
        |host: &str, more: &str| server.url(&fresh()).replace("127.0.0.1", host) + &more.replace("CERT", &certificate);
    let verified = url("localhost", "&sslmode=verify-full&sslrootcert=CERT");
    let store = PostgresStore::open(&Postgres::new(verified), None, |error| panic!("{error:?}")).unwrap();
    store.append(contract::events(contract::run(1), Seq(0), 300)).await.unwrap();
    assert_eq!(contract::holds_whole_log(&store, contract::run(1)).await.unwrap(), Seq(300));
    drop(store);
    PostgresStore::open(&Postgres::new(url("127.0.0.1", "&sslmode=require")), None, |_| {}).map(drop).unwrap();
    // Another name than the certificate's, a certificate that nobody vouches for, and no TLS at all.
    let said = refusal(&url("127.0.0.1", "&sslmode=verify-full&sslrootcert=CERT"));
    assert!(said.contains("TLS") && said.contains("certificate"), "{said}");
    let said = refusal(&url("localhost", "&sslmode=verify-full"));
    assert!(said.contains("certificate"), "{said}");
    let said = refusal(&url("127.0.0.1", "&sslmode=disable"));
    assert!(said.contains("no pg_hba.conf entry"), "{said}");
}
