package powershell

import (
	"errors"
	"fmt"
)

// maxLine is what cmd.exe takes as a command line, in characters
// (https://learn.microsoft.com/troubleshoot/windows-client/shell-experience/command-line-string-limitation).
const maxLine = 8191

// ErrTooLong: the script does not fit into a command line.
var ErrTooLong = errors.New("script does not fit into a command line")

// Exit codes of AuthorizeKey's command beside 0; 1 is PowerShell's own for an error that stopped the script.
const (
	// ExitNoKey is ERROR_INVALID_PARAMETER: what came on standard input is not one line with a public key.
	ExitNoKey = 87
)

// preamble stands before each script. Without a console PowerShell 5.1 writes its progress as XML to standard error, and some features fail because they
// cannot draw a bar; and an error must end the script, so that the exit code tells.
const preamble = "$ErrorActionPreference='Stop';$ProgressPreference='SilentlyContinue';"

// authorizeKey adds the line on standard input to the file, unless it is there. The file is read with its byte order mark, since people make it with
// PowerShell's ">", which writes UTF-16, and written without one, as sshd reads it.
const authorizeKey = `$line=(@($input) -join '').Trim()
if($line -cnotmatch '^(ssh|ecdsa)-[a-z0-9-]+ [A-Za-z0-9+/]+=*$'){exit 87}
$file='C:\ProgramData\ssh\administrators_authorized_keys'
$have=@()
if([IO.File]::Exists($file)){$have=@([IO.File]::ReadAllLines($file))}
if($have -cnotcontains $line){[IO.File]::WriteAllLines($file,[string[]](@($have)+$line))}
exit 0`

// AuthorizeKey is the command line of a program that adds the public key on its standard input (one line: algorithm, blank, base64) to
// C:\ProgramData\ssh\administrators_authorized_keys, whose folder must be there. It can be repeated.
func AuthorizeKey() (string, error) { return command(authorizeKey) }

// command is the command line that runs a script.
func command(script string) (string, error) {
	encoded, err := Encode(preamble + script)
	if err != nil {
		return "", err
	}
	line := `C:\Windows\System32\WindowsPowerShell\v1.0\powershell.exe -NoLogo -NoProfile -NonInteractive -ExecutionPolicy Bypass -InputFormat Text -OutputFormat Text -EncodedCommand ` + encoded
	if len(line) > maxLine {
		return "", fmt.Errorf("%w: %d characters of %d", ErrTooLong, len(line), maxLine)
	}
	return line, nil
}
