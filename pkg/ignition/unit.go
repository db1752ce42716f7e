package ignition

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// service is what a systemd service unit says about its process; the format is systemd.service(5) and systemd.syntax(7).
type service struct {
	// argv are the words of ExecStart after the prefix characters, unquoted; variables are not yet expanded.
	argv []string
	// env are the variables of Environment.
	env map[string]string
}

// errQuote ends a sentence about a value.
var errQuote = errors.New("a quote is not closed")

// setting is a line key=value of a unit.
type setting struct{ section, key, value string }

// parseService reads a unit with its drop-ins, which systemd applies in the order of their names. A setting that is assigned
// nothing forgets what earlier lines said.
func parseService(u unit) (service, error) {
	texts := []string{u.contents}
	for _, name := range slices.Sorted(maps.Keys(u.dropins)) {
		texts = append(texts, u.dropins[name])
	}
	size := 0
	s := service{env: map[string]string{}}
	for _, text := range texts {
		if size += len(text); size > maxUnit {
			return service{}, tooLarge("the unit", maxUnit)
		}
		for _, line := range settings(text) {
			if err := s.set(line); err != nil {
				return service{}, err
			}
		}
	}
	return s, nil
}

func (s *service) set(line setting) error {
	if line.section != "Service" || line.key != "ExecStart" && line.key != "Environment" {
		return nil
	}
	words, err := split(line.value)
	if err != nil {
		return fmt.Errorf("%w: %s of the [Service] section: %w", ErrUnit, line.key, err)
	}
	if line.key == "Environment" {
		s.setEnv(words)
		return nil
	}
	if len(words) == 0 {
		s.argv = nil
		return nil
	}
	words[0] = strings.TrimLeft(words[0], "@-:+!|")
	s.argv = append(s.argv, words...)
	return nil
}

func (s *service) setEnv(words []string) {
	if len(words) == 0 {
		clear(s.env)
	}
	for _, w := range words {
		if name, value, ok := strings.Cut(w, "="); ok {
			s.env[name] = value
		}
	}
}

// settings splits a unit into its lines. A backslash at the end of a line continues it; comment lines between continued lines
// are skipped. Line ends may be CRLF.
func settings(text string) []setting {
	var out []setting
	var section string
	var pending strings.Builder
	clean, _ := utf8Text([]byte(text))
	for line := range bytes.Lines(clean) {
		trimmed := strings.TrimSpace(string(line))
		if strings.HasPrefix(trimmed, "#") || strings.HasPrefix(trimmed, ";") {
			continue
		}
		if body, ok := strings.CutSuffix(trimmed, `\`); ok {
			pending.WriteString(body + " ")
			continue
		}
		whole := strings.TrimSpace(pending.String() + trimmed)
		pending.Reset()
		section, out = addSetting(whole, section, out)
	}
	_, out = addSetting(strings.TrimSpace(pending.String()), section, out)
	return out
}

func addSetting(line, section string, out []setting) (string, []setting) {
	if strings.HasPrefix(line, "[") && strings.HasSuffix(line, "]") {
		return line[1 : len(line)-1], out
	}
	if key, value, ok := strings.Cut(line, "="); ok {
		out = append(out, setting{section, strings.TrimSpace(key), strings.TrimSpace(value)})
	}
	return section, out
}

// split cuts a value into words as systemd does: blanks separate, single and double quotes group, a backslash escapes.
func split(value string) ([]string, error) {
	w := words{}
	for i := 0; i < len(value); i++ {
		if value[i] == '\\' && i+1 < len(value) {
			i++
			w.add(unescape(value[i])...)
			continue
		}
		w.next(value[i])
	}
	if w.quote != 0 {
		return nil, errQuote
	}
	w.end()
	return w.out, nil
}

// words collects the words of split.
type words struct {
	out   []string
	word  []byte
	open  bool
	quote byte
}

// next takes a character that no backslash stands before.
func (w *words) next(c byte) {
	switch {
	case w.quote != 0 && c == w.quote:
		w.quote = 0
	case w.quote != 0:
		w.add(c)
	case c == '"', c == '\'':
		w.quote, w.open = c, true
	case c == ' ', c == '\t':
		w.end()
	default:
		w.add(c)
	}
}

func (w *words) add(b ...byte) {
	w.word, w.open = append(w.word, b...), true
}

func (w *words) end() {
	if w.open {
		w.out = append(w.out, string(w.word))
	}
	w.word, w.open = nil, false
}

// unescape is the character that a backslash before c stands for. Unknown ones keep the backslash, as systemd does.
func unescape(c byte) []byte {
	switch c {
	case 's':
		return []byte{' '}
	case 't':
		return []byte{'\t'}
	case 'n':
		return []byte{'\n'}
	case '\\', '"', '\'':
		return []byte{c}
	}
	return []byte{'\\', c}
}
