//! The services of `deploy/docker/several.yaml`, started as the file says with the real PostgreSQL and HAProxy, each in namespaces of its own:
//! its root, user, folders, network and name are those that Docker would give it (`containers.py`). Images are not built or pulled.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use serde_json::{Value, json};

use crate::support::client::{Call, Sse};
use crate::support::zips::zip_folder;
use crate::support::{left_out, of_type, postgres, script_skill, tools};

const TOKEN: &str = "a-token-of-32-characters-or-more";
/// The usual one.
const LEASE: Duration = Duration::from_secs(15);
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// What the entry point of the image of PostgreSQL does.
const DATABASE: &str = r#"
set -e; export PGDATA=/var/lib/postgresql/data
if [ ! -s $PGDATA/PG_VERSION ]; then
  echo "$POSTGRES_PASSWORD" >/tmp/password
  initdb --username="$POSTGRES_USER" --pwfile=/tmp/password $POSTGRES_INITDB_ARGS --auth-local=trust --auth-host=scram-sha-256
  echo "host all all all scram-sha-256" >>$PGDATA/pg_hba.conf
  pg_ctl -s -w -o "-c listen_addresses='' -k /tmp" start
  createdb -h /tmp --username "$POSTGRES_USER" "$POSTGRES_USER"
  pg_ctl -s -w -m fast stop
fi
exec postgres -c listen_addresses='*' -k /var/run/postgresql
"#;

