//! Runs that leave more files than are listed end like others, with their result.

use serde_json::json;

use crate::support::Server;

#[test]
fn a_run_ends_with_its_result_however_many_files_it_puts_beside_it() {
    let server = Server::start();
    // More than are listed of a folder, with names that come before those of the runner.
    let fills = "import os\nfor folder in ['result', 'logs']:\n    os.makedirs(folder, exist_ok=True)\n    \
        for number in range(10100):\n        os.close(os.open(f'{folder}/a{number}', os.O_CREAT | os.O_WRONLY))\n\
        print('{\"success\": true, \"data\": {\"all\": 1}}')\n";
    server.skill("fills", &format!("cat > /dev/null\nexec python3 - <<'END'\n{fills}END\n"), json!({}));
    let body = json!({"skill_id": "fills", "runtime_options": {"debug": true}});
    let (_, run) = server.create_with(&body);
    server.finish(&run);
    let result = server.get(&format!("/v1/jobs/{run}/result")).json()["result"].take();
    assert_eq!((&result["status"], &result["data"]), (&json!("succeeded"), &json!({"all": 1})));
    for (path, holds) in [("bundle", "logs/stdout.txt"), ("export", "result/result.json")] {
        let answer = server.get(&format!("/v1/jobs/{run}/{path}"));
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        let zip = zip::ZipArchive::new(std::io::Cursor::new(answer.body)).unwrap();
        assert!(zip.file_names().any(|name| name.unwrap() == holds), "{path} has no {holds}");
    }
}
