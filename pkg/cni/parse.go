package cni

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// ErrInvalid: a text is no CNI configuration that a container runtime would take.
var ErrInvalid = errors.New("CNI configuration is invalid")

// MaxSize bounds a configuration, in bytes.
const MaxSize = 64 << 10

const (
	maxPlugins = 16
	maxDepth   = 32
)

var (
	// networkName is the rule of libcni's ValidateNetworkName.
	networkName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]*$`)
	// pluginType is a file name without folder; the runtime looks for <type>.exe.
	pluginType = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$`)
)

// Versions returns the versions of the CNI specification that are known.
func Versions() []string {
	return []string{"0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"}
}

// Config is what matters of a CNI configuration.
type Config struct {
	Version string
	Name    string
	// Types are the plugins' types in order; one for a .conf.
	Types []string
	// List is true for a .conflist.
	List bool
	// Plugins are the plugins in order, Types their types.
	Plugins []Plugin
}

// Plugin is what matters of one plugin's configuration.
type Plugin struct {
	Type string
	// IPAM is ipam.type; HasIPAM is whether there is an ipam at all.
	IPAM    string
	HasIPAM bool
	// APIVersion is 2 for HCN, and 1 or 0 for the older HNS.
	APIVersion int
	// Delegate is delegate.type, the plugin that flannel starts.
	Delegate string
}

// Parse reads a configuration of at most MaxSize bytes: one plugin (.conf) or a list (.conflist), by its content. A byte
// order mark and CRLF are tolerated; keys must be written exactly as the specification has them, since plugins that read
// them with other libraries than Go's would not see "CniVersion".
func Parse(b []byte) (Config, error) {
	b, err := text(b)
	if err != nil {
		return Config{}, err
	}
	m, err := decode(b)
	if err != nil {
		return Config{}, err
	}
	if text := exactKeys(m); text != "" {
		return Config{}, fmt.Errorf("%w: %s", ErrInvalid, text)
	}
	c := Config{}
	var problems []string
	c.Version, problems = version(m, problems)
	c.Name, problems = name(m, problems)
	c.List = m["plugins"] != nil
	c.Plugins = pluginsOf(m)
	if c.List {
		c.Types, problems = list(m["plugins"], problems)
	} else {
		c.Types, problems = one(m, "", nil, problems)
	}
	if len(problems) > 0 {
		return Config{}, fmt.Errorf("%w: %s", ErrInvalid, strings.Join(problems, "; "))
	}
	return c, nil
}

// text strips the byte order mark and refuses what is not UTF-8 text of a fair size.
func text(b []byte) ([]byte, error) {
	switch {
	case len(b) > MaxSize:
		return nil, fmt.Errorf("%w: %d bytes, at most %d", ErrInvalid, len(b), MaxSize)
	case bytes.HasPrefix(b, []byte{0xff, 0xfe}) || bytes.HasPrefix(b, []byte{0xfe, 0xff}):
		return nil, fmt.Errorf("%w: it is UTF-16, save it as UTF-8", ErrInvalid)
	case !utf8.Valid(b):
		return nil, fmt.Errorf("%w: it is not UTF-8", ErrInvalid)
	}
	return stripBOM(b), nil
}

func stripBOM(b []byte) []byte { return bytes.TrimPrefix(b, []byte("\xef\xbb\xbf")) }

func decode(b []byte) (map[string]any, error) {
	if depth(b) > maxDepth {
		return nil, fmt.Errorf("%w: nested more than %d deep", ErrInvalid, maxDepth)
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var m map[string]any
	if err := d.Decode(&m); err != nil {
		return nil, fmt.Errorf("%w: not a JSON object: %w", ErrInvalid, err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%w: something follows the end", ErrInvalid)
	}
	if m == nil {
		return nil, fmt.Errorf("%w: null", ErrInvalid)
	}
	return m, nil
}

// depth counts brackets, without regard to strings: a bound, not a measure.
func depth(b []byte) int {
	at, most := 0, 0
	for _, c := range b {
		switch c {
		case '{', '[':
			at++
		case '}', ']':
			at--
		}
		most = max(most, at)
	}
	return most
}

// keys that the specification or the plugins of this product give a meaning.
func keys() []string {
	return []string{
		"cniVersion", "cniVersions", "name", "type", "plugins", "disableCheck", "disableGC", "capabilities", "ipam", "dns",
		"args", "ipMasq", "runtimeConfig", "prevResult", "delegate", "policies", "apiVersion", "loopbackDSR",
		"endpointMacPrefix", "subnet", "rangeStart", "rangeEnd", "gateway", "ranges", "routes", "dataDir", "nameservers",
		"domain", "search", "options", "portMappings", "optionalFlags",
	}
}

// exactKeys returns a message when a key differs from a known one by its case only. What is below AdditionalArgs and below
// a policy's value is not looked at: HNS spells its own keys with a capital.
func exactKeys(v any) string {
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			if text := exactKey(k); text != "" {
				return text
			}
			if opaque(k) {
				continue
			}
			if text := exactKeys(e); text != "" {
				return text
			}
		}
	case []any:
		for _, e := range v {
			if text := exactKeys(e); text != "" {
				return text
			}
		}
	}
	return ""
}

