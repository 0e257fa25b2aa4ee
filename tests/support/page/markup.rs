//! A look at HTML: elements that are not closed, and the content of one element.

/// Elements without an end.
const VOID: &[&str] = &["meta", "link", "br", "input"];

/// Attributes and content of the first element with this name and attribute.
pub(crate) fn element<'a>(page: &'a str, name: &str, attribute: &str) -> (&'a str, &'a str) {
    let begin = format!("<{name} ");
    for (at, _) in page.match_indices(&begin) {
        let rest = &page[at + begin.len()..];
        let (attributes, content) = rest.split_once('>').expect("the end of a tag");
        if attributes.contains(attribute) {
            let end = content.find(&format!("</{name}>")).expect("the end of the element");
            return (attributes, &content[..end]);
        }
    }
    panic!("no {name} with {attribute}");
}

/// First tag that has no counterpart; `None`: all have one.
pub(crate) fn unbalanced(page: &str) -> Option<String> {
    let mut open: Vec<&str> = Vec::new();
    let mut rest = page;
    while let Some(at) = rest.find('<') {
        rest = &rest[at + 1..];
        let end = rest.find('>')?;
        let tag = &rest[..end];
        rest = &rest[end + 1..];
        if tag.starts_with('!') {
            continue;
        }
        if let Some(name) = tag.strip_prefix('/') {
            if open.pop() != Some(name) {
                return Some(tag.to_owned());
            }
            continue;
        }
        let name = tag.split(' ').next().unwrap_or_default();
        if !VOID.contains(&name) {
            open.push(name);
        }
        if ["script", "style"].contains(&name) {
            // Its content is no markup.
            rest = &rest[rest.find(&format!("</{name}>"))?..];
        }
    }
    open.pop().map(str::to_owned)
}

#[test]
fn missing_and_wrong_ends_are_found() {
    assert_eq!(unbalanced("<!DOCTYPE html><p a=\"b\">x<br></p><script>a<b</script>"), None);
    assert_eq!(unbalanced("<p><b></p>"), Some("/p".to_owned()));
    assert_eq!(unbalanced("<p><b></b>"), Some("p".to_owned()));
    assert_eq!(element("<i x>a</i><i id=\"z\">b</i>", "i", "id=\"z\"").1, "b");
}
