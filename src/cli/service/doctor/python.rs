//! Checks whether Python packages of skills can be installed, and tells how much disk those take that are.

use crate::cli::service::doctor::finding::Finding;
use crate::environments::{Environments, Totals, installer_here};
use crate::settings::Settings;
use crate::workspace::Layout;

const CHECK: &str = "python packages";

pub(crate) fn check(settings: &Settings) -> Finding {
    let Totals { count, bytes } = Environments::new(Layout::new(&settings.paths.data_dir).environments()).totals();
    let installed = format!("{count} installed for skills, {} MiB", bytes >> 20);
    if !settings.python.install {
        return Finding::ok(CHECK, format!("none are installed (python_packages is off); {installed}"));
    }
    match installer_here() {
        Ok(installer) => Finding::ok(CHECK, format!("{installer}; {installed}")),
        Err(reason) => Finding::warning(
            CHECK,
            format!("{reason}, so skills that declare packages fail; {installed}"),
            "install Python 3 with venv and pip, or uv, or set python_packages: off",
        ),
    }
}
