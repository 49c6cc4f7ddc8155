//! What a skill package is: manifest, package, lint, inputs and schemas, as pure values.
