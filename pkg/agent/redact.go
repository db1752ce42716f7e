package agent

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// redacted stands where a secret was.
const redacted = "REDACTED"

// minSecret is how long a text must be to be taken for a secret by its value alone; shorter ones would blot out half of every log.
const minSecret = 8

// secretWord is what names of secrets have in them.
const secretWord = `(?:pass(?:word|wd|phrase)|pwd|secret|token|api[_-]?key|access[_-]?key|private[_-]?key|key-data|credential|authorization)`

// Patterns of secrets in text of any kind: YAML, JSON, TOML, INI, command lines, logs.
var (
	// privateKey may have lost its beginning, since only the end of a log is taken.
	privateKey   = regexp.MustCompile(`(?s)-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----.*?(?:-----END [A-Z0-9 ]*PRIVATE KEY-----|\z)`)
	privateTail  = regexp.MustCompile(`(?s)\A[A-Za-z0-9+/=\s\\]*-----END [A-Z0-9 ]*PRIVATE KEY-----`)
	webToken     = regexp.MustCompile(`eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{4,}(?:\.[A-Za-z0-9_-]*)?`)
	bootToken    = regexp.MustCompile(`\b[a-z0-9]{6}\.[a-z0-9]{16}\b`)
	scheme       = regexp.MustCompile(`(?i)\b(bearer|basic)(\s+)[A-Za-z0-9._~+/=-]{4,}`)
	userInfo     = regexp.MustCompile(`://[^\s"'<>@/]*:[^\s"'<>]*@`)
	awsKey       = regexp.MustCompile(`\bA[KS]IA[0-9A-Z]{16}\b`)
	quotedValue  = `"(?:\\.|[^"\\\n])*"|'[^'\n]*'`
	named        = regexp.MustCompile(`(?i)([A-Za-z0-9_.-]*` + secretWord + `[A-Za-z0-9_.-]*["']?[ \t]*[:=][ \t]*)(` + quotedValue + `|[^\s,;}&{\["']+)`)
	registryAuth = regexp.MustCompile(`(?i)((?:^|[^A-Za-z0-9_])["']?auth["']?[ \t]*[:=][ \t]*)(` + quotedValue + `)`)
	secretName   = regexp.MustCompile(`(?i)` + secretWord)
	secretFlag   = regexp.MustCompile(`(?i)^--?[A-Za-z0-9_-]*` + secretWord + `[A-Za-z0-9_-]*$`)
	assigned     = regexp.MustCompile(`[:=][ \t]*["']?([^\s"',;{}]{8,})`)
	// harmless are values of such files that are no secrets, and that the reader of an archive wants to see: words, paths, addresses.
	harmless = regexp.MustCompile(`^(?:[a-z][a-z.-]*|[A-Za-z]:\\[^:]*|/[A-Za-z0-9._/-]*|https?://[^@]*)$`)
)

// redactor takes secrets out of texts.
type redactor struct{ values [][]byte }

// learn remembers what a file holds that only administrators may read: every value in it that may be a secret, however it is written.
func (r *redactor) learn(content []byte) {
	content = plainText(content)
	for _, m := range assigned.FindAllSubmatch(content, -1) {
		if !harmless.Match(m[1]) {
			r.value(string(m[1]))
		}
	}
	for _, m := range named.FindAllSubmatch(content, -1) {
		r.value(strings.Trim(string(m[2]), `"'`))
	}
	r.value(strings.TrimSpace(string(content)))
}

// value remembers one secret in the forms in which it may turn up.
func (r *redactor) value(s string) {
	if len(s) < minSecret {
		return
	}
	quoted, err := json.Marshal(s)
	if err != nil {
		return
	}
	forms := []string{s, strings.Trim(string(quoted), `"`), url.QueryEscape(s), url.PathEscape(s), base64.StdEncoding.EncodeToString([]byte(s))}
	for _, f := range forms {
		if !slices.ContainsFunc(r.values, func(v []byte) bool { return string(v) == f }) {
			r.values = append(r.values, []byte(f))
		}
	}
	// The longest first: a part of a secret must not leave the rest of it behind.
	slices.SortStableFunc(r.values, func(a, b []byte) int { return len(b) - len(a) })
}

// text returns b without secrets.
func (r *redactor) text(b []byte) []byte {
	b = plainText(b)
	for _, v := range r.values {
		b = bytes.ReplaceAll(b, v, []byte(redacted))
	}
	for _, p := range []struct {
		pattern *regexp.Regexp
		with    string
	}{
		{privateKey, redacted},
		{privateTail, redacted},
		{userInfo, "://" + redacted + "@"},
		{scheme, "${1}${2}" + redacted},
		{webToken, redacted},
		{awsKey, redacted},
		{bootToken, redacted},
		{named, "${1}" + `"` + redacted + `"`},
		{registryAuth, "${1}" + `"` + redacted + `"`},
	} {
		b = p.pattern.ReplaceAll(b, []byte(p.with))
	}
	return b
}

// plainText takes the zeros out of UTF-16, in which no pattern would find anything.
func plainText(b []byte) []byte {
	if bytes.IndexByte(b, 0) < 0 {
		return b
	}
	return bytes.ReplaceAll(b, []byte{0}, nil)
}

// redactArgs returns a command line without the values of flags that carry secrets.
func redactArgs(args []string) []string {
	out := slices.Clone(args)
	for i := 1; i < len(out); i++ {
		if secretFlag.MatchString(out[i-1]) {
			out[i] = redacted
		}
	}
	return out
}
