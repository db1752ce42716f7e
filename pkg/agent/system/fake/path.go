package fake

import (
	"io/fs"
	"strings"

	"github.com/windowsmachine/operator/pkg/agent/system"
)

// fold is the key of a name: Windows compares names without regard to case. NTFS uses its own upper-case table; Unicode
// lower case stands in for it.
func fold(name string) string { return strings.ToLower(name) }

// parse splits an absolute path into its folded drive and the components below it. It refuses what Windows refuses
// or silently rewrites ("Naming Files, Paths, and Namespaces"): forward slashes and relative paths, which the
// contract of pkg/agent/system excludes; the characters <>:"|?* and controls (123 ERROR_INVALID_NAME), ':' among them,
// since it would name an alternate data stream; reserved device names, with which bytes would go to a device; trailing
// dots and spaces, which Win32 strips, so that the file has another name than was asked for.
func (m *Machine) parse(op, path string) ([]string, error) {
	if len(path) < 3 || path[1] != ':' || path[2] != '\\' {
		return nil, refuse(op, path, codeInvalidName, fs.ErrInvalid)
	}
	if _, ok := m.drives[fold(path[:2])]; !ok {
		return nil, refuse(op, path, codePathNotFound, system.ErrNotExist)
	}
	if len(path) > 32766 { // "Maximum Path Length Limitation": the \\?\ form takes about 32,767 characters
		return nil, refuse(op, path, codeFilenameTooLong, fs.ErrInvalid)
	}
	parts := []string{fold(path[:2])}
	rest := strings.TrimSuffix(path[3:], `\`)
	if rest == "" {
		return parts, nil
	}
	for part := range strings.SplitSeq(rest, `\`) {
		if code := badName(part); code != 0 {
			return nil, refuse(op, path, code, fs.ErrInvalid)
		}
		parts = append(parts, part)
	}
	return parts, nil
}

func badName(name string) uint32 {
	switch {
	case name == "" || name == "." || name == "..":
		return codeInvalidName
	case len(name) > 255:
		return codeFilenameTooLong
	case strings.HasSuffix(name, ".") || strings.HasSuffix(name, " "):
		return codeInvalidName
	case strings.ContainsFunc(name, func(r rune) bool { return r < 0x20 || strings.ContainsRune(`<>:"/|?*`, r) }):
		return codeInvalidName
	case reserved(name):
		return codeInvalidParameter
	}
	return 0
}

// reserved reports a DOS device name, with or without an extension. The superscripts ¹²³ count as digits there.
func reserved(name string) bool {
	base, _, _ := strings.Cut(strings.ToUpper(name), ".")
	base = strings.TrimRight(base, " ")
	switch base {
	case "CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$":
		return true
	}
	port, ok := strings.CutPrefix(base, "COM")
	if !ok {
		port, ok = strings.CutPrefix(base, "LPT")
	}
	return ok && strings.ContainsAny(port, "123456789¹²³") && len([]rune(port)) == 1
}
