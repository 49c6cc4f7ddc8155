//! The little XML that a server of objects answers with: elements and text. Attributes, comments and declarations are passed over.

/// Deepest nesting that is read.
const DEPTH_MAX: usize = 16;
/// Most elements that are read; a page of a list has a tenth of them.
const ELEMENTS_MAX: usize = 100_000;
/// Longest name or number of a character behind `&`.
const REFERENCE_MAX: usize = 16;

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Element {
    name: String,
    text: String,
    below: Vec<Element>,
}

impl Element {
    /// The outermost element; none if this is something else, or is cut short.
    pub(super) fn parse(xml: &str) -> Option<Element> {
        let mut open: Vec<Element> = Vec::new();
        let mut rest = xml;
        let mut elements = 0;
        loop {
            let (text, tag) = rest.split_once('<')?;
            if let Some(inner) = open.last_mut() {
                inner.text.push_str(&decoded(text));
            }
            if let Some(comment) = tag.strip_prefix("!--") {
                rest = comment.split_once("-->")?.1;
                continue;
            }
            let (tag, behind) = tag.split_once('>')?;
            rest = behind;
            if tag.starts_with(['?', '!']) {
                continue;
            }
            let ended = if let Some(name) = tag.strip_prefix('/') {
                Some(open.pop().filter(|ended| ended.name == local(name))?)
            } else {
                elements += 1;
                let element = Element { name: local(tag.trim_end_matches('/')).to_owned(), ..Element::default() };
                if tag.ends_with('/') {
                    Some(element)
                } else {
                    open.push(element);
                    None
                }
            };
            if open.len() > DEPTH_MAX || elements > ELEMENTS_MAX {
                return None;
            }
            if let Some(ended) = ended {
                match open.last_mut() {
                    Some(above) => above.below.push(ended),
                    None => return Some(ended),
                }
            }
        }
    }

    pub(super) fn is(&self, name: &str) -> bool {
        self.name == name
    }

    /// The text of the first element with this name directly below.
    pub(super) fn text_of(&self, name: &str) -> Option<&str> {
        self.below.iter().find(|below| below.name == name).map(|found| found.text.trim())
    }

    /// The elements with this name directly below.
    pub(super) fn all(&self, name: &'static str) -> impl Iterator<Item = &Element> {
        self.below.iter().filter(move |below| below.name == name)
    }
}

/// The name of a tag without attributes and name space.
fn local(tag: &str) -> &str {
    let name = tag.split_whitespace().next().unwrap_or_default();
    name.rsplit_once(':').map_or(name, |(_, name)| name)
}

fn decoded(text: &str) -> String {
    let mut decoded = String::new();
    let mut rest = text;
    while let Some((before, reference)) = rest.split_once('&') {
        decoded.push_str(before);
        // Looked for nearby alone: an answer may be nothing but `&`.
        let end = reference.bytes().take(REFERENCE_MAX).position(|byte| byte == b';');
        let Some((name, behind)) = end.and_then(|end| Some((reference.get(..end)?, reference.get(end + 1..)?))) else {
            rest = reference;
            continue;
        };
        match name {
            "amp" => decoded.push('&'),
            "lt" => decoded.push('<'),
            "gt" => decoded.push('>'),
            "quot" => decoded.push('"'),
            "apos" => decoded.push('\''),
            _ => decoded.extend(character(name)),
        }
        rest = behind;
    }
    decoded.push_str(rest);
    decoded
}

fn character(reference: &str) -> Option<char> {
    let number = reference.strip_prefix('#')?;
    let code = match number.strip_prefix('x') {
        Some(digits) => u32::from_str_radix(digits, 16),
        None => number.parse(),
    };
    char::from_u32(code.ok()?)
}

/// A text as it may stand in XML.
pub(super) fn encoded(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn elements_and_their_texts_are_found() {
        let xml = "<?xml version=\"1.0\"?>\n<!-- <x> --><a:List xmlns=\"http://x/\"><Key>a&amp;b&#x41;&#66;</Key><None/>\
                   <One><Key>c</Key></One><One attr=\"1\"><Key> d </Key></One></a:List>";
        let list = Element::parse(xml).unwrap();
        assert!(list.is("List"));
        assert_eq!((list.text_of("Key"), list.text_of("None"), list.text_of("Other")), (Some("a&bAB"), Some(""), None));
        let ones: Vec<_> = list.all("One").map(|one| one.text_of("Key")).collect();
        assert_eq!(ones, [Some("c"), Some("d")]);
    }

    #[test]
    fn what_is_cut_short_or_no_xml_or_too_deep_is_nothing() {
        let deep = "<a>".repeat(DEPTH_MAX + 1) + &"</a>".repeat(DEPTH_MAX + 1);
        let many = format!("<a>{}</a>", "<b/>".repeat(ELEMENTS_MAX));
        for wrong in ["", "text", "<a>", "<a><b></a>", "<a", "</a>", "<html><p></html>", deep.as_str(), many.as_str()] {
            assert_eq!(Element::parse(wrong), None, "{}", wrong.get(..40).unwrap_or(wrong));
        }
    }

    /// The longest answer that is read. Each `&` was looked behind to the end of the answer, which took hours.
    #[test]
    fn an_answer_of_the_longest_length_is_read_in_time_by_its_length() {
        let began = std::time::Instant::now();
        let text = format!("<a><b>{}</b></a>", "&".repeat(8 << 20));
        // The characters that open a reference and no more go.
        assert_eq!(Element::parse(&text).unwrap().text_of("b"), Some(""));
        assert_eq!(Element::parse("<a><b>&amp;&#x41&;&ampx;</b></a>").unwrap().text_of("b"), Some("&"));
        assert!(began.elapsed() < std::time::Duration::from_secs(20), "{:?}", began.elapsed());
    }

    proptest! {
        #[test]
        fn a_text_comes_back_and_no_text_breaks_the_reader(text in "[^\\p{C}]{0,40}", any in ".{0,200}") {
            let element = Element::parse(&format!("<a><b>{}</b></a>", encoded(&text))).unwrap();
            prop_assert_eq!(element.text_of("b"), Some(text.trim()));
            let _ = (Element::parse(&any), Element::parse(&format!("<a>{any}</a>")));
        }
    }
}
