//! argv in, exit code out.

fn main() -> std::process::ExitCode {
    skill_runner::renderer::serve_as_renderer_if_asked();
    skill_runner::environments::make_if_asked();
    skill_runner::supervisor::leave_first_process();
    skill_runner::cli::main()
}
