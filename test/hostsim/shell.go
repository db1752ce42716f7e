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
	special := "%^&|<>!"
	if shell == ShellPowerShell {
		special = "$`'&|<>(){};,@#"
	}
	var words []string
	var word strings.Builder
	quoted, inWord := false, false
	for _, r := range line {
		switch {
		case r == '"':
			quoted, inWord = !quoted, true
		case r == ' ' && !quoted:
			if inWord {
				words = append(words, word.String())
				word.Reset()
				inWord = false
			}
		case r < ' ' || !quoted && meaning(shell, r, special, inWord):
			return nil, errSyntax
		default:
			word.WriteRune(r)
			inWord = true
		}
	}
	if quoted {
		return nil, errSyntax
	}
	if inWord {
		words = append(words, word.String())
	}
	return words, nil
}

// meaning reports a character that the shell does not pass on. PowerShell makes an array of a word with a comma, and passes
// it on to a program as words with blanks; a comma is refused there. @ and # count at the start of a word only.
func meaning(shell Shell, r rune, special string, inWord bool) bool {
	if shell == ShellPowerShell && inWord && (r == '@' || r == '#') {
		return false
	}
	return strings.ContainsRune(special, r)
}
