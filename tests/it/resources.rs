//! A skill that takes more of the machine than it may: its run ends and says so, and everything else goes on.
//!
//! Each script is bounded by itself, too: without the protection it does no harm, waits, and runs into the hard timeout.

use serde_json::{Value, json};

use crate::support::skill::HELLO;
use crate::support::{Server, left_out, of_type, sandbox};

/// Long enough for a loaded machine, and the end of a script that nothing stops.
const NET: (&str, &str) = ("hard_timeout_seconds", "50");
/// The same of a script, whose own limit stands above the setting.
const NET_SECONDS: u64 = 50;

/// What a script prints that was not stopped.
const OWN_END: &str = "its own end";

/// The error of a run of this script, on a server with this setting. Meanwhile and afterwards others are served.
fn stopped(setting: (&str, &str), script: &str) -> Value {
    // What the service itself watches; what the kernel bounds is in `control_groups.rs`.
    let server = Server::with(&[NET, setting, ("control_groups", "off")]);
    server.skill("hog", script, json!({"runner": {"automation": {"timeout_sec": NET_SECONDS}}}));
    server.skill("hello", HELLO, json!({}));
    let (_, run) = server.create("hog");
    let (_, other) = server.finished("hello");
    let events = server.finish(&run);
    // What a run has left is looked at once more at its end; it must not come to that.
    assert!(!events.iter().any(|event| event.to_string().contains(OWN_END)), "it was not stopped: {events:#?}");
    assert_eq!(server.get(&format!("/v1/jobs/{other}")).json()["status"], "succeeded");
    let job = server.get(&format!("/v1/jobs/{run}")).json();
    assert_eq!(job["status"], "failed", "{job}");
    job["error"].clone()
}

/// The error names the limit, its value, and how much was seen; gives that.
fn seen(error: &Value, limit: &str, value: u64) -> u64 {
    assert_eq!(error["code"], "RESOURCE_LIMIT_EXCEEDED", "{error}");
    let told = (&error["details"]["limit"], &error["details"]["value"]);
    assert_eq!(told, (&json!(limit), &json!(value)), "{error}");
    let message = error["message"].as_str().unwrap();
    assert!(message.contains(&format!("limits.{limit}")), "{message}");
    error["details"]["seen"].as_u64().unwrap()
}

#[test]
fn a_fork_bomb_is_stopped_at_the_limit_of_processes() {
    // At most 511 processes, each in the background.
    let bomb = "bomb() { if [ $1 -gt 0 ]; then bomb $(($1 - 1)) & bomb $(($1 - 1)) & fi; sleep 600; }\nbomb 8\n";
    let seen = seen(&stopped(("limits.processes", "40"), bomb), "processes", 40);
    assert!(seen > 40, "{seen}");
}

#[test]
fn threads_count_as_processes() {
    let threads = "exec python3 -c 'import threading, time\n\
        for _ in range(100): threading.Thread(target=time.sleep, args=(600,)).start()'\n";
    let seen = seen(&stopped(("limits.processes", "40"), threads), "processes", 40);
    assert!(seen > 40, "{seen}");
}

#[test]
fn a_memory_hog_is_stopped_at_the_limit_of_memory() {
    let hog = "exec python3 -c 'import time\nx = b\"x\" * (300 << 20)\ntime.sleep(600)'\n";
    let limit = 100 << 20;
    let seen = seen(&stopped(("limits.memory_bytes", "100 MiB"), hog), "memory_bytes", limit);
    assert!(seen > limit, "{seen}");
}

