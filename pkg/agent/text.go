package agent

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/windowsmachine/operator/pkg/plan"
)

// Detail makes text fit for reports and the journal: printable ASCII of at most plan.MaxDetail bytes. Windows puts messages in the
// system's language into errors; what is not ASCII becomes a question mark, line breaks become spaces.
func Detail(text string) string {
	out := strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\r' || r == '\t':
			return ' '
		case r < ' ' || r > '~':
			return '?'
		}
		return r
	}, text)
	const more = "..."
	if len(out) > plan.MaxDetail {
		out = out[:plan.MaxDetail-len(more)] + more
	}
	return out
}

// ASCIIJSON encodes v as one line of JSON in which every character above ASCII is written as \uXXXX, so that no code page
// between here and the reader can spoil it.
func ASCIIJSON(v any) ([]byte, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	out := make([]byte, 0, len(b))
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		switch {
		case r < utf8.RuneSelf:
			out = append(out, b[0])
		case r > 0xffff:
			hi, lo := utf16.EncodeRune(r)
			out = fmt.Appendf(out, `\u%04x\u%04x`, hi, lo)
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
		b = b[n:]
	}
	return out, nil
}
