//! The codes of findings about skill packages; each finding itself says where, and what to do there.

use super::table::codes;

codes! {
    /// Every rule that a skill package can break.
    FindingCode, hint: &'static str {
        AgentInvalid = "AGENT_INVALID", "agent.yaml cannot be read or lists no skills."
            => "list skills as - name, entry, timeout",
        AllowlistUnused = "ALLOWLIST_UNUSED", "automation.allowlist has no effect."
            => "remove it",
        ArtifactPatternInvalid = "ARTIFACT_PATTERN_INVALID", "The pattern of an artifact cannot be used."
            => "write a relative glob pattern",
        Changing = "CHANGING", "The folder changes while it is read."
            => "try again when the change is done",
        CommandInvalid = "COMMAND_INVALID", "The command of a script cannot be split into words."
            => "correct the quotes",
        ConfigInvalid = "CONFIG_INVALID", "The configuration for an engine cannot be used."
            => "see the engine's own documentation",
        ConfigKeyRefused = "CONFIG_KEY_REFUSED", "The configuration for an engine sets a key that is for the operator alone, or to a value it does not take."
            => "remove it; docs/engines lists the keys that a skill may set",
        DependenciesInvalid = "DEPENDENCIES_INVALID", "The Python packages that the skill declares cannot be installed as they are written."
            => "list requirements such as requests>=2.31, or files of the package",
        DependenciesTwice = "DEPENDENCIES_TWICE", "Both the manifest and a script declare Python packages."
            => "keep one of the two declarations",
        DependenciesUnused = "DEPENDENCIES_UNUSED", "Python packages are declared, but the skill has no command that would use them."
            => "remove the declaration, or add a script, a normalizer or a fallback",
        DescriptionEmpty = "DESCRIPTION_EMPTY", "The description is empty."
            => "say what the skill does and when to use it",
        EngineUnfit = "ENGINE_UNFIT", "An engine cannot carry out this kind of skill."
            => "change engines or the type of the entrypoint",
        EngineUnknown = "ENGINE_UNKNOWN", "No engine has this name."
            => "use one of the names in the finding",
        EnginesEmpty = "ENGINES_EMPTY", "No engine is left to run the skill on."
            => "leave engines out to allow all",
        EnginesOverlap = "ENGINES_OVERLAP", "An engine is both supported and unsupported."
            => "remove it from one of the lists",
        ExecutionModesMissing = "EXECUTION_MODES_MISSING", "execution_modes is missing."
            => "add \"execution_modes\": [\"auto\"]",
        FileMissing = "FILE_MISSING", "A file that the package needs does not exist."
            => "add the file, or correct its path",
        FileTooLarge = "FILE_TOO_LARGE", "A file of the package is too large to be read."
            => "make it shorter",
        FrontMatterInvalid = "FRONT_MATTER_INVALID", "The front matter of SKILL.md cannot be read."
            => "write YAML between two lines of ---",
        InputNameUnsafe = "INPUT_NAME_UNSAFE", "The name of a file input cannot be a file name."
            => "rename the field",
        InvalidJson = "INVALID_JSON", "A file of the package is not JSON."
            => "correct the syntax at that line and column",
        ModeUnfit = "MODE_UNFIT", "An execution mode does not fit the skill."
            => "change execution_modes or the default",
        NameClash = "NAME_CLASH", "Two things have the same name."
            => "rename one of them",
        NameInvalid = "NAME_INVALID", "The name cannot be the id of a skill."
            => "use a-z, 0-9 and single -",
        NameMismatch = "NAME_MISMATCH", "The name in a file differs from the name of the folder."
            => "use one name in both",
        NameNotUtf8 = "NAME_NOT_UTF8", "The name of a file is not UTF-8."
            => "rename the file",
        NotUtf8 = "NOT_UTF8", "A file of the package is not UTF-8."
            => "save it as UTF-8",
        OldKey = "OLD_KEY", "A key has an old name."
            => "use the new name",
        OpenFormat = "OPEN_FORMAT", "The skill has no assets/runner.json and runs as a prompt skill with the input prompt."
            => "to give it schemas of its own: skill-runner skill import",
        OptionUnknown = "OPTION_UNKNOWN", "runtime.default_options has an unknown option."
            => "use one of the options in the finding",
        PackageTooLarge = "PACKAGE_TOO_LARGE", "The package has too many files or bytes."
            => "keep data out of the package",
        PathUnsafe = "PATH_UNSAFE", "A path leads outside the package."
            => "write a relative path inside the package",
        RequiredUnknown = "REQUIRED_UNKNOWN", "required names a field that does not exist."
            => "add the field, or remove the name",
        SandboxMissing = "SANDBOX_MISSING", "What the skill asks for is not enforced on the machine on which it was checked: there is no sandbox."
            => "run `skill-runner doctor`, which says why",
        SchemaExtensionInvalid = "SCHEMA_EXTENSION_INVALID", "A schema uses one of the runner's own keys wrongly."
            => "see docs/skills.md",
        SchemaInvalid = "SCHEMA_INVALID", "A schema is not a JSON Schema that can be used."
            => "correct the place that the finding names",
        SchemaNotObject = "SCHEMA_NOT_OBJECT", "A schema does not describe an object."
            => "add \"type\": \"object\"",
        ScriptMissing = "SCRIPT_MISSING", "A script skill has no script."
            => "add entrypoint.script",
        ScriptUnused = "SCRIPT_UNUSED", "A prompt skill has a script that is never started."
            => "make the entrypoint hybrid, or remove the script",
        ShapeInvalid = "SHAPE_INVALID", "A value has the wrong type or form."
            => "correct the place that the finding names",
        SpecialFile = "SPECIAL_FILE", "The package has something that is neither a file nor a folder."
            => "remove it",
        Symlink = "SYMLINK", "The package has a symbolic link."
            => "put the file itself in its place",
        TemplateInvalid = "TEMPLATE_INVALID", "A prompt template cannot be used."
            => "correct the place that the finding names",
        TopLevelInvalid = "TOP_LEVEL_INVALID", "The zip has more or less than one folder at its top level."
            => "zip the folder of the skill, and nothing else",
        UnknownKey = "UNKNOWN_KEY", "A key is unknown and has no effect."
            => "remove it, or use one of the keys in the finding",
        Unreadable = "UNREADABLE", "A file or folder cannot be read."
            => "make it readable",
        ValueOutOfRange = "VALUE_OUT_OF_RANGE", "A number is too large."
            => "use a smaller value",
        VersionInvalid = "VERSION_INVALID", "The version is not a semantic version."
            => "write it as 1.2.3",
    }
}
