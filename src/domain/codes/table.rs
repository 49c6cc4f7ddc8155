//! Makes an enum of codes from a table, so that a code, its text and its meaning cannot drift apart.

/// One row per code: `Variant = "TEXT", "What it means." => what else is known about it,`.
macro_rules! codes {
    (
        $(#[$about:meta])*
        $name:ident, $rest:ident: $Rest:ty
        { $($variant:ident = $text:literal, $means:literal => $value:expr,)* }
    ) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $(#[doc = $means] $variant,)*
        }

        impl $name {
            /// Every code, in the order of the table.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The code as programs see it.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }

            /// What the code means, in one sentence.
            pub const fn means(self) -> &'static str {
                match self { $(Self::$variant => $means,)* }
            }

            /// What else the table has about the code.
            pub const fn $rest(self) -> $Rest {
                match self { $(Self::$variant => $value,)* }
            }

            /// The code with this text.
            pub fn from_text(text: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|code| code.as_str() == text)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        /// For comparing with a code that came as text.
        impl PartialEq<str> for $name {
            fn eq(&self, text: &str) -> bool {
                self.as_str() == text
            }
        }

        impl PartialEq<&str> for $name {
            fn eq(&self, text: &&str) -> bool {
                self.as_str() == *text
            }
        }

        impl PartialEq<$name> for String {
            fn eq(&self, code: &$name) -> bool {
                self == code.as_str()
            }
        }
    };
}

pub(crate) use codes;
