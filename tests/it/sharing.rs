//! The queue as clients meet it: priorities, shares, limits of engines and skills, overload, and a restart.

use serde_json::{Value, json};

use crate::support::skill::{GATED, HELLO};
use crate::support::{Answer, Server, of_type, program};

/// A server with one slot, which a run holds until its gate is opened; that run.
fn held(settings: &[(&str, &str)]) -> (Server, String) {
    let settings: Vec<(&str, &str)> = [("max_running_jobs", "1")].iter().chain(settings).copied().collect();
    let server = Server::with(&settings);
    server.skill("gated", GATED, json!({}));
    server.skill("hello", HELLO, json!({}));
    let (_, run) = server.create("gated");
    server.wait_for(&run, "raw.stderr", "ready");
    (server, run)
}

fn body(more: &Value) -> Value {
    let mut body = json!({"skill_id": "hello", "runtime_options": {"no_cache": true}});
    more.as_object().unwrap().iter().for_each(|(name, value)| body[name] = value.clone());
    body
}

fn create(server: &Server, more: &Value) -> String {
    server.create_with(&body(more)).1
}

/// The order in which these runs were started, as places in the list.
fn order(server: &Server, runs: &[String]) -> Vec<usize> {
    let started = |run: &String| {
        let events = server.finish(run);
        let start = events.iter().find(|event| event["type"] == "turn.started").unwrap();
        start["ts"].as_str().unwrap().to_owned()
    };
    let mut started: Vec<(String, usize)> = runs.iter().map(started).zip(0..).collect();
    started.sort();
    started.into_iter().map(|(_, place)| place).collect()
}

fn position(server: &Server, run: &str) -> Value {
    server.get(&format!("/v1/jobs/{run}")).json()["queue_position"].clone()
}

#[test]
fn runs_of_a_higher_priority_start_first_also_after_a_restart() {
    let (server, gated) = held(&[]);
    let asked = [json!({}), json!({"priority": -1}), json!({"priority": 5}), json!({"priority": 0})];
    let runs: Vec<String> = asked.iter().map(|more| create(&server, more)).collect();
    let positions: Vec<Value> = runs.iter().map(|run| position(&server, run)).collect();
    assert_eq!(positions, [json!(1), json!(3), json!(0), json!(2)]);
    let told: Vec<Value> =
        runs.iter().map(|run| server.get(&format!("/v1/jobs/{run}")).json()["priority"].clone()).collect();
    assert_eq!(told, [Value::Null, json!(-1), json!(5), Value::Null]);
    server.open_gate(&gated, "go");
    assert_eq!(order(&server, &runs), [2, 0, 3, 1]);

    let (_, gated) = server.create_with(&json!({"skill_id": "gated", "runtime_options": {"no_cache": true}}));
    server.wait_for(&gated, "raw.stderr", "ready");
    let runs: Vec<String> = asked.iter().map(|more| create(&server, more)).collect();
    let server = server.restarted(&[("max_running_jobs", "1"), ("restart_queued", "requeue")]);
    assert_eq!(order(&server, &runs), [2, 0, 3, 1]);
}

#[test]
fn a_priority_that_does_not_exist_is_refused_and_a_rerun_keeps_the_one_it_has() {
    let server = Server::start();
    server.skill("hello", HELLO, json!({}));
    let before = server.left_behind();
    for wrong in [json!(6), json!(-6)] {
        let answer = server.post("/v1/jobs", &body(&json!({"priority": wrong})));
        assert_eq!(answer.refusal(), (400, "INVALID_REQUEST".into()));
        let details = json!([{"path": "/priority", "message": "must be a whole number from -5 to 5"}]);
        assert_eq!(answer.json()["error"]["details"], details);
    }
    for wrong in [json!(1.5), json!("high"), json!(1000)] {
        let answer = server.post("/v1/jobs", &body(&json!({"priority": wrong})));
        assert_eq!(answer.status, 400, "{}", answer.text());
    }
    assert_eq!(server.left_behind(), before);
    let run = create(&server, &json!({"priority": 3}));
    server.finish(&run);
    let again = server.post(&format!("/v1/jobs/{run}/rerun"), &json!({})).json()["run_id"].as_str().unwrap().to_owned();
    server.finish(&again);
    assert_eq!(server.get(&format!("/v1/jobs/{again}")).json()["priority"], 3);
}

