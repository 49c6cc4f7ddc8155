//! The signature of a finished run: over every byte of its last event, which holds the proof of all the others.

use ed25519_dalek::{Signature, Signer as _, SigningKey, VerifyingKey};

use crate::domain::outcome::ProofSignature;

/// What is signed begins with this, so that no signature can stand for anything else.
const PURPOSE: &[u8] = b"skill-runner finished run 1\n";
/// The same for what the runner notes for itself.
const NOTE: &[u8] = b"skill-runner note 1\n";
/// The signature's place in an event: the last member of the proof. No text of an event can hold this, since quotes in a text are escaped.
const MEMBER: &str = ",\"signature\":{";

/// The private key of a data folder.
pub struct Signer {
    key: SigningKey,
    public: PublicKey,
}

impl std::fmt::Debug for Signer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Signer({})", self.public)
    }
}

impl Signer {
    /// The key that grows from this seed.
    pub fn from_seed(seed: &[u8; 32]) -> Self {
        let key = SigningKey::from_bytes(seed);
        let public = PublicKey(key.verifying_key().to_bytes());
        Self { key, public }
    }

    /// What others check its signatures with.
    pub fn public_key(&self) -> PublicKey {
        self.public
    }

    /// Signs an event that has no signature yet.
    pub(super) fn sign(&self, event: &[u8]) -> ProofSignature {
        let signature = self.key.sign(&message(event));
        ProofSignature { public_key: self.public.to_string(), ed25519: hex::encode(signature.to_bytes()) }
    }

    /// Signs what the runner notes for itself; the signature in hexadecimal digits.
    pub(crate) fn sign_note(&self, note: &[u8]) -> String {
        hex::encode(self.key.sign(&[NOTE, note].concat()).to_bytes())
    }

    /// Whether this key made the signature of a note.
    pub(crate) fn has_signed_note(&self, note: &[u8], signature: &str) -> bool {
        let mut bytes = [0; 64];
        let read = hex::decode_to_slice(signature, &mut bytes).is_ok();
        let verifying = self.key.verifying_key();
        read && verifying.verify_strict(&[NOTE, note].concat(), &Signature::from_bytes(&bytes)).is_ok()
    }
}

/// A public key, by which a signer is known.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct PublicKey([u8; 32]);

impl PublicKey {
    /// Reads its 64 hexadecimal digits.
    pub fn parse(text: &str) -> Option<Self> {
        let mut bytes = [0; 32];
        hex::decode_to_slice(text, &mut bytes).ok()?;
        VerifyingKey::from_bytes(&bytes).is_ok().then_some(Self(bytes))
    }
}

impl std::fmt::Display for PublicKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl std::fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{self}")
    }
}

impl serde::Serialize for PublicKey {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Whether an event, by its stored bytes, is what the key in its signature signed; the key, or what is wrong.
pub(crate) fn verify(event: &[u8], claimed: &ProofSignature) -> Result<PublicKey, &'static str> {
    let key = PublicKey::parse(&claimed.public_key).ok_or("its public key is none")?;
    let mut bytes = [0; 64];
    hex::decode_to_slice(&claimed.ed25519, &mut bytes).map_err(|_| "it is not 128 hexadecimal digits")?;
    let unsigned = without(event, claimed).ok_or("it does not stand where it has to")?;
    let verifying = VerifyingKey::from_bytes(&key.0).map_err(|_| "its public key is none")?;
    let fits = verifying.verify_strict(&message(&unsigned), &Signature::from_bytes(&bytes));
    fits.map(|()| key).map_err(|_| "it does not fit the event: something was changed after it was signed")
}

/// The event as it was signed.
fn without(event: &[u8], claimed: &ProofSignature) -> Option<Vec<u8>> {
    let member = format!("{MEMBER}{}", serde_json::to_string(claimed).ok()?.strip_prefix('{')?);
    let at = event.windows(member.len()).rposition(|window| window == member.as_bytes())?;
    Some([&event[..at], &event[at + member.len()..]].concat())
}

fn message(event: &[u8]) -> Vec<u8> {
    [PURPOSE, event].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signed(signer: &Signer, text: &str) -> (Vec<u8>, ProofSignature) {
        let unsigned = format!(r#"{{"data":{{"text":"{text}","proof":{{"events":1}}}},"seq":2}}"#);
        let signature = signer.sign(unsigned.as_bytes());
        let member = format!("{MEMBER}{}", serde_json::to_string(&signature).unwrap().strip_prefix('{').unwrap());
        (unsigned.replace("\"events\":1", &format!("\"events\":1{member}")).into_bytes(), signature)
    }

    #[test]
    fn a_signature_holds_for_every_byte_of_its_event() {
        let signer = Signer::from_seed(&[7; 32]);
        let (event, signature) = signed(&signer, "x");
        assert_eq!(verify(&event, &signature), Ok(signer.public_key()));
        for at in 0..event.len() {
            let mut changed = event.clone();
            changed[at] ^= 1 << (at % 8);
            assert!(verify(&changed, &signature).is_err(), "byte {at}");
        }
        let other = Signer::from_seed(&[8; 32]).sign(&event);
        assert!(verify(&event, &other).is_err());
        assert_eq!(PublicKey::parse(&signer.public_key().to_string()), Some(signer.public_key()));
        assert!(PublicKey::parse("ab").is_none() && !format!("{signer:?}").contains(&hex::encode([7; 32])));
    }

    #[test]
    fn a_note_is_known_by_the_key_that_signed_it() {
        let (signer, other) = (Signer::from_seed(&[7; 32]), Signer::from_seed(&[8; 32]));
        let signature = signer.sign_note(b"note");
        assert!(signer.has_signed_note(b"note", &signature));
        assert!(!signer.has_signed_note(b"Note", &signature) && !other.has_signed_note(b"note", &signature));
        assert!(!signer.has_signed_note(b"note", &signer.sign(b"note").ed25519), "it stands for a run");
        assert!(!signer.has_signed_note(b"note", "") && !signer.has_signed_note(b"note", "no digits"));
    }

    #[test]
    fn a_text_that_looks_like_a_signature_is_none() {
        let signer = Signer::from_seed(&[7; 32]);
        let (event, signature) = signed(&signer, r#",\"signature\":{\"public_key\":\"\"}"#);
        assert_eq!(verify(&event, &signature), Ok(signer.public_key()));
    }
}
