//! A working directory with skills, and the program in it.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::script_skill;

/// What `tiny` does: progress, a log line, an artifact, an answer.
pub const TINY: &str = "\
cat > /dev/null
echo '40% computing' >&2
echo 'a log line' >&2
printf hello > artifacts/note.txt
echo '{\"success\":true,\"action\":\"run\",\"data\":{\"greeting\":\"hi\"}}'
";

/// A working directory.
pub struct Place {
    pub folder: TempDir,
}

/// What a process left.
#[derive(Debug)]
pub struct Ran {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Ran {
    fn of(output: Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Standard output as one JSON document.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

impl Place {
    /// A directory with the skill `tiny`.
    pub fn new() -> Self {
        let place = Self { folder: tempfile::tempdir().unwrap() };
        place.skill("tiny", TINY);
        place
    }

    /// The same on another disk.
    pub fn inside(disk: &Path) -> Self {
        let place = Self { folder: tempfile::tempdir_in(disk).unwrap() };
        place.skill("tiny", TINY);
        place
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Puts a script skill into `skills/`.
    pub fn skill(&self, id: &str, script: &str) -> PathBuf {
        let input = json!({"type": "object", "properties": {
            "name": {"type": "string", "x-input-source": "inline"},
            "doc": {"type": "string"},
        }});
        let skills = self.path().join("skills");
        script_skill(&skills, id, script, json!({"input": input}));
        skills.join(id)
    }

    /// The program in this directory, with nothing of the tester's own configuration.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_skill-runner"));
        command.args(args).current_dir(self.path()).env_clear().env("PATH", std::env::var_os("PATH").unwrap());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// The program, run to its end.
    pub fn run(&self, args: &[&str]) -> Ran {
        Ran::of(self.command(args).output().unwrap())
    }

    /// The program, run to its end with a variable set.
    pub fn run_with(&self, variable: (&str, &str), args: &[&str]) -> Ran {
        Ran::of(self.command(args).env(variable.0, variable.1).output().unwrap())
    }

    /// The id of a finished run of `tiny`.
    pub fn finished_run(&self) -> String {
        let ran = self.run(&["run", "tiny", "--json"]);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        ran.json()["run_id"].as_str().unwrap().to_owned()
    }

    /// The names in one of its folders, in order.
    pub fn folders(&self, folder: &str) -> Vec<String> {
        let entries = std::fs::read_dir(self.path().join(folder)).unwrap();
        let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    pub fn run_folder(&self, run: &str) -> PathBuf {
        self.path().join("data/runs").join(run)
    }

    /// Lets the only run go on that waits at its gate.
    pub fn open_gate(&self) {
        let gates =
            std::fs::read_dir(self.path().join("data/runs")).unwrap().map(|run| run.unwrap().path().join("gate"));
        let gates: Vec<PathBuf> = gates.filter(|gate| gate.exists()).collect();
        assert_eq!(gates.len(), 1, "{gates:?}");
        std::fs::write(&gates[0], "go\n").unwrap();
    }

    /// The program at work, once it has printed a line with this text; the line, and a reader of what follows.
    pub fn start(&self, args: &[&str], until: &str) -> (Running, String) {
        Self::started(self.command(args), until)
    }

    /// A run at work, once it has told about an event with this text; every event is shown.
    pub fn start_run(&self, skill: &str, until: &str) -> Running {
        let mut child = self.command(&["run", skill, "--verbose"]).spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let mut running = Running { child, stdout, stderr };
        running.wait_for_stderr(until);
        running
    }

    /// A prepared program at work, once it has printed a line with this text.
    pub fn started(mut command: Command, until: &str) -> (Running, String) {
        Self::attached(command.spawn().unwrap(), until)
    }

    /// A program that was just started, once it has printed a line with this text.
    pub fn attached(mut child: Child, until: &str) -> (Running, String) {
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        while !line.contains(until) {
            line.clear();
            assert_ne!(stdout.read_line(&mut line).unwrap(), 0, "the program ended before it said {until:?}");
        }
        (Running { child, stdout, stderr }, line.trim_end().to_owned())
    }
}

/// A process at work; ended when dropped.
pub struct Running {
    child: Child,
    stdout: BufReader<std::process::ChildStdout>,
    stderr: BufReader<std::process::ChildStderr>,
}

impl Running {
    pub fn pid(&self) -> rustix::process::Pid {
        rustix::process::Pid::from_child(&self.child)
    }

    pub fn signal(&self, signal: rustix::process::Signal) {
        let pid = i32::try_from(self.child.id()).unwrap();
        rustix::process::kill_process(rustix::process::Pid::from_raw(pid).unwrap(), signal).unwrap();
    }

    /// Reads so many bytes of its standard error.
    pub fn read_stderr(&mut self, bytes: usize) {
        std::io::Read::read_exact(&mut self.stderr, &mut vec![0; bytes]).unwrap();
    }

    /// The next line on its standard output.
    pub fn next_line(&mut self) -> String {
        let mut line = String::new();
        assert_ne!(self.stdout.read_line(&mut line).unwrap(), 0, "the program has ended");
        line
    }

    /// Waits until it has logged this.
    pub fn wait_for_stderr(&mut self, text: &str) {
        let mut line = String::new();
        while !line.contains(text) {
            line.clear();
            assert_ne!(self.stderr.read_line(&mut line).unwrap(), 0, "the program ended before it logged {text:?}");
        }
    }

    /// Waits for its end.
    pub fn end(mut self) -> Ran {
        let mut rest = String::new();
        std::io::Read::read_to_string(&mut self.stdout, &mut rest).unwrap();
        let mut stderr = String::new();
        std::io::Read::read_to_string(&mut self.stderr, &mut stderr).unwrap();
        let code = self.child.wait().unwrap().code();
        Ran { code, stdout: rest, stderr }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