fn project(path: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// `${NAME:-otherwise}` and `${NAME:?why}`, as compose reads them.
fn with_variables(text: &str, variables: &BTreeMap<&str, &str>) -> String {
    let mut parts = text.split("${");
    let mut made = parts.next().unwrap().to_owned();
    for part in parts {
        let (name, rest) = part.split_once('}').unwrap();
        let (name, otherwise) = name.split_once(':').unwrap_or((name, "-"));
        match variables.get(name) {
            Some(value) => made.push_str(value),
            None => made.push_str(otherwise.strip_prefix('-').unwrap_or_else(|| panic!("{name} is not set"))),
        }
        made.push_str(rest);
    }
    made
}

/// The words of an instruction of the Dockerfile that are a list.
fn instruction(name: &str) -> Vec<String> {
    let text = std::fs::read_to_string(project("Dockerfile")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    serde_json::from_str(line).unwrap()
}

/// The variables that the image sets.
fn variables_of_the_image() -> Value {
    let text = std::fs::read_to_string(project("Dockerfile")).unwrap();
    let set = text.split("\nENV ").nth(1).unwrap().split("\nVOLUME").next().unwrap();
    let pairs = set.split_whitespace().filter(|word| *word != "\\").map(|word| word.split_once('=').unwrap());
    pairs.map(|(name, value)| (name.to_owned(), json!(value))).collect::<serde_json::Map<_, _>>().into()
}

/// What the file says of each service, with what its image has; with the object store, if its program is given.
fn services(objects: Option<&Path>) -> Value {
    let text = std::fs::read_to_string(project("deploy/docker/several.yaml")).unwrap();
    let mut variables = BTreeMap::from([("SKILL_RUNNER_TOKEN", TOKEN), ("POSTGRES_PASSWORD", "not-a-secret")]);
    if objects.is_some() {
        // As the file itself says.
        variables.extend([
            ("SKILL_RUNNER_BLOBS", "s3://skill-runner/shared"),
            ("AWS_ACCESS_KEY_ID", "id-of-the-test-key"),
            ("AWS_SECRET_ACCESS_KEY", "secret-of-the-test-key"),
        ]);
    }
    let mut file: serde_norway::Value = serde_norway::from_str(&with_variables(&text, &variables)).unwrap();
    file.apply_merge().unwrap();
    let file: Value = serde_json::to_value(file).unwrap();
    let mut services = serde_json::Map::new();
    for (name, said) in file["services"].as_object().unwrap() {
        // Not started, unless its profile is asked for.
        if said.get("profiles").is_none() || objects.is_some() {
            services.insert(name.clone(), container(said, &file["configs"], objects));
        }
    }
    services.into()
}

fn container(said: &Value, configs: &Value, objects: Option<&Path>) -> Value {
    let list = |key: &str| said.get(key).cloned().unwrap_or(json!([]));
    let image = said["image"].as_str().unwrap();
    let command = list("command");
    let mut made = json!({
        "volumes": list("volumes"), "ports": list("ports"), "tmpfs": list("tmpfs"), "cap_drop": list("cap_drop"), "security_opt": list("security_opt"),
        "read_only": said["read_only"] == true, "workdir": "/", "image_files": {}, "image_folders": [], "configs": {},
        "environment": {"PATH": PATH}, "healthcheck": null, "depends_on": {}, "command": command,
        "stop_grace_seconds": said["stop_grace_period"].as_str().map_or(10, |text| text.trim_end_matches('s').parse().unwrap()),
    });
    match image.split(':').next().unwrap() {
        "skill-runner" => {
            made["image_files"] = json!({"/usr/local/bin/skill-runner": env!("CARGO_BIN_EXE_skill-runner")});
            made["image_folders"] = json!(["/data", "/backups", "/shared", "/skills", "/configs"]);
            (made["user"], made["group"], made["workdir"]) = (json!("10001"), json!("10001"), json!("/data"));
            let words = match command.as_array().unwrap().is_empty() {
                true => instruction("CMD "),
                false => serde_json::from_value(command).unwrap(),
            };
            made["command"] = json!([instruction("ENTRYPOINT "), words].concat());
            let own = variables_of_the_image();
            made["environment"].as_object_mut().unwrap().extend(own.as_object().unwrap().clone());
            made["healthcheck"] = json!(["CMD", "curl", "--fail", "--silent", "http://127.0.0.1:8000/healthz"]);
        }
        "postgres" => {
            let path = format!("{}:{PATH}", postgres::programs().unwrap().display());
            made["environment"] = json!({"PATH": path, "LC_ALL": "C"});
            (made["user"], made["group"]) = (json!("postgres"), json!("postgres"));
            made["image_folders"] = json!(["/var/run/postgresql"]);
            made["command"] = json!(["sh", "-c", DATABASE]);
        }
        "haproxy" => {
            (made["user"], made["group"]) = (json!("haproxy"), json!("haproxy"));
            made["command"] = json!(["haproxy", "-W", "-db", "-f", "/usr/local/etc/haproxy/haproxy.cfg"]);
        }
        "chrislusf/seaweedfs" => {
            (made["user"], made["group"]) = (json!("root"), json!("root"));
            made["image_files"] = json!({"/usr/local/bin/weed": objects.unwrap()});
            let words: Vec<String> = serde_json::from_value(command).unwrap();
            made["command"] = json!([vec!["weed".to_owned()], words].concat());
        }
        other => panic!("the image {other} is not known here"),
    }
    let own = said["environment"].as_object().cloned().unwrap_or_default();
    made["environment"].as_object_mut().unwrap().extend(own);
    for config in said["configs"].as_array().into_iter().flatten() {
        let text = &configs[config["source"].as_str().unwrap()]["content"];
        made["configs"][config["target"].as_str().unwrap()] = text.clone();
    }
    match &said["depends_on"] {
        Value::Array(names) => names.iter().for_each(|name| made["depends_on"][name.as_str().unwrap()] = json!(false)),
        Value::Object(names) => names.iter().for_each(|(name, when)| {
            made["depends_on"][name] = json!(when["condition"] == "service_healthy");
        }),
        _ => {}
    }
    if let Some(check) = said.get("healthcheck") {
        made["healthcheck"] = check.get("test").cloned().unwrap_or(Value::Null);
    }
    made
}

/// The containers of a file, and this thread in the network of their machine.
struct Machine {
    host: Child,
    answers: BufReader<std::process::ChildStdout>,
    _place: tempfile::TempDir,
}

impl Machine {
    fn start(services: &Value) -> Self {
        let place = tempfile::tempdir().unwrap();
        let spec = place.path().join("services.json");
        std::fs::write(&spec, json!({"services": services}).to_string()).unwrap();
        let mut host = Command::new("setpriv");
        host.args([
            "--pdeathsig",
            "KILL",
            "unshare",
            "--mount",
            "--net",
            "--pid",
            "--fork",
            "--kill-child",
            "--mount-proc",
            "python3",
        ]);
        host.arg(project("tests/it/several/containers.py")).arg(spec).arg(place.path());
        let mut host = host.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let answers = BufReader::new(host.stdout.take().unwrap());
        let mut machine = Self { host, answers, _place: place };
        machine.order("up");
        let children = format!("/proc/{0}/task/{0}/children", machine.host.id());
        let inside = std::fs::read_to_string(children).unwrap();
        let network = File::open(format!("/proc/{}/ns/net", inside.trim())).unwrap();
        move_into_link_name_space(network.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
        machine
    }

    #[track_caller]
    fn order(&mut self, order: &str) -> Value {
        writeln!(self.host.stdin.as_mut().unwrap(), "{order}").unwrap();
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        let answer: Value = serde_json::from_str(&line).unwrap_or_default();
        assert!(answer.get("done").is_some(), "{order}: {answer:#}");
        answer["done"].clone()
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = self.host.kill();
        let _ = self.host.wait();
    }
}

/// The port that the file publishes.
fn balancer() -> SocketAddr {
    ([127, 0, 0, 1], 8000).into()
}

fn call(method: &str, path: &str) -> Call {
    let bearer = format!("Bearer {TOKEN}");
    Call::new(balancer(), method, path).header("authorization", &bearer)
}

/// Its events through the load balancer, from whichever service that chooses.
fn follow(run: &str, after: u64) -> Sse {
    let bearer = format!("Bearer {TOKEN}");
    let path = format!("/v1/jobs/{run}/events?cursor={after}");
    let following = Sse::open(balancer(), &path, &[("authorization", &bearer)]);
    assert_eq!(following.status, 200, "whoever is gone is passed over");
    following
}

fn create(skill: &str) -> String {
    let body = json!({"skill_id": skill, "runtime_options": {"no_cache": true}});
    let created = call("POST", "/v1/jobs").json(&body).send();
    assert_eq!(created.status, 201, "{}", created.text());
    created.json()["run_id"].as_str().unwrap().to_owned()
}

fn install(id: &str, sh: &str) {
    let place = tempfile::tempdir().unwrap();
    script_skill(place.path(), id, sh, json!({}));
    let zip = zip_folder(&place.path().join(id));
    let sent = call("POST", "/v1/skill-packages/install").parts(&[("file", &zip)]).send();
    assert_eq!(sent.status, 202, "{}", sent.text());
    let path = format!("/v1/skill-packages/{}", sent.json()["request_id"].as_str().unwrap());
    crate::crash::until("it is installed", || call("GET", &path).send().json()["status"] == "succeeded");
}

fn status(events: &[Value]) -> &Value {
    &events.last().unwrap()["data"]["status"]
}

/// The service that works on a run.
fn owner() -> String {
    let nodes = call("GET", "/v1/management/nodes").send().json();
    let busy = |node: &&Value| node["leases"].as_u64().is_some_and(|runs| runs > 0);
    nodes["nodes"].as_array().unwrap().iter().find(busy).unwrap()["name"].as_str().unwrap().to_owned()
}

/// Whether this machine can give the services their namespaces.
fn can_be_started(test: &str) -> bool {
    if !postgres::installed(test) {
        return false;
    }
    let is_root = rustix::process::getuid().is_root();
    let has = |program: &str| Command::new(program).arg("-h").output().is_ok();
    if is_root && ["haproxy", "ip", "unshare", "python3", "curl"].into_iter().all(has) {
        return true;
    }
    let needs = "no root, or haproxy, iproute2, python3 or curl is missing (Debian: haproxy iproute2)";
    assert!(std::env::var_os("POSTGRES_TEST_REQUIRED").is_none() || !is_root, "{test} cannot run: {needs}");
    left_out::tell(needs, test);
    false
}

#[test]
fn the_services_of_the_compose_file_work_as_one_behind_its_load_balancer() {
    if can_be_started("the services of the compose file work as one") {
        // Threads keep their network, so this one is not used for anything else.
        std::thread::spawn(|| whole(None)).join().unwrap();
    }
}

#[test]
fn the_services_of_the_compose_file_share_files_in_its_object_store() {
    let test = "the services of the compose file share files in its object store";
    if can_be_started(test)
        && let Some(program) = tools::object_store(test)
    {
        std::thread::spawn(move || whole(Some(&program))).join().unwrap();
    }
}

fn whole(objects: Option<&Path>) {
    let mut machine = Machine::start(&services(objects));
    crate::crash::until("the load balancer lets somebody in", || call("GET", "/readyz").send().status == 200);
    install("quick", "cat >/dev/null\necho '{\"success\":true,\"data\":{\"n\":1}}'\n");
    install("endless", "cat >/dev/null\necho '1% begun' >&2\nsleep 600\n");
    let runs: Vec<String> = (0..6).map(|_| create("quick")).collect();
    for run in &runs {
        assert_eq!(status(&follow(run, 0).until_end()), "succeeded");
    }
    // Whoever works on a run is killed, and the run is followed on through the load balancer.
    let run = create("endless");
    let mut seen = Vec::new();
    let mut first = follow(&run, 0);
    while seen.last().is_none_or(|event: &Value| event["type"] != "run.progress") {
        seen.extend(first.next_chat());
    }
    drop(first);
    let gone = owner();
    machine.order(&format!("kill {gone}"));
    let killed = Instant::now();
    while seen.last().is_none_or(|event| event["type"] != "conversation.failed") {
        let after = seen.last().unwrap()["seq"].as_u64().unwrap();
        let mut following = follow(&run, after);
        while let Ok(Some(event)) = following.try_next_event() {
            if event.event == "chat_event" {
                seen.push(serde_json::from_str(&event.data).unwrap());
            }
        }
    }
    assert!(killed.elapsed() < LEASE + Duration::from_secs(5), "{:?}", killed.elapsed());
    assert_eq!(seen.last().unwrap()["data"]["error"]["code"], "ORCHESTRATOR_RESTART_INTERRUPTED", "{seen:?}");
    assert_eq!(of_type(&seen, "run.recovered").len(), 1, "{seen:?}");
    let seqs: Vec<u64> = seen.iter().map(|event| event["seq"].as_u64().unwrap()).collect();
    assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>(), "followed without a gap");
    // The others go on, and the one that is started again works with them.
    assert_eq!(status(&follow(&create("quick"), 0).until_end()), "succeeded");
    machine.order(&format!("start {gone}"));
    assert_eq!(status(&follow(&create("quick"), 0).until_end()), "succeeded");
    for run in runs.iter().chain([&run]) {
        let audit = call("GET", &format!("/v1/jobs/{run}/audit")).send();
        assert_eq!((audit.status, &audit.json()["ok"]), (200, &json!(true)), "{}", audit.text());
    }
    // In good order, within the time that the file gives.
    assert_eq!(machine.order("stop one"), 0);
    assert_eq!(call("GET", "/v1/jobs").send().status, 200, "the other one answers at once");
}
