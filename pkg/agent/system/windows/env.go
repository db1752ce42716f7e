package windows

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf16"
)

// Registry value types of environment variables (winnt.h).
const (
	regString       = 1 // REG_SZ
	regExpandString = 2 // REG_EXPAND_SZ
)

// Limits of an environment variable in UTF-16 units ("SetEnvironmentVariable": 32,767 for the value; registry value
// names: 16,383, of which the dialogs and the shell take 255).
const (
	maxEnvName  = 255
	maxEnvValue = 32767
)

// errEnv: a variable that Windows cannot keep.
var errEnv = errors.New("environment variable is not valid")

func checkEnvName(name string) error {
	if name == "" || len(utf16.Encode([]rune(name))) > maxEnvName || strings.ContainsAny(name, "=\x00") {
		return fmt.Errorf("%w: name %q", errEnv, name)
	}
	return nil
}

// checkEnvValue does not show the value: it may be a proxy's with a password in it.
func checkEnvValue(name, value string) error {
	if len(utf16.Encode([]rune(value))) > maxEnvValue || strings.ContainsRune(value, 0) {
		return fmt.Errorf("%w: value of %s is too long or holds a NUL", errEnv, name)
	}
	return nil
}

// envKind returns the registry type to write. A new variable is REG_SZ, whose value programs get byte for byte: in a
// REG_EXPAND_SZ a proxy's password %41%42 could be taken for a variable's name. A variable that is REG_EXPAND_SZ
// already stays so (Path is), so that putting its old value back puts back what there was.
func envKind(existing uint32, exists bool) uint32 {
	if exists && existing == regExpandString {
		return regExpandString
	}
	return regString
}
