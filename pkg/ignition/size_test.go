package ignition

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestW06CompressedWhole(t *testing.T) {
	text := served("3.2.0").json(t)
	b64 := base64.StdEncoding.EncodeToString(gz(t, text))
	var lines []string
	for rest := b64; rest != ""; {
		n := min(76, len(rest))
		lines, rest = append(lines, rest[:n]), rest[n:]
	}
	want, err := parse(t, text).Worker(Served()...)
	if err != nil {
		t.Fatal(err)
	}
	for name, input := range map[string][]byte{
		"gzip":                       gz(t, text),
		"base64 of gzip":             []byte(b64),
		"with a line end":            []byte(b64 + "\n"),
		"in lines, CRLF":             []byte(strings.Join(lines, "\r\n")),
		"without padding":            []byte(strings.TrimRight(b64, "=")),
		"base64 of JSON":             []byte(base64.StdEncoding.EncodeToString(text)),
		"gzip of base64 of gzip":     gz(t, []byte(b64)),
		"padded to 6 MB, 400 files":  padded(t, 6<<20, 400),
		"JSON behind white space":    append([]byte("\n\t "), text...),
		"compressed config, merged":  newDoc("3.2.0").merge(base64URL(gz(t, text))).json(t),
		"compression declared there": []byte(fmt.Sprintf(`{"ignition":{"version":"3.2.0","config":{"replace":{"compression":"gzip","source":%q}}}}`, base64URL(gz(t, text)))),
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parse(t, input).Worker(Served()...)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// padded is a served config with dummy files, of about size bytes.
func padded(t testing.TB, size, files int) []byte {
	d := served("3.2.0")
	filler := strings.Repeat("x", size/files)
	for i := range files {
		d.file(fmt.Sprintf("/opt/dummy-%d", i), filler)
	}
	return d.json(t)
}

func TestW06Bombs(t *testing.T) {
	for name, input := range map[string][]byte{
		"more input than is read": make([]byte, MaxInput+1),
		"gzip bomb":               bomb(t, MaxExpanded>>20+1),
		"millions of entries":     gz(t, []byte(`{"ignition":{"version":"3.2.0"},"storage":{"files":[`+strings.Repeat("{},", 1_000_000)+`{}]}}`)),
		"nested merges":           nested(t, maxDepth+2),
		"many merges":             newDoc("").merge(repeated(percent(string(newDoc("").json(t))), maxDocuments+1)...).json(t),
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Parse(input); !errors.Is(err, ErrTooLarge) {
				t.Errorf("got %v", err)
			}
		})
	}
	// The same paths with a small budget, so that the test stays quick.
	wide := append(newDoc("").json(t), bytes.Repeat([]byte{' '}, 700<<10)...)
	for name, input := range map[string][]byte{
		"gzip bomb":             bomb(t, 2),
		"gzip bomb in base64":   []byte(base64.StdEncoding.EncodeToString(bomb(t, 2))),
		"gzip bomb in gzip":     gz(t, bomb(t, 2)),
		"gzip bomb as merged":   newDoc("").merge(base64URL(bomb(t, 2))).json(t),
		"two merged, each fits": newDoc("").merge(base64URL(gz(t, wide)), base64URL(gz(t, wide))).json(t),
		"uncompressed as well":  newDoc("").merge(base64URL(wide), base64URL(wide)).json(t),
	} {
		t.Run("small budget, "+name, func(t *testing.T) {
			if _, err := parseWithin(input, &budget{bytes: 1 << 20, documents: maxDocuments}); !errors.Is(err, ErrTooLarge) {
				t.Errorf("got %v", err)
			}
		})
	}
	t.Run("one merged fits", func(t *testing.T) {
		input := newDoc("").merge(base64URL(gz(t, wide))).json(t)
		if _, err := parseWithin(input, &budget{bytes: 1 << 20, documents: maxDocuments}); err != nil {
			t.Error(err)
		}
	})
	t.Run("deep JSON is refused", func(t *testing.T) {
		deep := `{"ignition":{"version":"2.0.0"},"x":` + strings.Repeat("[", 100_000)
		if _, err := Parse([]byte(deep)); !errors.Is(err, ErrNotIgnition) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("file bomb", func(t *testing.T) {
		c := parse(t, newDoc("").entry(obj{"path": PathKubeletCA, "contents": obj{"compression": "gzip", "source": base64URL(bomb(t, MaxFile>>20+1))}}).json(t))
		if _, _, err := c.File(PathKubeletCA); !errors.Is(err, ErrTooLarge) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("plain file", func(t *testing.T) {
		c := parse(t, newDoc("").entry(obj{"path": PathKubeletCA, "contents": obj{"source": "data:," + strings.Repeat("x", MaxFile+1)}}).json(t))
		if _, _, err := c.File(PathKubeletCA); !errors.Is(err, ErrTooLarge) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("file that grows by appending", func(t *testing.T) {
		half := obj{"compression": "gzip", "source": base64URL(bomb(t, 3))}
		c := parse(t, newDoc("").entry(obj{"path": PathKubeletCA, "contents": half, "append": []any{half}}).json(t))
		if _, _, err := c.File(PathKubeletCA); !errors.Is(err, ErrTooLarge) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("at the limits", func(t *testing.T) {
		c := parse(t, nested(t, maxDepth))
		if got := content(t, c, "/innermost"); got != "x" {
			t.Errorf("got %q", got)
		}
		parse(t, newDoc("").merge(repeated(percent(string(newDoc("").json(t))), maxDocuments-1)...).json(t))
	})
}

// nested is a config within n others.
func nested(t *testing.T, n int) []byte {
	out := newDoc("").file("/innermost", "x").json(t)
	for range n {
		out = newDoc("").merge(base64URL(gz(t, out))).json(t)
	}
	return out
}

func repeated(s string, n int) []string {
	var out []string
	for range n {
		out = append(out, s)
	}
	return out
}

func TestCountElements(t *testing.T) {
	for in, want := range map[string]int{
		`{}`: 1, `{"a":[1,2],"b":{}}`: 5, `"{[,"`: 0, `"\",,,\\",`: 1, `{"a":"\\"},{`: 3, `"open`: 0, `\`: 0,
	} {
		if got := countElements([]byte(in)); got != want {
			t.Errorf("%s: got %d, want %d", in, got, want)
		}
	}
}
