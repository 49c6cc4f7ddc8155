//! Whoever may connect to the database of several services can notify them, without a right to any table.

use serde_json::json;

use crate::crash::until;
use crate::several::Services;
use crate::support::postgres;

const WAITS: &str =
    "cat >/dev/null\nuntil [ -e go ]; do sleep 0.05; done\necho ready >&2\necho '{\"success\":true,\"data\":{}}'\n";

fn resident(pid: rustix::process::Pid) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", pid.as_raw_nonzero())).unwrap();
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.strip_suffix("kB")).unwrap();
    resident.trim().parse::<u64>().unwrap() * 1024
}

#[test]
fn what_is_notified_is_looked_up_and_never_believed() {
    if !postgres::installed("what is notified is looked up") {
        return;
    }
    let services = Services::new();
    services.skill("waits", WAITS, json!({}));
    let (works, reads) = (services.serve("a"), services.api("b"));
    let run = works.create("waits");
    until("the run is at work", || works.job(&run)["status"] == "running");
    let follow = || {
        let mut stream = reads.follow(&run);
        assert_eq!(stream.next_event().unwrap().event, "snapshot");
        stream
    };
    let mut first = follow();
    let channel = format!("{}_heads", services.schema);
    let simple = run.replace('-', "");
    for said in [
        format!("{simple}=18446744073709551615"),
        format!("{simple}=999999"),
        "nonsense".to_owned(),
        "* = ! ~ +".to_owned(),
        format!("!{simple}"),
        String::new(),
    ] {
        postgres::shared().sql(&format!("select pg_notify('{channel}', '{said}')"));
    }
    // One that comes later is told of the same heads.
    let second = follow();
    // Every event up to now comes; a head that is not there cut the stream.
    let head = works.job(&run)["head_seq"].as_u64().unwrap();
    while first.next_event().unwrap().id.is_none_or(|id| id < head) {}
    postgres::shared().sql(&format!("select pg_notify('{channel}', '{simple}=5000')"));
    std::fs::write(works.data.join("runs").join(&run).join("go"), "").unwrap();
    for stream in [first, second] {
        assert_eq!(stream.until_end().last().unwrap()["type"], "conversation.completed");
    }
}

#[test]
fn a_flood_of_notifications_takes_little_memory() {
    if !postgres::installed("a flood of notifications takes little memory") {
        return;
    }
    let services = Services::new();
    services.skill("waits", WAITS, json!({}));
    let service = services.serve("a");
    let run = service.create("waits");
    until("the run is at work", || service.job(&run)["status"] == "running");
    let stream = service.follow(&run);
    let before = resident(service.pid());
    let channel = format!("{}_heads", services.schema);
    let flood = format!(
        "do $$ begin for n in 1..40000 loop perform pg_notify('{channel}', repeat('x', 7900) || n); end loop; end $$"
    );
    postgres::shared().sql(&flood);
    // What comes behind them is heard, and until then they have to be somewhere.
    let mut most = 0;
    std::fs::write(service.data.join("runs").join(&run).join("go"), "").unwrap();
    until("the run has ended", || {
        most = most.max(resident(service.pid()));
        service.job(&run)["status"] == "succeeded"
    });
    assert_eq!(stream.until_end().last().unwrap()["type"], "conversation.completed");
    let more = most.saturating_sub(before);
    assert!(more < 64 << 20, "{more} bytes more");
}
