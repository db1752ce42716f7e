package disk

import "strings"

// Join puts name below folder with a backslash.
func Join(folder string, names ...string) string {
	return strings.TrimRight(folder, `\`) + `\` + strings.Join(names, `\`)
}

// Parent returns the folder of path, and "" for a drive such as `C:` or `C:\`.
func Parent(path string) string {
	path = strings.TrimRight(path, `\`)
	i := strings.LastIndexByte(path, '\\')
	if i < 0 {
		return ""
	}
	return path[:i]
}

// Ancestors returns the folders above path from the top down, without the drive: for `C:\a\b\c` these are `C:\a` and
// `C:\a\b`.
func Ancestors(path string) []string {
	var out []string
	for p := Parent(path); Parent(p) != ""; p = Parent(p) {
		out = append([]string{p}, out...)
	}
	return out
}

// Key returns the form of path under which two spellings of one file are equal. NTFS compares names by their upper-case
// form; plan.Validate refuses names that differ in case only, so that lower-casing is enough here.
func Key(path string) string { return strings.ToLower(strings.TrimRight(path, `\`)) }

// Same reports whether a and b name the same file.
func Same(a, b string) bool { return Key(a) == Key(b) }

// Below reports whether path lies inside folder, at any depth.
func Below(folder, path string) bool {
	return strings.HasPrefix(Key(path), Key(folder)+`\`)
}
