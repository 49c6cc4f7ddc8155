//! The names that models can have.

/// Longest name of a model.
const NAME_MAX: usize = 200;

/// Whether a text can be the name of a model, for every engine. A name begins with a letter or digit, so that none is read as a flag,
/// and has no `$`, `{` or `%`: some engines replace `$NAME` or `{env:NAME}` in their configuration by the variable, which may be a key.
pub(crate) fn is_model_name(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || "._:/@+-[]~".contains(c);
    name.len() <= NAME_MAX && name.starts_with(|c: char| c.is_ascii_alphanumeric()) && name.chars().all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_models_have_fit_and_what_an_engine_could_misread_does_not() {
        for name in [
            "gpt-5.2-codex@high",
            "openrouter/meta-llama/llama-3.1:free",
            "claude-sonnet-4-5[1m]",
            "arn:aws:bedrock:us-east-1:1:inference-profile/x",
            "gemini-2.5-flash",
            "Qwen/Qwen3-Coder",
        ] {
            assert!(is_model_name(name), "{name}");
        }
        let long = "x".repeat(NAME_MAX + 1);
        for name in [
            "",
            "-m",
            "--yolo",
            "a b",
            "a\nb",
            "{env:KEY}",
            "{file:/etc/passwd}",
            "$KEY",
            "${KEY}",
            "a%20",
            "[1m]",
            &long,
        ] {
            assert!(!is_model_name(name), "{name}");
        }
    }
}
