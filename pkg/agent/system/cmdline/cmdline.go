package cmdline

import (
	"errors"
	"strings"
)

// ErrProgram: a program's path cannot be written into a command line, since the first argument knows no escape
// ("CommandLineToArgvW": backslashes are taken as they are there), or it is empty.
var ErrProgram = errors.New("program path is empty or holds a quotation mark or a control character")

// ErrNUL: an argument holds a NUL, which ends the string.
var ErrNUL = errors.New("argument holds a NUL character")

// Join returns the command line of a program and its arguments. The program is always quoted: with a blank in it and
// no quotation marks, Windows would try C:\Program.exe before C:\Program Files\x.exe (CreateProcessW, security remarks).
func Join(exe string, args []string) (string, error) {
	if exe == "" || strings.ContainsFunc(exe, func(r rune) bool { return r < 0x20 || r == '"' }) {
		return "", ErrProgram
	}
	var b strings.Builder
	b.WriteString(`"` + exe + `"`)
	for _, a := range args {
		if strings.ContainsRune(a, 0) {
			return "", ErrNUL
		}
		b.WriteByte(' ')
		quote(&b, a)
	}
	return b.String(), nil
}

// quote writes one argument after the first. Backslashes are doubled only where they stand before a quotation mark.
func quote(b *strings.Builder, arg string) {
	if arg != "" && !strings.ContainsAny(arg, " \t\n\v\"") {
		b.WriteString(arg)
		return
	}
	b.WriteByte('"')
	slashes := 0
	for i := range len(arg) {
		switch arg[i] {
		case '\\':
			slashes++
		case '"':
			b.WriteString(strings.Repeat(`\`, slashes+1))
			slashes = 0
		default:
			slashes = 0
		}
		b.WriteByte(arg[i])
	}
	b.WriteString(strings.Repeat(`\`, slashes))
	b.WriteByte('"')
}

// Split returns the program and the arguments of a command line. An empty line gives an empty program.
func Split(line string) (exe string, args []string) {
	exe, rest := program(line)
	for {
		rest = strings.TrimLeft(rest, " \t")
		if rest == "" {
			return exe, args
		}
		var arg string
		arg, rest = argument(rest)
		args = append(args, arg)
	}
}

// program reads the first argument: up to the next quotation mark when it starts with one, else up to a blank.
func program(line string) (exe, rest string) {
	if after, ok := strings.CutPrefix(line, `"`); ok {
		exe, rest, _ = strings.Cut(after, `"`)
		return exe, rest
	}
	if i := strings.IndexAny(line, " \t"); i >= 0 {
		return line[:i], line[i:]
	}
	return line, ""
}

// argument reads one later argument: 2n backslashes before a quotation mark are n backslashes and the mark opens or
// closes, 2n+1 are n and the mark is literal; two marks inside a quoted part are one literal mark and end that part, which
// CommandLineToArgvW does and newer C run-times do not (they stay inside). Join never writes the two.
func argument(line string) (arg, rest string) {
	var b strings.Builder
	quoted := false
	for line != "" {
		switch c := line[0]; {
		case blank(c) && !quoted:
			return b.String(), line
		case c == '\\':
			line = line[backslashes(&b, line):]
		case quoted && strings.HasPrefix(line, `""`):
			b.WriteByte('"')
			quoted, line = false, line[2:]
		case c == '"':
			quoted, line = !quoted, line[1:]
		default:
			b.WriteByte(c)
			line = line[1:]
		}
	}
	return b.String(), ""
}

func blank(c byte) bool { return c == ' ' || c == '\t' }

// backslashes reads a run of backslashes and the quotation mark that an odd run escapes; it returns how much it read.
func backslashes(b *strings.Builder, line string) int {
	n := len(line) - len(strings.TrimLeft(line, `\`))
	if n == len(line) || line[n] != '"' {
		b.WriteString(line[:n])
		return n
	}
	b.WriteString(line[:n/2])
	if n%2 == 1 {
		b.WriteByte('"')
		return n + 1
	}
	return n
}
