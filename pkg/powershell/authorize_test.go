package powershell

import (
	"errors"
	"regexp"
	"strings"
	"testing"
)

// PowerShell 5.1 without a console writes its progress between the lines of an answer, and some programs fail because they cannot draw a bar: every
// script begins with turning progress off and ends with an exit code.
func TestW47ScriptsTurnProgressOff(t *testing.T) {
	line, err := AuthorizeKey()
	if err != nil {
		t.Fatal(err)
	}
	words := strings.Fields(line)
	script := decode(t, words[len(words)-1])
	if !strings.Contains(script, "$ProgressPreference='SilentlyContinue';") || !strings.HasPrefix(script, "$ErrorActionPreference='Stop';") {
		t.Errorf("the script begins with %.120q", script)
	}
	if !strings.HasSuffix(script, "exit 0") {
		t.Error("the script ends without an exit code")
	}
}

func TestCommandIsPlainWords(t *testing.T) {
	line, err := AuthorizeKey()
	if err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile(`^[A-Za-z0-9:\\.+/= -]+$`).MatchString(line) {
		t.Errorf("cmd.exe could read it in its own way: %s", line)
	}
	if len(line) > maxLine {
		t.Errorf("%d characters", len(line))
	}
}

func TestCommandRefuses(t *testing.T) {
	if _, err := command(strings.Repeat("x", 4000)); !errors.Is(err, ErrTooLong) {
		t.Errorf("a long script gave %v", err)
	}
	if _, err := command("a\x00"); !errors.Is(err, ErrNUL) {
		t.Errorf("NUL gave %v", err)
	}
}
