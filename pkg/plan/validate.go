package plan

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// ErrInvalid is wrapped by every problem that Validate reports.
var ErrInvalid = errors.New("plan is invalid")

// Problem is one thing that is wrong with a plan.
type Problem struct {
	// Item names the list and the entry, for example `service "kubelet"`.
	Item string
	// Text says what is wrong and, where a limit is broken, the limit.
	Text string
}

// Error implements error.
func (p *Problem) Error() string { return p.Item + ": " + p.Text }

// Unwrap makes errors.Is(err, ErrInvalid) true.
func (p *Problem) Unwrap() error { return ErrInvalid }

const (
	maxName = 256
	// maxText bounds free text: descriptions, values of environment variables, arguments.
	maxText = 32 << 10
	// maxCommandLine bounds exe and arguments together, in bytes. CreateProcess takes 32,767 characters; the margin is
	// for quoting, which can double a backslash or a quote.
	maxCommandLine = 16 << 10
)

var (
	nameRule    = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,79}$`)
	featureRule = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$`)
	ruleName    = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9 _.()-]{0,127}$`)
	envName     = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.()-]{0,254}$`)
	digestRule  = regexp.MustCompile(`^[0-9a-f]{64}$`)
	macRule     = regexp.MustCompile(`^[0-9a-f]{2}(:[0-9a-f]{2}){5}$`)
)

// Validate reports everything that is wrong with p at once, joined; nil when nothing is. Each error is a *Problem that
// names the item, except that an unknown capability is ErrTooNew. Both sides call it: the control plane before it sends a
// plan, the agent before it stores one.
func (p Plan) Validate() error {
	v := &validator{seen: map[string]string{}, roots: append(Roots(), p.Roots...)}
	v.head(p)
	v.extraRoots(p)
	v.secrets(p.Secrets)
	v.env("environment variable", p.Env)
	v.features(p.Features)
	v.directories(p.Directories)
	v.files(p)
	v.certificates(p.Certificates)
	v.firewall(p.Firewall)
	v.defender(p.Defender)
	v.networks(p)
	v.routes(p)
	v.services(p)
	v.tree(p)
	return errors.Join(v.errs...)
}

// validator collects problems.
type validator struct {
	errs []error
	// seen maps "<kind>\x00<folded name>" to the item that has it.
	seen map[string]string
	// roots are the folders below which files may be placed.
	roots []string
}

func (v *validator) add(item, format string, args ...any) {
	v.errs = append(v.errs, &Problem{Item: item, Text: fmt.Sprintf(format, args...)})
}

// unique reports a second item of the same kind and name. Windows compares names of files, services, variables, rules and
// networks without regard to case.
func (v *validator) unique(kind, item, name string) {
	key := kind + "\x00" + fold(name)
	if first, ok := v.seen[key]; ok {
		v.add(item, "same %s as %s", kind, first)
		return
	}
	v.seen[key] = item
}

// fold makes names that Windows takes for the same equal. Plans hold ASCII names only, other input is refused elsewhere.
func fold(s string) string { return strings.ToUpper(s) }

func item(kind, name string) string { return fmt.Sprintf("%s %q", kind, bounded(name)) }

func (v *validator) count(kind string, n int) { v.countTo(kind, n, MaxItems) }

func (v *validator) countTo(kind string, n, most int) {
	if n > most {
		v.add(kind, "%d items, at most %d", n, most)
	}
}

func (v *validator) head(p Plan) {
	if p.APIVersion != APIVersion {
		v.add("apiVersion", "%q, must be %q", bounded(p.APIVersion), APIVersion)
	}
	if n := len(p.Encode()); n > MaxPlan {
		v.add("plan", "%d bytes, at most %d", n, MaxPlan)
	}
	v.count("requires", len(p.Requires))
	if err := knownCapabilities(p.Requires); err != nil {
		v.errs = append(v.errs, err)
	}
	for _, c := range p.Requires {
		v.unique("capability", item("capability", c), c)
	}
}

func (v *validator) secrets(secrets []Secret) {
	v.count("secrets", len(secrets))
	for _, s := range secrets {
		it := item("secret", s.Name)
		if !nameRule.MatchString(s.Name) {
			v.add(it, "name must match %s", nameRule)
		}
		v.unique("name of a secret", it, s.Name)
		v.filePath(it, s.Path)
		v.unique("path", it, s.Path)
	}
}