#[test]
fn the_memory_of_all_processes_counts_together_and_shared_pages_once() {
    let each = "import time\nx = b\"x\" * (40 << 20)\ntime.sleep(600)";
    let many = format!("for n in 1 2 3 4; do python3 -c '{each}' & done\nwait\n");
    seen(&stopped(("limits.memory_bytes", "100 MiB"), &many), "memory_bytes", 100 << 20);
    // Eight processes share 40 MiB; each would count for itself, and the run ends well.
    let sharing = "cat >/dev/null\npython3 -c 'import os, time\nx = b\"x\" * (40 << 20)\n\
        pids = [os.fork() for _ in range(3)]\ntime.sleep(1)\n\
        print(\"{\\\"success\\\":true,\\\"action\\\":\\\"run\\\",\\\"data\\\":{}}\") if all(pids) else None'\n";
    let server = Server::with(&[NET, ("limits.memory_bytes", "150 MiB")]);
    server.skill("sharing", sharing, json!({}));
    let (_, run) = server.finished("sharing");
    let job = server.get(&format!("/v1/jobs/{run}")).json();
    assert_eq!(job["status"], "succeeded", "{job}");
}

#[test]
fn the_processor_time_of_all_processes_counts_together() {
    // Each of them alone stays below the limit for longer than all together.
    let burners = "for n in 1 2 3; do (while :; do :; done) & done\nsleep 600\n";
    let seen = seen(&stopped(("limits.cpu_seconds", "3"), burners), "cpu_seconds", 3);
    assert!(seen > 3, "{seen}");
}

#[test]
fn processor_time_of_processes_that_have_ended_counts() {
    let chain = "n=0\nwhile [ $n -lt 60 ]; do timeout 0.5 sh -c 'while :; do :; done'; n=$((n + 1)); done\n";
    seen(&stopped(("limits.cpu_seconds", "2"), chain), "cpu_seconds", 2);
}

#[test]
fn one_process_that_burns_its_processor_time_is_stopped() {
    seen(&stopped(("limits.cpu_seconds", "1"), "while :; do :; done\n"), "cpu_seconds", 1);
}

#[test]
fn a_disk_that_is_being_filled_is_noticed_in_the_run_and_in_its_temporary_folder() {
    for folder in [".", "$TMPDIR"] {
        let fill = format!(
            "cat >/dev/null\nfor n in 1 2 3 4 5 6 7 8; do head -c 5000000 /dev/urandom > {folder}/f$n; done\nsleep 600\necho {OWN_END} >&2\n"
        );
        let limit = 20 << 20;
        let seen = seen(&stopped(("limits.disk_bytes", "20 MiB"), &fill), "disk_bytes", limit);
        assert!(seen > limit, "{seen}");
    }
}

#[test]
fn files_without_a_name_count_as_disk_space_and_those_in_memory_as_memory() {
    // Eight files of 5 MB each, which no folder shows.
    let fill = "exec python3 -c 'import mmap, os, tempfile, time\nheld = []\nfor n in range(8):\n  \
        file = tempfile.TemporaryFile(dir=FOLDER)\n  file.write(os.urandom(5000000))\n  file.flush()\n  held.append(HOLD)\n  FREE\ntime.sleep(600)'\n";
    let limit = 20 << 20;
    let open = ("file", "pass");
    // Only root is told of files that are mapped and not open.
    let mapped = ("mmap.mmap(file.fileno(), 4096)", "file.close(); os.closerange(3, 99)");
    let ways = if rustix::process::geteuid().is_root() { vec![open, mapped] } else { vec![open] };
    for (hold, free) in ways {
        for folder in ["\".\"", "None"] {
            let script = fill.replace("FOLDER", folder).replace("HOLD", hold).replace("FREE", free);
            let seen = seen(&stopped(("limits.disk_bytes", "20 MiB"), &script), "disk_bytes", limit);
            assert!(seen > limit, "{seen}");
        }
    }
    let memory = "exec python3 -c 'import os, time\nfile = os.memfd_create(\"held\")\nfor n in range(300): os.write(file, b\"x\" * (1 << 20))\ntime.sleep(600)'\n";
    let seen = seen(&stopped(("limits.memory_bytes", "100 MiB"), memory), "memory_bytes", 100 << 20);
    assert!(seen > 100 << 20, "{seen}");
}

