package powershell

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Errors of Quote and Encode.
var (
	// ErrNUL: the text holds a NUL character, at which Windows programs end a string.
	ErrNUL = errors.New("text holds a NUL character")
	// ErrUTF8: the text is not valid UTF-8.
	ErrUTF8 = errors.New("text is not valid UTF-8")
)

// Quote returns s as a PowerShell single-quoted string literal, in which nothing is expanded. PowerShell ends such a literal at an
// apostrophe and also at U+2018 to U+201B; each is doubled (about_Quoting_Rules; CharExtensions.IsSingleQuote in PowerShell's
// tokenizer).
func Quote(s string) (string, error) {
	if err := check(s); err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteByte('\'')
	for _, r := range s {
		b.WriteRune(r)
		if isQuote(r) {
			b.WriteRune(r)
		}
	}
	b.WriteByte('\'')
	return b.String(), nil
}

func isQuote(r rune) bool { return r == '\'' || (r >= '\u2018' && r <= '\u201b') }

// Encode returns script as powershell.exe -EncodedCommand takes it: base64 of UTF-16LE (about_PowerShell_exe). The result is ASCII,
// so that characters outside it reach PowerShell whatever the code page.
func Encode(script string) (string, error) {
	if err := check(script); err != nil {
		return "", err
	}
	var raw []byte
	for _, u := range utf16.Encode([]rune(script)) {
		raw = binary.LittleEndian.AppendUint16(raw, u)
	}
	return base64.StdEncoding.EncodeToString(raw), nil
}

func check(s string) error {
	switch {
	case !utf8.ValidString(s):
		return ErrUTF8
	case strings.ContainsRune(s, 0):
		return ErrNUL
	}
	return nil
}
