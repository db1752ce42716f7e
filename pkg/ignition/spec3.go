package ignition

import (
	"reflect"

	"github.com/coreos/ignition/v2/config/v3_5/types"
)

// decodeSpec3 reads spec 3.0 to 3.5. The types of 3.5 hold all of them: for the fields read here, each version only added to
// the one before.
func decodeSpec3(text []byte, version string) (document, error) {
	var c types.Config
	if err := unmarshal(text, &c); err != nil {
		return document{}, err
	}
	doc := document{version: version}
	if r := spec3Resource(c.Ignition.Config.Replace); r != nil && r.source != "" {
		doc.replace = r
	}
	for _, m := range c.Ignition.Config.Merge {
		if r := spec3Resource(m); r != nil && r.source != "" {
			doc.children = append(doc.children, *r)
		}
	}
	for _, f := range c.Storage.Files {
		doc.files = append(doc.files, spec3File(f))
	}
	for _, u := range c.Systemd.Units {
		doc.units = append(doc.units, spec3Unit(u))
	}
	doc.files = once(doc.files,
		func(f fileChange) string { return f.path },
		func(f *fileChange) { f.ambiguous = true })
	doc.units = once(doc.units,
		func(u unitChange) string { return u.name },
		func(u *unitChange) { u.ambiguous = true })
	return doc, nil
}

func spec3File(f types.File) fileChange {
	out := fileChange{path: f.Path, contents: spec3Resource(f.Contents)}
	for _, a := range f.Append {
		if r := spec3Resource(a); r != nil {
			out.appends = append(out.appends, *r)
		}
	}
	return out
}

func spec3Unit(u types.Unit) unitChange {
	out := unitChange{name: u.Name, contents: u.Contents, mask: u.Mask}
	for _, d := range u.Dropins {
		out.dropins = append(out.dropins, dropin{name: d.Name, contents: d.Contents})
	}
	return out
}

// spec3Resource is nil when there is no source at all; an empty source is one that says "nothing".
func spec3Resource(r types.Resource) *resource {
	if r.Source == nil {
		return nil
	}
	return &resource{source: *r.Source, compression: deref(r.Compression), hash: deref(r.Verification.Hash)}
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// once drops entries that repeat an earlier one and marks those that differ from an earlier one of the same key: spec 3 forbids
// them, and a reader that picks one would pick another than Linux did.
func once[T any](entries []T, key func(T) string, mark func(*T)) []T {
	at := map[string]int{}
	out := entries[:0]
	for _, e := range entries {
		i, seen := at[key(e)]
		if !seen {
			at[key(e)] = len(out)
			out = append(out, e)
			continue
		}
		if !reflect.DeepEqual(out[i], e) {
			mark(&out[i])
		}
	}
	return out
}
