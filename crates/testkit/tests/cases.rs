//! The list of cases is complete: what is written is run.

use tidemill_testkit::conformance;

#[test]
fn every_case_that_is_written_is_listed() {
    let themes = concat!(env!("CARGO_MANIFEST_DIR"), "/src/conformance");
    let sources = std::fs::read_dir(themes).unwrap().map(|entry| entry.unwrap().path());
    let sources = sources.filter(|path| path.extension().is_some_and(|extension| extension == "rs"));
    let written: usize = sources
        .map(|path| std::fs::read_to_string(path).unwrap().matches("(subject: StoreUnderTest) {").count())
        .sum();
    assert_eq!(written, conformance::count());
}
