package ssh

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// maxPath bounds a path, in characters. OpenSSH for Windows keeps PATH_MAX at 32768, but a file beyond MAX_PATH (260) cannot be
// started as a program everywhere.
const maxPath = 1024

// ErrPath: a path is not an absolute, plain Windows path with a drive.
var ErrPath = errors.New("not an absolute Windows path")

var (
	driveForm = regexp.MustCompile(`^[A-Za-z]:\\`)
	// badPart matches what Windows refuses in a file name, and what it changes silently: a trailing dot or space.
	badPart = regexp.MustCompile(`[\x00-\x1f<>:"/|?*]|[. ]$`)
)

// sftpPath converts C:\a\b to /C:/a/b, the form in which sftp-server of OpenSSH for Windows names paths. Anything that is not
// absolute with a drive, or that leaves its folder, is refused. It does not depend on the system it runs on.
func sftpPath(path string) (string, error) {
	if len(path) > maxPath {
		return "", fmt.Errorf("%w: %d characters", ErrPath, len(path))
	}
	if !driveForm.MatchString(path) || len(path) == len(`C:\`) {
		return "", fmt.Errorf("%w: %q", ErrPath, clip(path))
	}
	parts := strings.Split(path[len(`C:\`):], `\`)
	for _, p := range parts {
		if p == "" || badPart.MatchString(p) {
			return "", fmt.Errorf("%w: %q", ErrPath, clip(path))
		}
	}
	return "/" + path[:2] + "/" + strings.Join(parts, "/"), nil
}
