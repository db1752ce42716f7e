package sources

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// Line says where a field comes from.
type Line struct {
	Source string `json:"source"`
}

// Read returns the lines of a file by the paths of their fields. It refuses lines that name nothing.
func Read(path string) (map[string]Line, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var out map[string]Line
	if err := yaml.UnmarshalStrict(b, &out); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for field, l := range out {
		if len(strings.Fields(l.Source)) < 2 {
			return nil, fmt.Errorf("%s: field %s has the source %q", path, field, l.Source)
		}
	}
	return out, nil
}

// Fields returns the paths of all fields of a JSON document, sorted: names joined by dots, with [] behind those of lists.
func Fields(document []byte) ([]string, error) {
	var v any
	if err := json.Unmarshal(document, &v); err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	walk(v, "", seen)
	out := make([]string, 0, len(seen))
	for f := range seen {
		out = append(out, f)
	}
	slices.Sort(out)
	return out, nil
}

func walk(v any, path string, seen map[string]bool) {
	switch v := v.(type) {
	case map[string]any:
		if len(v) == 0 {
			seen[path] = true
		}
		for name, value := range v {
			walk(value, strings.TrimPrefix(path+"."+name, "."), seen)
		}
	case []any:
		for _, e := range v {
			walk(e, path+"[]", seen)
		}
		if len(v) == 0 {
			seen[path+"[]"] = true
		}
	default:
		seen[path] = true
	}
}

// Compare returns the fields that have no line, and the lines of fields that no document has.
func Compare(lines map[string]Line, fields []string) (missing, unused []string) {
	has := map[string]bool{}
	for _, f := range fields {
		has[f] = true
		if _, ok := lines[f]; !ok && !slices.Contains(missing, f) {
			missing = append(missing, f)
		}
	}
	for f := range lines {
		if !has[f] {
			unused = append(unused, f)
		}
	}
	slices.Sort(unused)
	return missing, unused
}
