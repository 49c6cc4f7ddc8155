# The tasks of the project. Each line also works as it stands, without just.

# List the tasks.
default:
    @just --list

# Form and lints.
check:
    cargo fmt --check
    cargo clippy --all-targets --locked -- -D warnings

# Everything, with the real CLIs (needs npm and its registry once per machine).
test:
    cargo test --locked

# Everything but the real CLIs.
test-offline:
    SKILL_RUNNER_TEST_CLIS=off cargo test --locked

# How close the service comes to the machine's limits.
bench *words:
    cargo bench --locked --bench limits -- {{words}}

# Mixed work for a while, for example 10m: does anything grow?
soak *duration:
    cargo bench --locked --bench soak -- {{duration}}

# Every parser of foreign bytes, so many seconds each.
fuzz seconds="600":
    FUZZ_SECONDS={{seconds}} cargo test --locked --release --lib no_foreign_bytes -- --nocapture

# Do the tests notice every known fault?
planted *words:
    scripts/planted {{words}}

# Which planted faults does no test notice? For example: domain/decide, or --every 10 store.
mutants *places:
    scripts/mutants {{places}}

# What must hold before a change lands.
ci:
    .ci/run

# Write the form.
fmt:
    cargo fmt

# The pages of the library.
docs:
    RUSTDOCFLAGS="-D warnings" cargo doc --no-deps --locked