func opaque(k string) bool {
	return k == "value" || k == "Value" || k == "AdditionalArgs" || k == "args"
}

func exactKey(k string) string {
	for _, want := range keys() {
		if k != want && strings.EqualFold(k, want) && !hnsSpelling(k) {
			return fmt.Sprintf("key %.40q must be written %q", k, want)
		}
	}
	return ""
}

// hnsSpelling are capitals that sdnbridge and older plugins ask for.
func hnsSpelling(k string) bool {
	return k == "Name" || k == "Nameservers" || k == "Search" || k == "Type"
}

func version(m map[string]any, problems []string) (string, []string) {
	v, ok := m["cniVersion"].(string)
	switch {
	case !ok:
		return "", append(problems, "cniVersion is missing")
	case !slices.Contains(Versions(), v):
		return "", append(problems, fmt.Sprintf("cniVersion %.20q is none of %s", v, strings.Join(Versions(), ", ")))
	}
	return v, problems
}

func name(m map[string]any, problems []string) (string, []string) {
	n, ok := m["name"].(string)
	switch {
	case !ok || n == "":
		return "", append(problems, "name is missing")
	case len(n) > 128 || !networkName.MatchString(n):
		return "", append(problems, fmt.Sprintf("name %.40q must match %s", n, networkName))
	}
	return n, problems
}

func list(v any, problems []string) ([]string, []string) {
	plugins, ok := v.([]any)
	switch {
	case !ok || len(plugins) == 0:
		return nil, append(problems, "plugins must be a list of at least one")
	case len(plugins) > maxPlugins:
		return nil, append(problems, fmt.Sprintf("%d plugins, at most %d", len(plugins), maxPlugins))
	}
	var types []string
	for i, p := range plugins {
		m, ok := p.(map[string]any)
		if !ok {
			problems = append(problems, fmt.Sprintf("plugins[%d] is no object", i))
			continue
		}
		types, problems = one(m, fmt.Sprintf("plugins[%d].", i), types, problems)
	}
	return types, problems
}

func one(m map[string]any, prefix string, types, problems []string) ([]string, []string) {
	t, ok := m["type"].(string)
	switch {
	case !ok || t == "":
		return types, append(problems, prefix+"type is missing")
	case !pluginType.MatchString(t):
		return types, append(problems, fmt.Sprintf("%stype %.40q must be a file name", prefix, t))
	}
	return append(types, t), problems
}

// pluginsOf reads the plugins of a configuration whose form is looked at elsewhere.
func pluginsOf(m map[string]any) []Plugin {
	all, isList := m["plugins"].([]any)
	if !isList {
		all = []any{m}
	}
	var out []Plugin
	for _, e := range all {
		p, _ := e.(map[string]any)
		ipam, hasIPAM := p["ipam"].(map[string]any)
		delegate, _ := p["delegate"].(map[string]any)
		one := Plugin{HasIPAM: hasIPAM, APIVersion: integer(p["apiVersion"])}
		if one.APIVersion == 0 {
			one.APIVersion = integer(delegate["apiVersion"])
		}
		one.Type, _ = p["type"].(string)
		one.IPAM, _ = ipam["type"].(string)
		one.Delegate, _ = delegate["type"].(string)
		out = append(out, one)
	}
	return out
}

func integer(v any) int {
	n, ok := v.(json.Number)
	if !ok {
		return 0
	}
	i, _ := n.Int64()
	return int(i)
}

// Normal returns a configuration as the product writes it: without byte order mark, with line feeds only.
func Normal(b []byte) []byte { return normal(b) }

// Equal reports whether the file that a machine holds is the wanted one, apart from a byte order mark and the kind of line
// ends. An empty file is not equal to anything but an empty one.
func Equal(existing, wanted []byte) bool {
	return bytes.Equal(normal(existing), normal(wanted))
}

func normal(b []byte) []byte {
	return bytes.ReplaceAll(stripBOM(b), []byte("\r\n"), []byte("\n"))
}

// Usable returns which of the files in a configuration folder a container runtime takes: the first by name, bytewise, that
// ends in .conf, .conflist or .json and that it can read. The others of these are what was passed over or stands in
// second place; a caller reports those that are not its own. ok is false when there is none.
func Usable(files map[string][]byte) (winner string, others []string, ok bool) {
	var names []string
	for n := range files {
		if strings.HasSuffix(n, ".conf") || strings.HasSuffix(n, ".conflist") || strings.HasSuffix(n, ".json") {
			names = append(names, n)
		}
	}
	slices.Sort(names)
	for _, n := range names {
		if _, err := Parse(files[n]); err == nil && !ok {
			winner, ok = n, true
			continue
		}
		others = append(others, n)
	}
	return winner, others, ok
}
