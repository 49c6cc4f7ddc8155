//! argv in, exit code out.

fn main() {
    skill_runner::supervisor::serve_as_shim_if_asked();
}
