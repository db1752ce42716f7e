package hostsim

import (
	"errors"
	"strings"
)

// errSyntax: the command line uses what the little tokenizer does not know.
var errSyntax = errors.New("more than plain words")

// split takes a command line apart as the shell would, as far as plain words go: words between blanks, and words in double
// quotes. Anything that a shell gives a meaning beyond that is errSyntax, so that a client which relies on it fails
// here. The two shells differ: cmd expands % and ^ and splits at & | < >; PowerShell expands $, treats ' as a quote, and parses
// ( ) { } ; , @ and # at the start of a word, and takes a first word in quotes for a string instead of a command.
func split(shell Shell, line string) ([]string, error) {
	if shell == ShellPowerShell && strings.HasPrefix(strings.TrimSpace(line), `"`) {
		return nil, errSyntax
	}
	w := words{shell: shell}
	for _, r := range line {
		if !w.take(r) {
			return nil, errSyntax
		}
	}
	if w.quoted {
		return nil, errSyntax
	}
	w.end()
	return w.done, nil
}

// words is the state of split.
type words struct {
	shell          Shell
	done           []string
	word           strings.Builder
	quoted, inWord bool
}

// take is false for a character with a meaning.
func (w *words) take(r rune) bool {
	switch {
	case r == '"':
		w.quoted, w.inWord = !w.quoted, true
	case r == ' ' && !w.quoted:
		w.end()
	case r < ' ' || !w.quoted && w.meaning(r):
		return false
	default:
		w.word.WriteRune(r)
		w.inWord = true
	}
	return true
}

func (w *words) end() {
	if w.inWord {
		w.done = append(w.done, w.word.String())
		w.word.Reset()
		w.inWord = false
	}
}

// meaning reports a character that the shell does not pass on outside quotes. PowerShell makes an array of a word with a comma, and passes
// it on to a program as words with blanks; a comma is refused there. @ and # count at the start of a word only.
func (w *words) meaning(r rune) bool {
	if w.shell != ShellPowerShell {
		return strings.ContainsRune("%^&|<>!", r)
	}
	if w.inWord && (r == '@' || r == '#') {
		return false
	}
	return strings.ContainsRune("$`'&|<>(){};,@#", r)
}