/// Takes as much of System V as it gets, without using it, and tells how much that was.
const SYSTEM_V: &str = r#"cat >/dev/null
exec python3 -c '
import ctypes, json
libc = ctypes.CDLL(None)
def taken(most, take):
    return next((n for n in range(most) if take() < 0), most)
size = ctypes.c_size_t(1 << 20)
data = {
    "memory": taken(2000, lambda: libc.shmget(0, size, 0o1600)),
    "semaphores": 1000 * taken(100, lambda: libc.semget(0, 1000, 0o1600)),
    "queues": taken(4000, lambda: libc.msgget(0, 0o1600)),
}
print(json.dumps({"success": True, "data": data}))'
"#;

#[test]
fn what_no_process_shows_of_system_v_has_a_bound_without_a_control_group() {
    let test = "resources::what_no_process_shows_of_system_v_has_a_bound_without_a_control_group";
    if sandbox::left_out(test) {
        return;
    }
    // The kernel lets root alone set these, and not in every container.
    if std::fs::OpenOptions::new().write(true).open("/proc/sys/kernel/shmall").is_err() {
        left_out::tell("settings of the kernel cannot be written here", test);
        return;
    }
    let server = Server::with(&[NET, ("sandbox", "on"), ("control_groups", "off")]);
    server.skill("takes", SYSTEM_V, json!({}));
    let (_, run) = server.finished("takes");
    let result = server.get(&format!("/v1/jobs/{run}/result")).json();
    // MiB of memory; the kernel's own settings allow more of each.
    assert_eq!(result["result"]["data"], json!({"memory": 256, "semaphores": 32_000, "queues": 1024}), "{result:#}");
}

#[test]
fn very_many_files_are_noticed_however_small_they_are() {
    // 16 MiB of disk space allow 1024 files and folders.
    let many = format!("n=0\nwhile [ $n -lt 3000 ]; do : > f$n; n=$((n + 1)); done\nsleep 600\necho {OWN_END} >&2\n");
    let error = stopped(("limits.disk_bytes", "16 MiB"), &many);
    seen(&error, "disk_bytes", 16 << 20);
    assert_eq!(error["details"]["files"], 1025, "{error}");
}

/// Attaches as much as the file system takes to each of many files that are empty.
const ATTRIBUTES: &str = r#"cat >/dev/null
exec python3 -c '
import errno, os, time
for n in range(3000):
    name = "f%d" % n
    open(name, "w").close()
    size = 60000
    while size > 100:
        try:
            os.setxattr(name, "user.held", os.urandom(size))
            break
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.E2BIG, errno.ERANGE): raise
            size //= 2
    if size <= 100: break
time.sleep(600)
print("its own end", flush=True)'
"#;

#[test]
fn attributes_of_files_count_as_disk_space() {
    let limit = 16 << 20;
    let error = stopped(("limits.disk_bytes", "16 MiB"), ATTRIBUTES);
    // The blocks of the attributes, or the number of the files: whichever comes first.
    assert!(seen(&error, "disk_bytes", limit) > limit || error["details"]["files"] == 1025, "{error}");
}

#[test]
fn a_file_ends_at_its_largest_size_and_the_run_with_it() {
    let limit = 1 << 20;
    let write = "head -c 3000000 /dev/zero > big";
    for (what, script) in [
        ("the script itself", format!("cat >/dev/null\nexec {write}\n")),
        ("a command, and its script ends with it", format!("cat >/dev/null\n{write} || exit $?\n")),
        ("a command that goes on and waits", format!("cat >/dev/null\n{write}\nsleep 600\n")),
        ("a command that is told of an error", format!("cat >/dev/null\ntrap '' XFSZ\n{write} || exit 7\n")),
    ] {
        let error = stopped(("limits.file_bytes", "1 MiB"), &script);
        assert_eq!(seen(&error, "file_bytes", limit), limit, "{what}");
    }
}

