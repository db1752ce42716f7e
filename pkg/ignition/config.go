package ignition

import (
	"fmt"
	"maps"
	"path"
	"slices"
)

// Config is an ignition config with all its merged configs folded in. It does not change and may be read concurrently.
type Config struct {
	version string
	files   map[string]file
	units   map[string]unit
}

// file is what all entries for a path come to.
type file struct {
	contents  *resource
	appends   []resource
	ambiguous bool
}

// unit is what all entries for a unit come to.
type unit struct {
	contents  string
	masked    bool
	dropins   map[string]string
	ambiguous bool
}

// Parse reads an ignition config: JSON of spec 2.0 to 2.4 or 3.0 to 3.5 in UTF-8 or UTF-16, as it is or as gzip, base64 or
// base64 of gzip. Configs that it merges, appends or is replaced by are read from data: URLs; one that stands elsewhere is
// refused (ErrRemote), since nobody can say what it would change. Contents of files are not looked at before File or Worker.
//
// Errors wrap ErrEmpty, ErrNotIgnition, ErrVersion, ErrTooLarge, ErrRemote or ErrContents.
func Parse(data []byte) (*Config, error) {
	if len(data) > MaxInput {
		return nil, fmt.Errorf("parsing ignition: %w", tooLarge("the input", MaxInput))
	}
	return parseWithin(data, newBudget())
}

func parseWithin(data []byte, b *budget) (*Config, error) {
	c := &Config{files: map[string]file{}, units: map[string]unit{}}
	if err := c.fold(data, b, 0); err != nil {
		return nil, fmt.Errorf("parsing ignition: %w", err)
	}
	return c, nil
}

// Version is the spec version of the outermost config that was not replaced, for example "3.2.0".
func (c *Config) Version() string { return c.version }

// Paths are the paths of all files, sorted.
func (c *Config) Paths() []string { return slices.Sorted(maps.Keys(c.files)) }

// File returns the content of a file with everything appended to it; ok is false when the ignition has no entry for the path. An
// entry without contents is an empty file: Ignition creates it so. Errors name the path and wrap ErrRemote, ErrContents or
// ErrTooLarge.
func (c *Config) File(name string) (data []byte, ok bool, err error) {
	f, ok := c.files[path.Clean(name)]
	if !ok {
		return nil, false, nil
	}
	data, err = f.read()
	if err != nil {
		return nil, true, fmt.Errorf("file %s: %w", name, err)
	}
	return data, true, nil
}

func (f file) read() ([]byte, error) {
	if f.ambiguous {
		return nil, fmt.Errorf("%w: two different entries for the same path in one config", ErrContents)
	}
	parts := f.appends
	if f.contents != nil {
		parts = append([]resource{*f.contents}, f.appends...)
	}
	var out []byte
	for _, r := range parts {
		data, err := r.read(MaxFile - len(out))
		if err != nil {
			return nil, err
		}
		out = append(out, data...)
	}
	return out, nil
}

// fold reads one document and what it refers to, the later over the earlier: Ignition merges the configs that a config names
// over that config itself, in order.
func (c *Config) fold(data []byte, b *budget, depth int) error {
	if depth > maxDepth {
		return tooLarge("the nesting of merged configs", maxDepth)
	}
	if b.documents--; b.documents < 0 {
		return tooLarge("the number of merged configs", maxDocuments)
	}
	text, err := plain(data, b)
	if err != nil {
		return err
	}
	doc, err := decode(text)
	if err != nil {
		return err
	}
	if doc.replace != nil {
		return c.foldResource(*doc.replace, "the config that replaces it", b, depth)
	}
	if c.version == "" {
		c.version = doc.version
	}
	c.apply(doc)
	for i, r := range doc.children {
		if err := c.foldResource(r, fmt.Sprintf("merged config %d", i+1), b, depth); err != nil {
			return err
		}
	}
	return nil
}

func (c *Config) foldResource(r resource, what string, b *budget, depth int) error {
	data, err := r.read(b.bytes)
	if err == nil {
		err = b.spend(len(data))
	}
	if err == nil {
		err = c.fold(data, b, depth+1)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

func (c *Config) apply(doc document) {
	for _, change := range doc.files {
		name := path.Clean(change.path)
		c.files[name] = c.files[name].with(change)
	}
	for _, change := range doc.units {
		c.units[change.name] = c.units[change.name].with(change)
	}
}

// with replaces contents whole: a compression or a hash of the earlier entry never stays behind for the later one's bytes.
func (f file) with(change fileChange) file {
	if change.contents != nil {
		f.contents = change.contents
	}
	if change.fresh {
		f.appends = nil
	}
	f.appends = append(f.appends, change.appends...)
	f.ambiguous = f.ambiguous || change.ambiguous
	return f
}

func (u unit) with(change unitChange) unit {
	if change.contents != nil {
		u.contents = *change.contents
	}
	if change.mask != nil {
		u.masked = *change.mask
	}
	if u.dropins == nil {
		u.dropins = map[string]string{}
	}
	for _, d := range change.dropins {
		if d.contents != nil {
			u.dropins[d.name] = *d.contents
		}
	}
	u.ambiguous = u.ambiguous || change.ambiguous
	return u
}