func (v *validator) env(kind string, vars []EnvVar) {
	v.count(kind, len(vars))
	seen := map[string]bool{}
	for _, e := range vars {
		it := item(kind, e.Name)
		if !envName.MatchString(e.Name) {
			v.add(it, "name must match %s", envName)
		}
		if seen[fold(e.Name)] {
			v.add(it, "given twice")
		}
		seen[fold(e.Name)] = true
		// The value is not quoted in the message: a proxy URL may hold a password.
		v.text(it, "value", e.Value)
	}
}

// text checks free text that ends in a registry value, where NUL ends it and a line break splits it.
func (v *validator) text(it, what, s string) {
	if strings.ContainsAny(s, "\x00\r\n") {
		v.add(it, "%s holds a NUL or a line break", what)
	}
	if len(s) > maxText {
		v.add(it, "%s has %d bytes, at most %d", what, len(s), maxText)
	}
}

func (v *validator) features(features []Feature) {
	v.count("features", len(features))
	for _, f := range features {
		it := item("feature", f.Name)
		if !featureRule.MatchString(f.Name) {
			v.add(it, "name must match %s", featureRule)
		}
		v.unique("feature", it, f.Name)
	}
}

func (v *validator) directories(dirs []Directory) {
	v.count("directories", len(dirs))
	for _, d := range dirs {
		it := item("directory", d.Path)
		v.path(it, d.Path)
		v.access(it, d.Access)
		v.unique("path", it, d.Path)
		if d.Purge && v.isRoot(d.Path) {
			v.add(it, "purge is not allowed: the folder is shared with others")
		}
	}
}

func (v *validator) access(it string, a Access) {
	if a != AccessPublic && a != AccessSecret {
		v.add(it, "access %q, must be %q or %q", bounded(string(a)), AccessPublic, AccessSecret)
	}
}

func (v *validator) files(p Plan) {
	v.count("files", len(p.Files))
	for _, f := range p.Files {
		it := item("file", f.Path)
		v.filePath(it, f.Path)
		v.access(it, f.Access)
		v.unique("path", it, f.Path)
		v.content(it, f)
		if f.Once && !slices.Contains(p.Requires, CapabilityExisting) {
			v.add(it, "once needs the capability %q in requires", CapabilityExisting)
		}
	}
}

func (v *validator) content(it string, f File) {
	switch {
	case f.Blob != "" && f.Inline != nil:
		v.add(it, "has both blob and inline")
	case f.Blob != "" && f.Generated:
		v.add(it, "generated goes with inline only")
	case f.Blob != "" && !digestRule.MatchString(f.Blob):
		v.add(it, "blob must be 64 hexadecimal digits in lower case")
	case f.Blob == "" && f.Inline == nil:
		v.add(it, "has neither blob nor inline")
	case len(f.Inline) > MaxInline:
		v.add(it, "inline has %d bytes, at most %d", len(f.Inline), MaxInline)
	case f.Generated:
		v.resolvers(it, string(f.Inline))
	}
}

// resolvers checks every ${…} in s.
func (v *validator) resolvers(it, s string) {
	for {
		_, rest, ok := strings.Cut(s, "${")
		if !ok {
			return
		}
		name, after, ok := strings.Cut(rest, "}")
		if !ok {
			v.add(it, "holds ${ without an end")
			return
		}
		if name != ResolverManagementIP && name != ResolverHostname {
			v.add(it, "asks for unknown value ${%s}", bounded(name))
		}
		s = after
	}
}

// tree reports files that would have to be folders of others.
func (v *validator) tree(p Plan) {
	leaves := map[string]string{}
	var all []string
	for _, s := range p.Secrets {
		leaves[fold(s.Path)] = item("secret", s.Name)
		all = append(all, s.Path)
	}
	for _, f := range p.Files {
		leaves[fold(f.Path)] = item("file", f.Path)
		all = append(all, f.Path)
	}
	for _, d := range p.Directories {
		all = append(all, d.Path)
	}
	for _, path := range all {
		for i := range path {
			if path[i] != '\\' {
				continue
			}
			if it, ok := leaves[fold(path[:i])]; ok {
				v.add(it, "is a file, and a folder of %q", bounded(path))
			}
		}
	}
}
