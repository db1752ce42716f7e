package plan

import (
	"slices"
	"strings"
)

// maxPath bounds a path. MAX_PATH is 260 with the drive and the final NUL; the agent's temporary names add up to 12.
const maxPath = 240

// systemDir is where services may also have their program.
const systemDir = `C:\Windows\System32`

// path checks that a path is absolute, plain and at or below one of Roots, outside of AgentRoot.
func (v *validator) path(it, p string) {
	problems := pathProblems(p)
	for _, text := range problems {
		v.add(it, "path %q %s", bounded(p), text)
	}
	if len(problems) > 0 {
		return
	}
	if !belowAny(p, v.roots) {
		v.add(it, "path %q is not below %s", bounded(p), strings.Join(v.roots, ", "))
	}
	if below(p, AgentRoot) {
		v.add(it, "path %q is the agent's own", bounded(p))
	}
}

// filePath is path for something that cannot be a root itself.
func (v *validator) filePath(it, p string) {
	v.path(it, p)
	if v.isRoot(p) {
		v.add(it, "path %q is a folder that is shared with others", bounded(p))
	}
}

// extraRoots checks Plan.Roots. A plan may be told to live elsewhere, never in or above what is Windows' own or everybody's.
func (v *validator) extraRoots(p Plan) {
	v.count("roots", len(p.Roots))
	if len(p.Roots) > 0 && !slices.Contains(p.Requires, CapabilityRoots) {
		v.add("roots", "need the capability %q in requires", CapabilityRoots)
	}
	for _, r := range p.Roots {
		it := item("root", r)
		for _, text := range pathProblems(r) {
			v.add(it, "path %s", text)
		}
		v.unique("root", it, r)
		if i := slices.IndexFunc(protected(), func(taken string) bool { return below(r, taken) || below(taken, r) }); i >= 0 {
			v.add(it, "lies in or above %s, which is not a plan's to write in", protected()[i])
		}
		if slices.ContainsFunc(shared(), func(s string) bool { return strings.EqualFold(r, s) }) {
			v.add(it, "is shared by all programs; name a folder in it")
		}
	}
}

// shared are folders that many programs have folders in.
func shared() []string {
	return []string{`C:\Program Files`, `C:\Program Files (x86)`, `C:\ProgramData`, `C:\Users`, `C:\var`}
}

// protected are folders in and above which no plan may have a root.
func protected() []string {
	return []string{`C:\Windows`, AgentRoot, `C:\Recovery`, `C:\Boot`, `C:\$Recycle.Bin`, `C:\System Volume Information`}
}

// pathProblems says what is wrong with the form of a Windows path. Rules: "Naming Files, Paths, and Namespaces",
// learn.microsoft.com/windows/win32/fileio/naming-a-file. Only ASCII is allowed, so that case folding has no surprises.
func pathProblems(p string) []string {
	if len(p) < 4 || !letter(p[0]) || p[1] != ':' || p[2] != '\\' {
		return []string{`must be absolute with a drive letter, such as C:\k\file`}
	}
	var out []string
	if len(p) > maxPath {
		out = append(out, "is longer than 240 characters")
	}
	if strings.Contains(p, "/") {
		out = append(out, `holds a forward slash, Windows paths in a plan have \ only`)
	}
	for _, c := range strings.Split(p[3:], `\`) {
		if text := componentProblem(c); text != "" {
			out = append(out, text)
			break
		}
	}
	return out
}

func letter(c byte) bool { return c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' }

func componentProblem(c string) string {
	switch {
	case c == "":
		return `holds an empty component (\\ or a \ at the end)`
	case c == "." || c == "..":
		return "holds . or .."
	case strings.Contains(c, ":"):
		return "names an alternate data stream (a : beyond the drive)"
	case !printable(c) || strings.ContainsAny(c, `<>"|?*`):
		return `holds a character other than printable ASCII without <>:"|?*`
	case strings.HasSuffix(c, ".") || strings.HasSuffix(c, " "):
		return "has a component that ends in a dot or a space, which Windows drops"
	case reserved(c):
		return "holds a reserved device name"
	case shortName(c):
		return "holds a short name (~ and a digit), which may be an alias of another file"
	}
	return ""
}

func printable(s string) bool {
	for i := range len(s) {
		if s[i] < 0x20 || s[i] > 0x7e {
			return false
		}
	}
	return true
}

// reserved reports whether Windows takes a component for a device: the name before the first dot counts, blanks behind it
// do not.
func reserved(c string) bool {
	stem, _, _ := strings.Cut(c, ".")
	stem = strings.ToUpper(strings.TrimRight(stem, " "))
	switch stem {
	case "CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$":
		return true
	}
	if len(stem) < 4 {
		return false
	}
	switch stem[3:] {
	case "1", "2", "3", "4", "5", "6", "7", "8", "9", "\u00b9", "\u00b2", "\u00b3":
		return stem[:3] == "COM" || stem[:3] == "LPT"
	}
	return false
}

func shortName(c string) bool {
	_, rest, ok := strings.Cut(c, "~")
	return ok && rest != "" && rest[0] >= '0' && rest[0] <= '9'
}

// below reports whether p is dir or lies below it.
func below(p, dir string) bool {
	if len(p) < len(dir) || !strings.EqualFold(p[:len(dir)], dir) {
		return false
	}
	return len(p) == len(dir) || p[len(dir)] == '\\'
}

func belowAny(p string, roots []string) bool {
	return slices.ContainsFunc(roots, func(r string) bool { return below(p, r) })
}

func (v *validator) isRoot(p string) bool {
	return slices.ContainsFunc(v.roots, func(r string) bool { return strings.EqualFold(p, r) })
}