#[test]
fn values_of_the_fair_label_take_turns_and_none_takes_all_places() {
    let (server, gated) = held(&[("fair_label", "team"), ("max_queued_jobs", "16")]);
    let of_team = |team: &str| json!({"labels": {"team": team}});
    let mut runs = Vec::new();
    // It may hold as many places as are left for all others.
    loop {
        let answer = server.post("/v1/jobs", &body(&of_team("many")));
        if answer.status == 429 {
            assert_eq!(answer.header("retry-after"), "1");
            break;
        }
        runs.push(answer.json()["run_id"].as_str().unwrap().to_owned());
    }
    assert_eq!(runs.len(), 8);
    runs.push(create(&server, &of_team("few")));
    runs.push(create(&server, &of_team("few")));
    server.open_gate(&gated, "go");
    assert_eq!(order(&server, &runs), [0, 8, 1, 9, 2, 3, 4, 5, 6, 7]);
    assert_eq!(server.post("/v1/jobs", &body(&of_team("many"))).status, 201);
}

/// The authorization of a new named token.
fn bearer(server: &Server, name: &str) -> String {
    let made = program().arg("--data-dir").arg(server.data()).args(["token", "new", name, "--scope", "run"]).output();
    let made = made.unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    format!("Bearer {}", String::from_utf8(made.stdout).unwrap().trim_end())
}

fn create_by(server: &Server, bearer: &str) -> Answer {
    server.call("POST", "/v1/jobs").header("authorization", bearer).json(&body(&json!({}))).send()
}

fn run_of(answer: &Answer) -> String {
    assert_eq!(answer.status, 201, "{}", answer.text());
    answer.json()["run_id"].as_str().unwrap().to_owned()
}

#[test]
fn named_tokens_take_turns_and_none_takes_all_places_also_after_a_restart() {
    let settings = [("max_queued_jobs", "16"), ("restart_queued", "requeue")];
    let (server, gated) = held(&settings);
    let (many, few) = (bearer(&server, "many"), bearer(&server, "few"));
    // One token may hold as many places as are left for all others.
    let mut runs = Vec::new();
    let refused = loop {
        let answer = create_by(&server, &many);
        if answer.status != 201 {
            break answer;
        }
        runs.push(run_of(&answer));
    };
    assert_eq!((runs.len(), refused.refusal()), (8, (429, "QUEUE_FULL".into())));
    assert_eq!(refused.header("retry-after"), "1");
    runs.extend((0..2).map(|_| run_of(&create_by(&server, &few))));
    let turns = [0, 8, 1, 9, 2, 3, 4, 5, 6, 7];
    // The run under way fails with the restart; whose turn it is follows from the logs alone.
    let server = server.restarted(&[&[("max_running_jobs", "1")], &settings[..]].concat());
    assert_eq!(order(&server, &runs), turns);
    assert_eq!(server.get(&format!("/v1/jobs/{gated}")).json()["status"], "failed");
}

#[test]
fn tokens_are_not_told_apart_where_the_operator_says_so_and_who_has_none_may_fill_the_queue() {
    let (server, gated) = held(&[("max_queued_jobs", "4"), ("fair_tokens", "off")]);
    let many = bearer(&server, "many");
    let runs: Vec<String> = (0..4).map(|_| run_of(&create_by(&server, &many))).collect();
    assert_eq!(create_by(&server, &many).refusal(), (429, "QUEUE_FULL".into()));
    server.open_gate(&gated, "go");
    assert_eq!(order(&server, &runs), [0, 1, 2, 3]);

    let (server, gated) = held(&[("max_queued_jobs", "4")]);
    let runs: Vec<String> = (0..4).map(|_| create(&server, &json!({}))).collect();
    assert_eq!(server.post("/v1/jobs", &body(&json!({}))).refusal(), (429, "QUEUE_FULL".into()));
    server.open_gate(&gated, "go");
    assert_eq!(order(&server, &runs), [0, 1, 2, 3]);
}

#[test]
fn a_full_queue_refuses_before_anything_is_checked_but_not_what_needs_no_place() {
    let server = Server::with(&[("max_running_jobs", "1"), ("max_queued_jobs", "1")]);
    server.skill("gated", GATED, json!({}));
    server.skill("hello", HELLO, json!({}));
    let hello = json!({"skill_id": "hello"});
    let (_, cached) = server.create_with(&hello);
    server.finish(&cached);
    let (_, gated) = server.create_with(&json!({"skill_id": "gated"}));
    server.wait_for(&gated, "raw.stderr", "ready");
    let waiting = create(&server, &json!({}));
    let before = server.left_behind();
    // A skill that is not there costs a look at the disk: at an overload nobody looks.
    let unknown = json!({"skill_id": "no-such-skill", "runtime_options": {"no_cache": true}});
    let refused = server.post("/v1/jobs", &unknown);
    assert_eq!((refused.refusal(), refused.header("retry-after")), ((429, "QUEUE_FULL".into()), "1"));
    assert_eq!(server.left_behind(), before);
    let hit = server.post("/v1/jobs", &hello);
    assert_eq!((hit.status, &hit.json()["cache_hit"]), (201, &json!(true)), "a known result needs no place");
    server.open_gate(&gated, "go");
    for run in [&gated, &waiting] {
        server.finish(run);
    }
    assert_eq!(server.post("/v1/jobs", &unknown).refusal(), (404, "SKILL_NOT_FOUND".into()));
}

