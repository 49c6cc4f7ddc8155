//! The variables of the service that an installer gets: where its index is, and how to reach it. Nothing else is passed on,
//! since packages run code of their own while they are installed.

/// Names that are passed on as they are; proxies are added by the end of their names.
const NAMES: [&str; 24] = [
    "PIP_INDEX_URL",
    "PIP_EXTRA_INDEX_URL",
    "PIP_FIND_LINKS",
    "PIP_NO_INDEX",
    "PIP_TRUSTED_HOST",
    "PIP_CERT",
    "PIP_CLIENT_CERT",
    "PIP_CONFIG_FILE",
    "PIP_RETRIES",
    "PIP_DEFAULT_TIMEOUT",
    "PIP_ONLY_BINARY",
    "PIP_CONSTRAINT",
    "UV_DEFAULT_INDEX",
    "UV_INDEX",
    "UV_INDEX_URL",
    "UV_EXTRA_INDEX_URL",
    "UV_FIND_LINKS",
    "UV_OFFLINE",
    "UV_INSECURE_HOST",
    "UV_CONSTRAINT",
    "UV_CONFIG_FILE",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "REQUESTS_CA_BUNDLE",
];

/// Those of this process.
pub(crate) fn of_operator() -> Vec<(String, String)> {
    let is_passed = |name: &str| NAMES.contains(&name) || name.to_ascii_lowercase().ends_with("_proxy");
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .filter(|(name, _)| is_passed(name))
        .collect()
}

/// The passwords in addresses among these values, `https://user:password@host/`, to be masked.
pub(crate) fn secrets(variables: &[(String, String)]) -> Vec<String> {
    let words = variables.iter().flat_map(|(_, value)| value.split([' ', ',', '\n']));
    let credentials = words.filter_map(|word| word.split_once("://")?.1.split('/').next()?.rsplit_once('@'));
    let passwords = credentials.map(|(login, _)| login.split_once(':').map_or(login, |(_, password)| password));
    passwords.filter(|password| !password.is_empty()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_passwords_of_addresses_are_known() {
        let variables = [
            ("PIP_INDEX_URL".to_owned(), "https://me:s3cret@host.invalid/simple".to_owned()),
            ("UV_INDEX".to_owned(), "https://host.invalid/a@b https://token@host.invalid/".to_owned()),
            ("PIP_FIND_LINKS".to_owned(), "/srv/a@b".to_owned()),
        ];
        assert_eq!(secrets(&variables), ["s3cret", "token"]);
    }
}
