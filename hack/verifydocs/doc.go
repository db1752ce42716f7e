// Command verifydocs checks what documents say against the tree they are in:
//
//   - an excerpt marked `<!-- golden: path -->` equals that file, or a run of its lines; where both are JSON, blanks between tokens do
//     not count, so that a document may show one long line readably; lines of a golden that begin with # may be left out;
//   - a relative link leads to a file that exists;
//   - every Go package of this module has a doc.go with a package comment in it;
//   - docs/architecture.md names the folder of every package.
//
// It prints all findings and ends with 1 when there is one. It imports the standard library only.
package main
