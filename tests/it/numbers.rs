//! Numbers keep the digits they were written with, from the request to everything that is read of the run.

use std::io::Read;

use serde_json::{Value, json};

use crate::support::Server;

/// More digits than any float has.
const WHOLE: &str = "12345678901234567890123";
const FINE: &str = "0.1000000000000000055511151231257827";

/// Answers with what it was given and with two numbers of its own. What its first word is stands before the answer.
fn script(words: &str, end: &str) -> String {
    format!(
        "request=$(cat)\nprintf '{words}{{\"success\":true,\"data\":{{\"request\":%s,\"whole\":{WHOLE},\"fine\":{FINE}{end}}}}}' \"$request\"\n"
    )
}

fn number_input(name: &str) -> Value {
    json!({"type": "object", "properties": {(name): {"type": "number", "x-input-source": "inline"}}})
}

fn create(server: &Server, skill: &str) -> String {
    let body = format!(
        r#"{{"skill_id":"{skill}","input":{{"x":{WHOLE}}},"parameter":{{"y":{FINE}}},"runtime_options":{{"debug":true}}}}"#
    );
    let created = server.call("POST", "/v1/jobs").body("application/json", body).send();
    assert_eq!(created.status, 201, "{}", created.text());
    let run = created.json()["run_id"].as_str().unwrap().to_owned();
    server.finish(&run);
    run
}

#[test]
fn numbers_that_no_float_holds_arrive_digit_for_digit() {
    let server = Server::start();
    server.skill("plain", &script("", ""), json!({"input": number_input("x")}));
    // Syntax that has to be repaired first.
    server.skill("repaired", &script("Here it is: ", ","), json!({"input": number_input("x")}));
    for skill in ["plain", "repaired"] {
        let run = create(&server, skill);
        let result = server.get(&format!("/v1/jobs/{run}/result")).json();
        let data = &result["result"]["data"];
        for (place, digits) in
            [("/request/params/x", WHOLE), ("/request/params/y", FINE), ("/whole", WHOLE), ("/fine", FINE)]
        {
            assert_eq!(data.pointer(place).unwrap().to_string(), digits, "{skill} {place}: {result:#}");
        }
        let history = server.get(&format!("/v1/jobs/{run}/events/history")).json();
        let started = &history["events"][0]["data"];
        assert_eq!(started["input"]["x"].to_string(), WHOLE);
        assert_eq!(started["parameter"]["y"].to_string(), FINE);
        let bundle = server.get(&format!("/v1/jobs/{run}/bundle"));
        let mut bundle = zip::ZipArchive::new(std::io::Cursor::new(bundle.body)).unwrap();
        for (name, count) in [("result/result.json", 2), ("input.json", 1)] {
            let mut text = String::new();
            bundle.by_name(name).unwrap().read_to_string(&mut text).unwrap();
            assert_eq!((text.matches(WHOLE).count(), text.matches(FINE).count()), (count, count), "{skill}: {text}");
        }
    }
}

#[test]
fn a_number_beyond_floats_is_compared_with_its_limit_digit_by_digit() {
    let server = Server::start();
    let mut input = number_input("x");
    input["properties"]["x"]["maximum"] = "12345678901234567890122".parse::<serde_json::Number>().unwrap().into();
    server.skill("limited", &script("", ""), json!({"input": input}));
    let body = |x: &str| format!(r#"{{"skill_id":"limited","input":{{"x":{x}}}}}"#);
    let post = |x: &str| server.call("POST", "/v1/jobs").body("application/json", body(x)).send().status;
    assert_eq!([post("12345678901234567890122"), post(WHOLE), post("1e999"), post("-1e999")], [201, 400, 400, 201]);
}