#[test]
fn a_skill_and_an_engine_run_no_more_at_once_than_they_may() {
    for (setting, others_wait) in [("max_running_per_skill", false), ("max_running_per_engine", true)] {
        let server = Server::with(&[("max_running_jobs", "4"), (setting, "1")]);
        server.skill("gated", GATED, json!({}));
        server.skill("hello", HELLO, json!({}));
        let gated = json!({"skill_id": "gated", "runtime_options": {"no_cache": true}});
        let (_, first) = server.create_with(&gated);
        server.wait_for(&first, "raw.stderr", "ready");
        let (_, second) = server.create_with(&gated);
        let other = create(&server, &json!({}));
        if !others_wait {
            server.finish(&other);
        }
        let status = |run: &str| server.get(&format!("/v1/jobs/{run}")).json()["status"].clone();
        let expected = if others_wait { "queued" } else { "succeeded" };
        assert_eq!((status(&second), status(&other)), (json!("queued"), json!(expected)), "{setting}");
        server.open_gate(&first, "go");
        server.wait_for(&second, "raw.stderr", "ready");
        server.open_gate(&second, "go");
        for run in [&first, &second, &other] {
            assert_eq!(of_type(&server.finish(run), "turn.started").len(), 1);
        }
    }
}

#[test]
fn ten_times_more_than_fits_is_refused_at_once_and_everything_accepted_is_done() {
    let (server, gated) = held(&[("max_queued_jobs", "6")]);
    let answers: Vec<_> = std::thread::scope(|threads| {
        let ask = || server.post("/v1/jobs", &body(&json!({})));
        let asking: Vec<_> = (0..60).map(|_| threads.spawn(ask)).collect();
        asking.into_iter().map(|asked| asked.join().unwrap()).collect()
    });
    let (accepted, refused): (Vec<_>, Vec<_>) = answers.into_iter().partition(|answer| answer.status == 201);
    assert_eq!((accepted.len(), refused.len()), (6, 54));
    for answer in &refused {
        assert_eq!(answer.refusal(), (429, "QUEUE_FULL".into()));
        assert_eq!(answer.header("retry-after"), "1");
    }
    server.open_gate(&gated, "go");
    for answer in accepted {
        let run = answer.json()["run_id"].as_str().unwrap().to_owned();
        server.finish(&run);
        assert_eq!(server.get(&format!("/v1/jobs/{run}")).json()["status"], "succeeded");
    }
    assert_eq!(server.post("/v1/jobs", &body(&json!({}))).status, 201, "nobody had to do anything for it");
}

#[test]
fn runs_that_wait_for_their_files_have_a_bound_that_uploads_and_cancels_make_room_in_also_after_a_restart() {
    let server = Server::with(&[("max_awaiting_upload", "3")]);
    let input = json!({"type": "object", "properties": {"doc": {"type": "string", "x-input-source": "file"}}});
    server.skill("reader", HELLO, json!({"input": input}));
    server.skill("hello", HELLO, json!({}));
    let asks = json!({"skill_id": "reader", "await_upload": true});
    let runs: Vec<String> = (0..3).map(|_| run_of(&server.post("/v1/jobs", &asks))).collect();
    let full = |server: &Server| {
        let before = server.left_behind();
        for route in ["/v1/jobs", "/v1/temp-skill-runs"] {
            let body = if route == "/v1/jobs" { asks.clone() } else { json!({}) };
            let refused = server.post(route, &body);
            assert_eq!((refused.refusal(), refused.header("retry-after")), ((429, "QUEUE_FULL".into()), "1"));
            assert_eq!(refused.json()["error"]["details"], json!({"max_awaiting_upload": 3}));
        }
        assert_eq!(server.left_behind(), before, "nothing was created");
    };
    full(&server);
    server.finish(&create(&server, &json!({})));
    // One gets its file, one is canceled: two more may wait.
    let answer =
        server.call("POST", &format!("/v1/jobs/{}/upload", runs[0])).parts(&[("doc", b"text".as_slice())]).send();
    assert_eq!(answer.status, 200, "{}", answer.text());
    server.finish(&runs[0]);
    assert_eq!(server.post(&format!("/v1/jobs/{}/cancel", runs[1]), &json!({})).status, 200);
    for _ in 0..2 {
        run_of(&server.post("/v1/jobs", &asks));
    }
    full(&server);
    // What waits when the service ends waits afterwards, and is counted.
    let server = server.restarted(&[("max_awaiting_upload", "3")]);
    full(&server);
    assert_eq!(server.post(&format!("/v1/jobs/{}/cancel", runs[2]), &json!({})).status, 200);
    run_of(&server.post("/v1/jobs", &asks));
    full(&server);
}
