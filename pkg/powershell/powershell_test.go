package powershell

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"strings"
	"testing"
	"unicode/utf16"
)

// unquote reads a single-quoted literal as PowerShell's tokenizer does: any of the five quote characters ends it, and two of them
// stand for the second. ok is false when the literal ends before the text does.
func unquote(literal string) (value string, ok bool) {
	r := []rune(literal)
	if len(r) < 2 || !isQuote(r[0]) {
		return "", false
	}
	var b strings.Builder
	for i := 1; i < len(r); i++ {
		if !isQuote(r[i]) {
			b.WriteRune(r[i])
			continue
		}
		if i == len(r)-1 {
			return b.String(), true
		}
		if i++; !isQuote(r[i]) {
			return "", false
		}
		b.WriteRune(r[i])
	}
	return "", false
}

// decode reads the argument of -EncodedCommand.
func decode(t testing.TB, encoded string) string {
	t.Helper()
	raw, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil || len(raw)%2 != 0 {
		t.Fatalf("%d bytes, %v", len(raw), err)
	}
	units := make([]uint16, len(raw)/2)
	for i := range units {
		units[i] = binary.LittleEndian.Uint16(raw[2*i:])
	}
	return string(utf16.Decode(units))
}

func TestQuote(t *testing.T) {
	for _, tc := range []struct {
		in, want string
		err      error
	}{
		{"", "''", nil},
		{"plain", "'plain'", nil},
		{"it's", "'it''s'", nil},
		{"'; Remove-Item C:\\ ;'", "'''; Remove-Item C:\\ ;'''", nil},
		{"$(calc) $env:X `n %PATH%", "'$(calc) $env:X `n %PATH%'", nil},
		{"a\nb\r\nc", "'a\nb\r\nc'", nil},
		{"a\x00b", "", ErrNUL},
		{"a\xffb", "", ErrUTF8},
	} {
		got, err := Quote(tc.in)
		if got != tc.want || !errors.Is(err, tc.err) {
			t.Errorf("%q is quoted as %s, %v", tc.in, got, err)
		}
	}
}

// A curly quote ends a literal too, and what a code page cannot write must survive.
func TestW49TypographicQuotes(t *testing.T) {
	for _, in := range []string{
		"größe", "pä$$w0rd`'", "cluster \u2013 one", "\u2018Automatic\u2019", "\u201a\u201b", "\u201cquoted\u201d", "\U0001f600",
	} {
		literal, err := Quote(in)
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := unquote(literal); !ok || got != in {
			t.Errorf("%q is read back as %q, %v", in, got, ok)
		}
		encoded, err := Encode("Set-Service -Name sshd -StartupType " + literal)
		if err != nil {
			t.Fatal(err)
		}
		if strings.IndexFunc(encoded, func(r rune) bool { return r > '~' || r < '!' }) >= 0 {
			t.Errorf("%q is not plain ASCII", encoded)
		}
		if got := decode(t, encoded); got != "Set-Service -Name sshd -StartupType "+literal {
			t.Errorf("the script is read back as %q", got)
		}
	}
}

func TestW50TrailingBackslash(t *testing.T) {
	for _, in := range []string{`C:\k\`, `C:\k\cni "x"`, `"`, `\`, `\\`, `'C:\var\lib'`, `--cni-dir="C:\k\cni`} {
		literal, err := Quote(in)
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := unquote(literal); !ok || got != in {
			t.Errorf("%q is read back as %q, %v", in, got, ok)
		}
	}
}

func TestEncode(t *testing.T) {
	// powershell.exe -EncodedCommand ZABpAHIA runs "dir".
	if got, err := Encode("dir"); got != "ZABpAHIA" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	if _, err := Encode("a\x00"); !errors.Is(err, ErrNUL) {
		t.Errorf("NUL gave %v", err)
	}
	if _, err := Encode("\xff"); !errors.Is(err, ErrUTF8) {
		t.Errorf("invalid UTF-8 gave %v", err)
	}
}

func FuzzQuote(f *testing.F) {
	for _, s := range []string{"", "'", "''", "\u2018\u2019", "a'b", "\x00", "\xff"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		literal, err := Quote(in)
		if err != nil {
			return
		}
		if got, ok := unquote(literal); !ok || got != in {
			t.Errorf("%q is read back as %q, %v", in, got, ok)
		}
		encoded, err := Encode(literal)
		if err != nil {
			t.Fatal(err)
		}
		if got := decode(t, encoded); got != literal {
			t.Errorf("%q is decoded as %q", literal, got)
		}
	})
}
