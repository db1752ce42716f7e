package ignition

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// document is one config, of any spec version, as a list of changes.
type document struct {
	version string
	// replace is the config that takes this one's place, nil when there is none.
	replace *resource
	// children are the configs that are merged over this one, in order.
	children []resource
	files    []fileChange
	units    []unitChange
}

// fileChange is an entry of storage.files.
type fileChange struct {
	path string
	// contents is nil when the entry does not speak of them.
	contents *resource
	// appends go behind the contents in order.
	appends []resource
	// fresh drops what earlier entries appended (spec 2: the file is written anew; in spec 3 appends accumulate).
	fresh bool
	// ambiguous is set when a spec 3 document has a second, different entry for the path, which the spec forbids.
	ambiguous bool
}

// unitChange is an entry of systemd.units.
type unitChange struct {
	name      string
	contents  *string
	mask      *bool
	dropins   []dropin
	ambiguous bool
}

type dropin struct {
	name     string
	contents *string
}

// decode reads one document.
func decode(text []byte) (document, error) {
	if countElements(text) > maxElements {
		return document{}, tooLarge("the number of JSON elements", maxElements)
	}
	version, err := sniffVersion(text)
	if err != nil {
		return document{}, err
	}
	if strings.HasPrefix(version, "2.") {
		return decodeSpec2(text, version)
	}
	return decodeSpec3(text, version)
}

// versions are the spec versions that are read; a pre-release such as 3.6.0-experimental is none of them.
func versions() []string {
	return []string{"2.0.0", "2.1.0", "2.2.0", "2.3.0", "2.4.0", "3.0.0", "3.1.0", "3.2.0", "3.3.0", "3.4.0", "3.5.0"}
}

// sniffVersion reads ignition.version. Objects of Kubernetes and configs of spec 1 are recognised, since both are handed in
// by mistake.
func sniffVersion(text []byte) (string, error) {
	var stub struct {
		Kind     string          `json:"kind"`
		V1       json.RawMessage `json:"ignitionVersion"`
		Ignition struct {
			Version string `json:"version"`
		} `json:"ignition"`
	}
	if err := unmarshal(text, &stub); err != nil {
		return "", err
	}
	version := stub.Ignition.Version
	switch {
	case slices.Contains(versions(), version):
		return version, nil
	case version != "":
		return "", fmt.Errorf("%w %.32q: 2.0.0 to 2.4.0 and 3.0.0 to 3.5.0 are read", ErrVersion, version)
	case stub.V1 != nil:
		return "", fmt.Errorf("%w 1: 2.0.0 to 2.4.0 and 3.0.0 to 3.5.0 are read", ErrVersion)
	case stub.Kind != "":
		return "", fmt.Errorf("%w: it is a Kubernetes object of kind %.64q; give the ignition that it holds", ErrNotIgnition, stub.Kind)
	}
	return "", fmt.Errorf("%w: ignition.version is missing", ErrVersion)
}

// unmarshal decodes JSON. Its errors say where, never what: a document holds secrets.
func unmarshal(text []byte, into any) error {
	err := json.Unmarshal(text, into)
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &syntax):
		return fmt.Errorf("%w: broken JSON at byte %d", ErrNotIgnition, syntax.Offset)
	case errors.As(err, &kind):
		return fmt.Errorf("%w: wrong type at byte %d, field %.128s", ErrNotIgnition, kind.Offset, kind.Field)
	}
	return fmt.Errorf("%w: JSON that does not decode", ErrNotIgnition)
}

// countElements counts braces, brackets and commas outside strings.
func countElements(text []byte) int {
	n, inString := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '{', c == '[', c == ',':
			n++
		}
	}
	return n
}