#[test]
fn a_process_with_too_many_open_files_is_refused_more_and_its_run_ends() {
    let open = "exec python3 -c 'import time\nfiles = []\ntry:\n  for _ in range(500): files.append(open(\"/dev/null\"))\n\
        except OSError as error: print(error, len(files), flush=True)\ntime.sleep(600)'\n";
    assert_eq!(seen(&stopped(("limits.open_files", "64"), open), "open_files", 64), 64);
}

#[test]
fn places_in_sets_of_epoll_of_which_the_user_has_so_many_count_as_open_files() {
    let watch = "exec python3 -c 'import os, select, time\nfiles = [os.eventfd(0) for _ in range(100)]\n\
        sets = [select.epoll() for _ in range(50)]\nfor one in sets:\n  for file in files: one.register(file, 0)\ntime.sleep(600)'\n";
    if std::fs::metadata("/proc/self/fd").unwrap().len() == 0 {
        // This kernel does not tell how many files a process has open.
        return;
    }
    assert!(seen(&stopped(("limits.open_files", "200"), watch), "open_files", 4096) >= 4096);
}

#[test]
fn the_start_of_a_turn_tells_its_limits_and_a_skill_may_lower_them() {
    let settings = [
        NET,
        ("limits.memory_bytes", "1 GiB"),
        ("limits.processes", "500"),
        ("limits.cpu_seconds", "100"),
        ("limits.file_bytes", "10 MiB"),
        ("limits.disk_bytes", "20 MiB"),
        ("limits.open_files", "200"),
    ];
    let server = Server::with(&settings);
    server.skill("usual", HELLO, json!({}));
    let lower = json!({"automation": {"limits": {"processes": 30, "cpu_seconds": 7, "open_files": 64}}});
    let shown = "cat >/dev/null\nprintf '{\"success\":true,\"action\":\"run\",\"data\":{\"files\":\"%s\",\"size\":\"%s\",\
        \"cpu\":\"%s\",\"oom\":%s}}' $(ulimit -n) $(ulimit -f) $(ulimit -t) $(cat /proc/self/oom_score_adj)\n";
    server.skill("modest", shown, json!({"runner": lower}));
    let mut told = Vec::new();
    for skill in ["usual", "modest"] {
        let (_, run) = server.create(skill);
        told.push(of_type(&server.finish(&run), "turn.started")[0]["limits"].clone());
        if skill == "modest" {
            let data = server.get(&format!("/v1/jobs/{run}/result")).json()["result"]["data"].clone();
            // The shell counts blocks of 512 bytes.
            assert_eq!((&data["files"], &data["cpu"], &data["size"]), (&json!("64"), &json!("7"), &json!("20480")));
            assert!(data["oom"].as_i64().unwrap() >= 800, "the kernel ends engines first: {data}");
        }
    }
    let usual = json!({"memory_bytes": 1_u64 << 30, "processes": 500, "cpu_seconds": 100, "file_bytes": 10 << 20,
        "disk_bytes": 20 << 20, "open_files": 200});
    let mut modest = usual.clone();
    for (name, value) in [("processes", 30), ("cpu_seconds", 7), ("open_files", 64)] {
        modest[name] = json!(value);
    }
    assert_eq!(told, [usual, modest]);
}

#[test]
fn a_skill_that_asks_for_more_than_the_operator_allows_is_refused_before_it_runs() {
    let server = Server::with(&[("limits.processes", "100"), ("limits.memory_bytes", "1 GiB")]);
    let asks = json!({"automation": {"limits": {"processes": 101, "memory_bytes": 1 << 20}}});
    server.skill("greedy", HELLO, json!({"runner": asks}));
    let before = server.left_behind();
    let answer = server.post("/v1/jobs", &json!({"skill_id": "greedy"}));
    assert_eq!(answer.refusal(), (400, "SKILL_LIMITS_TOO_HIGH".into()));
    let message = answer.json()["error"]["message"].as_str().unwrap().to_owned();
    assert_eq!(
        message,
        "skill greedy asks for more than it may use: automation.limits.processes is 101, but the setting \
         limits.processes allows 100"
    );
    assert_eq!(server.left_behind(), before);
}
