package ssh

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/windowsmachine/operator/pkg/transport"
)

// maxCommand bounds a command line; cmd.exe takes 8191 characters.
const maxCommand = 2048

var (
	// programForm is an absolute path without anything that cmd.exe or PowerShell would split or expand. cmd.exe ends a program's
	// name at / and = as well.
	programForm = regexp.MustCompile(`^[A-Za-z]:(\\[A-Za-z0-9_-][A-Za-z0-9._-]*)+$`)
	// wordForm is an argument. A comma is left out although it is harmless to cmd.exe, since PowerShell makes two arguments of it
	// (about_Arrays); so is a dot or a colon in an argument that begins with a dash, at which Windows PowerShell splits it
	// (github.com/PowerShell/PowerShell#6291, #6360).
	wordForm = regexp.MustCompile(`^([A-Za-z0-9\\_/][A-Za-z0-9:\\._=/-]*|--?[A-Za-z0-9][A-Za-z0-9\\_=/-]*)$`)
)

// commandLine joins the words of c with single spaces. It is read alike by cmd.exe and PowerShell, and by a program whatever its
// rules for quotes, since there are none.
func commandLine(c transport.Command) (string, error) {
	if !programForm.MatchString(c.Path) {
		return "", fmt.Errorf("%w: program %q", transport.ErrCommand, clip(c.Path))
	}
	for i, w := range c.Args {
		if !wordForm.MatchString(w) {
			// The word itself may be a secret that should not have come here.
			return "", fmt.Errorf("%w: argument %d", transport.ErrCommand, i+1)
		}
	}
	line := strings.Join(append([]string{c.Path}, c.Args...), " ")
	if len(line) > maxCommand {
		return "", fmt.Errorf("%w: the command line has %d characters", transport.ErrCommand, len(line))
	}
	return line, nil
}
