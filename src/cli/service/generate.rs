//! `completions` and `man`: what shells and man(1) want to know about the commands.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::Command;
use clap_complete::Shell;

use crate::cli::failure::Failure;
use crate::cli::terminal::output;

/// Prints the completions of commands and flags for a shell
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  skill-runner completions bash > ~/.local/share/bash-completion/completions/skill-runner
  skill-runner completions zsh > ~/.zfunc/_skill-runner")]
pub(crate) struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

/// Prints the manual page, or writes one page per command into a folder
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  skill-runner man | man -l -
  skill-runner man --into ~/.local/share/man/man1")]
pub(crate) struct ManArgs {
    /// Folder for the pages of all commands; it is made if it is missing
    #[arg(long, value_name = "DIR")]
    into: Option<PathBuf>,
}

pub(crate) fn completions(mut program: Command, args: &CompletionsArgs) -> Result<(), Failure> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut program, "skill-runner", &mut text);
    output::bytes(&mut io::stdout().lock(), &text)
}

pub(crate) fn man(program: Command, args: &ManArgs) -> Result<(), Failure> {
    let Some(into) = &args.into else {
        return output::bytes(&mut io::stdout().lock(), &page(program, "skill-runner")?);
    };
    fs::create_dir_all(into).map_err(Failure::broken(format!("create {}", into.display())))?;
    let mut program = program;
    // Fills in the names of the pages of commands.
    program.build();
    write_pages(&program, "skill-runner", into)
}

fn write_pages(command: &Command, name: &str, into: &Path) -> Result<(), Failure> {
    let path = into.join(format!("{name}.1"));
    let page = page(command.clone(), name)?;
    fs::write(&path, page).map_err(Failure::broken(format!("write {}", path.display())))?;
    for below in command.get_subcommands().filter(|below| !below.is_hide_set() && below.get_name() != "help") {
        write_pages(below, &format!("{name}-{}", below.get_name()), into)?;
    }
    Ok(())
}

fn page(command: Command, title: &str) -> Result<Vec<u8>, Failure> {
    let mut text = Vec::new();
    clap_mangen::Man::new(command).title(title).render(&mut text).map_err(Failure::broken("write the manual page"))?;
    Ok(text)
}
