package windows

import (
	"io/fs"
	"strings"
	"unicode/utf16"
)

// maxPath bounds a path in UTF-16 units: the native form of a path takes at most 32,767 ("Maximum Path Length
// Limitation"), of which the kernel's own prefix needs some. maxName bounds one component.
const (
	maxPath = 32000
	maxName = 255
)

// splitPath splits an absolute path into its drive (`C:`) and the rest below the root, which is "" for the root itself.
// It refuses what Win32 would silently rewrite and the native calls, which take names as they are, would not: forward
// slashes, "." and "..", trailing dots and spaces, device names; and ':' below the drive, which names an alternate
// data stream ("Naming Files, Paths, and Namespaces").
func splitPath(op, path string) (drive, rest string, err error) {
	if len(path) < 3 || !letter(path[0]) || path[1] != ':' || path[2] != '\\' {
		return "", "", invalid(op, path, codeInvalidName)
	}
	if len(utf16.Encode([]rune(path))) > maxPath {
		return "", "", invalid(op, path[:64]+"...", codeFilenameTooLong)
	}
	drive, rest = path[:2], strings.TrimSuffix(path[3:], `\`)
	if rest == "" {
		return drive, "", nil
	}
	for name := range strings.SplitSeq(rest, `\`) {
		if code := badName(name); code != 0 {
			return "", "", invalid(op, path, code)
		}
	}
	return drive, rest, nil
}

// splitLast splits the rest of a path into the folder and the last component.
func splitLast(rest string) (folder, name string) {
	i := strings.LastIndexByte(rest, '\\')
	if i < 0 {
		return "", rest
	}
	return rest[:i], rest[i+1:]
}

func invalid(op, path string, code uint32) error {
	return &Error{Op: op, Object: path, Code: code, Err: fs.ErrInvalid}
}

func letter(c byte) bool { return c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' }

func badName(name string) uint32 {
	switch {
	case name == "" || name == "." || name == "..":
		return codeInvalidName
	case len(utf16.Encode([]rune(name))) > maxName:
		return codeFilenameTooLong
	case strings.HasSuffix(name, ".") || strings.HasSuffix(name, " "):
		return codeInvalidName
	case strings.ContainsFunc(name, func(r rune) bool { return r < 0x20 || strings.ContainsRune(`<>:"/|?*`, r) }):
		return codeInvalidName
	case deviceName(name):
		return codeInvalidName
	}
	return 0
}

// deviceName reports a DOS device name, with or without an extension. Windows takes the superscripts for digits there.
func deviceName(name string) bool {
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
	return ok && len([]rune(port)) == 1 && strings.ContainsAny(port, "123456789¹²³")
}
