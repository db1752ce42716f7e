package ignition

import (
	"path"

	"github.com/coreos/ignition/config/v2_4/types"
)

// decodeSpec2 reads spec 2.0 to 2.4; the types of 2.4 hold all of them for the fields read here.
func decodeSpec2(text []byte, version string) (document, error) {
	var c types.Config
	if err := unmarshal(text, &c); err != nil {
		return document{}, err
	}
	doc := document{version: version}
	if r := c.Ignition.Config.Replace; r != nil && r.Source != "" {
		doc.replace = &resource{source: r.Source, hash: deref(r.Verification.Hash)}
	}
	for _, r := range c.Ignition.Config.Append {
		if r.Source != "" {
			doc.children = append(doc.children, resource{source: r.Source, hash: deref(r.Verification.Hash)})
		}
	}
	roots := spec2Roots(c.Storage.Filesystems)
	for _, f := range c.Storage.Files {
		if root, ok := roots[f.Filesystem]; ok {
			doc.files = append(doc.files, spec2File(root, f))
		}
	}
	for _, u := range c.Systemd.Units {
		doc.units = append(doc.units, spec2Unit(u))
	}
	return doc, nil
}

// spec2Roots says where the named file systems of spec 2 are seen on the running machine. One that is only mounted while
// Ignition runs has no place there, and its files are left out.
func spec2Roots(filesystems []types.Filesystem) map[string]string {
	roots := map[string]string{"root": "/", "": "/"}
	for _, fs := range filesystems {
		if fs.Path != nil && path.IsAbs(*fs.Path) {
			roots[fs.Name] = *fs.Path
		}
	}
	return roots
}

// spec2File: the entries of spec 2 are written one after the other, so a later one writes the file anew unless it appends.
func spec2File(root string, f types.File) fileChange {
	out := fileChange{path: path.Join(root, f.Path)}
	if f.Contents.Source == "" {
		return out
	}
	r := resource{source: f.Contents.Source, compression: f.Contents.Compression, hash: deref(f.Contents.Verification.Hash)}
	if f.Append {
		out.appends = []resource{r}
		return out
	}
	out.contents, out.fresh = &r, true
	return out
}

func spec2Unit(u types.Unit) unitChange {
	out := unitChange{name: u.Name}
	if u.Contents != "" {
		out.contents = &u.Contents
	}
	if u.Mask {
		out.mask = &u.Mask
	}
	for _, d := range u.Dropins {
		out.dropins = append(out.dropins, dropin{name: d.Name, contents: &d.Contents})
	}
	return out
}
