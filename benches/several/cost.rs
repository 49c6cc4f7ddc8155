//! What a run and a follower take, for planning.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::nodes::{cluster, rate};
use crate::{Bench, alone};

pub fn cost(bench: &Bench) {
    let services = cluster(bench, 1);
    let noop = json!({"skill_id": "noop", "runtime_options": {"no_cache": true}});
    rate(&services, 4, 3, &noop);
    let number = |sql: &str| bench.server.sql(sql).parse::<f64>().unwrap();
    let wal = || number("select pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')");
    let commits = || number("select xact_commit from pg_stat_database where datname = 'postgres'");
    let (runs, each) = (bench.count(400, 80), 8);
    // Statistics of the server come late.
    std::thread::sleep(Duration::from_secs(3));
    let (idle_wal, idle_commits, began) = (wal(), commits(), Instant::now());
    std::thread::sleep(Duration::from_secs(6));
    let idle_for = began.elapsed().as_secs_f64();
    let (idle_wal, idle_commits) = ((wal() - idle_wal) / idle_for, (commits() - idle_commits) / idle_for);
    alone("WAL of a service without work", "kB/s", idle_wal / 1e3);
    alone("commits of a service without work, with reads", "/s", idle_commits);
    let (wal_before, commits_before) = (wal(), commits());
    let began = Instant::now();
    rate(&services, each, runs / each, &noop);
    let seconds = began.elapsed().as_secs_f64();
    std::thread::sleep(Duration::from_secs(3));
    let per_run = |all: f64, idle: f64| (all - idle * (seconds + 3.0)) / runs as f64;
    alone("WAL of a trivial run", "kB", per_run(wal() - wal_before, idle_wal) / 1e3);
    alone("commits of a trivial run, with reads", "", per_run(commits() - commits_before, idle_commits));
    alone(
        "connections of one service of several",
        "",
        number("select count(*) from pg_stat_activity where application_name like 'skill-runner%'"),
    );
    alone("runs a second meanwhile", "/s", runs as f64 / seconds);
    let schema = number("select count(*) from pg_namespace where nspname ~ '^t[0-9]+$'") as usize - 1;
    let size = |table: &str| number(&format!("select pg_total_relation_size('t{schema}.{table}')"));
    for table in ["runs", "index_rows", "run_files", "events", "raw_chunks"] {
        alone(&format!("table {table} after {} runs", runs + 12), "kB", size(table) / 1e3);
    }
    followers(bench, &services[0]);
}

/// Followers of one run that says nothing.
fn followers(bench: &Bench, service: &crate::service::Service) {
    let count = bench.count(500, 100);
    let mut client = service.client();
    let created = client.json("POST", "/v1/jobs", Some(&json!({"skill_id": "waits"})));
    let run = created["run_id"].as_str().unwrap().to_owned();
    let before = service.memory("VmRSS");
    let mut streams: Vec<TcpStream> = (0..count).map(|_| TcpStream::connect(&service.address).unwrap()).collect();
    for stream in &mut streams {
        let head = format!("GET /v1/jobs/{run}/events HTTP/1.1\r\nHost: {}\r\n\r\n", service.address);
        stream.write_all(head.as_bytes()).unwrap();
    }
    for stream in &mut streams {
        assert_ne!(stream.read(&mut [0; 16]).unwrap(), 0);
    }
    std::thread::sleep(Duration::from_secs(2));
    alone("memory of a follower that waits", "kB", (service.memory("VmRSS") - before) * 1e3 / count as f64);
    fs::write(service.data().join("runs").join(&run).join("go"), "").unwrap();
}
