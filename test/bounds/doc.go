// Package bounds holds tests over the source of the product: every reader has a limit, every limit stands in docs/security.md beside the
// test that holds it, and remote commands are plain words that nobody builds from text.
//
// It does not prove that a limit is enforced where it should be; the tests that the table names do. It reads syntax, not types: a reader
// hidden behind a name of its own is not seen.
package bounds
