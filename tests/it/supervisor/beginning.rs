//! How one engine begins: when it may, with what it sees, and not before.

use std::fs;

use skill_runner::supervisor::{Error, ProcessExit, ReadOnlyBind};

use super::{AMPLE, Room, finish, is_alive, wait_for};

/// Waits until the engine's process waits for its beginning.
fn waits_at_the_gate(pid: u32) {
    wait_for("the engine waits for its beginning", || {
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        (name == "skill-run-shim\n" && stat.contains(") S ")).then_some(())
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_begins_with_the_first_look_at_its_output() {
    let room = Room::new();
    let process = room.spawn(&room.sh("touch begun; echo $$")).await;
    let pid = process.pid();
    waits_at_the_gate(pid);
    assert!(!room.work("begun").exists());
    let finished = finish(process, super::Finished::default()).await;
    assert!(room.work("begun").exists());
    assert_eq!((finished.pids(), finished.ended), (vec![pid], room.ended(ProcessExit::Code(0), 0)));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_nobody_reads_never_begins() {
    let room = Room::new();
    let process = room.spawn(&room.sh("touch begun")).await;
    let pid = process.pid();
    waits_at_the_gate(pid);
    drop(process);
    tokio::task::spawn_blocking(move || {
        wait_for("its process ends", || (!is_alive(pid)).then_some(()));
        wait_for("the folder goes", || (!room.root.join("tmp").exists()).then_some(()));
        assert!(!room.work("begun").exists());
    })
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_text_without_an_interpreter_is_for_the_shell_and_what_no_system_runs_says_so() {
    let room = Room::new();
    let write = |name: &str, content: &[u8]| {
        let path = room.work(name);
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let text = write("text", b"echo \"$0 $1\"\nexit 4\n");
    let finished = room.run(&room.launch(&[&text, "word"])).await;
    assert_eq!(finished.text(), format!("{text} word\n"));
    assert_eq!(finished.ended, room.ended(ProcessExit::Code(4), 0));

    // The beginning of a program for another kind of machine.
    let foreign = write("foreign", b"\x7fELF\x01\x02\x01\0\0\0\0\0\0\0\0\0\0\x02\0\x16\0\0\0\x01");
    let finished = room.run(&room.launch(&[&foreign])).await;
    let ProcessExit::Code(code) = finished.ended.unwrap().exit else { panic!("it ends by itself") };
    assert!([126, 127].contains(&code) && !finished.stderr.is_empty(), "{code}");

    let lost = write("lost", b"#!/no/such/interpreter\n");
    let refused = room.try_spawn(&room.launch(&[&lost]), AMPLE).await.unwrap_err();
    assert!(matches!(&refused, Error::NotFound { program } if *program == lost), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_is_bound_read_only_for_the_run_alone_or_refused_before_it_begins() {
    let room = Room::new();
    let bind = ReadOnlyBind { source: room.root.join("shared"), target: room.work("skill") };
    for folder in [&bind.source, &bind.target] {
        fs::create_dir(folder).unwrap();
    }
    fs::write(bind.source.join("file"), "shared\n").unwrap();
    let script = "cat skill/file; (echo x > skill/file) 2>/dev/null || echo read-only";
    let spawned = room.try_spawn_with(&room.sh(script), AMPLE, std::slice::from_ref(&bind)).await;
    if rustix::process::geteuid().is_root() {
        let finished = finish(spawned.unwrap(), super::Finished::default()).await;
        assert_eq!((finished.text(), &finished.ended), ("shared\nread-only\n", &room.ended(ProcessExit::Code(0), 0)));
        assert_eq!(fs::read_dir(&bind.target).unwrap().count(), 0, "nobody else sees it");
    } else {
        assert!(matches!(spawned.unwrap_err(), Error::ReadOnlyBind { .. }));
    }

    let absent = ReadOnlyBind { source: room.root.join("absent"), ..bind };
    let refused = room.try_spawn_with(&room.sh("touch begun"), AMPLE, &[absent]).await.unwrap_err();
    assert!(matches!(refused, Error::ReadOnlyBind { .. }), "{refused:?}");
    assert!(!room.work("begun").exists() && !room.root.join("tmp").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_order_longer_than_any_buffer_arrives_whole() {
    let room = Room::new();
    let long = "x".repeat(100_000);
    let argv: Vec<&str> = ["sh", "-c", "echo $# ${#1} ${#8}", "sh"].into_iter().chain([&*long; 8]).collect();
    assert_eq!(room.run(&room.launch(&argv)).await.text(), "8 100000 100000\n");
}
