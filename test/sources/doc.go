// Package sources checks that every field of a document that this product gives to others has its source written down: a file that maps the path of each
// field to a line `source:` that names who defines it. It promises that no field lacks one and that no line is left over. Tests only; it may import the
// standard library and sigs.k8s.io/yaml.
package sources
