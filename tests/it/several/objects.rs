//! Several services that share files in an object store.

use serde_json::json;

use super::{Services, audited};
use crate::support::object_store::{self, BUCKET, KEY_ID, SECRET};
use crate::support::postgres;
use crate::support::program;
use crate::support::relay::Relay;
use crate::support::tls::Front;

/// Says that it began, and leaves time to take the object store away.
const SLOW: &str = "cat >/dev/null\necho '1% begun' >&2\nsleep 5\necho '{\"success\":true,\"data\":{}}'\n";
/// Prints its environment, and leaves a large artifact.
const TELLING: &str = "cat >/dev/null\nenv >&2\nmkdir -p artifacts\n\
    head -c 9000000 /dev/zero | tr '\\0' x >artifacts/large.txt\necho '{\"success\":true,\"data\":{\"n\":1}}'\n";

fn sharing(relay: &Relay) -> Services {
    let place = format!("s3://{BUCKET}/{}", object_store::fresh());
    let endpoint = format!("http://{}", relay.address);
    let pairs = [
        ("SKILL_RUNNER_BLOBS", place.as_str()),
        ("SKILL_RUNNER_S3_ENDPOINT", &endpoint),
        ("AWS_ACCESS_KEY_ID", KEY_ID),
        ("AWS_SECRET_ACCESS_KEY", SECRET),
    ];
    let mut services = Services::new();
    for (name, value) in pairs {
        services.set("", name, value);
    }
    services.skill("telling", TELLING, json!({}));
    services
}

#[test]
fn a_run_of_a_service_whose_disk_is_gone_is_served_from_the_object_store() {
    let test = "a run is served from the object store";
    if !postgres::installed(test) {
        return;
    }
    let Some(store) = object_store::shared(test) else { return };
    let relay = Relay::plain(store.address);
    let services = sharing(&relay);
    let mut one = services.serve("one");
    let run = one.create("telling");
    let events = one.finish(&run);
    assert_eq!(events.last().unwrap()["data"]["status"], "succeeded", "{events:?}");
    let logs = |service: &super::Service| {
        let range = service.get(&format!("/v1/jobs/{run}/logs/range?stream=stderr&byte_from=0&byte_to=1000000"));
        assert_eq!(range.status, 200, "{}", range.text());
        range.json()["content"].as_str().unwrap().to_owned()
    };
    // The keys are for the service alone.
    let told = logs(&one);
    assert!(told.contains("PATH=") && !told.contains(KEY_ID) && !told.contains(SECRET), "{told}");
    let doctor = services.command("one", &["doctor", "--json"]).output().unwrap();
    let config = services.command("one", &["config"]).output().unwrap();
    let said =
        [&doctor.stdout[..], &doctor.stderr, &config.stdout, &config.stderr].map(String::from_utf8_lossy).concat();
    let expected = format!("at http://{} can be written and read", relay.address);
    assert!(said.contains(&expected) && !said.contains(KEY_ID) && !said.contains(SECRET), "{said}");
    one.kill_9();
    std::fs::remove_dir_all(&one.data).unwrap();
    let two = services.api("two");
    assert_eq!(logs(&two), told);
    let artifact = two.get(&format!("/v1/jobs/{run}/artifacts/artifacts/large.txt"));
    assert_eq!((artifact.status, artifact.body.len()), (200, 9_000_000));
    audited(&two, &[run]);
}

#[test]
fn a_run_ends_when_an_object_store_that_was_away_is_back() {
    let test = "a run waits for the object store";
    if !postgres::installed(test) {
        return;
    }
    let Some(store) = object_store::shared(test) else { return };
    let relay = Relay::plain(store.address);
    let services = sharing(&relay);
    services.skill("waits", SLOW, json!({}));
    let one = services.serve("one");
    let run = one.create("waits");
    one.follow(&run).until_chat(|event| event["type"] == "run.progress");
    relay.away(true);
    let cuts = || relay.cuts.load(std::sync::atomic::Ordering::SeqCst);
    crate::crash::until("the service misses the object store", || cuts() > 0 || relay.refused() > 2);
    relay.away(false);
    let events = one.finish(&run);
    assert_eq!(events.last().unwrap()["data"]["status"], "succeeded", "{events:?}");
    audited(&one, &[run]);
}

#[test]
fn an_object_store_is_reached_over_tls_and_known_by_its_certificate() {
    let Some(store) = object_store::shared("an object store is reached over TLS") else { return };
    let front = Front::of(store.address);
    let here = tempfile::tempdir().unwrap();
    let doctor = |trusted: bool| {
        let mut doctor = program();
        doctor.args(["doctor", "--json"]).current_dir(here.path()).env("AWS_ENDPOINT_URL", front.url());
        doctor.env("SKILL_RUNNER_BLOBS", format!("s3://{BUCKET}/{}", object_store::fresh()));
        doctor.env("AWS_ACCESS_KEY_ID", KEY_ID).env("AWS_SECRET_ACCESS_KEY", SECRET);
        if trusted {
            doctor.env("SSL_CERT_FILE", front.keys.certificate());
        }
        String::from_utf8(doctor.output().unwrap().stdout).unwrap()
    };
    let said = doctor(true);
    assert!(said.contains(&format!("at {} can be written and read", front.url())), "{said}");
    let said = doctor(false);
    assert!(!said.contains("can be written and read"), "{said}");
    assert!(said.contains("the shared files cannot be reached") && said.contains("certificate"), "{said}");
}
